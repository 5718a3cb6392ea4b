"""What a user sets, checked, as the plain data that a journal keeps."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from aline.episodes import goal_of, predictions
from aline.episodes.goals import InTurn, Predictions, Target, in_turn, region_of
from aline.errors import InputError, nearest
from aline.experiment.trial import plain_designs
from aline.model import Model
from aline.spaces.parts import is_list, plain_part, read_part
from aline.tasks import PREDICTIONS, Spec

KEY_LENGTH = 200
METADATA_BYTES = 64_000
METADATA_DEPTH = 20
NOTE_BYTES = 4_000  # of one trial, as an experiment of thousands is read and shown whole
NAME_LENGTH = 200
REGION = "region"
IN_TURN = "in_turn"


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


def plain_policy(model: Model, policy: str) -> dict[str, Any]:
    """Who chooses designs: nothing to keep of the learned policy, else the schedule itself.

    The journal holds it, so that another verdict in the model's card changes no experiment.
    """
    if policy == "learned":
        return {}
    if policy != "fixed":
        raise InputError(f"policy must be 'learned' or 'fixed', got {policy!r}")
    schedule = model.measurements.get("verdict", {}).get("schedule")
    if not schedule:
        raise InputError(
            "policy='fixed' needs the fixed schedule of a verdict, and the model's card has none: "
            "measure one with `aline evaluate MODEL --verdict --record`"
        )
    return {"policy": "fixed", "schedule": plain_designs(model.spec.design, schedule)}


def check_name(name: str) -> str:
    """An experiment's name, which is a part of its address in the service."""
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_LENGTH:
        raise InputError(
            f"an experiment's name must be a text of 1 to {NAME_LENGTH} characters, got {name!r}"
        )
    if name in (".", "..") or any(_breaks_addresses(character) for character in name):
        raise InputError(
            "an experiment's name must not be . or .., nor hold a slash, a backslash or a control "
            f"character, got {name!r}: use a dash instead"
        )
    return name


def _breaks_addresses(character: str) -> bool:
    is_half = "\ud800" <= character <= "\udfff"  # of a surrogate pair, which is no text
    return character in "/\\\x7f" or character < " " or is_half


def check_key(key: str) -> str:
    """What a caller marks a call with, so that repeating it does nothing more."""
    if not isinstance(key, str) or not 1 <= len(key) <= KEY_LENGTH:
        raise InputError(f"a key must be a text of 1 to {KEY_LENGTH} characters, got {key!r}")
    return key


def check_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Metadata of a size that every list and every reader can bear."""
    return _check_size("metadata", plain_metadata(metadata), METADATA_BYTES)


def check_note(note: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What was measured beside an outcome, as plain data; None if there is nothing."""
    if note is None:
        return None
    plain = _check_size("a note", _plain("a note", '{"rt": 0.41}', note), NOTE_BYTES)
    return plain or None


def _check_size(what: str, plain: dict[str, Any], most: int) -> dict[str, Any]:
    size = len(json.dumps(plain, ensure_ascii=False).encode())
    if size > most:
        raise InputError(
            f"{what} must have at most {most} bytes as JSON, got {size}: keep large data "
            "elsewhere, and its name here"
        )
    if not _is_shallow(plain, METADATA_DEPTH):
        raise InputError(
            f"{what} must be nested at most {METADATA_DEPTH} deep, got more: flatten it"
        )
    return plain


def _is_shallow(value: Any, most: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return True
    return most > 0 and all(_is_shallow(one, most - 1) for one in inner)


def plain_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Whatever a user wants to keep beside an experiment, if JSON can hold it."""
    return _plain("metadata", '{"participant": 7}', metadata)


def _plain(what: str, example: str, value: Mapping[str, Any] | None) -> dict[str, Any]:
    """A mapping as JSON holds it."""
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"{what} maps names to values, {example}, got {_excerpt(value)}")
    try:
        text = json.dumps(dict(value or {}), allow_nan=False, ensure_ascii=False)
        plain = json.loads(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{what} must be plain JSON data, got {_excerpt(value)} ({error})"
        ) from None
    return dict(plain)


def _excerpt(value: Any) -> str:
    try:
        return " ".join(repr(value)[:200].split())
    except RecursionError:
        return "something nested too deeply"


def plain_target(
    spec: Spec, target: Target | Iterable[Target] | None, standardise: bool = False
) -> list[Any]:
    """Targets: names, {"predictions": designs}, {"region": bounds} and {"in_turn": [targets, ...]}.

    Where outcomes are standardised, parameters in their units have no meaning to aim at.
    """
    if target is None:
        names = list(spec.parameters.priors)
        target = names if names and not (standardise and spec.scaled) else [PREDICTIONS]
    if isinstance(target, Target) or not isinstance(target, Iterable):
        target = [target]
    targets = list(target)
    for one in targets:
        if not isinstance(one, Target):
            raise InputError(
                "a target is a parameter's name, aline.predictions(...) or aline.in_turn(...), got "
                f"{one!r}"
            )
    goal_of(spec, targets)  # says so if a name is unknown
    if standardise:
        _check_units(spec, targets)
    return [_plain_one(spec, one) for one in targets]


def _plain_one(spec: Spec, target: Target) -> Any:
    if isinstance(target, InTurn):
        return {IN_TURN: [[_plain_one(spec, one) for one in part] for part in target.parts]}
    return target if isinstance(target, str) else _plain_predictions(spec, target)


def _check_units(spec: Spec, targets: Iterable[Target]) -> None:
    parts = [part for one in targets if isinstance(one, InTurn) for part in one.parts]
    every = [*targets, *(one for part in parts for one in part)]
    for name in [n for n in every if isinstance(n, str) and n != PREDICTIONS]:
        if bool((spec.parameters.mask([name]) & spec.parameters.mask(spec.scaled)).any()):
            raise InputError(
                f"{name} is in the outcome's units, which standardise=True leaves open: aim at "
                "predictions or another parameter, or give outcomes in the task's units"
            )


def _plain_predictions(spec: Spec, wanted: Predictions) -> dict[str, Any]:
    if wanted.region is None:
        assert wanted.at is not None
        return {PREDICTIONS: plain_designs(spec.design, wanted.at)}
    region = region_of(spec.design, wanted)
    if is_list(spec.design, region):  # a pool or a grid is its points
        return {PREDICTIONS: plain_designs(spec.design, region.point_columns())}
    return {REGION: plain_part(spec.design, region)}


def read_target(spec: Spec, plain: Iterable[Any]) -> tuple[Target, ...]:
    """Read what `plain_target` wrote."""
    return tuple(one if isinstance(one, str) else _read_target(spec, one) for one in plain)


def _read_target(spec: Spec, plain: Mapping[str, Any]) -> Target:
    if IN_TURN in plain:
        parts = (read_target(spec, part) for part in plain[IN_TURN])
        return in_turn(*parts)  # type: ignore[arg-type]
    if REGION in plain:
        return predictions(region=read_part(spec.design, plain[REGION]))
    return predictions(at=plain[PREDICTIONS])


def check_standardise(spec: Spec, standardise: bool) -> bool:
    """Whether outcomes come in any units: only plain real ones can."""
    if standardise and not spec.outcome.is_linear:
        raise InputError(
            "standardise=True is for real outcomes without limits or a logarithmic part, and "
            f"this task's are {spec.outcome.words()}: leave it out"
        )
    return bool(standardise)


def check_noise(noise: float | None, standardise: bool = True) -> float | None:
    """The standard deviation of outcomes about the truth, where it is known."""
    if noise is None:
        return None
    if not standardise:
        raise InputError(
            f"noise={noise!r} is for outcomes in any units, standardise=True: in the task's own "
            "units the model knows it, so leave it out"
        )
    if not isinstance(noise, int | float) or isinstance(noise, bool) or not 0 <= noise < math.inf:
        raise InputError(
            "noise must be a standard deviation in the outcome's units, at least 0, got "
            f"{noise!r}: leave it out if it is not known"
        )
    return float(noise)


def plain_stop(spec: Spec, stop: Mapping[str, float] | None) -> dict[str, float]:
    """A stopping rule: name -> width."""
    if stop is not None and not isinstance(stop, Mapping):
        raise InputError(f'stop maps names to widths, {{"threshold": 0.5}}, got {stop!r}')
    names = spec.parameters.labels
    for name, width in (stop or {}).items():
        if name not in names:
            raise InputError(
                f"stop takes widths of {', '.join(names) or 'none'}, got {name!r}: "
                + nearest(name, names)
            )
        if not isinstance(width, int | float) or not (math.isfinite(width) and width > 0):
            raise InputError(f"the width to stop at for {name} must be positive, got {width!r}")
    return {name: float(width) for name, width in (stop or {}).items()}
