"""The landscapes' benchmark, on small tables."""

from pathlib import Path

import numpy as np
import pytest
import torch

import aline
from aline.app.bench import hpo, pieces
from aline.app.bench.bench import BenchSettings
from aline.app.bench.run import run_bench, write_bench
from aline.errors import UserError
from aline.evaluation import landscapes
from aline.evaluation.landscapes import Runs
from aline.tasks.table_task import TableTask


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BenchSettings:
    """Twenty lines in two inputs, and a model that has hardly learned from them."""
    rng = np.random.default_rng(0)
    X = rng.random((20, 40, 2), np.float32)
    y = (X * rng.normal(size=(20, 1, 2))).sum(-1).astype(np.float32)
    np.savez(tmp_path / "lines.npz", lines_X=X, lines_y=y)
    space = hpo.Space("lines.npz", "lines", published=(0.1,) * 6)
    monkeypatch.setattr(hpo, "SPACES", {"lines": space})
    monkeypatch.setattr(hpo, "SHOWN", (5, 7))
    monkeypatch.setattr(landscapes, "TARGETS", 20)
    monkeypatch.setattr(pieces, "FOLDER", tmp_path / "pieces")
    chosen = BenchSettings(episodes=2, methods=("aline", "ace-us", "gp-vr"))
    chosen = BenchSettings(**{**vars(chosen), "models": tmp_path, "data": tmp_path})
    task = hpo.landscape_task("lines", chosen)
    task = TableTask(task.tables, horizon=7)
    config = {"batch": 8, "updates": 2, "pool": 12}
    aline.train(task, rounds=2, progress=False, config=config).save(tmp_path / "lines")
    monkeypatch.setattr(hpo, "landscape_task", lambda name, settings: task)
    return chosen


def test_every_method_meets_the_same_runs_of_unseen_data_sets(settings: BenchSettings) -> None:
    measured = run_bench(hpo.BENCH, settings)
    last = [one for one in measured["rows"] if one["metric"] == "rmse" and one["step"] == 7]
    assert {one["method"] for one in last} == {"aline", "ace-us", "gp-vr"}
    assert {one["n"] for one in last} == {4}  # data sets to test on
    ratios = {one["against"]: one for one in measured["rows"] if one["metric"] == "ratio"}
    by_method = {one["method"]: one["value"] for one in last}
    for rival, method in (("best-gp", "gp-vr"), ("ace-us", "ace-us")):
        expected = by_method["aline"] / by_method[method]
        assert ratios[rival]["value"] == pytest.approx(expected, rel=1e-4)


def test_a_gp_learns_a_line_in_seven_queries(settings: BenchSettings) -> None:
    task = hpo.landscape_task("lines", settings).on("test")
    model = hpo.model_of("lines", settings)
    assert model is not None
    runs = Runs.on(task, 0, 2, 0)
    errors = landscapes.explore(runs, landscapes.method_named("gp-vr", model), 0)
    assert float(errors.rmse[:, -1].mean()) < 0.1 * float(task.tables.part("test")[0].y.std())


def test_runs_keep_targets_out_of_what_can_be_asked(settings: BenchSettings) -> None:
    runs = Runs.on(hpo.landscape_task("lines", settings).on("test"), 1, 3, 0)
    asked = torch.cat([runs.start, runs.pool], 1)
    assert asked.shape[1] == 20
    assert float(torch.cdist(asked, runs.targets).min()) > 0


def test_a_model_that_has_seen_the_test_is_refused(settings: BenchSettings) -> None:
    task = hpo.landscape_task("lines", settings)
    model = hpo.model_of("lines", settings)
    assert model is not None
    hpo._check_unseen(task, model)
    model.spec.config["learned_from"].append(task.tables.part("test")[0].name)
    with pytest.raises(UserError, match="has learned from"):
        hpo._check_unseen(task, model)


def test_its_files_are_written(settings: BenchSettings, tmp_path: Path) -> None:
    measured = run_bench(hpo.BENCH, settings)
    files = write_bench(hpo.BENCH, measured, tmp_path / "out", "hpo")
    assert [file.suffix for file in files] == [".json", ".md", ".png"]
    assert "| lines |" in files[1].read_text()
