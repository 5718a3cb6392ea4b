"""Nodes and weights along each parameter's prior, or along a window of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from aline.errors import InputError
from aline.spaces import Parameters
from aline.spaces.outcomes.mixture import LOG_SQRT_2PI
from aline.spaces.priors import CategoricalScale
from aline.tasks.lattice import gauss_legendre

_LEFT_OUT = 1e-6  # the posterior's mass on either side of the window that is integrated
_TAIL = 6.0  # as far as a prior without bounds is followed, in standard deviations

Window = tuple[float, float]
"""A stretch of a parameter's prior, the whole of which is (-1, 1)."""


@dataclass(frozen=True)
class Axis:
    """Where the grid cuts one parameter."""

    z: Tensor  # [node] on the network's scale
    log_weight: Tensor  # [node], the share of the prior's mass that each node stands for
    position: Tensor  # [node] from -1 to 1 in what the quadrature is over, u or z

    def __len__(self) -> int:
        return len(self.z)

    def part(self, start: int, stop: int) -> Axis:
        """Some of its nodes."""
        rows = slice(start, stop)
        return Axis(self.z[rows], self.log_weight[rows], self.position[rows])


def axes_of(parameters: Parameters, nodes: Sequence[int], windows: Sequence[Window]) -> list[Axis]:
    """Of each parameter, in a window of its prior."""
    if len(nodes) != len(parameters) or min(nodes) < 1:
        raise InputError(
            f"nodes must be {len(parameters)} whole numbers, one a parameter, got {nodes!r}"
        )
    return [
        quadrature(count, window, bounded=all(map(math.isfinite, scale.support)))
        if not isinstance(scale, CategoricalScale)
        else _every_value(scale)
        for count, window, scale in zip(nodes, windows, parameters.scales, strict=True)
    ]


def _every_value(scale: CategoricalScale) -> Axis:
    """Of a discrete parameter, with their probabilities."""
    place = torch.arange(len(scale.labels))
    z = scale.to_network(place)
    return Axis(z, scale.log_prior(place).float(), 2 * torch.special.ndtr(z.double()) - 1)


def quadrature(count: int, window: Window, bounded: bool) -> Axis:
    """Gauss-Legendre nodes in a window of the prior's quantile, or of z for one without bounds."""
    x, weight = gauss_legendre(count)
    half = (window[1] - window[0]) / 2
    position = (window[0] + window[1]) / 2 + half * x
    if bounded:
        z, log_weight = torch.special.ndtri((position + 1) / 2), (weight * half / 2).log()
    else:
        z = _TAIL * position
        log_weight = (weight * half * _TAIL).log() - 0.5 * z * z - LOG_SQRT_2PI
    return Axis(z.float(), log_weight.float(), position)


def window_around(mass: Tensor, axis: Axis) -> Window:
    """The stretch that holds all but a millionth of the mass [node], and two nodes beyond."""
    below = mass.double().cumsum(0)
    first = int((below < _LEFT_OUT).sum()) - 2
    last = int((below < 1 - _LEFT_OUT).sum()) + 2
    low = axis.position[first].item() if first >= 0 else -1.0
    high = axis.position[last].item() if last < len(axis) else 1.0
    return low, high
