"""Where the posterior may lie: a few guesses about all parameters together.

A posterior may have several modes: two sources may change places, a frequency may be mistaken for
its multiple. One mean and one spread then describe none of them. Each guess is a place of its own,
which a learned likelihood can look at, compare with the others and improve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from aline.model.advice import Frame
from aline.spaces.outcomes.mixture import STD_FLOOR, Mixture

POINTS = 8  # for each parameter, at which the learned likelihood looks for places
TURNS = 4  # of the power method that finds the direction in which points differ most
LIGHTEST = -20.0  # a side's log mass, below which there is nothing
CLOSEST = 0.2  # the least spread of a side, in units of what the points were spread by


@dataclass(frozen=True)
class Guesses:
    """A mixture of guesses; within a guess each parameter is a mixture by itself."""

    log_weight: Tensor  # [batch, group, guess]
    parts: Mixture  # [batch, group, guess, parameter]

    @classmethod
    def single(cls, belief: Mixture) -> Guesses:
        """One guess, of a belief [batch, group, parameter]."""
        none = belief.log_weight.new_zeros(())
        return cls(none.expand(*belief.shape[:2], 1), belief.unsqueeze(2))

    @cached_property
    def marginals(self) -> Mixture:
        """Of each parameter, [batch, group, parameter]."""
        if self.parts.mean.shape[2] == 1:
            return self.parts[:, :, 0]
        parts = self.parts
        weighed = replace(parts, log_weight=parts.log_weight + self.log_weight[..., None, None])
        return weighed.each(lambda part: part.movedim(2, -2).flatten(-2))

    @cached_property
    def frame(self) -> Frame:
        """Means and standard deviations [batch, group, guess, parameter]; no gradient passes."""
        return moments_of(self.parts)

    def detached(self) -> Guesses:
        """Without gradients."""
        return Guesses(self.log_weight.detach(), self.parts.each(Tensor.detach))

    def group(self, index: int) -> Guesses:
        """Of one group."""
        return Guesses(self.log_weight[:, index, None], self.parts[:, index, None])

    def each_alone(self) -> list[Guesses]:
        """Every guess as if there were no other."""
        count, none = self.log_weight.shape[-1], torch.zeros_like(self.log_weight[..., :1])
        return [Guesses(none, self.parts[:, :, i, None]) for i in range(count)]

    def log_prob(self, theta: Tensor) -> Tensor:
        """Log density of all parameters, theta [batch, group, draw, parameter]."""
        inside = self.parts.unsqueeze(2).log_prob(theta[:, :, :, None]).sum(-1)
        return (self.log_weight[:, :, None] + inside).logsumexp(-1)

    def given(self, values: Tensor, mask: Tensor) -> Tensor:
        """Log weights [batch, group, guess, n] given values [batch, group, n, parameter].

        Only those count where `mask` says so.
        """
        inside = self.parts.unsqueeze(3).log_prob(values[:, :, None])
        found = self.log_weight[..., None] + inside.masked_fill(~mask[:, :, None], 0.0).sum(-1)
        return found.log_softmax(2)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [batch, group, draw, parameter]."""
        drawn = self.parts.sample(count, generator).movedim(0, 3)
        weight = self.log_weight.exp()
        pick = torch.multinomial(weight.flatten(0, 1), count, True, generator=generator)
        index = pick.view(*weight.shape[:2], 1, count, 1)
        return drawn.gather(2, index.expand(-1, -1, -1, -1, drawn.shape[-1]))[:, :, 0]


def spread_points(parameters: int) -> Tensor:
    """Points [n, parameter] that lie as a standard normal does, evenly: a Sobol sequence."""
    drawn = torch.quasirandom.SobolEngine(parameters).draw(1 + POINTS * parameters)[1:]
    return torch.special.ndtri(drawn.clamp(0.005, 0.995))


def two_sides(points: Tensor, log_weight: Tensor) -> tuple[Tensor, Frame]:
    """Weighed points [..., n, parameter], cut in two across the direction of their largest spread.

    Of the two sides the log masses [..., 2], means and standard deviations [..., 2, parameter].
    """
    weight = log_weight.softmax(-1)[..., None]
    away = points - (weight * points).sum(-2, keepdim=True)
    direction = _largest_spread((weight * away).mT @ away)
    is_above = (away @ direction[..., None])[..., 0] > 0
    sides = torch.stack([is_above, ~is_above], -2)
    parts = log_weight.log_softmax(-1)[..., None, :].masked_fill(~sides, 2 * LIGHTEST)
    share = parts.softmax(-1)[..., None]
    mean = (share * points[..., None, :, :]).sum(-2)
    square = (share * (points[..., None, :, :] - mean[..., None, :]).square()).sum(-2)
    mass = parts.exp().sum(-1).log().clamp_min(LIGHTEST).log_softmax(-1)
    return mass, Frame(mean, square.clamp_min(CLOSEST**2).sqrt())


def _largest_spread(covariance: Tensor) -> Tensor:
    """The direction [..., n] of the largest variance of a covariance [..., n, n], roughly.

    It begins with alternating signs, as parameters that may change places differ so.
    """
    count = covariance.shape[-1]
    signs = 1.0 - 2.0 * (torch.arange(count) % 2) + 0.1 * torch.arange(count)
    direction = covariance.diagonal(dim1=-2, dim2=-1).sqrt() * signs
    for _ in range(TURNS):
        direction = (covariance @ direction[..., None])[..., 0]
        length = direction.square().sum(-1, keepdim=True).sqrt()
        direction = direction / length.clamp_min(1e-9)
    return direction


def moments_of(belief: Mixture) -> Frame:
    """Means and standard deviations, as a frame that passes no gradient."""
    mean, std = belief.moments()
    return Frame(mean.detach(), std.detach().clamp_min(STD_FLOOR))
