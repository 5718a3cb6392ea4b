"""The active learning benchmark from end to end, on untrained models and few runs."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from small import small_functions

from aline.app.bench import al, find
from aline.app.bench.bench import BenchSettings
from aline.app.bench.run import run_bench, write_bench
from aline.errors import NotFoundError
from aline.model import Model


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gp1d", "gp2d"):
        Model(small_functions(name)).save(tmp_path / "runs" / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(al.zoo, "shipped", lambda: [])
    monkeypatch.setattr(al, "STEPS", {1: 3, 2: 2})
    monkeypatch.setattr(al, "PROBLEMS", ("gp1d", "gramacy2d"))
    monkeypatch.setattr(al, "TIMED_ON", ("gp1d", "gramacy2d"))


@pytest.mark.usefixtures("models")
def test_file_table_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    bench = find("al")
    result = run_bench(bench, BenchSettings(quick=True, episodes=2))
    files = write_bench(bench, result, tmp_path / "results", "al-quick")
    assert {path.name for path in files} == {
        "al-quick.json", "al-quick.md", "al-quick-rmse.png", "al-quick-hyperparameters.png",
        "al-quick-queries.png", "al-quick-posteriors.png",
    }  # fmt: skip
    rows = json.loads((tmp_path / "results" / "al-quick.json").read_text())["rows"]
    metrics = {row["metric"] for row in rows}
    assert metrics == {
        "rmse", "rmse_area", "rmse_region", "coverage", "ratio", "ratio_area", "logq",
        "ratio_to_ensemble", "ratio_area_to_ensemble",
        "logq_above", "seconds_per_run", "times_faster",
    }  # fmt: skip
    final = [r for r in rows if r["metric"] == "ratio" and r["target"] == "predictions"]
    assert {row["task"] for row in final} == {"gp1d", "gramacy2d"}
    table = (tmp_path / "results" / "al-quick.md").read_text()
    assert "| gramacy2d |" in table
    assert "seconds a run, one thread | gp1d | gramacy2d, a user's units" in table


@pytest.mark.usefixtures("models")
def test_some_problems_and_methods(tmp_path: Path) -> None:
    some = BenchSettings(quick=True, episodes=2, tasks=("gp1d",), methods=("aline", "gp-us"))
    result = run_bench(find("al"), some, ["errors"])
    found = {(row["task"], row["method"]) for row in result["rows"]}
    assert found == {("gp1d", "aline"), ("gp1d", "gp-us")}
    assert write_bench(find("al"), result, tmp_path, "al-some")


@pytest.mark.usefixtures("models")
def test_a_missing_model_is_explained(tmp_path: Path) -> None:
    (tmp_path / "runs" / "gp2d" / "card.json").unlink()
    with pytest.raises(NotFoundError, match="aline train gp2d"):
        al.model_for(2)


@pytest.mark.usefixtures("models")
def test_a_run_goes_on_with_what_was_played(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = BenchSettings(quick=True, episodes=2, methods=("aline",))
    parts = ["errors", "goals", "region"]
    whole = run_bench(find("al"), settings, parts)
    monkeypatch.setattr(al, "learn", None)
    again = run_bench(find("al"), replace(settings, resume=True), parts)
    assert again["rows"] == whole["rows"]
