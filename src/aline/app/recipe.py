"""How a shipped model is made again: `scripts/weights NAME`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from aline import zoo
from aline.app.tables import duration
from aline.errors import StateError, UserError
from aline.model import Model
from aline.tasks import get, is_differentiable

WHY_NOT = "not_repeatable"
"""In a card's training: the sentence which says that no command makes the model, and why."""


def recipe(model: Model) -> list[str]:
    """The arguments of `aline` that make a shipped model; an error if its card has no command."""
    why_not = model.training.get(WHY_NOT)
    if why_not is not None:
        raise StateError(why_not)
    program, *arguments = shlex.split(model.training["command"])
    if program != "aline":
        raise StateError(f"the card's command is not one of aline's: {program}")
    return arguments


def changed_since(model: Model) -> dict[str, tuple[Any, Any]]:
    """Settings whose default is another one now: as the model was made, and today's."""
    from aline.training.train import default_config, default_model

    task = get(model.spec.name)
    pairs = (
        (model.network.config, default_model(task, is_differentiable(task))),
        (model.training["config"], default_config(task)),
    )
    return {
        name: (then[name], value)
        for kept, now in pairs
        for name, value in asdict(now).items()
        if name in (then := kept if isinstance(kept, Mapping) else asdict(kept))
        and then[name] != value
    }


def words(name: str) -> Iterator[str]:
    """The command of a shipped model, how long it takes, and what is no longer as it was."""
    model = zoo.load(name)
    yield shlex.join(["aline", *recipe(model)])
    seconds, machine = model.training["seconds"], model.training["machine"]
    yield f"It takes {duration(seconds)} (on {machine}). `aline models {name}` has what it reached."
    changed = changed_since(model)
    if changed:
        each = ", ".join(f"{key} was {was}, is {now}" for key, (was, now) in changed.items())
        yield f"It will not be quite this model: defaults have changed since ({each})."


def every() -> Iterator[str]:
    """A line a shipped model: its command, or why there is none."""
    for name in zoo.shipped():
        try:
            yield f"{name}: {next(words(name))}"
        except StateError as error:
            yield f"{name}: {error}"


def main(arguments: Sequence[str]) -> None:
    """Print the command of the model named, and run it; without a name, list all models."""
    if not arguments:
        print(*every(), sep="\n")
        return
    model = zoo.load(arguments[0])
    print(*words(arguments[0]), sep="\n", flush=True)
    os.execv(sys.executable, [sys.executable, "-m", "aline", *recipe(model)])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        print(f"aline: {error}", file=sys.stderr)
        sys.exit(2)
