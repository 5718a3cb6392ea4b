"""A user's own task, named as file.py:object."""

from __future__ import annotations

import copy
import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from aline.errors import AlineError, InputError, NotFoundError
from aline.tasks import Task


def is_reference(text: str) -> bool:
    """Whether a word on the command line names a file, not a built-in task."""
    return ".py:" in text or text.endswith(".py")


def load_task(reference: str) -> Task:
    """The task that `file.py:object` names; the object may be a function that returns one.

    A task without a name of its own takes the file's.
    """
    file, _, name = reference.rpartition(":")
    if not file or not name:
        raise InputError(
            f"an own task must be given as file.py:object, got {reference!r}: "
            f"add the object's name, such as {reference.rstrip(':')}:task"
        )
    path = Path(file)
    task = _task_in(run_file(path), path, name)
    return _prepared(task, path)


def run_file(path: Path) -> ModuleType:
    """A file of the user's, as a module."""
    if not path.is_file():
        raise NotFoundError(f"no file {path}: check the path in file.py:object")
    module_name = f"aline_task_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file: a task is given as file.py:object")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up
    folder = str(path.resolve().parent)
    if folder not in sys.path:  # so that the file can import its neighbours, as a script can
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{path} failed to load: {where(error, path)}") from error
    return module


def _task_in(module: ModuleType, path: Path, name: str) -> Task:
    if not hasattr(module, name):
        found = [key for key, value in vars(module).items() if isinstance(value, Task)]
        hint = f"it has {', '.join(found)}" if found else "it has no aline.Task at all"
        raise NotFoundError(f"{path} has no object {name!r}: {hint}")
    value = getattr(module, name)
    if callable(value) and not isinstance(value, Task):
        value = _guarded(value, path)()
    if not isinstance(value, Task):
        raise InputError(
            f"{path}:{name} must be an aline.Task or a function that returns one, "
            f"got {type(value).__name__}"
        )
    return value


def _prepared(task: Task, path: Path) -> Task:
    """The task with a name, and with functions whose errors point into the user's file."""
    own = copy.copy(task)
    if own.spec.name == "task":
        own.spec = replace(own.spec, name=path.stem)
    own.simulate = _guarded(task.simulate, path)
    if task.log_likelihood is not None:
        own.log_likelihood = _guarded(task.log_likelihood, path)
    if task.explore is not None:
        own.explore = _guarded(task.explore, path)
    return own


def _guarded(function: Callable[..., Any], path: Path) -> Callable[..., Any]:
    """The function, with errors of the user's code told as such."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except AlineError:
            raise
        except Exception as error:
            raise InputError(f"{path} raised an error: {where(error, path)}") from error

    return call


def where(error: BaseException, path: Path) -> str:
    """An error in one line, with the line of the user's file it came from."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).resolve() == path.resolve()
    ]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {error}"
