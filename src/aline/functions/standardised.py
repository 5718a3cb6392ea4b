"""Outcomes in a user's units: the network sees them standardised, its beliefs are mapped back.

Location and scale change with every outcome, so the network's context is read anew each time; the
kernels' factors know only designs and stay. Whoever leaves the units open knows little of the
function: predictions and choices for them are averaged with those of smoother functions than the
task's (smooth.py), by their evidence, and are no surer than caution.py lets them be.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from aline.engine import BatchEngine, LiveEngine
from aline.episodes import Context, Goal
from aline.errors import InternalError
from aline.functions.advisor import STEEP, FunctionAdvice, FunctionAdvisor, Source
from aline.functions.caution import cautious
from aline.functions.smooth import SmoothProcess
from aline.functions.units import Units
from aline.model import Joint, Proposal
from aline.spaces import Belief
from aline.spaces.outcomes import Mixture

MANY = 256  # observations from which on all are read anew: adding one by one takes seconds


class Standardised:
    """A context as it came; what is known of it is computed when it is asked for."""

    def __init__(self, advisor: FunctionAdvisor, context: Context, known: Known | None = None):
        self.advisor, self.context = advisor, context
        self._known = known  # of the first observations, or of all

    @property
    def known(self) -> Known:
        """All of them, taken in."""
        known = self._known
        if known is None or self.context.length - known.advice.length > MANY:
            # One by one where it can be, so that a resumed experiment has the very same lattice.
            first = self.context if self.context.length > MANY else self.context.first(0)
            known = Known(self.advisor.read_groups(Source(first), standardise=True))
        for row in range(known.advice.length, self.context.length):
            known = known.extend(self.context.designs[:, row], self.context.outcomes[:, row])
        self._known = known
        return known

    def extend(self, design: Tensor, outcome: Tensor) -> Standardised:
        """With one more observation."""
        return Standardised(self.advisor, self.context.append(design, outcome), self._known)


class Known:
    """What the task's ensemble and smoother functions make of a context."""

    def __init__(self, advice: FunctionAdvice, smooth: SmoothProcess | None = None):
        self.advice, self._smooth = advice, smooth
        self._share: Tensor | None = None

    @property
    def units(self) -> Units:
        """The location and scale of the outcomes so far."""
        assert self.advice.state.units is not None
        return self.advice.state.units

    def smooth(self, noise: float | None) -> SmoothProcess | None:
        """Functions beyond the task's prior; none before outcomes have a scale."""
        if self._smooth is None and self.advice.length > 1:
            context, length = self.advice.source.context, self.advice.length
            first = context if length > MANY else context.first(2)
            smooth = SmoothProcess.read(first, noise)
            for row in range(first.length, length):
                smooth = smooth.extend(context.designs[:, row], context.outcomes[:, row])
            self._smooth = smooth
        return self._smooth

    def share(self, smooth: SmoothProcess) -> Tensor:
        """Of smooth functions in all belief, [batch]."""
        if self._share is None:
            self._share = smooth.share(self.advice.state)
        return self._share

    def extend(self, design: Tensor, outcome: Tensor) -> Known:
        """With one more observation."""
        smooth = self._smooth and self._smooth.extend(design, outcome)
        return Known(self.advice.extend(design, outcome), smooth)


class StandardisedEngine:
    """An engine for outcomes in any units.

    `noise` is the standard deviation of what is measured, in the user's units, where it is known.
    """

    def __init__(self, inner: BatchEngine | LiveEngine, noise: float | None = None):
        self.inner, self.network = inner, inner.network
        unit = self.network.spec.outcome.log_volume(torch.zeros((), dtype=torch.float64)).exp()
        self.noise = None if noise is None else noise / float(unit)

    def begin(self, batch: int, prior: Tensor | None = None) -> Standardised:
        """The state before any data, in double precision: outcomes may differ little."""
        nothing = torch.zeros(batch, 0, dtype=torch.float64)
        return self.read(Context(torch.zeros(batch, 0, len(self.network.spec.design)), nothing))

    def read(self, context: Context) -> Standardised:
        """The state after a whole context, without padding."""
        if context.mask is not None:
            raise InternalError("a padded context cannot be standardised")
        context = Context(context.designs, context.outcomes.double())
        return Standardised(cast(FunctionAdvisor, self.network.advisor), context)

    def extend(self, state: Standardised, design: Tensor, outcome: Tensor) -> Standardised:
        """With one more observation, in units that may have changed by it."""
        return state.extend(design, outcome.double())

    def context(self, state: Standardised) -> Context:
        """The data of a state, as they came."""
        return state.context

    def _inner(self, state: Standardised) -> Any:
        """The state as the engine behind holds it."""
        outcomes = state.known.units.standardise(state.context.outcomes).float()
        return self.inner.read(Context(state.context.designs, outcomes), state.known.advice)

    def posterior(self, state: Standardised) -> Mixture:
        """Of parameters, in units of the outcomes' spread."""
        return self.inner.posterior(self._inner(state))

    def joint(self, state: Standardised) -> Joint:
        """The joint posterior."""
        return self.inner.joint(self._inner(state))

    @torch.no_grad()
    def predictive(self, state: Standardised, points: Tensor) -> Belief:
        """Beliefs about outcomes, on the scale on which these came."""
        # Only plain real outcomes are standardised, and of these a belief is a mixture.
        belief = cast(Mixture, self.inner.predictive(self._inner(state), points))
        units = state.known.units
        if self.noise is not None:  # no outcome is known better than its noise lets it
            least = (self.noise / units.scale).to(belief.std.dtype)[:, None, None]
            belief = replace(belief, std=torch.maximum(belief.std, least))
        smooth = state.known.smooth(self.noise)
        if smooth is not None:
            other, share = Mixture(*smooth.predict(points)), state.known.share(smooth)
            belief = mixed(belief, other, share)
            belief = cautious(belief, points, state.known.advice.state, smooth, share)
        # Far from zero, weights that sum to one in single precision only would move the mean.
        return belief.double().moved(units.loc[:, None], units.scale[:, None])

    @torch.no_grad()
    def scores(self, state: Standardised, goal: Goal, candidates: Tensor) -> Tensor:
        """By the task's ensemble and, for goals of predictions alone, by smoother functions."""
        known = state.known
        logits = known.advice.scores(candidates, goal)[:, 0]
        smooth = known.smooth(self.noise)
        if smooth is None or not goal.points.shape[1] or goal.has_parameters:
            return logits
        share = known.share(smooth).to(logits.dtype)[:, None]
        reduction = smooth.log_variance_reduction(candidates, goal.points, goal.points_mask)
        return logits + share * (STEEP * reduction.to(logits.dtype) - logits)

    def propose(self, state: Standardised, goal: Goal) -> Proposal:
        """No policy of functions proposes points."""
        raise InternalError("a policy of functions scores candidates")


def mixed(belief: Mixture, other: Mixture, share: Tensor) -> Mixture:
    """A belief in which another has a share [batch] of the weight."""
    share = share.view(-1, *[1] * (belief.mean.dim() - 1))
    weights = [belief.log_weight + (-share).log1p(), other.log_weight + share.log()]
    pairs = weights, (belief.mean, other.mean), (belief.std, other.std)
    dtype = belief.mean.dtype
    return Mixture(*(torch.cat([a.to(dtype), b.to(dtype)], -1) for a, b in pairs))
