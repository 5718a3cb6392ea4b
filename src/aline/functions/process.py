"""A function of any number of inputs, and what outcomes say of it.

Some draws of a Gaussian process's hyperparameters (sampling.py), each with a factor of its own to
which an outcome more adds a row. Draws are made anew when outcomes have grown by a share, or before
too few of them count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from aline.episodes import Context
from aline.functions import ensemble
from aline.functions.ensemble import Posterior
from aline.functions.known_points import Memory
from aline.functions.sampling import Draws, Hyperparameters, LogPosterior, Prior
from aline.functions.units import Units

DRAWS = 16
FIRST, FIRST_DRAWS = 8, 64  # draws from the prior are chosen from, by that many outcomes
GROWTH, TRAJECTORIES = 1.5, 3  # outcomes over those before, where many come at once
STALE, FEWER = 1.1, 4  # likewise where they come one by one
EFFECTIVE = 0.5  # share of the draws that must count
SCORING = 4  # draws that choose: the others would change little


@dataclass(frozen=True)
class Measured:
    """Rows and their outcomes."""

    x: Tensor  # [n, column], about in [0, 1]
    y: Tensor  # [n], in the user's units
    owner: Tensor  # [column], the input that a column belongs to
    noise: float | None = None  # standard deviation in the user's units, where it is known

    def first(self, count: int) -> Measured:
        """Some of them."""
        return replace(self, x=self.x[:count], y=self.y[:count])

    def with_more(self, row: Tensor, outcome: Tensor) -> Measured:
        """With a row [column] more."""
        return replace(self, x=torch.cat([self.x, row[None]]), y=torch.cat([self.y, outcome[None]]))

    @cached_property
    def units(self) -> Units:
        """Of the outcomes."""
        return Units.of(self.y[None])

    @cached_property
    def prior(self) -> Prior:
        """Of hyperparameters, in these units."""
        scale = float(self.units.scale)
        return Prior.of(int(self.owner.max()) + 1, self.noise and self.noise / scale)

    @property
    def evidence(self) -> LogPosterior:
        """What they say of hyperparameters."""
        return LogPosterior.of(
            self.x, self.owner, self.units.standardise(self.y[None])[0], self.prior
        )


@dataclass
class Process:
    """What rows and their outcomes say of a function."""

    data: Measured
    known: Measured  # that the draws are made with: the first of them
    draws: Draws
    state: Posterior  # of each draw, for outcomes in the units of what is known
    generator: torch.Generator
    scored: Memory = field(default_factory=Memory)  # what was computed for choosing

    @classmethod
    def read(cls, data: Measured, generator: torch.Generator) -> Process:
        """Of a whole table."""
        whole, count = len(data.y), 0
        draws = Draws.from_prior(len(data.prior.middle), FIRST_DRAWS if whole else DRAWS)
        while count < whole:
            last, count = count, min(whole, max(FIRST, math.ceil(GROWTH * count)))
            parts = data.first(last), data.first(count)
            draws = _drawn_again(draws, *parts, TRAJECTORIES, generator)
        return cls._of(data, draws, generator)

    @classmethod
    def _of(cls, data: Measured, draws: Draws, generator: torch.Generator) -> Process:
        kernels = data.prior.values(draws.z).kernels(draws.kind, data.owner)
        context = Context(data.x[None], data.units.standardise(data.y[None]))
        return cls(data, data, draws, ensemble.read(kernels, context), generator)

    def extend(self, row: Tensor, outcome: Tensor) -> Process:
        """With one row [column] more."""
        data = self.data.with_more(row, outcome)
        if len(data.y) <= FIRST:
            return Process.read(data, self.generator)
        grown = self.supposing(row, outcome)
        if len(data.y) <= STALE * len(self.known.y) and grown.effective > EFFECTIVE:
            return grown
        draws = _drawn_again(self.draws, self.known, data, FEWER, self.generator)
        return Process._of(data, draws, self.generator)

    def supposing(self, row: Tensor, outcome: Tensor) -> Process:
        """Likewise, with the same draws."""
        standard = self.known.units.standardise(outcome[None, None])[:, 0]
        state = self.state.extend(row[None], standard)
        return replace(
            self,
            data=self.data.with_more(row, outcome),
            state=state,
            scored=self.scored.inherited(),
        )

    @cached_property
    def values(self) -> Hyperparameters:
        """Of the draws."""
        return self.known.prior.values(self.draws.z)

    @cached_property
    def weight(self) -> Tensor:
        """Of each draw, by the outcomes since it was made."""
        later = slice(len(self.known.y), None)
        squares = self.state.whitened[0, :, later].square() / self.values.scale.square()[:, None]
        roots = self.state.factor[0].diagonal(dim1=1, dim2=2)[:, later].log()
        each = 0.5 * squares + roots + self.values.scale.log()[:, None]
        return (-each.sum(1)).softmax(0)

    @property
    def effective(self) -> float:
        """The share of the draws that count."""
        return float(1 / self.weight.square().sum()) / len(self.weight)

    def moments(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [row] of outcomes at points [1, row, column]."""
        each, left = (part[0, :, 0] for part in self.state.moments(points))
        mean = self.weight @ each
        within = left * self.values.scale.square()[:, None]
        std = (self.weight @ (within + (each - mean).square())).sqrt()
        mean, std = self.known.units.restore(mean[None], std[None])
        return mean[0], std[0]

    def variance_reduction(self, candidates: Tensor, targets: Tensor) -> Tensor:
        """What an outcome at each candidate [1, row, column] takes of the variance at targets.

        Tensors that were passed before cost little: only what came since is computed.
        """
        some = torch.arange(0, len(self.weight), len(self.weight) // SCORING)
        state = self._scoring(some)
        own = state.unexplained(candidates)[0, :, 0]
        reduction = state.shared_covariance(candidates, targets)[0].square().sum(-1) / own
        return (self.weight[some] * self.values.scale[some].square()) @ reduction

    def _scoring(self, some: Tensor) -> Posterior:
        """Of some draws, going on from what they computed for fewer outcomes."""
        parts = {name: getattr(self.state, name)[:, some] for name in ("factor", "white")}
        kernels = self.state.kernels.part(some)
        return replace(self.state, kernels=kernels, memory=self.scored, **parts)


def _drawn_again(
    draws: Draws, before: Measured, data: Measured, trajectories: int, generator: torch.Generator
) -> Draws:
    """Draws that were made with the data before, made with more."""
    if len(before.y):
        factor = float(before.units.scale / data.units.scale)
        draws = draws.rescaled(factor, before.prior, data.prior)
    evidence = data.evidence
    now, then = (
        part.log_posterior(draws.z, draws.kind)[0]
        for part in (evidence, evidence.first(len(before.y)))
    )
    chosen = draws.resampled((now - then).softmax(0), DRAWS, generator)
    return chosen.moved(evidence, trajectories, generator)
