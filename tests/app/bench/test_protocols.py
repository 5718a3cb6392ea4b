"""The protocols, quickly, with untrained networks: that they measure, merge, write and draw."""

import json
from pathlib import Path

import pytest
import torch
from small import small_model
from typer.testing import CliRunner

from aline.app.bench.bench import BenchSettings
from aline.app.bench.protocols import BENCH, FILES, protocol_task, quickly_measured
from aline.app.bench.published import PROTOCOLS
from aline.app.bench.run import run_bench
from aline.app.cli import app
from aline.episodes import RandomPolicy
from aline.errors import NotFoundError
from aline.evaluation import Protocol, episode_bounds, play_protocol


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("pharmacokinetics", "two_sources_pool", "prey", "sir"):
        small_model(protocol_task(name)).save(tmp_path / "models" / name)
    return tmp_path / "models"


def measured(models: Path, task: str) -> dict[tuple[str, str], dict]:
    settings = BenchSettings(quick=True, episodes=4, tasks=(task,), models=models)
    rows = run_bench(BENCH, settings)["rows"]
    return {(row["method"], row["metric"]): row for row in rows}


def test_every_protocol_has_a_file() -> None:
    assert {path.stem for path in FILES.glob("*.py")} == set(PROTOCOLS)


def test_information_coverage_and_the_gap_to_the_exact_posterior(models: Path) -> None:
    found = measured(models, "pharmacokinetics")
    ours = {metric for method, metric in found if method == "aline-box"}
    assert ours >= {"spce", "snmc", "ace", "vnmc", "j", "exact", "gap:joint", "gap:ka"}
    assert ours >= {"coverage50:V", "coverage90:V", "coverage95:V"}
    assert found["random", "spce"]["n"] == 4
    assert found["dad", "spce"]["value"] is None
    assert found["dad", "spce"]["published"] == 3.23


def test_fresh_pools(models: Path) -> None:
    found = measured(models, "two_sources_pool")
    assert found["aline", "spce"]["published"] == 13.5
    assert ("aline-box", "spce") not in found


def test_counts(models: Path) -> None:
    assert ("aline", "gap:joint") in measured(models, "prey")


def test_without_a_likelihood_there_is_j(models: Path) -> None:
    found = measured(models, "sir")
    assert ("aline-box", "j") in found
    assert ("random", "j") in found
    assert ("aline-box", "spce") not in found


def test_tasks_are_measured_one_by_one(models: Path, tmp_path: Path) -> None:
    words = ["--models", str(models), "--episodes", "4", "--quick", "--out", str(tmp_path / "out")]
    for task in ("prey", "sir"):
        done = CliRunner().invoke(app, ["bench", "protocols", task, *words, "--json"])
        assert done.exit_code == 0, done.output
    written = json.loads((tmp_path / "out" / "protocols-quick.json").read_text())
    assert {row["task"] for row in written["rows"]} == {"prey", "sir"}
    assert set(written["data"]) == {"prey", "sir"}
    table = (tmp_path / "out" / "protocols-quick.md").read_text()
    assert "uniform over the 300 points" in table
    assert "uniform over the box day in [0, 100]" in table
    for task in ("prey", "sir"):
        assert (tmp_path / "out" / f"protocols-quick-{task}.png").is_file()


def test_a_model_that_is_not_there(models: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no model in .*death: train it with `aline train"):
        measured(models, "death")


@pytest.mark.parametrize("name", ["two_sources", "ces_plain", "discounting"])
def test_the_quicker_likelihood_gives_the_same_bounds(name: str) -> None:
    task = protocol_task(name).fitted()
    theta, context = play_protocol(
        RandomPolicy(task.spec.design), task, tuple(task.spec.parameters.priors), Protocol(20, 6)
    )
    plain, quick = (
        episode_bounds(one, context, theta, 3000, torch.Generator().manual_seed(0))
        for one in (task, quickly_measured(name, task))
    )
    for one, other in zip(plain, quick, strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=2e-3)
