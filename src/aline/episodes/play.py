"""The only loop that plays an episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from aline.episodes.context import Context
from aline.episodes.goals import Goal
from aline.spaces import Design
from aline.tasks import World

SAME = 1e-5  # apart on the network's scale, two designs are one


@dataclass(frozen=True)
class Offer:
    """The designs a policy may choose from.

    >>> Offer(torch.zeros(1, 5, 2)).allowed is None
    True
    """

    points: Tensor  # [batch, query, design] on the network's scale
    allowed: Tensor | None = None  # bool [batch, query]; None allows all


class Policy(Protocol):
    """Chooses designs. State is whatever the policy needs to remember of the data so far.

    >>> from aline.episodes import RandomPolicy
    >>> from aline.spaces import Box
    >>> policy: Policy = RandomPolicy(Box(x=(0.0, 1.0)))
    """

    def begin(self, goal: Goal) -> Any:
        """The state before any data."""
        ...

    def choose(self, state: Any, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The next design [batch, design]: one of the offer, or any point where offer is None."""
        ...

    def observe(self, state: Any, design: Tensor, outcome: Tensor) -> Any:
        """The state after one more observation: design [batch, design], outcome [batch]."""
        ...


Offers = Callable[[int], Offer | None]
"""What is on offer at each step."""


def anywhere(step: int) -> None:
    """Any point of the design space, at every step.

    >>> anywhere(step=0) is None
    True
    """
    return None


class FixedPool:
    """The paper's protocol: one pool an episode, a point that was measured leaves it.

    >>> pool = FixedPool(torch.tensor([[[0.0], [1.0]]]))
    >>> pool.remove(torch.tensor([[1.0]]))
    >>> pool(step=1).allowed
    tensor([[ True, False]])
    """

    def __init__(self, points: Tensor):
        self.offer = Offer(points, torch.ones(points.shape[:2], dtype=torch.bool))

    def __call__(self, step: int) -> Offer:
        """What is left of the pool."""
        return self.offer

    def remove(self, design: Tensor) -> None:
        """Take a point out, if it is in the pool: of several that are equal, one."""
        assert self.offer.allowed is not None
        distance = (self.offer.points - design[:, None]).abs().sum(-1)
        distance = distance.masked_fill(~self.offer.allowed, torch.inf)
        nearest = distance.min(1, keepdim=True)
        kept = self.offer.allowed.gather(1, nearest.indices) & (nearest.values > SAME)
        allowed = self.offer.allowed.scatter(1, nearest.indices, kept)
        self.offer = Offer(self.offer.points, allowed)


def offers_of(space: Design, batch: int) -> Offers:
    """What a design space offers: anything at every step, or each of its points once.

    >>> from aline.spaces import Pool
    >>> offers_of(Pool(dose=[0.1, 1.0, 10.0], repeats=False), batch=2)(0).points.shape
    torch.Size([2, 3, 1])
    """
    if space.repeats or space.points is None:
        return anywhere
    return FixedPool(space.to_network(space.points).expand(batch, -1, -1))


def play(
    policy: Policy,
    world: World,
    goal: Goal,
    *,
    steps: int,
    generator: torch.Generator,
    offers: Offers = anywhere,
    given: Tensor | None = None,
    luck: torch.Generator | None = None,
) -> Context:
    """Let a policy question a world; `given` [batch, n, design] are asked first, as they are.

    With `luck`, the world's noise comes from there and not from the policy's generator, so that
    every policy meets the same.

    >>> from aline.episodes import RandomPolicy, goal_of
    >>> from aline.tasks import get
    >>> task, generator = get("location"), torch.Generator().manual_seed(0)
    >>> goal = goal_of(task.spec, ["source_x", "source_y"]).repeat(4)
    >>> policy, world = RandomPolicy(task.spec.design), task.draw(4, generator)
    >>> play(policy, world, goal, steps=5, generator=generator).designs.shape
    torch.Size([4, 5, 2])
    """
    design_size = goal.points.shape[-1]
    context = Context.empty(len(goal.parameters), design_size)
    state = policy.begin(goal)
    for step in range(steps):
        if given is not None and step < given.shape[1]:
            design = given[:, step]
        else:
            design = policy.choose(state, offers(step), generator)
        if isinstance(offers, FixedPool):
            offers.remove(design)
        outcome = world.answer(design[:, None], luck or generator)[:, 0]
        state = policy.observe(state, design, outcome)
        context = context.append(design, outcome)
    return context
