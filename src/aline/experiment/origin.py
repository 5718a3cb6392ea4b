"""Which model an experiment belongs to, and where to find it again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aline import zoo
from aline.errors import InputError, NotFoundError, StateError
from aline.experiment.storage import Event
from aline.model import Model


def check_model(model: Model) -> Model:
    """A model, or a clear error."""
    if not isinstance(model, Model):
        raise InputError(
            f'an experiment takes a trained model, got {model!r}: pass aline.load("...")'
        )
    return model


def describe(model: Model) -> dict[str, Any]:
    """A model as a journal names it: where it was loaded from, and what it is."""
    plain, units = {"source": _source(model), "digest": model.digest}, _units(model)
    return {**plain, "units": units} if units else plain


def find_model(created: Event, name: str, model: Model | None) -> Model:
    """The model of a stored experiment: the one passed, or the one where it was; checked."""
    if model is None:
        model = _load(created["model"]["source"], name)
        units = created["model"].get("units", {})
        model = model.in_units(**units) if units else model
    known, units = created["model"], created["model"].get("units", {})
    if check_model(model).digest == known["digest"] and _units(model) != units:
        raise StateError(
            f"experiment {name!r} was run in {_in_words(units)}, and this model is in "
            f"{_in_words(_units(model))}: pass model.in_units(...) with the same range"
        )
    if model.digest != known["digest"]:
        raise StateError(
            f"experiment {name!r} was run with another model of task {created['task']!r}: "
            "resume it with that one, or attach its data to a new experiment"
        )
    return model


def _units(model: Model) -> dict[str, list[float]]:
    return {name: list(ends) for name, ends in model.units.items()}


def _in_words(units: Mapping[str, Any]) -> str:
    ranges = (f"{name} from {low:g} to {high:g}" for name, (low, high) in units.items())
    return ", ".join(ranges) or "its own units"


def _source(model: Model) -> str | None:
    """A shipped model by its name, as its folder moves with the installation."""
    if model.source is None:
        return None
    is_shipped = model.source.parent == Path(zoo.__file__).resolve().parent
    return model.source.name if is_shipped else str(model.source)


def _load(source: str | None, name: str) -> Model:
    remedy = "pass it, Experiment.resume(..., model=aline.load(...))"
    if source is None:
        raise StateError(f"the model of experiment {name!r} was in memory only: {remedy}")
    try:
        return zoo.load(source)
    except NotFoundError:
        raise NotFoundError(
            f"the model of experiment {name!r} is no longer at {source}: {remedy}"
        ) from None
