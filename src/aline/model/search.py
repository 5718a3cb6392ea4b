"""A search for where the posterior lies, with a learned likelihood.

It goes in stages. Points are spread over a few places and weighed by the likelihood; then each
place moves to where points weigh most, those of earlier stages too, and narrows. Where few points
count, as at first, their weights are raised to a power below one, so that no stage jumps to a
conclusion: places narrow only as fast as points can follow them (adaptive importance sampling,
tempered). With another observation a search goes on: points of earlier stages are weighed anew by
that observation alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from aline.model.advice import Frame

POINTS = 32  # a stage for each parameter, in all places together
FEWEST = 2  # parameters that points are enough for
EFFECTIVE = 0.3  # as many points are to count as this share of a stage
KEPT = 3  # stages whose points count together
TURNS = 4  # of the power method that finds the direction in which points differ most
HALVINGS = 8  # of the range of powers in which the right one is sought
LEAST_LOG_POWER = -7.0
WIDENED = 1.15  # by how much points are spread beyond a place, which may be too narrow
LOOSENED = 1.05  # by how much a place is wider than its points
LEAST_STD = 0.003  # of a place, in units of the prior's
TINY = 1e-14  # a variance of points that are all one
STARTED_WIDE = 1.2  # by how much the first places are wider than a guess
LIGHTEST = 1e-6  # of a place's share, so that none is lost
NEVER = -1e4  # a log weight of what is left out


class Places(NamedTuple):
    """Where a posterior may lie: normals whose parameters do not depend on each other."""

    log_weight: Tensor  # [..., place]
    mean: Tensor  # [..., place, parameter]
    std: Tensor  # the same

    @property
    def frame(self) -> Frame:
        """Means and standard deviations."""
        return Frame(self.mean, self.std)

    def as_tensor(self) -> Tensor:
        """All of it, [..., place, 1 + 2 * parameter]."""
        return torch.cat([self.log_weight[..., None], self.mean, self.std], -1)

    @classmethod
    def from_tensor(cls, whole: Tensor) -> Places:
        """What `as_tensor` gave."""
        count = whole.shape[-1] // 2
        log_weight, mean, std = whole.split([1, count, count], -1)
        return cls(log_weight[..., 0], mean, std)

    def spread(self, unit: Tensor) -> Tensor:
        """Points [..., place * n, parameter] around all places, by `unit` ones [n, parameter]."""
        spread = self.mean[..., None, :] + WIDENED * self.std[..., None, :] * unit
        return spread.flatten(-3, -2)

    def log_density(self, points: Tensor, widened: float = 1.0) -> Tensor:
        """Of each place at points [..., n, parameter], [..., place, n], up to a constant."""
        std = widened * self.std[..., None, :]
        away = (points[..., None, :, :] - self.mean[..., None, :]) / std
        return (-0.5 * away.square() - std.log()).sum(-1)


class Stage(NamedTuple):
    """Points of one stage."""

    places: Places  # around which they were spread, as many around each
    points: Tensor  # [..., n, parameter]
    height: Tensor  # [..., n], the log posterior there, up to a constant


def unit_points(parameters: int, stages: int) -> Tensor:
    """Of each stage [stage, point, parameter]: a Sobol sequence of standard normal points."""
    count = POINTS * max(parameters, FEWEST)
    drawn = torch.quasirandom.SobolEngine(parameters).draw(1 + stages * count)[1:]
    points: Tensor = torch.special.ndtri(drawn.clamp(0.005, 0.995))
    return points.view(stages, count, parameters)


def search(
    start: Places,
    count: int,
    units: Tensor,
    height: Callable[[Tensor], Tensor],
    least: Tensor | float = LEAST_STD,
    before: Sequence[Stage] = (),
) -> tuple[Places, list[Stage]]:
    """`count` places, from one or as many, and the last stages; `units` [stage, point, parameter].

    `height` gives the log posterior of points [..., n, parameter], up to a constant. No place is
    narrower than `least`. A search that goes on has the stages `before`, whose heights may have
    changed since: their points show where to look first.
    """
    stages = list(before)
    places = _moved(start, count, stages, least) if stages else start
    for unit in units:
        points = places.spread(unit[: len(unit) // places.mean.shape[-2]])
        stages = [*stages[1 - KEPT :], Stage(places, points, height(points))]
        places = _moved(places, count, stages, least)
    return places, stages


def _moved(places: Places, count: int, stages: Sequence[Stage], least: Tensor | float) -> Places:
    """To where the points of all stages weigh most, as drawn from the mixture of all of them."""
    points = torch.cat([each.points for each in stages], -2)
    height = torch.cat([each.height for each in stages], -1)
    spread = [
        each.places.log_density(points, WIDENED).logsumexp(-2)
        - math.log(each.places.mean.shape[-2])
        for each in stages
    ]
    enough = EFFECTIVE * stages[0].points.shape[-2]
    log_weight = tempered(height - torch.stack(spread).logsumexp(0), enough)
    if places.mean.shape[-2] == count:
        shares = places.log_weight[..., None] + places.log_density(points)
        shares = shares.log_softmax(-2)
    else:
        shares = torch.where(cut(points, log_weight, count), 0.0, NEVER)
    found = fitted(points, log_weight, shares)
    return found._replace(std=found.std.clamp_min(least))


def tempered(log_weight: Tensor, least: float) -> Tensor:
    """Log weights [..., n] raised to the power, at most one, at which `least` of them count."""
    log_weight = (log_weight - log_weight.amax(-1, keepdim=True)).clamp_min(NEVER)
    high = torch.zeros_like(log_weight[..., :1])
    low = power = high + LEAST_LOG_POWER
    for _ in range(HALVINGS):
        # The first try is the power of one itself.
        power = high if power is low else 0.5 * (low + high)
        effective = 1 / (power.exp() * log_weight).softmax(-1).square().sum(-1, keepdim=True)
        enough = effective >= least
        low, high = torch.where(enough, power, low), torch.where(enough, high, power)
    return (low.exp() * log_weight).log_softmax(-1)


def fitted(points: Tensor, log_weight: Tensor, log_share: Tensor) -> Places:
    """Of weighed points [..., n, parameter], what belongs to each place, by [..., place, n]."""
    weight = (log_weight[..., None, :] + log_share).exp()
    mass = weight.sum(-1)
    share = weight / mass.clamp_min(1e-30)[..., None]
    mean = share @ points
    square = (share[..., None] * (points[..., None, :, :] - mean[..., None, :]).square()).sum(-2)
    std = LOOSENED * square.clamp_min(TINY).sqrt()
    return Places(mass.clamp_min(LIGHTEST).log().log_softmax(-1), mean, std)


def cut(points: Tensor, log_weight: Tensor, count: int) -> Tensor:
    """Weighed points [..., n, parameter] on `count` sides, bool [..., side, n].

    They are cut in two across the direction of their largest spread, then each side again.
    """
    sides = torch.ones_like(log_weight[..., None, :], dtype=torch.bool)
    while sides.shape[-2] < count:
        weight = (log_weight[..., None, :] + torch.where(sides, 0.0, NEVER)).softmax(-1)[..., None]
        away = points[..., None, :, :] - (weight * points[..., None, :, :]).sum(-2, keepdim=True)
        direction = _largest_spread((weight * away).mT @ away)
        is_above = (away @ direction[..., None])[..., 0] > 0
        sides = torch.cat([sides & is_above, sides & ~is_above], -2)
    return sides


def _largest_spread(covariance: Tensor) -> Tensor:
    """The direction [..., n] of the largest variance of a covariance [..., n, n], roughly.

    It begins with alternating signs, as parameters that may change places differ so.
    """
    count = covariance.shape[-1]
    signs = 1.0 - 2.0 * (torch.arange(count) % 2) + 0.1 * torch.arange(count)
    direction = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(1e-12).sqrt() * signs
    for _ in range(TURNS):
        direction = (covariance @ direction[..., None])[..., 0]
        length = direction.square().sum(-1, keepdim=True).sqrt()
        direction = direction / length.clamp_min(1e-9)
    return direction
