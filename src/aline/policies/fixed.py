"""A schedule that was fixed before the experiment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from aline.episodes import Goal, Offer
from aline.policies.learned import nearest


class Place(NamedTuple):
    """How far a batch of episodes is."""

    episodes: int
    step: int


@dataclass(frozen=True)
class FixedPolicy:
    """Asks the designs of a schedule in their order, whatever the outcomes.

    After the last it starts again from the first. Where only some designs are on offer, it takes
    the one nearest to that of the schedule.
    """

    schedule: Tensor  # [step, design] on the network's scale

    def begin(self, goal: Goal) -> Place:
        """At the first design."""
        return Place(len(goal.parameters), 0)

    def choose(self, state: Place, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The schedule's next design, [batch, design]."""
        design = self.schedule[state.step % len(self.schedule)].expand(state.episodes, -1)
        return design if offer is None else nearest(offer, design)

    def observe(self, state: Place, design: Tensor, outcome: Tensor) -> Place:
        """One step further."""
        return Place(state.episodes, state.step + 1)
