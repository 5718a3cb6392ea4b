import json
import subprocess
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
