"""Which design comes next, for one experiment or for several in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from aline.engine import Data
from aline.episodes import Goal, Offer
from aline.policies import FixedPolicy, Memory
from aline.policies.fixed import Place

if TYPE_CHECKING:
    from aline.experiment.state import State


class Request(NamedTuple):
    """A choice to be made."""

    data: Any
    goal: Goal
    offer: Offer | None
    generator: torch.Generator


def choose_ahead(states: Sequence[State]) -> None:
    """Make the choices of several states, for each to have when it is asked.

    Those of the same model that choose anywhere do so in one pass.
    """
    groups: dict[Any, list[State]] = {}
    for place, state in enumerate(states):
        if not state.chosen:
            key = (state.engine.network, state.policy.candidates) if state.shares_a_pass else place
            groups.setdefault(key, []).append(state)
    for group in groups.values():
        for state, x in zip(group, _choices(group), strict=True):
            state.chosen.append(state.allowed.name(x))


@torch.inference_mode()
def _choices(states: Sequence[State]) -> Tensor:
    """Designs [state, design], of one state or of several that share a pass."""
    if states[0].fixed is not None:
        return _scheduled(states[0], states[0].fixed)
    requests, policy = [state.request() for state in states], states[0].policy
    if len(requests) == 1:
        data, goal, offer, generator = requests[0]
        return policy.choose(Memory(data, goal), offer, generator)
    lengths = [request.data.context.length for request in requests]
    goals = [one.goal.pursued(n) for one, n in zip(requests, lengths, strict=True)]
    together = Data.together([request.data for request in requests])
    luck = [request.generator for request in requests]
    chosen = policy.choose(Memory(together, Goal.together(goals)), None, luck)
    together.share([request.data for request in requests])
    return chosen


def _scheduled(state: State, policy: FixedPolicy) -> Tensor:
    """The schedule's design [1, design] after the trials that count, told or open."""
    _, _, offer, generator = state.request()
    return policy.choose(Place(1, state.told + len(state.open)), offer, generator)
