"""What the network knew while episodes were played: updates need not compute it again."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from aline.engine.engine import Playing
from aline.episodes import Goal, Offer
from aline.model import Encoded, Summary
from aline.model.evidence import Searched
from aline.model.inference import Decoded
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
        (states, raw), moments = self.summary.decoded, self.summary.moments
        decoded = Decoded([encoded.fold(state[at]) for state in states], encoded.fold(raw[at]))
        return Summary(decoded, None if moments is None else moments[at])


class Noting:
    """Plays as a learned policy does, and keeps what it knew after each observation."""

    def __init__(self, policy: LearnedPolicy):
        self.policy = policy
        self.before: list[Summary] = []  # before each observation
        self.last: Playing | None = None  # the state after the last one

    def begin(self, goal: Goal) -> Memory:
        """Nothing measured yet."""
        return self._kept(self.policy.begin(goal))

    def choose(self, memory: Memory, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The policy's choice."""
        return self.policy.choose(memory, offer, generator)

    def observe(self, memory: Memory, design: Tensor, outcome: Tensor) -> Memory:
        """As the policy does."""
        assert self.last is not None
        self.before.append(self.last.summary)
        return self._kept(self.policy.observe(memory, design, outcome))

    def _kept(self, memory: Memory) -> Memory:
        assert isinstance(memory.state, Playing)
        self.last = memory.state
        return memory

    @property
    def searched(self) -> Searched | None:
        """Where its searches ended, after 0, 1, ... observations; None if it made none."""
        if self.last is None or not self.last.network.searches:
            return None
        found = [one.searched for one in (*self.before, self.last.summary)]
        return Searched.side_by_side([one for one in found if one is not None])
