import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aline.evaluation import Estimate, result, row
from aline.evaluation import results as module


def test_published_values_stand_beside_ours() -> None:
    known = row("psychometric", "aline", "guess,lapse", "posterior_rmse", 30, Estimate(0.2, 0.1, 5))
    assert known["published"] == 0.175
    assert row("linear", "aline", "slope", "j", 3, Estimate(0.2, 0.1, 5))["published"] is None


def test_result_says_how_it_was_made() -> None:
    made = result("evaluate", [], 1.234, seed=3)
    assert made["seconds"] == 1.2
    assert made["seed"] == 3
    assert "torch" in made["machine"]
    assert json.dumps(made)


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(*args: object, **options: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", missing)
    assert module.commit() is None


@pytest.mark.parametrize(
    ("argv", "typed"),
    [
        ("benchmarks/first_try.py enzyme", "python benchmarks/first_try.py enzyme"),
        ("{root}/benchmarks/first_try.py --out={root}/a", "python benchmarks/first_try.py --out=a"),
        ("/opt/bin/aline bench --out {root}/runs/x.json", "aline bench --out runs/x.json"),
        ("{root}/src/aline/__main__.py bench --out /else/x.json", "aline bench --out x.json"),
        ("aline evaluate a/b --task own.py:task", "aline evaluate a/b --task own.py:task"),
    ],
)
def test_a_command_has_no_path_of_this_machine(
    argv: str, typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(module.CHECKOUT)
    monkeypatch.setattr(sys, "argv", argv.format(root=module.CHECKOUT).split())
    assert result("any", [], 0.0)["command"] == typed


@pytest.mark.parametrize(
    "path", sorted((module.CHECKOUT / "results").glob("*.json")), ids=lambda p: p.stem
)
def test_no_result_has_a_path_of_the_machine_that_made_it(path: Path) -> None:
    command = json.loads(path.read_text(encoding="utf-8"))["command"]
    assert not re.search(r"(^|[\s='])/", command)
