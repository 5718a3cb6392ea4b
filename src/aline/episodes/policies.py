"""Policies that learn nothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from aline.episodes.goals import Goal
from aline.episodes.play import Offer
from aline.spaces import Design


@dataclass(frozen=True)
class RandomPolicy:
    """Uniform over what is on offer, or over the design space.

    >>> from aline.episodes import goal_of
    >>> from aline.tasks import get
    >>> spec = get("location").spec
    >>> policy = RandomPolicy(spec.design)
    >>> policy.choose(policy.begin(goal_of(spec, "source_x")), None, torch.Generator()).shape
    torch.Size([1, 2])
    """

    design: Design

    def begin(self, goal: Goal) -> int:
        """Remembers only how many episodes there are."""
        return len(goal.parameters)

    def choose(self, state: int, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """A uniform draw."""
        if offer is None:
            return self.design.sample(state, 1, generator)[:, 0]
        keys = torch.rand(offer.points.shape[:2], generator=generator)
        if offer.allowed is not None:
            keys = keys.masked_fill(~offer.allowed, -1.0)
        return take(offer.points, keys.argmax(1))

    def observe(self, state: int, design: Tensor, outcome: Tensor) -> int:
        """Nothing to learn."""
        return state


def take(points: Tensor, index: Tensor) -> Tensor:
    """Rows [batch, design] of points [batch, query, design] at index [batch].

    >>> take(torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]]), torch.tensor([1, 0]))
    tensor([[2.],
            [3.]])
    """
    if len(points) == 1:  # as in a running experiment: in one operation instead of two
        return points[0].index_select(0, index)
    return points[torch.arange(len(points)), index]
