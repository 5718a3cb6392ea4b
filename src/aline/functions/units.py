"""Outcomes that are standardised as they arrive, so that they may come in any units.

The network meets functions of about the size that its task declares. Here it sees the data less
their mean and over their spread, whatever these are, and its predictions are mapped back. Both
change with every observation, so the context is read anew each time; what the kernels know of the
designs alone is kept.

Whoever leaves the units open knows little of the function. So predictions and choices for them are
averaged with those of a process for functions beyond the network's prior, by their evidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from aline.engine import BatchEngine, LiveEngine
from aline.episodes import Context, Goal
from aline.errors import InternalError
from aline.functions.advisor import FunctionAdvice
from aline.functions.wider import Wider, mixed
from aline.model import Belief, Mixture, Proposal
from aline.model.policy import STEEP

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
        """A belief [batch, target] of what the network saw, about the outcomes."""
        return belief.moved(self.loc[:, None], self.scale[:, None])


class Standardised:
    """A context as it came, and how the network holds it."""

    def __init__(self, context: Context, advice: FunctionAdvice, noise: float | None):
        """`advice` is of the designs, with whatever outcomes; `noise` [batch] is standardised."""
        self.context, self.units = context, Units.of(context.outcomes)
        self.outcomes = self.units.standardise(context.outcomes)
        self.advice = advice.restated(self.outcomes)
        self.noise = None
        if noise is not None:
            self.noise = (noise / self.units.scale).clamp(*NOISES)

    @cached_property
    def process(self) -> tuple[Wider, Tensor] | None:
        """A process beyond the network's prior and its share [batch] of all belief.

        There is none before outcomes have a scale.
        """
        if self.context.length < 2:
            return None
        process = Wider.of(self.context.designs, self.outcomes, self.noise)
        return process, process.share(self.advice.bank)


class StandardisedEngine:
    """An engine for outcomes in any units.

    `noise` is the standard deviation of what is measured, in the user's units, where it is known.
    """

    def __init__(self, inner: BatchEngine | LiveEngine, noise: float | None = None):
        self.inner, self.network = inner, inner.network
        unit = self.network.spec.outcome.log_volume(torch.zeros((), dtype=torch.float64)).exp()
        self.noise = None if noise is None else noise / float(unit)

    def begin(self, batch: int) -> Standardised:
        """The state before any data, in double precision: outcomes may differ little."""
        nothing = torch.zeros(batch, 0, dtype=torch.float64)
        return self.read(Context(torch.zeros(batch, 0, len(self.network.spec.design)), nothing))

    def read(self, context: Context) -> Standardised:
        """The state after a whole context, without padding."""
        if context.mask is not None:
            raise InternalError("a padded context cannot be standardised")
        plain = Context(context.designs, context.outcomes.float())
        return Standardised(context, self._advice(plain), self.noise)

    def _advice(self, context: Context) -> FunctionAdvice:
        advice = self.network.advisor.read(context)
        assert isinstance(advice, FunctionAdvice)
        return advice

    def extend(self, state: Standardised, design: Tensor, outcome: Tensor) -> Standardised:
        """With one more observation, in units that may have changed by it."""
        advice = state.advice.extend(design, outcome.float())
        return Standardised(state.context.append(design, outcome), advice, self.noise)

    def context(self, state: Standardised) -> Context:
        """The data of a state, as they came."""
        return state.context

    def _inner(self, state: Standardised) -> Any:
        """The state as the engine behind holds it."""
        return self.inner.read(Context(state.context.designs, state.outcomes), state.advice)

    def posterior(self, state: Standardised) -> Mixture:
        """Of parameters, in units of the outcomes' spread."""
        return self.inner.posterior(self._inner(state))

    def predictive(self, state: Standardised, points: Tensor) -> Belief:
        """Beliefs about outcomes, on the scale on which these came."""
        # Only plain real outcomes are standardised, and of these a belief is a mixture.
        belief = cast(Mixture, self.inner.predictive(self._inner(state), points))
        if state.noise is not None:  # no outcome is known better than its noise lets it
            least = state.noise.to(belief.std.dtype)[:, None, None]
            belief = replace(belief, std=torch.maximum(belief.std, least))
        if state.process is not None:
            process, share = state.process
            belief = mixed(belief, process.predict(points)[:, 0], share)
        return state.units.restore(belief)

    def scores(self, state: Standardised, goal: Goal, candidates: Tensor) -> Tensor:
        """The policy's logits, and what the process finds best for goals of predictions alone."""
        logits = self.inner.scores(self._inner(state), goal, candidates)
        if state.process is None or not goal.points.shape[1]:
            return logits
        process, share = state.process
        share = share.masked_fill(goal.parameters.any(1), 0.0).to(logits.dtype)[:, None]
        return logits + share * (STEEP * process.worth(candidates, goal).to(logits.dtype) - logits)

    def propose(self, state: Standardised, goal: Goal) -> Proposal:
        """No policy of functions proposes points."""
        raise InternalError("a policy of functions scores candidates")
