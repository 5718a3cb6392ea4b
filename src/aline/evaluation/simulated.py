"""Simulated experiments: the model's own policy on known truths, and what q said on the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from aline.engine import BatchEngine
from aline.episodes import (
    Context,
    FixedPool,
    Offer,
    Offers,
    Policy,
    goal_of,
    offers_of,
    play,
)
from aline.errors import InputError
from aline.evaluation.estimates import enough
from aline.model import Mixture, Model, Network
from aline.policies import LearnedPolicy
from aline.spaces import Design
from aline.tasks import Task

_BATCH = 250
_FEW = 50  # where hundreds of hypotheses hold a factor each

Progress = Callable[[int, int], None]
"""Told how many of how many episodes are done."""


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
    policy = LearnedPolicy(BatchEngine(model.network), task=task)
    protocol = Protocol(enough(episodes), max(lengths), start, seed=seed)
    theta, context = play_protocol(policy, task, targets, protocol)
    posterior = posteriors_after(model.network, context, lengths)
    return Simulated(theta, context, posterior, tuple(lengths))


@dataclass(frozen=True)
class Protocol:
    """How the experiments of a comparison are run.

    Whatever the policy, the same seed brings the same truths, the same first designs, the same
    pools and the same luck.

    >>> Protocol(episodes=100, steps=30, pool=200).seed
    0
    """

    episodes: int
    steps: int
    start: int = 0  # random designs that come first
    pool: int | None = None  # candidates of an episode, each asked at most once; None: any design
    seed: int = 0
    stimuli: Tensor | None = None  # [stimulus, design], all on offer at every step
    fresh: int | None = None  # candidates that are drawn anew at every step

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise InputError(f"episodes must be at least 1, got {self.episodes}")
        if self.pool is not None and self.pool < self.steps - self.start:
            raise InputError(
                f"a pool without repeats needs at least {self.steps - self.start} candidates for "
                f"{self.steps} steps, got {self.pool}"
            )


def play_protocol(
    policy: Policy,
    task: Task,
    targets: Sequence[str],
    protocol: Protocol,
    progress: Progress | None = None,
    given: Tensor | None = None,
) -> tuple[Tensor, Context]:
    """The truths [batch, parameter] on the network's scale, and what a policy made of them.

    Designs `given` [batch, n, design] come first, in place of random ones. What was asked of the
    same protocol before is answered again as it was: so a goal may change in the middle.

    >>> from aline.episodes import RandomPolicy
    >>> from aline.tasks import get
    >>> task = get("linear")
    >>> policy, protocol = RandomPolicy(task.spec.design), Protocol(episodes=4, steps=5)
    >>> theta, context = play_protocol(policy, task, ["slope"], protocol)
    >>> theta.shape, context.designs.shape
    (torch.Size([4, 2]), torch.Size([4, 5, 1]))
    """
    batches, most = [], _at_once(getattr(getattr(policy, "engine", None), "network", None))
    for number, first in enumerate(range(0, protocol.episodes, most)):
        size = min(most, protocol.episodes - first)
        rows = None if given is None else given[first : first + size]
        batches.append(_batch(policy, task, targets, protocol, size, number, rows))
        if progress is not None:
            progress(first + size, protocol.episodes)
    contexts = [context for _, context in batches]
    context = Context(
        torch.cat([c.designs for c in contexts]), torch.cat([c.outcomes for c in contexts])
    )
    return torch.cat([theta for theta, _ in batches]), context


def _at_once(network: Network | None) -> int:
    return _FEW if network is not None and network.config.plugin is not None else _BATCH


def _batch(
    policy: Policy,
    task: Task,
    targets: Sequence[str],
    protocol: Protocol,
    size: int,
    number: int,
    given: Tensor | None,
) -> tuple[Tensor, Context]:
    # Three streams, so that what one draws does not shift the others.
    first = 3 * (protocol.seed * 1_000_003 + number)
    worlds, luck, choices = (torch.Generator().manual_seed(first + i) for i in range(3))
    world = task.draw(size, worlds)
    space = task.spec.design
    random = _first_designs(space, protocol, size, worlds)
    offers: Offers = offers_of(space, size)
    if protocol.pool is not None:
        offers = FixedPool(space.sample(size, protocol.pool, worlds))
    elif protocol.stimuli is not None:
        offers = partial(_always, Offer(protocol.stimuli.expand(size, -1, -1)))
    elif protocol.fresh is not None:
        offers = partial(_drawn, space, size, protocol.fresh, worlds)
    goal = goal_of(task.spec, targets).repeat(size)
    with torch.no_grad():
        context = play(
            policy,
            world,
            goal,
            steps=protocol.steps,
            generator=choices,
            offers=offers,
            given=random if given is None else given,
            luck=luck,
        )
    return world.theta, context


def _first_designs(
    space: Design, protocol: Protocol, size: int, generator: torch.Generator
) -> Tensor:
    if protocol.stimuli is None:
        return space.sample(size, protocol.start, generator)
    count = len(protocol.stimuli)
    return protocol.stimuli[torch.randint(count, (size, protocol.start), generator=generator)]


def _always(offer: Offer, step: int) -> Offer:
    return offer


def _drawn(space: Design, size: int, count: int, generator: torch.Generator, step: int) -> Offer:
    return Offer(space.sample(size, count, generator))


def posteriors_after(network: Network, context: Context, lengths: Sequence[int]) -> Mixture:
    """The posteriors [batch, length, parameter] given the first t observations, t in `lengths`."""
    seen = torch.arange(context.length) < torch.tensor(lengths)[:, None]
    parts, most = [], _at_once(network)
    for start in range(0, len(context.outcomes), most):
        rows = slice(start, start + most)
        part = Context(context.designs[rows], context.outcomes[rows])
        with torch.no_grad():
            groups = network.regroup(network.encode(part), seen.expand(len(part.designs), -1, -1))
            parts.append(network.posterior(groups))
    several = zip(*(part.plain().tensors().values() for part in parts), strict=True)
    return network.spec.parameters.cut(Mixture(*map(torch.cat, several)))


def log_prior(z: Tensor) -> Tensor:
    """The prior's log density on the network's scale, a coordinate."""
    return -0.5 * z * z - 0.5 * math.log(2 * math.pi)
