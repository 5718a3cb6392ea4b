"""Draws from the exact posterior after many trials, in bounded time.

Moving draws about asks the likelihood of all data a hundred times. After hundreds of trials that
takes minutes. Here some of the trials, evenly spread, come first: they cost little, and their
posterior lies around that of all. Then a few rounds: new draws around the old ones, weighed by the
likelihood of all data, and chosen by their weights, by a power of them at first
(population Monte Carlo). The longer the data, the fewer the draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from aline.episodes import Context
from aline.errors import InputError
from aline.experiment.refine import DRAWS, LEAST, Draws, Refiner, chosen, covariance, effective
from aline.policies.importance import tempering_power

SHORT = 128  # observations up to which draws are moved about
WORK = 6_000_000  # likelihoods of one observation that a round of all draws may take
FEWEST = 256  # draws, whatever the data
BEGIN = 2048  # draws of the posterior given some observations
PART = 4  # of the draws do for a round that is not the last
ROUNDS = 12


class Around(NamedTuple):
    """A density: a normal around each of some draws, shaped like their cloud."""

    centre: Tensor  # [draw, parameter]
    root: Tensor  # of the cloud's covariance, [parameter, parameter]
    width: float  # of each normal, in units of the cloud's

    @classmethod
    def of(cls, z: Tensor) -> Around:
        """As wide as the number of draws calls for (Silverman's rule)."""
        count, size = z.shape
        root = torch.linalg.cholesky(covariance(z))
        return cls(z, root, (4 / (size + 2) / count) ** (1 / (size + 4)))

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [count, parameter]."""
        pick = torch.randint(len(self.centre), (count,), generator=generator)
        step = torch.randn(count, self.centre.shape[1], generator=generator).to(self.centre.dtype)
        return self.centre[pick] + self.width * step @ self.root.T

    def log_prob(self, z: Tensor) -> Tensor:
        """The log density [n] of values [n, parameter]."""
        middle, size = self.centre.mean(0), self.centre.shape[1]
        known, asked = (
            torch.linalg.solve_triangular(self.root, (part - middle).mT, upper=False).mT
            for part in (self.centre, z)
        )
        apart = torch.cdist(asked, known) / self.width
        norm = (
            size * math.log(self.width * math.sqrt(2 * math.pi)) + self.root.diagonal().log().sum()
        )
        density: Tensor = (-0.5 * apart.square()).logsumexp(1) - math.log(len(known)) - norm
        return density


def draw_posterior(
    refiner_of: Callable[[Context], Refiner], seen: Context, generator: torch.Generator
) -> Draws:
    """Draws given observations [1, n] of one episode, however many."""
    if seen.length <= SHORT:
        return refiner_of(seen).draw(generator)
    return _from_some(refiner_of(thinned(seen, SHORT)), refiner_of(seen), generator)


def thinned(seen: Context, most: int) -> Context:
    """At most so many observations, evenly spread over all."""
    rows = torch.linspace(0, seen.length - 1, min(most, seen.length)).round().long()
    return Context(seen.designs[:, rows], seen.outcomes[:, rows], prior=seen.prior)


@torch.no_grad()
def _from_some(some: Refiner, whole: Refiner, generator: torch.Generator) -> Draws:
    """Draws of the posterior given some observations, carried over to that given all."""
    n, first = whole.seen.length, some.draw(generator, BEGIN)
    count = min(DRAWS, max(FEWEST, WORK // n))
    few = max(FEWEST, count // PART)
    own = whole.measure(whole.q.sample(few, generator))
    z, power, rounds = first.z[:few], 0.0, 0
    while power < 1:
        if rounds == ROUNDS:
            raise InputError(
                f"after {ROUNDS} rounds the draws still do not reach the posterior of {n} trials: "
                f"check the log_likelihood of task {whole.task.spec.name}, or use fewer trials"
            )
        z, power = _round(whole, z, few, generator)
        rounds += 1
    z, _ = _round(whole, z, count, generator)
    how = (
        f"{count} draws by the likelihood of all {n} trials, begun at the posterior given "
        f"{some.seen.length} of them, in {rounds + 1} rounds"
    )
    return Draws(z, effective(own.p - own.q) / few, how)


def _round(
    whole: Refiner, z: Tensor, count: int, generator: torch.Generator
) -> tuple[Tensor, float]:
    """New draws around old ones, and the power of their weights that they were chosen by."""
    around = Around.of(z)
    tried = whole.measure(around.sample(count, generator))
    gain = tried.p - around.log_prob(tried.z)
    power = float(tempering_power(gain[None], LEAST * count)[0, 0])
    return tried.z[chosen((power * gain).softmax(0), count, generator)], power
