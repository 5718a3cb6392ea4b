from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from aline import zoo
from aline.app.subject import open_subject, task_named
from aline.app.taskfile import load_task
from aline.errors import InputError, NotFoundError
from aline.landscapes.families import family_named
from aline.landscapes.measure import measure_landscapes
from aline.tasks import Task

Save = Callable[[Task, Path], Path]


def test_built_in_task_is_rebuilt_from_the_card(folders: dict[str, Path]) -> None:
    subject = open_subject(str(folders["two sources"]))
    assert subject.task.spec.config["sources"] == 2
    assert subject.words == str(folders["two sources"])


def test_own_task_must_be_given(save: Save, own_file: Path, tmp_path: Path) -> None:
    folder = save(load_task(f"{own_file}:task"), tmp_path / "model")
    with pytest.raises(InputError, match=r"task of your own, decay: add --task file\.py:object"):
        open_subject(str(folder))
    subject = open_subject(str(folder), f"{own_file}:task")
    assert subject.task.spec.outcome.is_fitted
    assert subject.words == f"{folder} --task {own_file}:task"


def test_another_task_than_the_models_is_refused(own_file: Path, folders: dict[str, Path]) -> None:
    with pytest.raises(InputError, match="trained with other parameters than this task decay"):
        open_subject(str(folders["linear"]), f"{own_file}:task")


def test_task_in_place_of_a_model(own_file: Path) -> None:
    with pytest.raises(InputError, match="a model is needed here"):
        open_subject(f"{own_file}:task")


def test_task_without_a_shipped_model_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "shipped", lambda: [])
    with pytest.raises(NotFoundError, match="train one with `aline train linear`"):
        open_subject("linear")


def test_tasks_by_name_and_by_file(own_file: Path) -> None:
    assert task_named("linear").spec.name == "linear"
    assert task_named(f"{own_file}:make").spec.name == "decay"
    with pytest.raises(NotFoundError, match="built-in tasks are"):
        task_named("nonsense")


def test_tables_are_named_by_their_path_and_space(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", tree_X=rng.random((9, 5, 2)), tree_y=rng.random((9, 5)))
    task = task_named(f"{tmp_path / 't.npz'}:tree")
    assert task.spec.name == "tree"
    assert task.spec.design.names == ("x1", "x2")
    with pytest.raises(NotFoundError, match="search spaces tree, got 'three'"):
        task_named(f"{tmp_path / 't.npz'}:three")


def test_measured_landscapes_can_be_trained_on(tmp_path: Path) -> None:
    names = ["iris", "wine", "moons_1", "circles_1"]
    measure_landscapes(tmp_path, [family_named("decision_tree")], names, 3)
    task = task_named(str(tmp_path / "decision_tree"))
    assert len(task.spec.design) == 6
    assert 0.2 < task.spec.outcome.to_user(torch.zeros(())) < 1.0
