"""Uncertainty sampling: measure where the network is least sure of the outcome."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from aline.engine import Engine
from aline.episodes import Goal, Offer, take
from aline.policies import Memory


@dataclass(frozen=True)
class UncertaintyPolicy:
    """Chooses the candidate whose predicted outcome is the least certain, whatever the goal.

    Without an offer it compares `candidates` uniform draws, or all points of a pool.

    >>> import aline
    >>> from aline.engine import engine_for
    >>> policy = UncertaintyPolicy(engine_for(aline.load("gp1d")), candidates=50)
    """

    engine: Engine
    candidates: int = 200

    def begin(self, goal: Goal) -> Memory:
        """Nothing measured yet."""
        return Memory(self.engine.begin(len(goal.parameters)), goal)

    def choose(self, memory: Memory, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The most uncertain design [batch, design]."""
        if offer is None:
            offer = self._anywhere(len(memory.goal.parameters), generator)
        score = self.engine.predictive(memory.state, offer.points).uncertainty()
        if offer.allowed is not None:
            score = score.masked_fill(~offer.allowed, -torch.inf)
        return take(offer.points, score.argmax(1))

    def observe(self, memory: Memory, design: Tensor, outcome: Tensor) -> Memory:
        """Take in one more observation."""
        return Memory(self.engine.extend(memory.state, design, outcome), memory.goal)

    def _anywhere(self, batch: int, generator: torch.Generator) -> Offer:
        space = self.engine.network.spec.design
        count = self.candidates if space.points is None else len(space.points)
        return Offer(space.sample(batch, count, generator))
