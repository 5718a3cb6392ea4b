"""A model as a folder of files that a web page runs by itself: docs/browser.md."""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aline import __version__, zoo
from aline.engine.export import to_bytes
from aline.engine.runners import GRAPH, OnnxRunner
from aline.episodes import goal_of
from aline.errors import InputError, InternalError
from aline.files import write_atomically
from aline.model import Model
from aline.spaces import Continuous, Design, Outcome, Parameters
from aline.spaces.priors import NormalScale, Prior, Scale, TableScale, UniformScale
from aline.tasks import PREDICTIONS, Spec

FORMAT = 1  # of model.json; clients/js/local/model.js knows it too
MODEL = "model.json"
LIBRARY = "aline"  # the folder of the JavaScript beside a model
NODES = 24  # of the quadrature, as in experiment/marginals.py


def export_web(model: Model, folder: Path) -> list[Path]:
    """Write a model's graph, its scales and goals, and the JavaScript that runs them."""
    check_runs_in_a_page(model)
    graph = graph_of(model)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / GRAPH, graph)
    write_atomically(folder / MODEL, json.dumps(describe(model, graph), allow_nan=False).encode())
    return [folder / MODEL, folder / GRAPH, copy_library(folder / LIBRARY)]


def check_runs_in_a_page(model: Model) -> None:
    """Say so if a page cannot do what an experiment with this model does."""
    config, name = model.network.config, model.spec.name
    if config.plugin is not None:
        raise InputError(
            f"{name} needs its plug-in {config.plugin!r}, which is Python: run it with `aline "
            "serve`, and a page with the service's client"
        )
    if config.policy == "informed":
        raise InputError(
            f"{name} chooses designs by its task's likelihood, which is Python: run it with `aline "
            "serve`, or train a model with policy='pool' or 'box'"
        )
    families = {name: prior.family for name, prior in model.spec.parameters.priors.items()}
    for family in ("Dirichlet", "Categorical"):
        if family in families.values():
            raise InputError(
                f"{name} has a {family} prior, which pages do not know yet: run it with `aline "
                "serve`"
            )
    if not has_plain_designs(model.spec.design):
        raise InputError(
            f"{name} has designs that pages do not know yet (a log axis, a set of values, a "
            "condition, or items used once): run it with `aline serve`"
        )


def has_plain_designs(design: Design) -> bool:
    """Whether axes are linear between bounds, with nothing else to know of them."""
    is_linear = all(isinstance(axis, Continuous) for axis in design.axes.values())
    return is_linear and design.condition is None and design.repeats


def graph_of(model: Model) -> bytes:
    """The exported graph beside the weights, or a new one if there is none of these weights."""
    path = None if model.source is None else model.source / GRAPH
    if path is not None and path.is_file() and OnnxRunner(path).digest == model.digest:
        return path.read_bytes()
    return to_bytes(model)


def describe(model: Model, graph: bytes) -> dict[str, Any]:
    """Everything but the network that an experiment needs to know, as plain data."""
    spec, nodes = model.spec, np.polynomial.hermite_e.hermegauss(NODES)
    task = {name: value for name, value in model.card()["task"].items() if name != "config"}
    return {
        "format": FORMAT,
        "aline": __version__,
        "digest": model.digest,
        "source": source_of(model),
        "task": task,
        "policy": model.network.config.policy,
        "coordinates": coordinates_of(spec.parameters),
        "form": spec.outcome.form(),
        "reach": reaches_of(spec.outcome),
        "spread": spread_of(spec),
        "in_units": units_of(model),
        "quadrature": [nodes[0].tolist(), (nodes[1] / nodes[1].sum()).tolist()],
        "files": {GRAPH: {"bytes": len(graph), "crc32": zlib.crc32(graph)}},
    }


def source_of(model: Model) -> str | None:
    """The name of a shipped model, by which Python finds it; folders are nobody else's business."""
    source = model.source
    return source.name if source and source.parent == Path(zoo.__file__).resolve().parent else None


def coordinates_of(parameters: Parameters) -> list[dict[str, Any]]:
    """The network's coordinates: each one's name, the parameter it belongs to, and its scale."""
    owners = [
        (owner, scale) for owner, prior in parameters.priors.items() for scale in _scales(prior)
    ]
    return [
        {"name": name, "owner": owner, "scale": scale}
        for name, (owner, scale) in zip(parameters.names, owners, strict=True)
    ]


def _scales(prior: Prior) -> list[dict[str, Any]]:
    return [_scale(prior, i, scale) for i, scale in enumerate(prior.scales())]


def _scale(prior: Prior, place: int, scale: Scale) -> dict[str, Any]:
    if isinstance(scale, UniformScale):
        return {"kind": "uniform", "low": scale.low, "high": scale.high}
    if isinstance(scale, NormalScale):
        kind = "lognormal" if scale.log else "normal"
        return {"kind": kind, "loc": scale.loc, "scale": scale.scale}
    if not isinstance(scale, TableScale):
        raise InternalError(f"a scale of type {type(scale).__name__} cannot be written")
    low, high = scale.support
    return {
        "kind": "table",
        "support": [low, None if math.isinf(high) else high],
        "bent": "log" if math.isinf(high) else "logit",
        "z": scale.knots[0].tolist(),
        "quantiles": scale.knots[1].tolist(),
        "density": _density(prior, place, scale),
    }


def _density(prior: Prior, place: int, scale: Scale) -> dict[str, float]:
    """A prior's log density as a sum of simple terms, which all these families have."""
    given = {
        name: value[place] if isinstance(value, list) else value
        for name, value in prior.arguments.items()
    }
    a, rate = given.get("concentration", 1.0), given.get("rate", 0.0)
    terms = {
        "Beta": {
            "log": given.get("concentration1", 1.0) - 1,
            "log_rest": given.get("concentration0", 1.0) - 1,
        },
        "Gamma": {"log": a - 1, "linear": -rate},
        "Exponential": {"linear": -rate},
        "HalfNormal": {"square": -0.5 / given.get("scale", 1.0) ** 2},
    }[prior.family]
    full = {"log": 0.0, "log_rest": 0.0, "linear": 0.0, "square": 0.0} | terms
    x = scale.to_user(torch.zeros((), dtype=torch.float64))  # the median: any value would do
    rest = 1 - x if full["log_rest"] else torch.ones_like(x)
    known = full["log"] * x.log() + full["log_rest"] * rest.log()
    known = known + full["linear"] * x + full["square"] * x**2
    return full | {"constant": float(scale.log_prior(x) - known)}


def units_of(model: Model) -> dict[str, Any] | None:
    """How priors follow the range of the axis, where that may have any (`Model.in_units`).

    Bounds of uniform priors as [a, b]: a times the low end of the range, plus b times its high end.
    """
    if not {"low", "high"} <= set(model.spec.config):
        return None
    (axis,) = model.spec.design.names
    one, other = (_bounds(model.in_units(**{axis: ends})) for ends in ((0.0, 1.0), (1.0, 3.0)))
    bounds = {
        name: [[b - 3 * a, a] for a, b in zip(one[name], other[name], strict=True)]
        for name in one
        if one[name] != other[name]
    }
    return {"axis": axis, "bounds": bounds}


def _bounds(model: Model) -> dict[str, tuple[float, float]]:
    """Of the uniform priors."""
    named = zip(model.spec.parameters.names, model.spec.parameters.scales, strict=True)
    return {name: (one.low, one.high) for name, one in named if isinstance(one, UniformScale)}


def reaches_of(outcome: Outcome) -> dict[str, list[float]]:
    """Between what numbers an outcome may lie, for each part that is a number."""
    every = outcome.parts.items()
    return {name: list(reach) for name, part in every if (reach := part.reach())}


def spread_of(spec: Spec) -> list[list[float]]:
    """The points that stand for predictions anywhere, on the network's scale."""
    found: list[list[float]] = goal_of(spec, [PREDICTIONS]).points[0].tolist()
    return found


def copy_library(folder: Path) -> Path:
    """The JavaScript of this version, so that it always fits the files beside it."""
    source = library()
    for path in (*source.glob("*.js"), *source.glob("local/*.js"), source / "package.json"):
        place = folder / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, path.read_bytes())
    return folder


def library() -> Path:
    """Where the JavaScript is: in an installed package, or in a checkout."""
    package = Path(__file__).parents[1]
    places = [package / "clients" / "js", package.parents[1] / "clients" / "js"]
    for place in places:
        if (place / "aline.js").is_file():
            return place
    raise InternalError(f"the JavaScript client is at none of {', '.join(map(str, places))}")
