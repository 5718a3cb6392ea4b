"""What q knew while episodes were played: the first update need not compute it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from aline.episodes import Goal, Offer
from aline.model import LearnedPolicy, View
from aline.model.network import Decoded
from aline.model.policy import Memory


class Notes(NamedTuple):
    """The parameters as q knew them after each number of observations, by the weights then."""

    decoded: Decoded  # [batch, step, parameter, ...]
    moments: Tensor  # [batch, step, 2 * parameter]

    @classmethod
    def of(cls, views: list[View]) -> Notes:
        """Of views after 0, 1, ... observations, each with one group an episode."""
        known = [view.parameter_states for view in views]
        layers = zip(*(each.states for each in known), strict=True)
        return cls(
            Decoded(
                [torch.cat(layer, 1) for layer in layers],
                torch.cat([each.plain for each in known], 1),
            ),
            torch.cat([view.moments for view in views], 1),
        )

    def tell(self, view: View, steps: Tensor) -> None:
        """Spare a view of `steps` [batch, group] observations the work."""
        at = (torch.arange(len(steps))[:, None], steps)
        states, plain = self.decoded
        view.recall(Decoded([state[at] for state in states], plain[at]), self.moments[at])


@dataclass(frozen=True)
class Noting:
    """Plays as a learned policy does, and keeps what it knew at each choice."""

    policy: LearnedPolicy
    views: list[View] = field(default_factory=list)

    def begin(self, goal: Goal) -> Memory:
        """Nothing measured yet."""
        return self.policy.begin(goal)

    def choose(self, state: Memory, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The policy's choice."""
        self.views.append(state.view)
        return self.policy.choose(state, offer, generator)

    def observe(self, state: Memory, design: Tensor, outcome: Tensor) -> Memory:
        """As the policy does."""
        return self.policy.observe(state, design, outcome)
