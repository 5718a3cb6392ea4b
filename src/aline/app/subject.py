"""What a command works on: a trained model together with the task it was trained for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aline import zoo
from aline.app.taskfile import is_reference, load_task
from aline.errors import InputError, NotFoundError
from aline.model import Model
from aline.tasks import BUILT_IN, Spec, Task, get
from aline.tasks.table_files import read_tables
from aline.tasks.table_task import TableTask


@dataclass(frozen=True)
class Subject:
    """A model, its task, and the words with which the user named them."""

    model: Model
    task: Task
    name: str
    task_reference: str | None = None

    @property
    def words(self) -> str:
        """The arguments that name this subject on the command line."""
        own = "" if self.task_reference is None else f" --task {self.task_reference}"
        return f"{self.name}{own}"


def task_named(text: str) -> Task:
    """A built-in task by name, a user's own by file.py:object, or tables by path:space."""
    if is_reference(text):
        return load_task(text)
    path, _, space = text.rpartition(":") if ":" in text else (text, "", "")
    if text not in BUILT_IN and Path(path).exists():
        return TableTask(read_tables(path, space or None))
    return get(text)


def open_subject(name: str, task_reference: str | None = None) -> Subject:
    """Find a model by name or folder, and the task that simulates for it."""
    _check_is_model(name)
    model = zoo.load(name)
    task = _task_of(model.spec, name) if task_reference is None else load_task(task_reference)
    return Subject(model, task.described_by(model.spec), name, task_reference)


def _check_is_model(name: str) -> None:
    if name in BUILT_IN and name not in zoo.shipped():
        raise NotFoundError(
            f"no model is shipped for the task {name}: train one with `aline train {name}`, "
            f"then use its folder runs/{name}"
        )
    if is_reference(name):
        raise InputError(
            f"a model is needed here, got the task {name}: train one with `aline train {name}`, "
            f"then use its folder with --task {name}"
        )


def _task_of(spec: Spec, name: str) -> Task:
    """The built-in task a card tells of."""
    if spec.name not in BUILT_IN:
        raise InputError(
            f"{name} was trained for a task of your own, {spec.name}: "
            "add --task file.py:object, so that it can be simulated"
        )
    return get(spec.name, **spec.config)
