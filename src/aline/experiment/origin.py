"""Which model an experiment belongs to, and where to find it again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from aline import zoo
from aline.errors import InputError, NotFoundError, StateError
from aline.experiment.storage import Event
from aline.model import Model, Network
from aline.model.remembered import remembered


def check_model(model: Model) -> Model:
    """A model, or a clear error."""
    if not isinstance(model, Model):
        raise InputError(
            f'an experiment takes a trained model, got {model!r}: pass aline.load("...")'
        )
    return model


def describe(model: Model) -> dict[str, str | None]:
    """A model as a journal names it: where it was loaded from, and what it is."""
    return {"source": _source(model), "digest": digest(model)}


def digest(model: Model) -> str:
    """What identifies a model: all that its posterior depends on.

    Not the rest of its card, where measurements and fields of later versions may be added.
    """
    return _digest(model.network)


@remembered
def _digest(network: Network) -> str:
    task = network.spec.to_json()
    scales = {part: task[part] for part in ("parameters", "design", "outcome")}
    found = hashlib.sha256(json.dumps(scales, sort_keys=True).encode())
    for name, tensor in sorted(network.state_dict().items()):
        found.update(name.encode())
        found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def find_model(created: Event, name: str, model: Model | None) -> Model:
    """The model of a stored experiment: the one passed, or the one where it was; checked."""
    if model is None:
        model = _load(created["model"]["source"], name)
    if digest(check_model(model)) != created["model"]["digest"]:
        raise StateError(
            f"experiment {name!r} was run with another model of task {created['task']!r}: "
            "resume it with that one, or attach its data to a new experiment"
        )
    return model


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
