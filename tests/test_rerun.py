"""The script that makes figures of the docs again."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import rerun

ROW = {"task": "t", "method": "m", "metric": "x", "step": 3, "value": 1.0, "ci95": 0.1}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With one row in the docs, whose script writes what is in its argument."""
    monkeypatch.setattr(rerun, "ROOT", tmp_path)
    for name in ("docs", "results", "benchmarks"):
        (tmp_path / name).mkdir()
    (tmp_path / "benchmarks" / "one.py").write_text(
        "import json, sys\n"
        f"row = {ROW!r}\n"
        "row['value'] = float(sys.argv[1])\n"
        "open(sys.argv[3], 'w').write(json.dumps({'rows': [row]}))\n"
    )
    (tmp_path / "docs" / "results.md").write_text(
        "| what | where | value | beside |\n|---|---|---|---|\n"
        "| a thing | `results/one.json` `task=t metric=x` | 1.00 | |\n"
    )
    return tmp_path


def write(folder: Path, command: str, seconds: float | None = 1.0) -> None:
    result = {"bench": "al", "command": command, "seconds": seconds, "rows": [ROW]}
    (folder / "results" / "one.json").write_text(json.dumps(result))


@pytest.mark.parametrize(("value", "within"), [("1.05", True), ("1.2", False)])
def test_a_new_value_is_held_against_the_interval(checkout: Path, value: str, within: bool) -> None:
    write(checkout, f"one.py {value} --output results/one.json")
    chosen, left = rerun.picked(10, 60, seed=0)
    (found,) = rerun.run_all(chosen, 60, None)
    assert (found["value"], found["within"]) == (float(value), within)
    assert ("OUTSIDE" in rerun.line(found)) is not within
    assert not left
    assert json.loads((checkout / "results" / "one.json").read_text())["rows"] == [ROW]


def test_what_does_not_fit_is_not_picked_and_is_said(checkout: Path) -> None:
    write(checkout, "one.py 1 --output results/one.json", seconds=90)
    assert rerun.picked(10, 60, seed=0) == ([], {"it takes 90 s": 1})
    write(checkout, "aline evaluate runs/mine --output results/one.json")
    assert rerun.picked(10, 60, seed=0) == ([], {"runs/mine is not at hand": 1})
    write(checkout, "one.py 1 --output results/one.json", seconds=None)
    assert rerun.picked(10, 60, seed=0)[0] == []
    write(checkout, "aline bench al --resume")
    assert rerun.picked(10, 60, seed=0)[0] == []


def test_a_row_of_a_run_of_all_is_made_by_its_own_benchmark(checkout: Path) -> None:
    write(checkout, "aline bench all --full")
    (figure,) = rerun.picked(10, 60, seed=0)[0]
    assert figure.command == "aline bench al"


def test_a_command_that_fails_is_said(checkout: Path) -> None:
    write(checkout, "one.py much --output results/one.json")
    (found,) = rerun.run_all(rerun.picked(10, 60, seed=0)[0], 60, None)
    assert found["within"] is None
    assert "could not convert" in rerun.line(found)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("aline bench al", ["-m", "aline", "bench", "al", "--out", "F"]),
        ("aline evaluate ces --record --output results/a.json",
         ["-m", "aline", "evaluate", "ces", "--output", "F/a.json"]),
    ],
)  # fmt: skip
def test_a_command_writes_elsewhere(command: str, words: list[str]) -> None:
    assert rerun.again(command, Path("F"), None) == [sys.executable, *words]
    assert rerun.again(command, Path("F"), 7)[-2:] == ["--seed", "7"]


def test_other_experiments_may_differ_by_both_intervals() -> None:
    new: dict[str, Any] = {**ROW, "value": 1.13}
    assert rerun.judge(ROW, new, is_other=False) == (0.1, False)
    allowed, within = rerun.judge(ROW, new, is_other=True)
    assert within
    assert allowed == pytest.approx(math.hypot(0.1, 0.1))
    assert rerun.judge({**ROW, "ci95": None}, new, is_other=True)[1] is None
