"""What q knew while episodes were played: the first update need not compute it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from aline.engine.engine import Playing
from aline.episodes import Goal, Offer
from aline.model import Encoded, Summary
from aline.model.network import Decoded
from aline.policies import LearnedPolicy, Memory


class Notes(NamedTuple):
    """Summaries after each number of observations, by the weights then."""

    summary: Summary  # [batch, step, ...]

    @classmethod
    def of(cls, steps: list[Summary]) -> Notes:
        """Of summaries after 0, 1, ... observations, each with one group an episode."""
        layers = zip(*(each.decoded.states for each in steps), strict=True)
        states = [torch.cat(layer, 1) for layer in layers]
        raw = torch.cat([each.decoded.raw for each in steps], 1)
        moments = [each.moments for each in steps if each.moments is not None]
        return cls(Summary(Decoded(states, raw), torch.cat(moments, 1) if moments else None))

    def after(self, steps: Tensor, encoded: Encoded) -> Summary:
        """After `steps` [batch, group] observations, for groups that were encoded so."""
        at = (torch.arange(len(steps))[:, None], steps)
        (states, raw), moments, _ = self.summary
        decoded = Decoded([encoded.fold(state[at]) for state in states], encoded.fold(raw[at]))
        return Summary(decoded, None if moments is None else moments[at])


@dataclass(frozen=True)
class Noting:
    """Plays as a learned policy does, and keeps what it knew at each choice."""

    policy: LearnedPolicy
    steps: list[Summary] = field(default_factory=list)

    def begin(self, goal: Goal) -> Memory:
        """Nothing measured yet."""
        return self.policy.begin(goal)

    def choose(self, memory: Memory, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The policy's choice."""
        assert isinstance(memory.state, Playing)
        self.steps.append(memory.state.summary)
        return self.policy.choose(memory, offer, generator)

    def observe(self, memory: Memory, design: Tensor, outcome: Tensor) -> Memory:
        """As the policy does."""
        return self.policy.observe(memory, design, outcome)
