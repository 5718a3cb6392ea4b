"""Simulated experiments: the model's own policy on known truths, and what q said on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from aline.episodes import Context, Goal, goal_of, play
from aline.errors import InputError
from aline.model import LearnedPolicy, Mixture, Model, Network
from aline.tasks import Task

_BATCH = 250


@dataclass(frozen=True)
class Simulated:
    """Finished episodes with the posteriors after the first t observations, t in `lengths`."""

    theta: Tensor  # [batch, parameter] on the network's scale
    context: Context
    posterior: Mixture  # [batch, length, parameter]
    lengths: tuple[int, ...]

    @property
    def log_q(self) -> Tensor:
        """Log density of the truth on the network's scale, [batch, length, parameter]."""
        return self.posterior.log_prob(self.theta[:, None])

    @property
    def rank(self) -> Tensor:
        """The posterior probability below the truth, uniform if q is right, like log_q."""
        return self.posterior.cdf(self.theta[:, None])


def simulate_experiments(
    model: Model,
    task: Task,
    targets: Sequence[str],
    *,
    episodes: int,
    lengths: Sequence[int],
    seed: int,
    start: int = 0,
) -> Simulated:
    """Play as an experiment does: the best of 200 candidates, or the point that is proposed.

    Another target with the same seed meets the same truths and the same luck. `start` random
    designs come first.
    """
    if episodes < 2:
        raise InputError(f"episodes must be at least 2, got {episodes}")
    batches = []
    for number, first in enumerate(range(0, episodes, _BATCH)):
        generator = torch.Generator().manual_seed(seed * 1_000_003 + number)
        size = min(_BATCH, episodes - first)
        batches.append(_batch(model, task, targets, size, max(lengths), start, generator))
    theta = torch.cat([theta for theta, _ in batches])
    contexts = [context for _, context in batches]
    context = Context(
        torch.cat([c.designs for c in contexts]), torch.cat([c.outcomes for c in contexts])
    )
    posterior = posteriors_after(model.network, context, lengths)
    return Simulated(theta, context, posterior, tuple(lengths))


def _batch(
    model: Model,
    task: Task,
    targets: Sequence[str],
    size: int,
    steps: int,
    start: int,
    generator: torch.Generator,
) -> tuple[Tensor, Context]:
    world = task.draw(size, generator)
    given = task.spec.design.sample(size, start, generator)
    goal = _repeat(goal_of(task.spec, targets), size)
    with torch.no_grad():
        policy = LearnedPolicy(model.network)
        context = play(policy, world, goal, steps=steps, generator=generator, given=given)
    return world.theta, context


def _repeat(goal: Goal, batch: int) -> Goal:
    return Goal(
        goal.parameters.expand(batch, -1),
        goal.points.expand(batch, -1, -1),
        goal.points_mask.expand(batch, -1),
    )


def posteriors_after(network: Network, context: Context, lengths: Sequence[int]) -> Mixture:
    """The posteriors [batch, length, parameter] given the first t observations, t in `lengths`."""
    seen = torch.arange(context.length) < torch.tensor(lengths)[:, None]
    parts = []
    for start in range(0, len(context.outcomes), _BATCH):
        rows = slice(start, start + _BATCH)
        part = Context(context.designs[rows], context.outcomes[rows])
        with torch.no_grad():
            view = network.read(part, seen.expand(len(part.outcomes), -1, -1))
            parts.append(view.posterior())
    return Mixture(
        torch.cat([p.log_weight for p in parts]),
        torch.cat([p.mean for p in parts]),
        torch.cat([p.std for p in parts]),
    )
