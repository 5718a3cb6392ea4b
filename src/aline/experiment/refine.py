"""Draws from the exact posterior, where the likelihood is known: q begins, the likelihood judges.

q may know each parameter only for itself, and be too wide. Draws from it are carried over to the
posterior through distributions in between, q^(1-b) p^b with b from 0 to 1 (sequential Monte
Carlo): at each the draws are weighed, chosen anew by their weights, and moved about (Metropolis,
with steps shaped like the cloud of draws) so that none is a mere copy. Where q is right already,
one step does it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from aline.episodes import Context
from aline.errors import InputError
from aline.model import Joint, Network
from aline.policies.importance import tempering_power
from aline.spaces.outcomes import Mixture
from aline.tasks import Task

DRAWS = 2048
FEWEST = 10  # draws that must be possible at all, a parameter and one
LEAST = 0.5  # share of the draws that count at each step
SWEEPS = 10  # moves of every draw at each step
LAST = 20  # and at the last
FIFTH = 0.5067  # standard deviations that a fifth of a normal's mass takes in its middle
ACCEPTED = 0.3  # share of the moves to aim at
_NEVER = -1e30


class Draws(NamedTuple):
    """Of a posterior, all equally likely."""

    z: Tensor  # [draw, parameter] on the network's scale
    effective: float  # share of q's own draws that count under the posterior; 1 if q is exact


def smoothed(z: Tensor) -> Mixture:
    """The density of draws [draw, parameter]: a normal around each, as a mixture [parameter, draw].

    As wide as the number of draws calls for (Silverman's rule), and the draws first drawn together
    by as much, so that smoothing does not widen the whole.
    """
    columns = z.T.contiguous()
    count = columns.shape[1]
    centre, spread = columns.mean(1, keepdim=True), columns.std(1, keepdim=True).clamp_min(1e-9)
    # One of several peaks may be much narrower than the whole: look where a fifth of all lies.
    ordered, fifth = columns.sort(1).values, max(1, count // 5)
    window = (ordered[:, fifth:] - ordered[:, :-fifth]).amin(1, keepdim=True)
    narrow = torch.minimum(spread, window / FIFTH).clamp_min(1e-3 * spread)
    width = 0.9 * count**-0.2 * narrow
    mean = centre + (1 - (width / spread).square()).sqrt() * (columns - centre)
    return Mixture(torch.full_like(mean, -math.log(count)), mean, width.expand_as(mean))


class _Cloud(NamedTuple):
    """Draws with their log densities, [draw] each, under q and, up to a constant, the posterior."""

    z: Tensor
    q: Tensor
    p: Tensor

    def take(self, index: Tensor) -> _Cloud:
        return _Cloud(*(part[index] for part in self))

    def at(self, share: float) -> Tensor:
        """Under the distribution so far between q and the posterior."""
        return (1 - share) * self.q + share * self.p


def can_refine(task: Task) -> bool:
    """Whether a task has parameters and knows their likelihood."""
    known = task.log_likelihood is not None and task.latent is None
    return known and len(task.spec.parameters) > 0


class _Independent:
    """q that knows each parameter [parameter] by itself."""

    def __init__(self, q: Mixture):
        self._q = Mixture(*(part.double() for part in (q.log_weight, q.mean, q.std)))

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        return self._q.sample(count, generator)

    def log_prob(self, z: Tensor) -> Tensor:
        return self._q.log_prob(z).sum(-1)


class _Together:
    """q that knows all parameters together, of one episode."""

    def __init__(self, q: Joint):
        self._q = q

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        return self._q.sample(count, generator)[0, 0].double()

    def log_prob(self, z: Tensor) -> Tensor:
        return self._q.log_prob(z[None, None].float())[0, 0].double()


def proposal_of(network: Network, marginals: Mixture, seen: Context) -> Mixture | Joint:
    """What to refine: the joint posterior where a network has one, else its marginals."""
    if network.conditional is None:
        return marginals
    with torch.no_grad():
        return network.joint(network.encode(seen))


class Refiner:
    """Draws from the posterior of a task, given what was seen and what q makes of it."""

    def __init__(self, task: Task, q: Mixture | Joint, seen: Context):
        """For q, marginals [parameter] or joint, and observations of one episode, [1, n]."""
        self.task, self.seen = task, seen
        self.q = _Together(q) if isinstance(q, Joint) else _Independent(q)

    @torch.no_grad()
    def draw(self, generator: torch.Generator, count: int = DRAWS) -> Draws:
        """`count` of them."""
        cloud = self._measure(self.q.sample(count, generator))
        effective = _effective(cloud.p - cloud.q) / count
        share = 0.0
        while share < 1:
            possible = int((cloud.p > _NEVER).sum())
            if possible < FEWEST * (cloud.z.shape[1] + 1):
                raise InputError(
                    f"only {possible} of {count} draws of the network's posterior could have given "
                    f"the data: check the log_likelihood of task {self.task.spec.name}, or train "
                    "it longer"
                )
            gain = (1 - share) * (cloud.p - cloud.q)
            power = tempering_power(gain[None], LEAST * possible)[0, 0]
            share = 1.0 if power == 1 else share + float(power) * (1 - share)
            chosen = _spread((power * gain).softmax(0), generator)
            cloud = self._move(cloud.take(chosen), share, generator)
        return Draws(cloud.z, effective)

    def _move(self, cloud: _Cloud, share: float, generator: torch.Generator) -> _Cloud:
        """Metropolis steps with the distribution at `share` as their limit."""
        count, size = cloud.z.shape
        shape = torch.linalg.cholesky(_covariance(cloud.z))
        width = 2.38 / math.sqrt(size)
        for _ in range(SWEEPS if share < 1 else LAST):
            # Some far, some near: clouds that bend, or fall apart, need both.
            far = width * torch.rand(count, 1, generator=generator).double().sqrt()
            step = torch.randn(count, size, generator=generator).double() @ shape.T
            tried = self._measure(cloud.z + far * step, share)
            luck = torch.rand(count, generator=generator).double().log()
            better = luck < tried.at(share) - cloud.at(share)
            cloud = _Cloud(
                torch.where(better[:, None], tried.z, cloud.z),
                torch.where(better, tried.q, cloud.q),
                torch.where(better, tried.p, cloud.p),
            )
            width *= math.exp(float(better.double().mean()) - ACCEPTED)
        return cloud

    def _measure(self, z: Tensor, share: float = 0.0) -> _Cloud:
        fit = self.task.log_prob(z, self.seen.designs.double(), self.seen.outcomes.double())
        p = fit.sum(-1) - 0.5 * z.square().sum(-1)
        # At the posterior q counts no more, and a joint one takes longer than the likelihood.
        q = self.q.log_prob(z) if share < 1 else torch.zeros_like(p)
        # What cannot be, or leaves the numbers, is very unlikely.
        return _Cloud(z, q, p.nan_to_num(_NEVER, _NEVER, _NEVER))


def _effective(log_weight: Tensor) -> float:
    return float(1 / log_weight.softmax(0).square().sum())


def _covariance(z: Tensor) -> Tensor:
    """Of draws [draw, parameter], never singular."""
    spread = (z - z.mean(0)).T @ (z - z.mean(0)) / len(z)
    return spread + 1e-6 * spread.diagonal().clamp_min(1e-12).diag()


def _spread(weight: Tensor, generator: torch.Generator) -> Tensor:
    """As many indices as weights [draw], each as often as its weight says, but for rounding."""
    count = len(weight)
    at = (torch.arange(count) + torch.rand(1, generator=generator).double()) / count
    return torch.searchsorted(weight.cumsum(0), at).clamp(max=count - 1)
