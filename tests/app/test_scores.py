import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import aline
from aline.app.card import facts_of
from aline.app.cli import app
from aline.app.scores import Pace, measure, more_lines, score_lines


def row(metric: str, step: int, value: float, **more: Any) -> dict[str, Any]:
    return {
        "task": "psychometric",
        "method": "aline-box",
        "target": "threshold,slope",
        "metric": metric,
        "step": step,
        "value": value,
        "ci95": 0.01,
        "n": 500,
        "published": None,
        **more,
    }


RESULT = {
    "rows": [
        row("j", 0, 0.0),
        row("j", 30, 3.25),
        row("rmse", 0, 1.25),
        row("rmse", 30, 0.4),
        row("posterior_rmse", 0, 2.25),
        row("posterior_rmse", 30, 0.5, published=0.57),
        row("gap:threshold", 0, 0.001, n=0),
        row("gap:threshold", 30, 0.031),
        row("coverage:threshold", 0, 0.9),
        row("coverage:threshold", 30, 0.91),
    ],
    "notes": [],
}


def test_a_result_reads_as_a_table() -> None:
    lines = score_lines(RESULT)
    assert lines[0] == "Aimed at threshold, slope: 500 simulated experiments"
    assert lines[1].split() == ["trials", "0", "30", "paper"]
    cells = {tuple(line.split()) for line in lines}
    assert ("threshold", "0.001", "0.031±0.010") in cells
    assert ("threshold", "0.90±0.01", "0.91±0.01") in cells
    assert ("mean", "1.250±0.010", "0.400±0.010") in cells
    assert ("posterior", "2.250±0.010", "0.500±0.010", "0.57") in cells
    assert ("J", "0.00±0.01", "3.25±0.01") in cells
    assert lines[-1] == (
        "The largest gap is 0.031±0.010 nats, of threshold after 30 trials "
        "aimed at threshold, slope."
    )
    assert max(map(len, lines)) <= 100


def test_a_small_negative_gap_is_no_minus_zero() -> None:
    lines = score_lines({"rows": [row("gap:threshold", 5, -0.0001)], "notes": []})
    assert lines[1].split() == ["trials", "5"]
    assert any(line.split() == ["threshold", "0.000±0.010"] for line in lines)


def test_without_an_exact_posterior_it_says_so() -> None:
    rows = [r for r in RESULT["rows"] if not r["metric"].startswith("gap")]
    lines = score_lines({"rows": rows, "notes": ["no gap: this task has no log_likelihood"]})
    assert lines[-1].startswith("no gap")
    assert not any("largest gap" in line for line in lines)


def test_evaluate_writes_a_report(folders: dict[str, Path], tmp_path: Path) -> None:
    report = tmp_path / "linear.html"
    given = ["evaluate", str(folders["linear"]), "--episodes", "4", "--report", str(report)]
    result = CliRunner().invoke(app, given, prog_name="aline")
    assert result.exit_code == 0, result.output
    page = report.read_text()
    assert "Ranks (SBC)" in page
    numbers = json.loads(report.with_suffix(".json").read_text())
    goals = numbers["calibration"]  # of predictions there is no curve of nats
    of_goals = 3 * len(goals) - sum(one["joint"] is None for one in goals)
    assert page.count("<svg") == of_goals + 2
    steps = numbers["verdict"]["by_step"]
    assert {"learned", "random", "fixed", "above", "posterior"} <= set(steps)
    low, high = (steps[name]["4"]["value"] for name in ("learned", "above"))
    assert low <= high
    assert "the model's own posterior holds" in page.replace("&#x27;", "'")
    assert sum(numbers["calibration"][0]["joint"]["ranks"]) == 4
    assert {"command", "commit", "dirty", "versions", "processor", "seed"} <= set(numbers)


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_evaluate_prints_and_writes_its_result(
    folders: dict[str, Path], tmp_path: Path, arguments: list[str]
) -> None:
    output = tmp_path / "results" / "linear.json"
    given = ["evaluate", str(folders["linear"]), "--episodes", "4", "--output", str(output)]
    result = CliRunner().invoke(app, [*given, *arguments], prog_name="aline")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    written = json.loads(output.read_text())
    assert {"gap:slope", "coverage:slope", "rmse", "j"} <= {r["metric"] for r in written["rows"]}
    if arguments:
        assert json.loads(result.stdout) == written
    else:
        assert "Aimed at intercept, slope: 4 simulated experiments" in result.stdout
        assert f"Written to {output}" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["nonsense"], "a model must be a folder"), (["{linear}", "--episodes", "1"], "--episodes")],
)
def test_mistakes_in_an_evaluation(
    folders: dict[str, Path], arguments: list[str], message: str
) -> None:
    given = [argument.format(linear=folders["linear"]) for argument in arguments]
    result = CliRunner().invoke(app, ["evaluate", *given], prog_name="aline")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_recorded_evaluation_is_in_the_card(folders: dict[str, Path], tmp_path: Path) -> None:
    copy = shutil.copytree(folders["linear"], tmp_path / "linear")
    result = CliRunner().invoke(app, ["evaluate", str(copy), "--episodes", "4", "--record"])
    assert result.exit_code == 0, result.output
    model = aline.load(copy)
    last = model.spec.horizon
    kept = model.measurements[f"intercept,slope after {last} trials, 4 experiments"]
    assert {"gap:slope", "coverage:slope", "rmse", "j"} <= set(kept)
    facts = facts_of(model)
    assert any(key.startswith("measured intercept,slope after") for key in facts)


class Evaluations:
    """Stands in for `evaluate`: how long it takes, and what was asked of it."""

    def __init__(self, start: float, each: float, monkeypatch: pytest.MonkeyPatch):
        self.counts: list[int] = []
        self.now, self.start, self.each = 0.0, start, each
        monkeypatch.setattr("aline.app.scores.evaluate", self)
        monkeypatch.setattr("aline.app.scores.time.monotonic", lambda: self.now)

    def __call__(self, model: Any, task: Any, count: int, *rest: Any, **more: Any) -> Any:
        self.counts.append(count)
        self.now += self.start + count * self.each
        return {"rows": [row("j", 30, 3.25, n=count)]}


@pytest.mark.parametrize(
    ("start", "each", "count"),
    [
        (0.0, 0.01, 500),
        (0.0, 1.0, 15),  # of 45 s, 10 for pilots and 15 for these, with room for twice as much
        (10.0, 0.5, 2),  # a pilot of eight might not fit
        (3.0, 0.5, 24),  # a start of three seconds is not taken for the pace
        (50.0, 1.0, 2),
    ],
)
def test_an_evaluation_fits_into_a_minute_if_it_can(
    start: float,
    each: float,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
    subjects: Any,
    capsys: Any,
) -> None:
    evaluations = Evaluations(start, each, monkeypatch)
    pace = measure(subjects["linear"], None, 0, False)
    assert pace.experiments == evaluations.counts[-1] == count
    assert evaluations.now < 60
    assert ("simulated experiments, about" in capsys.readouterr().err) == (count > 8)


def test_many_experiments_say_how_long_they_take(
    monkeypatch: pytest.MonkeyPatch, subjects: Any, capsys: Any
) -> None:
    evaluations = Evaluations(2.0, 1.5, monkeypatch)
    measure(subjects["linear"], 400, 0, False)
    assert evaluations.counts == [2, 8, 400]
    assert capsys.readouterr().err.endswith(": 400 simulated experiments, about 10 min\n")
    measure(subjects["linear"], 9, 0, False)
    assert evaluations.counts[3:] == [9]  # a few need no pilot


def test_an_evaluation_says_how_to_get_more() -> None:
    pace = Pace(RESULT, 20, 30.0, 1.25)
    assert more_lines(pace, "aline evaluate psychometric")[-1] == (
        "20 simulated experiments took 30 s. For narrower intervals: "
        "aline evaluate psychometric --episodes 500 (about 10 min)"
    )
    assert more_lines(pace._replace(experiments=500), "aline evaluate psychometric") == []
