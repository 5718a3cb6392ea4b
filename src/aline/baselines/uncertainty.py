"""Uncertainty sampling: measure where the network is least sure of the outcome."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from aline.episodes import Context, Goal, Offer, take
from aline.model import Network, View, read_standardised


@dataclass(frozen=True)
class UncertaintyPolicy:
    """Chooses the candidate whose predicted outcome is the least certain, whatever the goal.

    Without an offer it compares `candidates` uniform draws, or all points of a pool. With
    `standardise`, outcomes may have any units, and `noise` is their standard deviation about the
    truth, where that is known.
    """

    network: Network
    candidates: int = 200
    standardise: bool = False
    noise: float | None = None

    def begin(self, goal: Goal) -> View:
        """Nothing measured yet."""
        event = self.network.spec.outcome.event_shape
        nothing = Context.empty(len(goal.parameters), goal.points.shape[-1], event)
        if not self.standardise:
            return self.network.read(nothing)
        return read_standardised(self.network, nothing, noise=self.noise)

    def choose(self, state: View, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The most uncertain design [batch, design]."""
        if offer is None:
            offer = self._anywhere(len(state.context.outcomes), generator)
        score = state.predictive(offer.points[:, None]).uncertainty()[:, 0]
        if offer.allowed is not None:
            score = score.masked_fill(~offer.allowed, -torch.inf)
        return take(offer.points, score.argmax(1))

    def observe(self, state: View, design: Tensor, outcome: Tensor) -> View:
        """Take in one more observation."""
        return state.extend(design, outcome)

    def _anywhere(self, batch: int, generator: torch.Generator) -> Offer:
        space = self.network.spec.design
        count = self.candidates if space.points is None else len(space.points)
        return Offer(space.sample(batch, count, generator))
