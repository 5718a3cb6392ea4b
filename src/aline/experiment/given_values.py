"""A user's names and values of parameters, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from aline.errors import InputError, nearest
from aline.experiment.marginals import as_double
from aline.spaces import Parameters


def find_label(parameters: Parameters, name: str) -> tuple[str, int]:
    """The declared parameter that a scalar name belongs to, and its place there."""
    for owner, prior in parameters.priors.items():
        labels = [f"{owner}_{i + 1}" for i in range(prior.size)] if prior.size else [owner]
        if name in labels:
            return owner, labels.index(name)
        if name == owner:
            raise InputError(f"{name} is a vector: ask for one of {', '.join(labels)}")
    raise InputError(
        f"parameters are {', '.join(parameters.labels) or 'none'}, got {name!r}: "
        + nearest(name, parameters.labels)
    )


def read_values(parameters: Parameters, theta: Mapping[str, Any]) -> dict[str, Tensor]:
    """A user's parameter values, checked but for their support."""
    if not isinstance(theta, Mapping) or not theta or not set(theta) <= set(parameters.priors):
        given = ", ".join(map(str, theta)) if isinstance(theta, Mapping) else repr(theta)
        raise InputError(
            f"log_prob takes values by name, of {', '.join(parameters.priors) or 'none'}, "
            f"got {given or 'none'}"
        )
    values = {
        name: as_double(name, _place_of(parameters, name, value)) for name, value in theta.items()
    }
    for name, value in values.items():
        size = parameters.priors[name].size
        if size and (value.dim() == 0 or value.shape[-1] != size):
            raise InputError(
                f"{name} must have {size} values on its last axis, got shape {tuple(value.shape)}"
            )
    return values


def _place_of(parameters: Parameters, name: str, value: Any) -> Any:
    """A label of a discrete parameter as its place; anything else as it is."""
    return parameters.place({name: value})[1] if isinstance(value, str) else value


def complete(
    parameters: Parameters, values: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], Tensor]:
    """Values for every parameter, and which of them were inside the support, [...].

    Prior medians stand in for what was not given or is outside.
    """
    within = {name: _within(parameters, name, value) for name, value in values.items()}
    try:
        inside = math.prod(within.values(), start=torch.ones((), dtype=torch.bool))
    except RuntimeError:
        shapes = ", ".join(f"{name}: {tuple(value.shape)}" for name, value in values.items())
        raise InputError(f"parameter values must broadcast to one shape, got {shapes}") from None
    full = parameters.to_user(torch.zeros(*inside.shape, len(parameters), dtype=torch.float64))
    for name, value in values.items():
        keep = inside[..., None] if parameters.priors[name].size else inside
        full[name] = torch.where(keep, value, full[name])
    return full, inside


def _within(parameters: Parameters, name: str, value: Tensor) -> Tensor:
    """Whether values of a declared parameter lie in its support, [...]."""
    prior = parameters.priors[name]
    if prior.family == "Dirichlet":
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-4)
    bounds = [parameters.scales[column].support for column in parameters.index(name)]
    low, high = torch.tensor(bounds, dtype=torch.float64).unbind(-1)
    if prior.size:
        return ((value >= low) & (value <= high)).all(-1)
    return (value >= low[0]) & (value <= high[0])
