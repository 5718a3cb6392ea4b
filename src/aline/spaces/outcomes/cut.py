"""Beliefs about parameters of which some are one of a few values.

On the network's scale a discrete parameter is a number, too, whose prior N(0, 1) is cut into a cell
for each value. Data cannot tell numbers of one cell apart: there the posterior has the prior's
shape. So all that counts of a mixture about such a parameter is how much of it lies in each cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from aline.spaces.outcomes.mixture import LOG_SQRT_2PI, Mixture, log_ndtr

NEVER = 60.0  # of the log odds of a value, either way
END = 1e3  # nothing lies beyond; infinity has no gradient
_ALIKE = -1e-6  # log of a ratio of tails that differ by rounding alone


class Cells:
    """The cells of each parameter, in float32 as the network is; a continuous one has none."""

    def __init__(self, probabilities: Sequence[Sequence[float] | None]):
        most = max(len(p) for p in probabilities if p is not None)
        whole = torch.zeros(len(probabilities), most, dtype=torch.float64)
        for row, given in zip(whole, probabilities, strict=True):
            row[: len(given or [1.0])] = torch.tensor(given or [1.0])
        self.is_discrete = torch.tensor([given is not None for given in probabilities])
        cumulated = whole.cumsum(-1).clamp(max=1.0)
        cuts = torch.special.ndtri(cumulated[:, :-1]).clamp(-END, END)
        ends = torch.full_like(cuts[:, :1], END)
        edges = torch.cat([-ends, cuts, ends], -1)
        height = (-0.5 * edges.square() - LOG_SQRT_2PI).exp()
        share = whole.clamp_min(1e-30)
        centres = torch.special.ndtri((cumulated - 0.5 * whole).clamp(1e-9, 1 - 1e-9))
        self.edges = edges.float()  # [parameter, value + 1]
        self.below = (cumulated - whole).float()  # [parameter, value]: the prior below a cell
        self.share = share.float()  # the same: the prior in it
        self.mean = ((height[:, :-1] - height[:, 1:]) / share).float()  # the same: its mean there
        self.cuts = cuts.float()  # [parameter, value - 1]
        counts = [len(given or [1.0]) for given in probabilities]
        self.medians = [row[:n].float() for row, n in zip(centres, counts, strict=True)]
        self.first = centres[:, 0].float()
        self.jumps = centres.diff().masked_fill(whole[:, 1:] == 0, 0.0).float()
        self.apart = self.jumps.amax(-1)  # [parameter]: no two neighbours are farther apart

    def settle(self, z: Tensor) -> Tensor:
        """Numbers [..., parameter] with all those of a cell at its median."""
        above = z[..., None] > self.cuts.to(z.dtype)
        settled = self.first.to(z.dtype) + (above * self.jumps.to(z.dtype)).sum(-1)
        return torch.where(self.is_discrete, settled, z)

    def log_odds(self, log_prior: Tensor, column: Tensor) -> Tensor:
        """Of chosen priors [..., value] over the task's own."""
        share = self.share[column].clamp_min(1e-30)
        return (log_prior - share.log()).clamp(-NEVER, NEVER).masked_fill(share < 1e-20, 0.0)

    def redraw(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """Numbers [..., parameter] of the same values, drawn as the prior has them there."""
        place = (z[..., None] > self.cuts.to(z.dtype)).sum(-1)
        drawn = self.inside(torch.arange(z.shape[-1]), place, generator)
        return torch.where(self.is_discrete, drawn.to(z.dtype), z)

    def inside(self, column: Tensor, place: Tensor, generator: torch.Generator) -> Tensor:
        """Numbers [...] from the cells at these places, drawn as the prior has them there."""
        low, high = self.edges[column, place], self.edges[column, place + 1]
        luck = torch.rand(low.shape, generator=generator)
        reached = self.below[column, place] + luck * self.share[column, place]
        z = torch.special.ndtri(reached.clamp(1e-7, 1 - 1e-7))
        return torch.minimum(torch.maximum(z, low + 1e-6), high)


@dataclass(frozen=True)
class CutMixture(Mixture):
    """A mixture for each parameter; of a discrete one, only its mass in each cell counts."""

    column: Tensor  # [..., 1]: which parameter it is about
    log_odds: Tensor  # [..., value]: of each value's prior over the task's own, up to a constant
    cells: Cells

    @property
    def is_discrete(self) -> Tensor:
        """Whether each target [...] is about a discrete parameter."""
        return self._of(self.cells.is_discrete)

    def _of(self, constants: Tensor) -> Tensor:
        """Constants of each parameter, as those of each target."""
        found = constants[self.column[..., 0].long()]
        return found.to(self.mean.dtype) if found.is_floating_point() else found

    @cached_property
    def log_mass(self) -> Tensor:
        """Log probability of each value, [..., value]."""
        edges = self._of(self.cells.edges)[..., None]
        t = (edges - self.mean[..., None, :]) / self.std[..., None, :]
        below, above = log_ndtr(t), log_ndtr(-t)
        # In the upper tail a difference of numbers near one has no digits left.
        is_upper = t[..., :-1, :] + t[..., 1:, :] > 0
        most = torch.where(is_upper, above[..., :-1, :], below[..., 1:, :])
        least = torch.where(is_upper, above[..., 1:, :], below[..., :-1, :])
        inside = most + torch.log1p(-(least - most).clamp(max=_ALIKE).exp())
        return ((self.log_weight[..., None, :] + inside).logsumexp(-1) + self.log_odds).log_softmax(
            -1
        )

    def probabilities(self) -> Tensor:
        """Of each value, [..., value]."""
        return self.log_mass.exp()

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density of value [...]."""
        density = super().log_prob(value)
        at = self._cell(value)
        inside = at(self.log_mass) - at(self._of(self.cells.share)).log()
        return torch.where(self.is_discrete, inside - 0.5 * value * value - LOG_SQRT_2PI, density)

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of at most value [...]."""
        at, mass = self._cell(value), self.probabilities()
        share = (torch.special.ndtr(value) - at(self._of(self.cells.below))) / at(
            self._of(self.cells.share)
        )
        reached = at(mass.cumsum(-1) - mass) + at(mass) * share.clamp(0.0, 1.0)
        return torch.where(self.is_discrete, reached, super().cdf(value))

    def _cell(self, value: Tensor) -> Callable[[Tensor], Tensor]:
        """What picks, of numbers [..., value] of each cell, those of the values' cells."""
        shape = torch.broadcast_shapes(value.shape, self.shape)
        cuts = self._of(self.cells.cuts)
        place = (value[..., None] > cuts).sum(-1, keepdim=True).expand(*shape, 1)
        return lambda each: each.expand(*shape, -1).gather(-1, place)[..., 0]

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [count, ...], independent across targets."""
        drawn = super().sample(count, generator)
        mass = self.probabilities()
        place = torch.multinomial(
            mass.reshape(-1, mass.shape[-1]), count, True, generator=generator
        )
        column, place = self.column[..., 0].long(), place.T.reshape(count, *self.shape)
        inside = self.cells.inside(column, place, generator).to(drawn.dtype)
        return torch.where(self.is_discrete, inside, drawn)

    @cached_property
    def kept_moments(self) -> tuple[Tensor, Tensor]:
        """Of a discrete parameter, its mean, and how far apart neighbouring values lie.

        So a step from the mean reaches another value, however sure the belief is.
        """
        mean, std = self.plain().moments()
        of_cells = (self.probabilities() * self._of(self.cells.mean)).sum(-1)
        return (
            torch.where(self.is_discrete, of_cells, mean),
            torch.where(self.is_discrete, self._of(self.cells.apart), std),
        )
