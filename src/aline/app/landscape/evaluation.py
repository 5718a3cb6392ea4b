"""A user's script that scores configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aline.app.taskfile import run_file, where
from aline.errors import InputError, NotFoundError

Evaluate = Callable[[Mapping[str, Any]], float]
NAME = "evaluate"


def load_evaluation(reference: str) -> Evaluate:
    """The function that `my_script.py` or `my_script.py:name` names; by default `evaluate`."""
    file, _, name = reference.rpartition(":") if ".py:" in reference else (reference, "", NAME)
    path = Path(file)
    function = getattr(run_file(path), name, None)
    if not callable(function):
        raise NotFoundError(
            f"{path} has no function {name}: define {name}(configuration), which takes a dict of "
            "settings and returns their score"
        )

    def scored(configuration: Mapping[str, Any]) -> float:
        given = {key: value for key, value in configuration.items() if value is not None}
        try:
            return _number(function(given))
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"{path} failed at {given}: {where(error, path)}; scores so far are kept, the same "
                "command goes on"
            ) from error

    return scored


def _number(score: Any) -> float:
    try:
        return float(score)
    except (TypeError, ValueError):
        raise InputError(f"a score must be a number, got {score!r}") from None
