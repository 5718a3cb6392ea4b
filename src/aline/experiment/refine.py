"""Draws from the exact posterior p where the likelihood is known, starting from the network's q.

Where q is a product of marginals, possibly too wide, its draws are carried over to p through the
distributions q^(1-b) p^b with b from 0 to 1 (sequential Monte Carlo). At each, the draws are
weighted, resampled by their weights, and moved by Metropolis steps shaped like the cloud of draws,
so that none is a mere copy. Where q is already right, one step is enough.

A joint q is closer to p. Its draws are importance weighted, as many as are needed for enough
effective ones; intermediate distributions would evaluate the network at every move. Where q is too
far off for that, sequential Monte Carlo starts from its marginals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from aline.episodes import Context
from aline.errors import InputError
from aline.model import Joint, Network
from aline.policies.importance import tempering_power
from aline.spaces.outcomes import Mixture
from aline.tasks import Task

DRAWS = 4096  # smoothing them costs about 0.005 nats a parameter (benchmarks/refined.py)
FEWEST = 10  # draws of non-zero likelihood needed, times (parameters + 1)
LEAST = 0.5  # effective share of the draws at each step
SWEEPS = 10  # moves of every draw at each step
LAST = 20  # and at the last
MOST = 5  # times as many draws of a joint posterior that are weighed, if it takes that many
FIFTH = 0.5067  # standard deviations that a fifth of a normal's mass takes in its middle
NEIGHBOURS = 3  # draws to each side to which a draw's density reaches at least
ACCEPTED = 0.3  # share of the moves to aim at
PIECE = 128  # observations whose likelihood is computed at once, so that it stays in the cache
_NEVER = -1e30


class Draws(NamedTuple):
    """Of a posterior, all equally likely."""

    z: Tensor  # [draw, parameter] on the network's scale
    effective: float  # share of q's own draws that count under the posterior; 1 if q is exact
    how: str = ""  # how they were found, in words


def smoothed(z: Tensor) -> Mixture:
    """The density of draws [draw, parameter]: a normal around each, as a mixture [parameter, draw].

    As wide as the number of draws calls for (Silverman's rule), and the draws first drawn together
    by as much, so that smoothing does not widen the whole. Where draws are few, as in the tails,
    each is at least as wide as the way to a few neighbours: else the density between them would be
    nothing.
    """
    columns = z.T.contiguous()
    count = columns.shape[1]
    centre, spread = columns.mean(1, keepdim=True), columns.std(1, keepdim=True).clamp_min(1e-9)
    # One of several peaks may be much narrower than the whole: look where a fifth of all lies.
    (ordered, order), fifth = columns.sort(1), max(1, count // 5)
    window = (ordered[:, fifth:] - ordered[:, :-fifth]).amin(1, keepdim=True)
    narrow = torch.minimum(spread, window / FIFTH).clamp_min(1e-3 * spread)
    width = 0.9 * count**-0.2 * narrow
    mean = centre + (1 - (width / spread).square()).sqrt() * (columns - centre)
    reach = min(NEIGHBOURS, count - 1)
    steps = ordered[:, reach:] - ordered[:, : count - reach]
    # The nearer side counts: a draw at the edge of a peak does not reach over to the next one.
    ahead, behind = (F.pad(steps, pad, value=math.inf) for pad in ((0, reach), (reach, 0)))
    apart = torch.zeros_like(mean).scatter(1, order, torch.minimum(ahead, behind))
    return Mixture(torch.full_like(mean, -math.log(count)), mean, torch.maximum(width, apart))


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


def joint_of(network: Network, seen: Context) -> Joint | None:
    """The joint posterior given observations of one episode, [1, n], if a network has one."""
    if network.conditional is None:
        return None
    with torch.no_grad():
        return network.joint(network.encode(seen))


class Refiner:
    """Draws from the posterior of a task, given what was seen and what q makes of it."""

    def __init__(
        self,
        task: Task,
        q: Mixture,
        seen: Context,
        joint: Joint | None = None,
        correction: Callable[[Tensor], Tensor] | None = None,
    ):
        """For marginals q [parameter], and joint if known, of one episode's observations [1, n].

        `correction` is the log density [draw] of a prior over the normal that the context names.
        """
        self.task, self.seen, self.joint, self.correction = task, seen, joint, correction
        self.q = q.double()

    @torch.no_grad()
    def draw(self, generator: torch.Generator, count: int = DRAWS) -> Draws:
        """`count` of them."""
        if self.joint is None:
            return self._tempered(generator, count)
        cloud = self._together(self.joint, generator, count)
        share = effective(cloud.p - cloud.q) / count
        times = math.ceil(LEAST / share)
        if times > MOST or not self._is_enough(cloud):
            return self._tempered(generator, count)._replace(effective=share)
        more = [self._together(self.joint, generator, count) for _ in range(times - 1)]
        cloud = _Cloud(*(torch.cat(parts) for parts in zip(cloud, *more, strict=True)))
        kept = chosen((cloud.p - cloud.q).softmax(0), count, generator)
        how = f"{times * count} draws of the network's joint posterior, weighed by the likelihood"
        return Draws(self._move(cloud.take(kept), 1.0, generator).z, share, how)

    def _together(self, joint: Joint, generator: torch.Generator, count: int) -> _Cloud:
        """Draws of the joint posterior with its density."""
        z = joint.sample(count, generator)
        q = joint.log_prob(z)[0, 0].double()
        return self.measure(z[0, 0].double())._replace(q=q)

    def _tempered(self, generator: torch.Generator, count: int) -> Draws:
        """Draws of the marginals, carried over step by step."""
        cloud = self.measure(self.q.sample(count, generator))
        own, steps, share = effective(cloud.p - cloud.q) / count, 0, 0.0
        while share < 1:
            if not self._is_enough(cloud):
                raise InputError(
                    f"only {_possible(cloud)} of {count} draws of the network's posterior could "
                    f"have given the data: check the log_likelihood of task {self.task.spec.name}, "
                    "or train it longer"
                )
            gain = (1 - share) * (cloud.p - cloud.q)
            power = tempering_power(gain[None], LEAST * _possible(cloud))[0, 0]
            share = 1.0 if power == 1 else share + float(power) * (1 - share)
            kept = chosen((power * gain).softmax(0), count, generator)
            cloud, steps = self._move(cloud.take(kept), share, generator), steps + 1
        how = (
            f"{count} draws of the network's posterior, moved to the likelihood's in {steps} steps"
        )
        return Draws(cloud.z, own, how)

    def _is_enough(self, cloud: _Cloud) -> bool:
        return _possible(cloud) >= FEWEST * (cloud.z.shape[1] + 1)

    def _move(self, cloud: _Cloud, share: float, generator: torch.Generator) -> _Cloud:
        """Metropolis steps with the distribution at `share` as their limit."""
        count, size = cloud.z.shape
        shape = torch.linalg.cholesky(covariance(cloud.z))
        width = 2.38 / math.sqrt(size)
        for _ in range(SWEEPS if share < 1 else LAST):
            # Some far, some near: clouds that bend, or fall apart, need both.
            far = width * torch.rand(count, 1, generator=generator).double().sqrt()
            step = torch.randn(count, size, generator=generator).double() @ shape.T
            tried = self.measure(cloud.z + far * step)
            luck = torch.rand(count, generator=generator).double().log()
            better = luck < tried.at(share) - cloud.at(share)
            cloud = _Cloud(
                torch.where(better[:, None], tried.z, cloud.z),
                torch.where(better, tried.q, cloud.q),
                torch.where(better, tried.p, cloud.p),
            )
            width *= math.exp(float(better.double().mean()) - ACCEPTED)
        return cloud

    def _log_prior(self, z: Tensor) -> Tensor:
        """Log density [draw] under the prior, up to a constant."""
        if self.seen.prior is None:
            return -0.5 * z.square().sum(-1)
        mean, std = self.seen.prior[0, ..., None].double().unbind(1)
        prior = Mixture(torch.zeros_like(mean), mean, std)
        normal = self.task.spec.parameters.cut(prior).log_prob(z).sum(-1)
        return normal if self.correction is None else normal + self.correction(z)

    def measure(self, z: Tensor) -> _Cloud:
        """Draws [draw, parameter] with their densities; of long data, piece by piece."""
        p = self._log_prior(z)
        for start in range(0, self.seen.length, PIECE):
            rows = slice(start, start + PIECE)
            designs, outcomes = self.seen.designs[:, rows], self.seen.outcomes[:, rows]
            p = p + self.task.log_prob(z, designs.double(), outcomes.double()).sum(-1)
        # What cannot be, or leaves the numbers, is very unlikely.
        return _Cloud(z, self.q.log_prob(z).sum(-1), p.nan_to_num(_NEVER, _NEVER, _NEVER))


def _possible(cloud: _Cloud) -> int:
    """How many draws could have given the data."""
    return int((cloud.p > _NEVER).sum())


def effective(log_weight: Tensor) -> float:
    """How many of weighted draws count."""
    return float(1 / log_weight.softmax(0).square().sum())


def covariance(z: Tensor) -> Tensor:
    """Of draws [draw, parameter], never singular."""
    spread = (z - z.mean(0)).T @ (z - z.mean(0)) / len(z)
    return spread + 1e-6 * spread.diagonal().clamp_min(1e-12).diag()


def chosen(weight: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Indices [count] of weights [draw], each as often as its weight says, but for rounding."""
    at = (torch.arange(count) + torch.rand(1, generator=generator).double()) / count
    return torch.searchsorted(weight.cumsum(0), at).clamp(max=len(weight) - 1)
