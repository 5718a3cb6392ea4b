"""Draws of a Gaussian process's hyperparameters, given outcomes.

A process has a lengthscale for each input, a scale and a noise, and a kind of kernel. Some draws of
them, each with its weight, stand for all that the data leave open. As outcomes arrive the weights
change; before few draws count, the heavy ones are copied and each is moved along the posterior by
Hamiltonian steps, so that no two stay the same (a sequential Monte Carlo sampler).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from aline.functions.kernels import KINDS, Kernels, Shapes, fill_cube

USED = ("rbf", "rbf", "matern52")  # kinds of kernels: most functions that people bring are smooth
LENGTHSCALE = (0.7, 1.5)  # of inputs in [0, 1], times the root of their number: middle, log spread
SCALE = (2.0, 1.2)  # of a function, in deviations of its outcomes
NOISE = (0.01, 1.7)  # of an outcome, likewise
LEAST_RATIO = 1e-8  # of the noise's variance over the function's: a factor would not bear less
EDGE = 0.01  # shares of a prior's mass beyond which no draw begins
JUMPS = 6  # before a trajectory, each of one hyperparameter
LEAST_SPREAD = 0.1  # of draws, by which a trajectory's steps are measured: copies have none
LEAPS = 10  # steps of a trajectory
ACCEPTED = 0.7  # share of trajectories, by which their steps are made longer or shorter


@dataclass(frozen=True)
class Prior:
    """Of the logs of lengthscales [input], scale and noise: normal and independent."""

    middle: Tensor  # [hyperparameter]
    spread: Tensor  # [hyperparameter]

    @classmethod
    def of(cls, inputs: int, noise: float | None = None) -> Prior:
        """For inputs in [0, 1] and standardised outcomes, whose noise may be known."""
        parts = [LENGTHSCALE] * inputs + [SCALE, NOISE if noise is None else (noise, 1e-6)]
        middle, spread = torch.tensor(parts, dtype=torch.float64).unbind(1)
        middle = middle.log()
        middle[:inputs] += 0.5 * math.log(inputs)
        return cls(middle, spread)

    def values(self, z: Tensor) -> Hyperparameters:
        """From standard normal numbers [draw, hyperparameter]."""
        every = (self.middle + self.spread * z).exp()
        return Hyperparameters(every[:, :-2], every[:, -2], every[:, -1])


class Hyperparameters(NamedTuple):
    """Those of each draw."""

    lengthscale: Tensor  # [draw, input]
    scale: Tensor  # [draw], the function's standard deviation
    noise: Tensor  # [draw], likewise the outcomes' about it

    @property
    def ratio(self) -> Tensor:
        """Of variances, [draw]."""
        return (self.noise / self.scale).square() + LEAST_RATIO

    def kernels(self, kind: Tensor, owner: Tensor) -> Kernels:
        """Of kinds [draw]; columns [column] that belong to one input share its lengthscale."""
        return Kernels.of(kind, self.lengthscale[:, owner], self.ratio)


@dataclass(frozen=True)
class LogPosterior:
    """How likely outcomes are under hyperparameters: what draws climb."""

    apart: Tensor  # [input, n * n], squared distances
    outcomes: Tensor  # [n], standardised
    prior: Prior

    @classmethod
    def of(cls, x: Tensor, owner: Tensor, outcomes: Tensor, prior: Prior) -> LogPosterior:
        """For rows x [n, column], whose columns belong to inputs `owner` [column]."""
        squares = (x.mT[:, :, None] - x.mT[:, None]).square_().flatten(1)
        zero = squares.new_zeros(int(owner.max()) + 1, squares.shape[1])
        return cls(zero.index_add_(0, owner, squares), outcomes, prior)

    def first(self, count: int) -> LogPosterior:
        """Of fewer outcomes."""
        whole = len(self.outcomes)
        apart = self.apart.view(-1, whole, whole)[:, :count, :count].flatten(1)
        return replace(self, apart=apart, outcomes=self.outcomes[:count])

    def log_likelihood(self, z: Tensor, kind: Tensor) -> Tensor:
        """Of the outcomes [draw], but for a constant."""
        return self.log_posterior(z, kind)[0] + 0.5 * z.square().sum(1)

    def log_posterior(self, z: Tensor, kind: Tensor) -> tuple[Tensor, Tensor]:
        """At z [draw, hyperparameter]: its log [draw], but for a constant, and its gradient."""
        values, shapes = self.prior.values(z), Shapes.of(kind, z.dtype)
        count = len(self.outcomes)
        rate = shapes.factor / values.lengthscale.square()
        square = rate @ self.apart
        matrix = shapes.covariance(square).view(len(z), count, count)
        matrix.diagonal(dim1=1, dim2=2).add_(values.ratio[:, None])
        factor, failed = torch.linalg.cholesky_ex(matrix)
        failed = failed > 0
        factor[failed] = torch.eye(count, dtype=z.dtype)
        solved = Solved.of(factor, self.outcomes, values)
        slope = torch.cat(
            [
                -2 * rate * (solved.residual * shapes.slope(square) @ self.apart.mT),
                (solved.fit - count - solved.by_noise)[:, None],
                solved.by_noise[:, None],
            ],
            1,
        )
        value = solved.log_density - 0.5 * z.square().sum(1)
        gradient = torch.where(failed[:, None], 0.0, slope * self.prior.spread) - z
        return torch.where(failed, -torch.inf, value), gradient


class Solved(NamedTuple):
    """Outcomes over the covariance of each draw, whose variance is taken out."""

    fit: Tensor  # [draw]
    log_density: Tensor  # [draw], of the outcomes, but for a constant
    residual: Tensor  # [draw, n * n], by which the density grows with the covariance
    by_noise: Tensor  # [draw], by which it grows with the log of the noise

    @classmethod
    def of(cls, factor: Tensor, outcomes: Tensor, values: Hyperparameters) -> Solved:
        """By factors [draw, n, n]."""
        inverse, variance = torch.cholesky_inverse(factor), values.scale.square()
        weights = inverse @ outcomes
        fit = weights @ outcomes / variance
        log_root = factor.diagonal(dim1=1, dim2=2).log().sum(1)
        outer = weights[:, :, None] * weights[:, None] / variance[:, None, None]
        residual = 0.5 * (outer - inverse)
        trace = residual.diagonal(dim1=1, dim2=2).sum(1)
        by_noise = 2 * trace * values.noise.square() / variance
        log_density = -0.5 * fit - log_root - len(outcomes) * values.scale.log()
        return cls(fit, log_density, residual.flatten(1), by_noise)


@dataclass(frozen=True)
class Draws:
    """Hyperparameters, as standard normal numbers, and kinds of kernels."""

    z: Tensor  # [draw, hyperparameter]
    kind: Tensor  # [draw], of KINDS
    step: float = 0.3  # of a trajectory, in deviations of the draws

    @classmethod
    def from_prior(cls, hyperparameters: int, count: int) -> Draws:
        """Evenly spread."""
        share = fill_cube(count, hyperparameters).double()
        kind = _kinds(torch.arange(count) % len(USED))
        return cls(torch.special.ndtri(EDGE + (1 - 2 * EDGE) * share), kind)

    def resampled(self, weight: Tensor, count: int, generator: torch.Generator) -> Draws:
        """As many, copied by their weights [draw]."""
        start = torch.rand((), generator=generator, dtype=weight.dtype)
        place = (torch.arange(count) + start) / count
        index = torch.searchsorted(weight.cumsum(0), place).clamp(max=len(weight) - 1)
        return replace(self, z=self.z[index], kind=self.kind[index])

    def rescaled(self, factor: float, old: Prior, new: Prior) -> Draws:
        """For outcomes that were multiplied by a factor, which a prior may know."""
        z = self.z.clone()
        scales = (old.middle + old.spread * z)[:, -2:] + math.log(factor)
        z[:, -2:] = (scales - new.middle[-2:]) / new.spread[-2:]
        return replace(self, z=z)

    def moved(self, evidence: LogPosterior, times: int, generator: torch.Generator) -> Draws:
        """Along some trajectories each, after some jumps."""
        draws = self
        for _ in range(times):
            draws = draws._jumped(evidence, generator)._along_trajectory(evidence, generator)
        return draws

    def _jumped(self, evidence: LogPosterior, generator: torch.Generator) -> Draws:
        """Out of modes that no trajectory leaves; a part of the prior is accepted by its fit."""
        draws, fit = self, evidence.log_likelihood(self.z, self.kind)
        for _ in range(JUMPS):
            other = draws._with_a_part_anew(generator)
            value = evidence.log_likelihood(other.z, other.kind)
            chance = torch.rand(len(fit), generator=generator, dtype=fit.dtype)
            accepted = chance.log() < value - fit
            fit = torch.where(accepted, value, fit)
            z = torch.where(accepted[:, None], other.z, draws.z)
            draws = replace(draws, z=z, kind=torch.where(accepted, other.kind, draws.kind))
        return draws

    def _with_a_part_anew(self, generator: torch.Generator) -> Draws:
        """One hyperparameter of each draw from the prior, or its kind."""
        count, hyperparameters = self.z.shape
        part = torch.randint(hyperparameters + 1, (count, 1), generator=generator)
        fresh = torch.randn(self.z.shape, generator=generator, dtype=self.z.dtype)
        z = torch.where(torch.arange(hyperparameters) == part, fresh, self.z)
        kinds = _kinds(torch.randint(len(USED), (count,), generator=generator))
        kind = torch.where(part[:, 0] == hyperparameters, kinds, self.kind)
        return replace(self, z=z, kind=kind)

    def _along_trajectory(self, evidence: LogPosterior, generator: torch.Generator) -> Draws:
        """Hamilton's equations by leaps, accepted by the energy that these gain."""
        step = self.step * self.z.std(0).clamp(LEAST_SPREAD, 1.0)
        z = self.z
        speed = torch.randn(z.shape, generator=generator, dtype=z.dtype)
        before, gradient = evidence.log_posterior(z, self.kind)
        energy = before - 0.5 * speed.square().sum(1)
        for _ in range(LEAPS):
            speed = speed + 0.5 * step * gradient
            z = z + step * speed
            value, gradient = evidence.log_posterior(z, self.kind)
            speed = speed + 0.5 * step * gradient
        gain = value - 0.5 * speed.square().sum(1) - energy
        chance = torch.rand(len(z), generator=generator, dtype=z.dtype)
        accepted = chance.log() < gain
        share = float(gain.clamp(max=0).exp().nan_to_num(0.0).mean())
        longer = min(max(self.step * math.exp(share - ACCEPTED), 0.02), 1.0)
        return replace(self, z=torch.where(accepted[:, None], z, self.z), step=longer)


def _kinds(place: Tensor) -> Tensor:
    """Kinds of kernels by their places in USED."""
    return torch.tensor([KINDS.index(name) for name in USED])[place]
