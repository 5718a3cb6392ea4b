"""Every part of the benchmark, on a handful of observers and coarse grids."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from aline.app.bench import pieces, psychometric, psychometric_long
from aline.app.bench.bench import BenchSettings
from aline.app.bench.psychometric import BENCH
from aline.app.bench.psychometric_report import BARS, Found
from aline.app.bench.psychometric_rows import ALL, PAIRS
from aline.app.bench.run import run_bench, write_bench
from aline.episodes import goal_of

COARSE = {"threshold": 9, "slope": 4, "guess": 3, "lapse": 3}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "FOLDER", tmp_path_factory.mktemp("pieces"))
        patch.setattr(psychometric, "GRID", COARSE)
        patch.setattr(psychometric, "NODES", (12, 6, 3, 3))
        patch.setattr(psychometric_long, "LONG", (30, 32))
        settings = BenchSettings(quick=True, episodes=4)
        parts = ["errors", "refined", "switch", "optimum", "ceiling", "time"]
        return run_bench(BENCH, settings, parts)


def test_rows_have_every_method_goal_and_trial(result: dict[str, Any]) -> None:
    found = Found(result)
    for pair in map(",".join, PAIRS):
        for method in ("aline", "psi-marginal", "questplus", "random", "greedy"):
            for metric in ("posterior_rmse", "exact_rmse"):
                steps = [row["step"] for row in found.series(metric, pair, method)]
                assert steps == list(range(31)), (metric, pair, method)
    novel = f"posterior_rmse:{','.join(PAIRS[0])}"
    assert found.last(novel, ",".join(ALL), "random") is not None
    assert len(found.series("share_extreme:switched", "guess,lapse")) == 30
    assert len(found.series("information_share", "guess,lapse")) == 29
    least = found.last("posterior_rmse", "guess,lapse", "best-possible")
    ends = found.last("posterior_rmse", "guess,lapse", "best-of-two-ends")
    assert 0.2 < least["value"] <= ends["value"] < 0.26  # type: ignore[index]  # of four trials


def test_before_any_trial_every_method_has_the_priors_error(result: dict[str, Any]) -> None:
    """Grids differ in how well they cut the prior, so only nearly."""
    found = Found(result)
    for pair in map(",".join, PAIRS):
        first = [
            found.series("posterior_rmse", pair, method)[0]["value"]
            for method in ("aline", "psi-marginal", "questplus", "greedy")
        ]
        assert max(first) < 1.1 * min(first)


def test_the_published_algorithm_makes_the_same_choice() -> None:
    task = psychometric.get("psychometric")
    ours, theirs = psychometric.PsiMarginal(task, COARSE), psychometric._Published(task, COARSE)
    state = ours.begin(goal_of(task.spec, PAIRS[1]))
    for answer in (1.0, -1.0, 1.0, 1.0):
        information, entropy = ours.information(state), -theirs.information(state)
        fall = information + entropy  # how the two differ: by the entropy now
        assert float(fall.max() - fall.min()) < 2e-5  # nats, float32
        design = ours.choose(state, None, torch.Generator())
        state = ours.observe(state, design, torch.tensor([answer]))


def test_the_table_judges_every_bar_and_the_figures_are_drawn(
    result: dict[str, Any], tmp_path: Path
) -> None:
    kept = json.loads(json.dumps(result))
    files = write_bench(BENCH, kept, tmp_path, "psychometric")
    names = {"psychometric-rmse.png", "psychometric-stimuli.png", "psychometric-optimum.png"}
    assert names <= {file.name for file in files}
    table = (tmp_path / "psychometric.md").read_text()
    judged = [name for name, check in BARS if check(Found(kept)) is not None]
    assert len(judged) == len(BARS) - 1  # that of long experiments was not run
    assert all(name in table for name in judged)
    assert "an exact posterior of guess and lapse has at least\n0.2" in table


@pytest.mark.parametrize(
    ("value", "verdict"), [(-0.02, "met: below"), (0.004, "level"), (0.01, "**not met**")]
)
def test_a_verdict_is_of_the_paired_difference(value: float, verdict: str) -> None:
    """Also where the intervals of the two methods overlap."""
    row = {"target": "threshold,slope", "step": 30, "ci95": 0.0135}
    rows = [
        {**row, "metric": "posterior_rmse", "method": "aline", "value": 0.549},
        {**row, "metric": "posterior_rmse", "method": "psi-marginal", "value": 0.549 - value},
        {**row, "metric": "posterior_rmse_minus_psi-marginal", "method": "aline",
         "value": value, "ci95": 0.006},
    ]  # fmt: skip
    check = dict(BARS)["threshold, slope: at most psi-marginal's"]
    words, found = check(Found({"rows": rows}))  # type: ignore[misc]
    assert str(found).startswith(verdict)
    assert f"paired difference {value:.4f}" in words


def test_a_part_alone_has_no_empty_tables(result: dict[str, Any], tmp_path: Path) -> None:
    rows = [row for row in result["rows"] if row["method"] == "best-possible"]
    rows += [row for row in result["rows"] if row["method"] == "best-of-two-ends"]
    files = write_bench(BENCH, {**result, "rows": rows, "data": {}}, tmp_path, "ceiling")
    assert [file.name for file in files] == ["ceiling.json", "ceiling.md"]
    assert "|" not in (tmp_path / "ceiling.md").read_text()


def test_a_run_goes_on_with_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pieces, "FOLDER", tmp_path)
    monkeypatch.setattr(psychometric, "NODES", (6, 4, 3, 3))
    settings = BenchSettings(episodes=2, methods=("random", "aline"))
    whole = run_bench(BENCH, settings, ["errors"])
    assert {row["method"] for row in whole["rows"]} == {"random", "aline"}
    monkeypatch.setattr(psychometric, "play_observers", None)
    again = run_bench(BENCH, replace(settings, resume=True), ["errors"])
    assert (again["rows"], again["notes"]) == (whole["rows"], [])
    alone = run_bench(BENCH, replace(settings, resume=True, methods=("random",)), ["errors"])
    assert not any("minus" in row["metric"] for row in alone["rows"])


def test_long_experiments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pieces, "FOLDER", tmp_path)
    monkeypatch.setattr(psychometric_long, "LONG", (4, 8))
    monkeypatch.setattr(psychometric_long, "EXACT_NODES", (16, 8, 4, 4))
    found = Found(run_bench(BENCH, BenchSettings(episodes=2), ["endless", "long"]))
    assert found.last("longest_pause", "threshold,slope")["step"] == 8  # type: ignore[index]
    assert found.last("drift", "threshold,slope")["value"] < 1e-4  # type: ignore[index]
    assert [row["step"] for row in found.series("long_gap:slope", "threshold,slope")] == [4, 8]


def test_what_was_timed_is_taken_from_an_earlier_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pieces, "FOLDER", tmp_path)
    monkeypatch.setattr(psychometric_long, "LONG", (8,))
    first = run_bench(BENCH, BenchSettings(), ["endless"])
    monkeypatch.setattr(psychometric_long, "Experiment", None)
    monkeypatch.setattr(pieces, "commit", lambda: "a later one")
    again = run_bench(BENCH, BenchSettings(resume=True), ["endless"])
    assert again["rows"] == first["rows"]
    note = f"psychometric, endless: measured earlier, at commit {first['commit']}"
    assert again["notes"] == [note]
