"""Exact greedy play: the posterior as weighted particles, the most informative design next.

It needs a likelihood and nothing else of a task: no grid, no network, any kind of outcome. The
particles come from the prior and are reweighted by the likelihood. Where few of them would count,
the new observation is taken in by and by (tempering): resample, move by Markov steps that know all
data so far, go on (sequential Monte Carlo; Del Moral et al., 2006). Moves are along the difference
of two other particles (ter Braak, 2006), which fits narrow and tilted posteriors without tuning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from aline.episodes import Context, Goal, Offer, take
from aline.policies.information import AT_ONCE, WORST, Effort, information_by
from aline.spaces import Design
from aline.tasks import Task

PARTICLES = 2000
CANDIDATES = 200
FEW = 12  # candidates whose information is estimated again, beside as many around each of the best
BEST = 4
ENOUGH = 0.5  # the share of particles that must count
MOVES = 3  # Markov steps after a resampling
STAGES = 40  # in which an observation is taken in at most


ROUGH, CLOSE = Effort(32, 16), Effort(192, 64)


@dataclass(frozen=True)
class Particles:
    """What is known after some data."""

    theta: Tensor  # [batch, particle, parameter] on the network's scale
    log_weight: Tensor  # [batch, particle], not normalised
    seen: Context

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Equally likely truths [batch, count, parameter], spread evenly over the weights."""
        index = _spread(self.log_weight, count, generator)
        shuffled = torch.rand(index.shape, generator=generator).argsort(1)
        return _rows(self.theta, index.gather(1, shuffled))


@dataclass(frozen=True)
class ParticlePolicy:
    """Takes the design with the largest expected information about all parameters."""

    task: Task
    particles: int = PARTICLES
    candidates: int = CANDIDATES

    def begin(self, goal: Goal) -> Particles:
        """Draws from the prior, the same for every episode."""
        prior = self.task.spec.parameters.sample(self.particles, torch.Generator())
        batch = len(goal.parameters)
        return Particles(
            prior.expand(batch, -1, -1),
            torch.zeros(batch, self.particles),
            Context.empty(batch, len(self.task.spec.design)),
        )

    def observe(self, state: Particles, design: Tensor, outcome: Tensor) -> Particles:
        """Reweigh, and renew the particles of episodes where too few would count."""
        generator = torch.Generator().manual_seed(state.seen.length)  # the same data, the same
        seen = state.seen.append(design, outcome)
        theta, log_weight = state.theta.clone(), state.log_weight
        taken = torch.zeros(len(theta))  # the share of the new likelihood that is taken in
        for stage in range(STAGES):
            new = self._fit(theta, Context(design[:, None], outcome[:, None]))[..., 0]
            step = 1 - taken
            if stage < STAGES - 1:
                step = step.minimum(largest_step(log_weight, new, step))
            log_weight, taken = log_weight + step[:, None] * new, taken + step
            poor = (taken < 1).nonzero()[:, 0]
            if not len(poor):
                break
            part = Context(seen.designs[poor], seen.outcomes[poor])
            index = _spread(log_weight[poor], self.particles, generator)
            kept = _rows(theta[poor], index)
            theta[poor] = self._moved(kept, part, taken[poor], generator)
            log_weight = log_weight.index_fill(0, poor, 0.0)
        return Particles(theta, log_weight, seen)

    def _moved(
        self, theta: Tensor, seen: Context, taken: Tensor, generator: torch.Generator
    ) -> Tensor:
        """After Markov steps that leave the posterior as it is, `taken` of the last observation."""
        power = torch.ones(len(theta), 1, seen.length)
        power[:, 0, -1] = taken
        now = self._log_posterior(theta, seen, power)
        for _ in range(MOVES):
            proposed = _proposed(theta, generator)
            then = self._log_posterior(proposed, seen, power)
            accepted = torch.rand(now.shape, generator=generator).log() < then - now
            theta = torch.where(accepted[..., None], proposed, theta)
            now = torch.where(accepted, then, now)
        return theta

    def _log_posterior(self, theta: Tensor, seen: Context, power: Tensor) -> Tensor:
        """Up to a constant, [batch, particle]; `power` [batch, 1, step] of each likelihood."""
        return (self._fit(theta, seen) * power).sum(-1) - 0.5 * theta.square().sum(-1)

    def _fit(self, theta: Tensor, seen: Context) -> Tensor:
        """Log likelihood [batch, particle, step] of what was seen."""
        rows = max(1, AT_ONCE // (theta.shape[1] * seen.length))
        parts = zip(
            theta.split(rows), seen.designs.split(rows), seen.outcomes.split(rows), strict=True
        )
        return torch.cat([self._log_prob(z, x[:, None], y[:, None]) for z, x, y in parts])

    def _log_prob(self, theta: Tensor, designs: Tensor, outcomes: Tensor) -> Tensor:
        found = self.task.log_prob(theta, designs, outcomes).float()
        return found.nan_to_num(nan=WORST, neginf=WORST)

    def choose(self, state: Particles, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The next design [batch, design]: many estimated roughly, the best again."""
        space = self.task.spec.design
        truths = state.draw(CLOSE.truths, generator)
        points, is_free = self._tried(offer, len(truths), generator)
        rough = information_by(self.task, ROUGH, truths, points, generator)
        if offer is not None and offer.allowed is not None:
            rough = rough.masked_fill(~offer.allowed, -torch.inf)
        best = rough.topk(min(FEW, points.shape[1]), 1)
        few = _rows(points, best.indices)
        if is_free:
            few = torch.cat([few, _around(space, few[:, :BEST], self.candidates, generator)], 1)
        gain = information_by(self.task, CLOSE, truths, few, generator)
        gain[:, : best.values.shape[1]].masked_fill_(best.values == -torch.inf, -torch.inf)
        return take(few, gain.argmax(1))

    def _tried(
        self, offer: Offer | None, batch: int, generator: torch.Generator
    ) -> tuple[Tensor, bool]:
        """Designs [batch, query, design], and whether any other may be chosen too."""
        if offer is not None:
            return offer.points, False
        space = self.task.spec.design
        if space.points is None:
            return space.sample(batch, self.candidates, generator), True
        return space.to_network(space.points).expand(batch, -1, -1), False


def largest_step(log_weight: Tensor, new: Tensor, most: Tensor) -> Tensor:
    """How much of a likelihood [batch, particle] leaves enough that count, [batch], at most `most`.

    Bisection of the logarithm: of a sharp likelihood a billionth may be enough.
    """
    enough = ENOUGH * log_weight.shape[1]
    is_whole = effective(log_weight + most[:, None] * new) >= enough
    low, high = torch.full_like(most, -40.0), torch.zeros_like(most)
    for _ in range(0 if bool(is_whole.all()) else 16):
        middle = (low + high) / 2
        fits = effective(log_weight + (most * middle.exp2())[:, None] * new) >= enough
        low, high = torch.where(fits, middle, low), torch.where(fits, high, middle)
    return torch.where(is_whole, most, most * low.exp2())


def effective(log_weight: Tensor) -> Tensor:
    """How many of the weighted particles [batch, particle] count."""
    return 1 / log_weight.softmax(1).square().sum(1)


def _spread(log_weight: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Indices [batch, count], evenly over the weights (systematic resampling)."""
    cumulated = log_weight.softmax(1).cumsum(1)
    start = torch.rand(len(log_weight), 1, generator=generator)
    position = (torch.arange(count) + start) / count
    return torch.searchsorted(cumulated, position).clamp(max=log_weight.shape[1] - 1)


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """Values [batch, n, size] at index [batch, m]."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def _proposed(theta: Tensor, generator: torch.Generator) -> Tensor:
    """Each particle, moved along the difference of two others."""
    batch, count, size = theta.shape
    others = torch.randint(count, (2, batch, count), generator=generator)
    apart = _rows(theta, others[0]) - _rows(theta, others[1])
    scale = 2.38 / math.sqrt(2 * size) * torch.rand(batch, count, 1, generator=generator)
    jumps = torch.rand(batch, count, 1, generator=generator) < 0.1  # from one mode to another
    noise = torch.randn(theta.shape, generator=generator)
    little = 0.02 * theta.std(1, keepdim=True)
    return theta + torch.where(jumps, torch.ones_like(scale), scale) * apart + little * noise


def _around(space: Design, best: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Points [batch, n, design] around the best ones of `count` uniform draws."""
    repeated = best.repeat(1, FEW // BEST, 1)
    noise = torch.randn(repeated.shape, generator=generator)
    spread = 1.0 / count ** (1 / len(space))
    return space.possible(repeated + spread * noise, repeated)
