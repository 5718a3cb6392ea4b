"""Shipped weights and their cards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aline.errors import NotFoundError, nearest

if TYPE_CHECKING:
    from aline.model import Model
    from aline.tasks import Task

_HERE = Path(__file__).parent


def shipped() -> list[str]:
    """The names of the shipped models."""
    return sorted(path.parent.name for path in _HERE.glob("*/weights.safetensors"))


def find(name: str | Path) -> Path:
    """The folder of a model: a path that exists, or the name of a shipped one."""
    if (Path(name) / "weights.safetensors").is_file():
        return Path(name)
    if str(name) in shipped():
        return _HERE / str(name)
    from aline.tasks import BUILT_IN

    if str(name) in BUILT_IN:
        raise NotFoundError(
            f"no weights are shipped for the task {name}: train it once with "
            f"`aline train {name}`, then load the folder runs/{name}"
        )
    remedy = nearest(name, shipped(), "see `aline models`, or train one with `aline train`")
    raise NotFoundError(
        f"a model must be a folder that model.save(...) wrote or one of the shipped "
        f"{', '.join(shipped()) or '(none)'}, got {str(name)!r}: {remedy}"
    )


def load(name: str | Path, task: Task | None = None) -> Model:
    """A trained model: a shipped one by name, or your own by its folder.

    `task` is needed only where its designs have a condition that a card cannot hold: the model's
    card says so, and asking for a design does.

    >>> load("psychometric").spec.parameters.names
    ('threshold', 'slope', 'guess', 'lapse')
    """
    from aline.model import Model  # torch only when a model is really wanted

    model = Model.load(find(name))
    if task is not None:
        task.described_by(model.spec)  # which learns the condition from it
    return model
