"""Where data comes from: Task, and one simulator a file."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from aline.errors import InputError, NotFoundError, nearest
from aline.tasks.ces import ces
from aline.tasks.csf import csf
from aline.tasks.discounting import discounting
from aline.tasks.linear import linear
from aline.tasks.location import location
from aline.tasks.psychometric import PRESETS, Psychometric
from aline.tasks.retention import retention
from aline.tasks.risk import risk
from aline.tasks.spec import PREDICTIONS, Spec
from aline.tasks.task import Task, World, is_differentiable


def _plugged_in(module: str, name: str, description: str) -> Callable[..., Task]:
    """A task of a plug-in, which is imported when the task is made."""

    def make(**config: Any) -> Task:
        task: Task = getattr(import_module(module), name)(**config)
        return task

    make.__doc__ = description
    return make


BUILT_IN: dict[str, Callable[..., Task]] = {
    **PRESETS,
    "location": location,
    "ces": ces,
    "gp1d": _plugged_in("aline.functions.task", "gp1d", "Functions of one input."),
    "gp2d": _plugged_in("aline.functions.task", "gp2d", "Functions of two inputs."),
    "linear": linear,
    "retention": retention,
    "discounting": discounting,
    "risk": risk,
    "csf": csf,
}


def get(name: str, **config: Any) -> Task:
    """A built-in task by name."""
    if name not in BUILT_IN:
        remedy = nearest(name, BUILT_IN, "use one of these, or file.py:object for your own")
        raise NotFoundError(f"built-in tasks are {', '.join(BUILT_IN)}, got {name!r}: {remedy}")
    return BUILT_IN[name](**config)


def simulator_of(spec: Spec) -> Task | None:
    """The built-in task that a model's spec tells of, on the model's scales; None of others."""
    if spec.name not in BUILT_IN:
        return None
    try:
        return get(spec.name, **spec.config).described_by(spec)
    except (InputError, TypeError):  # a user's own task of the same name
        return None


__all__ = [
    "BUILT_IN",
    "PREDICTIONS",
    "Psychometric",
    "Spec",
    "Task",
    "World",
    "get",
    "is_differentiable",
    "simulator_of",
]
