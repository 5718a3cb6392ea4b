"""A view whose outcomes are standardised as they arrive, so that they may come in any units.

The network meets functions of about the size that its task declares. Here it sees the data less
their mean and over their spread, whatever these are, and its predictions are mapped back. Both
change with every observation, so the context is read anew each time; what a bank of kernels knows
of the designs alone is kept.

Whoever leaves the units open knows little of the function. So where the network has a bank, its
predictions and its choices for them are averaged with those of a process for functions beyond its
prior (model/wider.py), by their evidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import cast

import torch
from torch import Tensor

from aline.episodes import Context, Goal
from aline.errors import InternalError
from aline.model.kernels import Bank
from aline.model.network import STEEP, Network, View
from aline.model.wider import Wider, mixed
from aline.spaces import Belief
from aline.spaces.outcomes import Mixture

NOISES = (1e-12, 1e3)  # over the outcomes' spread: beyond these a known one makes no difference


@dataclass(frozen=True)
class Units:
    """A location and a scale for each episode, [batch]."""

    loc: Tensor
    scale: Tensor

    @classmethod
    def of(cls, outcomes: Tensor) -> Units:
        """Those of outcomes [batch, context] so far.

        Nothing is known of either before the first, nor of the scale before the second: then they
        are the task's. A spread of few outcomes is likely too small; it is widened by as much as
        the standard error of predicting one more asks.
        """
        batch, count = outcomes.shape
        loc = outcomes.mean(1) if count else outcomes.new_zeros(batch)
        scale = outcomes.new_ones(batch)
        if count > 1:
            spread = outcomes.std(1) * math.sqrt((count + 1) / (count - 1))
            # Outcomes that are all the same tell nothing of their scale either.
            known = spread > 1e-12 * loc.abs()
            scale = torch.where(known, spread, scale)
        return cls(loc, scale)

    def standardise(self, outcomes: Tensor) -> Tensor:
        """Outcomes [batch, ...] as the network sees them."""
        loc, scale = (part.view(-1, *[1] * (outcomes.dim() - 1)) for part in (self.loc, self.scale))
        return ((outcomes - loc) / scale).float()

    def restore(self, belief: Belief) -> Belief:
        """A belief [batch, group, target] of what the network saw, about the outcomes."""
        return belief.moved(self.loc.view(-1, 1, 1), self.scale.view(-1, 1, 1))


@dataclass(kw_only=True)
class StandardisedView(View):
    """`context` holds the outcomes as they came; what the network holds of them is standardised."""

    units: Units
    noise: float | None = None  # its standard deviation, in the user's units, where it is known

    @cached_property
    def wider(self) -> tuple[Wider, Tensor] | None:
        """A process beyond the network's prior and its share [batch] of all belief.

        There is none before outcomes have a scale.
        """
        if self.bank is None or self.context.outcomes.shape[1] < 2:
            return None
        outcomes = self.units.standardise(self.context.outcomes)
        process = Wider.of(self.context.designs, outcomes, self._seen_noise())
        return process, process.share(self.bank)

    def _seen_noise(self) -> Tensor | None:
        """The noise [batch] of standardised outcomes."""
        if self.noise is None:
            return None
        outcome = self.network.spec.outcome
        unit = float(outcome.log_volume(torch.zeros((), dtype=torch.float64)).exp())
        return (self.noise / unit / self.units.scale).clamp(*NOISES)

    def predictive(self, points: Tensor) -> Belief:
        """Beliefs about outcomes, on the scale on which these came."""
        # Only plain real outcomes are standardised, and of these a belief is a mixture.
        belief = self._not_below_noise(cast(Mixture, super().predictive(points)))
        if self.wider is not None:
            process, share = self.wider
            other = process.predict(points[:, 0])  # as of a view of one group
            belief = mixed(belief, other, share)
        return self.units.restore(belief)

    def _not_below_noise(self, belief: Mixture) -> Mixture:
        """The network's belief, which knows no outcome better than its noise lets it."""
        noise = self._seen_noise()
        if noise is None:
            return belief
        least = noise.to(belief.std.dtype)[:, None, None, None]
        return replace(belief, std=torch.maximum(belief.std, least))

    def scores(self, candidates: Tensor, goal: Goal) -> Tensor:
        """The policy's logits, and what the process finds best for goals of predictions alone."""
        logits = super().scores(candidates, goal)
        if self.wider is None or not goal.points.shape[1]:
            return logits
        process, share = self.wider
        share = share.masked_fill(goal.parameters.any(1), 0.0).to(logits.dtype)[:, None, None]
        worth = process.worth(candidates[:, 0], goal)[:, None].to(logits.dtype)
        return logits + share * (STEEP * worth - logits)

    def extend(self, design: Tensor, outcome: Tensor) -> StandardisedView:
        """With one more observation, in units that may have changed by it."""
        bank = self.bank.extend(design, outcome) if isinstance(self.bank, Bank) else None
        context = self.context.append(design, outcome)
        return read_standardised(self.network, context, bank, self.noise)


def read_standardised(
    network: Network, context: Context, bank: Bank | None = None, noise: float | None = None
) -> StandardisedView:
    """Take in a whole context [batch, context], without padding; `bank` is one of its designs.

    `noise` is the standard deviation of what is measured, in the user's units, where it is known.
    """
    if context.mask is not None:
        raise InternalError("a padded context cannot be standardised")
    units = Units.of(context.outcomes)
    seen = Context(context.designs, units.standardise(context.outcomes))
    if bank is None:
        view = network.read(seen)
    else:
        view = network.read_tokens(seen)
        view.bank = bank.restated(seen.outcomes)
    parts = {field.name: getattr(view, field.name) for field in fields(view)}
    return StandardisedView(**{**parts, "context": context}, units=units, noise=noise)
