"""What a user sets, checked, as the plain data that a journal keeps."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from aline.episodes import goal_of, predictions
from aline.episodes.goals import Predictions, Target
from aline.errors import InputError
from aline.experiment.trial import plain_designs
from aline.tasks import PREDICTIONS, Spec

KEY_LENGTH = 200


def check_count(what: str, value: int) -> int:
    """A whole number of at least one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"{what} must be a whole number, at least 1, got {value!r}")
    return value


def check_seed(seed: int) -> int:
    """Any whole number."""
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise InputError(f"seed must be a whole number, got {seed!r}")
    return seed


def check_name(name: str) -> str:
    """An experiment's name."""
    if not isinstance(name, str) or not name:
        raise InputError(f"an experiment's name must be a text that is not empty, got {name!r}")
    return name


def check_key(key: str) -> str:
    """What a caller marks a call with, so that repeating it does nothing more."""
    if not isinstance(key, str) or not 1 <= len(key) <= KEY_LENGTH:
        raise InputError(f"a key must be a text of 1 to {KEY_LENGTH} characters, got {key!r}")
    return key


def plain_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Whatever a user wants to keep beside an experiment, if JSON can hold it."""
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InputError(f'metadata maps names to values, {{"participant": 7}}, got {metadata!r}')
    try:
        plain = json.loads(json.dumps(metadata or {}, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"metadata must be plain JSON data, got {metadata!r} ({error})") from None
    return dict(plain)


def plain_target(spec: Spec, target: Target | Iterable[Target] | None) -> list[Any]:
    """Targets: names, and {"predictions": designs}."""
    if target is None:
        target = list(spec.parameters.priors) or [PREDICTIONS]
    if isinstance(target, str | Predictions) or not isinstance(target, Iterable):
        target = [target]
    targets = list(target)
    for one in targets:
        if not isinstance(one, str | Predictions):
            raise InputError(
                f"a target is a parameter's name or aline.predictions(at=...), got {one!r}"
            )
    goal_of(spec, targets)  # says so if a name is unknown
    return [
        one if isinstance(one, str) else {PREDICTIONS: plain_designs(spec.design, one.at)}
        for one in targets
    ]


def read_target(plain: Iterable[Any]) -> tuple[Target, ...]:
    """Read what `plain_target` wrote."""
    return tuple(t if isinstance(t, str) else predictions(at=t[PREDICTIONS]) for t in plain)


def plain_stop(spec: Spec, stop: Mapping[str, float] | None) -> dict[str, float]:
    """A stopping rule: name -> width."""
    if stop is not None and not isinstance(stop, Mapping):
        raise InputError(f'stop maps names to widths, {{"threshold": 0.5}}, got {stop!r}')
    names = spec.parameters.labels
    for name, width in (stop or {}).items():
        if name not in names:
            raise InputError(
                f"stop takes widths of {', '.join(names) or 'none'}, got {name!r}: use one of these"
            )
        if not isinstance(width, int | float) or not (math.isfinite(width) and width > 0):
            raise InputError(f"the width to stop at for {name} must be positive, got {width!r}")
    return {name: float(width) for name, width in (stop or {}).items()}
