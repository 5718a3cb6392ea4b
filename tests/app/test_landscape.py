"""Mapping a landscape: from the space to the page, and after a crash."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner, Result

from aline.app.cli import app
from aline.app.landscape.explorer import ModelExplorer, RegressorExplorer
from aline.app.landscape.findings import Findings
from aline.app.landscape.journal import FILE, Journal
from aline.app.landscape.run import explore, explorer_for, findings, frame_of, listed
from aline.errors import InputError
from aline.landscapes.spaces import SPACES, Choice, Range, configurations, drawn
from aline.model import Model, ModelConfig, fresh
from aline.tasks.table_files import read_tables
from aline.tasks.table_task import MODEL, TableTask

SCRIPT = """
import json, pathlib

def evaluate(configuration):
    seen = pathlib.Path(__file__).parent / "seen"
    kept = json.loads((seen.parent / "map" / "scores.json").read_text())["scores"]
    count = len(seen.read_text().split()) if seen.exists() else 0
    assert len(kept) >= count - 1, "a score was not on disk before the next was asked for"
    seen.write_text("x " * (count + 1))
    if count == {crash}:
        raise RuntimeError("power cut")
    return configuration["depth"] / 30 - (configuration["kernel"] == "linear")
"""
SPACE = {
    "depth": [1, 30],
    "kernel": ["linear", "radial"],
    "rate": {"low": 1e-5, "high": 1, "log": True},
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments], prog_name="aline")


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    (tmp_path / "space.json").write_text(json.dumps(SPACE))
    (tmp_path / "script.py").write_text(SCRIPT.replace("{crash}", "7"))
    return tmp_path


def map_it(lab: Path, *more: object) -> Result:
    return run(
        "map-landscape", "--space", lab / "space.json", "--evaluate", lab / "script.py",
        "--queries", 12, "--count", 60, "--out", lab / "map", *more,
    )  # fmt: skip


def test_scores_survive_a_crash_and_the_same_command_goes_on(lab: Path) -> None:
    crashed = map_it(lab)
    assert crashed.exit_code == 2
    assert "power cut" in crashed.stderr
    before = json.loads((lab / "map" / FILE).read_text())["scores"]
    assert len(before) == 7
    resumed = map_it(lab, "--json")
    assert resumed.exit_code == 0, resumed.output
    after = json.loads((lab / "map" / FILE).read_text())["scores"]
    assert after[:7] == before
    assert len({row for row, _ in after}) == 12
    assert json.loads(resumed.stdout)["best"]["kernel"] == "radial"


def test_the_table_and_the_page_say_what_was_found(lab: Path) -> None:
    (lab / "script.py").write_text(SCRIPT.replace("{crash}", "-1"))
    found = map_it(lab)
    assert found.exit_code == 0, found.output
    assert "best region" in found.stdout
    assert "radial 100%" in found.stdout
    assert "best expected score" in found.stdout
    page = (lab / "map" / "landscape.html").read_text()
    for words in ("Where it is still unsure", "Where the best configurations lie", "<svg"):
        assert words in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    other = map_it(lab, "--seed", 5)
    assert other.exit_code == 2
    assert "of other candidates" in other.stderr


def test_candidates_may_be_a_table(lab: Path) -> None:
    (lab / "script.py").write_text("def score(c):\n    return c['a'] + ('b' in c)\n")
    table = pd.DataFrame({"a": np.arange(20), "b": [1.5, np.nan] * 10})
    table.to_csv(lab / "c.csv", index=False)
    found = run(
        "map-landscape", "--candidates", lab / "c.csv", "--evaluate", f"{lab}/script.py:score",
        "--queries", 8, "--out", lab / "map", "--json",
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["effects"][0]["name"] == "a"


def test_mistakes(lab: Path) -> None:
    for arguments, words in (
        (["--space", "rangr"], "did you mean ranger"),
        ([], "either --space or --candidates"),
        (["--candidates", lab / "none.csv"], "no file"),
    ):
        found = run("map-landscape", "--evaluate", lab / "script.py", *arguments)
        assert found.exit_code == 2
        assert words in found.stderr
    (lab / "script.py").write_text("x = 1\n")
    assert "has no function evaluate" in map_it(lab).stderr
    (lab / "script.py").write_text("def evaluate(c):\n    return float('nan')\n")
    assert "finite number" in map_it(lab).stderr
    (lab / "map" / FILE).write_text("{")
    assert "no journal of a landscape" in map_it(lab).stderr


@pytest.mark.parametrize("name", SPACES)
def test_spaces_draw_what_they_say(name: str) -> None:
    rows = configurations(name, 40, seed=0)
    assert rows[:3] == configurations(name, 3, seed=0)
    for row in rows:
        for key, one in SPACES[name].items():
            if isinstance(one, Choice):
                assert row[key] in one.words
            else:
                assert (row[key] is not None) == one.applies(row)
                assert row[key] is None or one.low <= row[key] <= one.high


def landscape(row: dict) -> float:
    return row["depth"] / 30 + (0.5 if row["kernel"] == "radial" else 0.0)


def mapped(tmp_path: Path, count: int = 20) -> Findings:
    space = {"depth": Range(1, 30), "kernel": Choice(("linear", "radial")), "idle": Range(0, 1)}
    rows = drawn(space, 80, seed=0)
    journal, frame = Journal.at(tmp_path, rows), frame_of(rows)
    explorer, _ = explorer_for(frame, None, None, 0)
    assert isinstance(explorer, RegressorExplorer)
    explore(journal, explorer, landscape, count, 0, lambda *_: None)
    return findings(journal, frame, explorer, lower_is_better=False)


def test_effects_and_the_best_region_are_those_of_the_landscape(tmp_path: Path) -> None:
    found = mapped(tmp_path)
    sizes = {one.name: one.size for one in found.effects}
    assert sizes["depth"] == pytest.approx(29 / 30, abs=0.15)
    assert sizes["kernel"] == pytest.approx(0.5, abs=0.2)
    assert sizes["idle"] < 0.1
    assert found.best_mean == pytest.approx(1.5, abs=0.15)
    assert found.region["kernel"] == "radial 100%"


def test_a_model_of_such_tables_explores(tmp_path: Path) -> None:
    space = {"depth": Range(1, 30), "kernel": Choice(("linear", "radial"))}
    rows = drawn(space, 60, seed=0)
    frame = frame_of(rows)
    for number in range(6):
        scores = [landscape(row) + number for row in rows]
        frame.assign(y=scores).to_csv(tmp_path / f"d{number}.csv", index=False)
    task = TableTask(read_tables(tmp_path), horizon=10, start=2)
    network = fresh(task.spec, ModelConfig(**MODEL), torch.Generator().manual_seed(0))
    Model(network).save(tmp_path / "model")
    explorer, _ = explorer_for(frame, tmp_path / "model", None, 0)
    assert isinstance(explorer, ModelExplorer)
    journal = Journal.at(tmp_path, listed(frame))
    explore(journal, explorer, landscape, 8, 0, lambda *_: None)
    assert len(journal.scores) == 8
    found = findings(journal, frame, explorer, lower_is_better=True)
    assert np.isfinite(found.best_mean)
    with pytest.raises(InputError, match="differ by idle"):
        explorer_for(frame.assign(idle=1.0), tmp_path / "model", None, 0)
