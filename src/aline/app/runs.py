"""The folder of a training: what may be written there, and what ends up in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from aline import zoo
from aline.app.tables import duration
from aline.errors import InputError, StateError
from aline.model import Model
from aline.tasks import Task, is_differentiable
from aline.training import TrainingConfig, train
from aline.training.config import Credit
from aline.training.metrics import METRICS, last_line
from aline.training.train import default_config, default_model, further
from aline.training.workers import launched, usual_count

_WRITTEN = ("weights.safetensors", "card.json", "checkpoint.safetensors", METRICS)


def prepare(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Check that a run may be written to a folder; an earlier one is never lost unasked."""
    present = [folder / name for name in _WRITTEN if (folder / name).exists()]
    if present and not (resume or overwrite):
        raise StateError(
            f"{folder} holds an earlier run: add --resume to continue it, --overwrite to replace "
            "it, or --out for another folder"
        )
    if overwrite and not resume:
        for path in present:
            path.unlink()


def chosen(
    task: Task,
    policy: Literal["pool", "box"] | None,
    credit: Credit | None,
    initial: str | None,
    priors: bool,
) -> dict[str, Any]:
    """Settings of a training that differ from what suits the task best."""
    if initial is not None and policy is not None:
        raise InputError("--policy is that of the --initial model: leave it out")
    if initial is not None and priors:
        raise InputError("--priors is settled by the --initial model: leave it out")
    settings: dict[str, Any] = {}
    if policy is not None or priors:
        usual = default_model(task, is_differentiable(task))
        settings["model"] = replace(
            usual, policy=policy or usual.policy, priors=priors or usual.priors
        )
    if initial is not None:
        settings["initial"] = zoo.load(initial)
    if credit is not None:
        config = TrainingConfig(**task.training) if initial is None else further(task)
        settings["config"] = replace(config, credit=credit)
    return settings


def worker_count(asked: int | None, task: Task, rounds: int | None) -> int:
    """How many workers to start: as asked, else what the machine has cores for.

    A number of rounds is for repeating a training exactly, on any machine.
    """
    if launched().count > 1:  # they are started already
        return 1
    if asked is None and rounds is None:
        return usual_count(default_config(task).batch)
    return asked or 1


def worker_arguments(task: str, options: Mapping[str, Any], *, resume: bool) -> list[str]:
    """The arguments of `aline` with which another worker does the same."""
    settings = {name: v for name, v in options.items() if v is not None and v is not False}
    given = [f"--{name}" if v is True else f"--{name}={v}" for name, v in settings.items()]
    return ["train", task, *given, *(["--resume"] if resume else [])]


def train_into(folder: Path, task: Task, command: str, **options: Any) -> Model:
    """Train, and leave the model in the folder with the command in its card."""
    model = train(task, out=folder, **options)
    model = replace(model, training={**model.training, "command": command})
    model.save(folder)
    return model


def measured(folder: Path, model: Model) -> Iterator[str]:
    """What a training measured, as lines to read."""
    training = model.training
    yield f"{duration(training['seconds'])}, {training['episodes']:,} simulated experiments"
    last = last_line(folder / METRICS) or {}
    gain, loss, speed = (last.get(key) for key in ("J", "loss", "episodes_per_second"))
    if gain is not None:
        yield f"J {gain:.2f} nats gained over the prior at the end of an experiment"
    if loss is not None and speed is not None:
        yield f"loss {loss:.3f}, {speed:.0f} experiments a second"
