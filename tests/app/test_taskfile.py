from pathlib import Path

import pytest
import torch

from aline.app.taskfile import is_reference, load_task
from aline.errors import InputError, NotFoundError, UserError


@pytest.mark.parametrize("name", ["task", "make"])
def test_object_may_be_a_task_or_a_function_that_returns_one(own_file: Path, name: str) -> None:
    task = load_task(f"{own_file}:{name}")
    assert task.spec.parameters.names == ("rate", "amplitude")
    assert task.draw(2, torch.Generator()).theta.shape == (2, 2)


def test_task_without_a_name_takes_the_files(own_file: Path) -> None:
    assert load_task(f"{own_file}:task").spec.name == "decay"


def test_task_with_a_name_keeps_it(own_file: Path) -> None:
    own_file.write_text(own_file.read_text().replace("horizon=4,", 'horizon=4, name="mine",'))
    assert load_task(f"{own_file}:task").spec.name == "mine"


def test_file_may_import_its_neighbours(own_file: Path) -> None:
    (own_file.parent / "constants_of_decay.py").write_text("HORIZON = 7\n")
    text = own_file.read_text().replace("horizon=4", "horizon=HORIZON")
    own_file.write_text(f"from constants_of_decay import HORIZON\n{text}")
    assert load_task(f"{own_file}:task").spec.horizon == 7


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no file .*nowhere\.py"):
        load_task(f"{tmp_path}/nowhere.py:task")


def test_missing_object_lists_what_is_there(own_file: Path) -> None:
    with pytest.raises(NotFoundError, match="no object 'tusk': it has task"):
        load_task(f"{own_file}:tusk")


def test_file_without_any_task(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(NotFoundError, match=r"has no aline\.Task at all"):
        load_task(f"{tmp_path}/empty.py:task")


def test_object_of_another_kind(own_file: Path) -> None:
    with pytest.raises(InputError, match=r"must be an aline\.Task .* got int"):
        load_task(f"{own_file}:answer")


@pytest.mark.parametrize("end", ["", ":"])
def test_reference_without_an_object_says_how_to_name_one(own_file: Path, end: str) -> None:
    with pytest.raises(InputError, match=r"decay\.py:task"):
        load_task(f"{own_file}{end}")


@pytest.mark.parametrize(
    ("line", "message"),
    [("1 / 0", "line 1: ZeroDivisionError"), ("def f(:", "line 1: invalid syntax")],
)
def test_error_in_the_file_names_its_line(own_file: Path, line: str, message: str) -> None:
    own_file.write_text(f"{line}\n{own_file.read_text()}")
    with pytest.raises(InputError, match=message):
        load_task(f"{own_file}:task")


def test_error_in_the_simulator_names_its_line(own_file: Path) -> None:
    own_file.write_text(own_file.read_text().replace('theta["rate"]', 'theta["rat"]'))
    task = load_task(f"{own_file}:task")
    with pytest.raises(InputError, match=r"decay\.py raised an error: line 9: KeyError: 'rat'"):
        task.fitted()


def test_own_errors_of_aline_pass_unchanged(own_file: Path) -> None:
    own_file.write_text(own_file.read_text().replace("return signal +", "return signal[:1]  #"))
    with pytest.raises(UserError, match="simulate must return outcomes of the designs' shape"):
        load_task(f"{own_file}:task").fitted()


@pytest.mark.parametrize(
    ("text", "is_file"),
    [("decay.py:task", True), ("a/b.py", True), ("psychometric", False), ("runs/decay", False)],
)
def test_references_are_told_from_names(text: str, is_file: bool) -> None:
    assert is_reference(text) == is_file
