"""The door: what the plug-in tells a network about a context, in plain tensors.

A network asks for features of the context, of points and of candidates, and for frames: a mean and
a standard deviation that its own beliefs start from. Axes are batch, group and n; a group sees a
prefix of its episode's context.

    advisor = Advisor(spec, kernels=12, hypotheses=128)
    advice = advisor.read(context)
    points = advice.at_points(goal.points)
    advice = advice.extend(design, outcome)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from aline.episodes import Context, Goal
from aline.errors import InputError, InternalError
from aline.functions import ensemble
from aline.functions.ensemble import LEAST_VARIANCE, Posterior
from aline.functions.hypotheses import Hypotheses, ParameterPosterior
from aline.functions.smooth import SmoothProcess
from aline.functions.units import Units
from aline.spaces import Real
from aline.tasks import Spec

FURTHEST = 5.0  # features are cut there
NATS_UNIT = 4.0  # nats of a share that a feature sees as one


class Frame(NamedTuple):
    """What beliefs start from."""

    mean: Tensor  # [batch, group, n]
    std: Tensor  # [batch, group, n]


class Beyond(NamedTuple):
    """Beliefs about functions beyond the task's prior, and their share of all belief."""

    share: Tensor  # [batch]
    log_weight: Tensor  # [batch, group, n, component]
    mean: Tensor
    std: Tensor


class PointAdvice(NamedTuple):
    """What is expected at points."""

    features: Tensor  # [batch, group, n, point_width]
    frame: Frame  # in the outcomes' units
    least_std: Tensor | None = None  # [batch], of an outcome, where the noise is known
    beyond: Beyond | None = None  # in a user's units


class CandidateTerms(NamedTuple):
    """What candidates are expected to do for a goal: enough to rank them."""

    terms: Tensor  # [batch, group, n, score_terms], zero where a term does not apply
    log_shares: Tensor | None  # [batch, group, n, kernel + 1], for goals with predictions
    # In a user's units: a share [batch] and the log variance reduction [batch, group, n] of
    # functions beyond the task's prior.
    beyond: tuple[Tensor, Tensor] | None = None


class CandidateAdvice(NamedTuple):
    """The same, and what a network may want to know of candidates beside it."""

    features: Tensor  # [batch, group, n, candidate_width]
    terms: Tensor  # as in CandidateTerms
    beyond: tuple[Tensor, Tensor] | None = None


class Advisor(nn.Module):
    """Built for a task's spec and settings; has no weights."""

    score_terms = 2  # log share of the goal's variance that goes; log nats about the parameters

    def __init__(self, spec: Spec, kernels: int, hypotheses: int = 0, draws: bool = True):
        super().__init__()
        if not isinstance(spec.outcome, Real):
            raise InputError("kernels are for real outcomes: use ModelConfig(kernels=0)")
        self.spec = spec
        self.kernels = ensemble.spread_kernels(len(spec.design), kernels)
        self.hypotheses = Hypotheses(spec, hypotheses, draws) if hypotheses else None

    @property
    def context_width(self) -> int:
        """Of `Advice.context_features`."""
        return 2 * self.kernels.number + 1 + (self.hypotheses.width if self.hypotheses else 0)

    @property
    def point_width(self) -> int:
        """Of `PointAdvice.features`."""
        return 3 * self.kernels.number + 2

    @property
    def candidate_width(self) -> int:
        """Of `CandidateAdvice.features`: a point's, log shares of variance, whether these apply."""
        return self.point_width + self.kernels.number + 2

    @torch.no_grad()
    def read(
        self,
        context: Context,
        visible: Tensor | None = None,
        extra: Context | None = None,
        *,
        standardise: bool = False,
        noise: float | None = None,
    ) -> Advice:
        """Take a context in, for groups that see prefixes of it [batch, group, context].

        `extra` [batch * group, 1] gives each group one observation of its own. With `standardise`,
        outcomes may have any units, and `noise` is their standard deviation about the function in
        these, where it is known.
        """
        if context.mask is not None:
            mask = context.mask[:, None]
            visible = mask if visible is None else visible & mask
        if standardise and (visible is not None or extra is not None):
            raise InternalError("only a whole context can be standardised")
        state = ensemble.read(self.kernels, context, visible, extra, standardise)
        return Advice(self, _Source(context, visible, extra), state, noise)


class _Source(NamedTuple):
    """What was read, for parts of the advice that are computed only when asked for."""

    context: Context
    visible: Tensor | None
    extra: Context | None


@dataclass
class Advice:
    """What the plug-in says of a context."""

    advisor: Advisor
    source: _Source
    state: Posterior
    noise: float | None = None
    _hypotheses: Posterior | None = None  # the context as hypotheses see it
    _smooth: SmoothProcess | None = None

    @property
    def units(self) -> Units | None:
        """Of outcomes that are standardised."""
        return self.state.units

    @property
    def hypotheses(self) -> Posterior:
        """The context as hypotheses about the parameters see it."""
        if self._hypotheses is None:
            if self.advisor.hypotheses is None:
                raise InternalError("this advisor has no hypotheses about parameters")
            standardise = self.units is not None
            self._hypotheses = self.advisor.hypotheses.read(*self.source, standardise)
        return self._hypotheses

    @property
    def smooth(self) -> SmoothProcess | None:
        """The context as functions beyond the task's prior, once outcomes have a scale."""
        if self._smooth is None and self.units is not None and self.state.count > 1:
            self._smooth = SmoothProcess.read(self.source.context, self.noise)
        return self._smooth

    @cached_property
    def parameters(self) -> ParameterPosterior | None:
        """What the data leave of the parameters, by hypotheses."""
        hypotheses = self.advisor.hypotheses
        return None if hypotheses is None else hypotheses.posterior(self.hypotheses)

    @torch.no_grad()
    def context_features(self) -> Tensor:
        """[batch, group, context_width]."""
        features = [self.state.describe()]
        if self.parameters is not None:
            features.append(self.parameters.describe())
        return torch.cat(features, -1).float()

    @torch.no_grad()
    def parameter_frame(self) -> Frame | None:
        """Where q starts from, [batch, group, parameter]."""
        found = self.parameters
        return None if found is None else Frame(found.mean, found.std)

    @torch.no_grad()
    def at_points(self, points: Tensor) -> PointAdvice:
        """What is expected at points [batch, n, design] or a group's own.

        The same tensor, passed again after one more observation, costs one row for each point.
        """
        features, mean, std = self._expected(points)
        if self.units is not None:
            mean, std = self.units.restore(mean, std)
        frame = Frame(mean, std)
        if self.units is None:
            return PointAdvice(features, frame)
        least = None if self.noise is None else torch.full_like(self.units.scale, self.noise)
        return PointAdvice(features, frame, least, self._beyond(points))

    def _expected(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features, and the mean and deviation over kernels, weighted by evidence."""
        mean, left = self.state.moments(points)  # [batch, kernel, group, n]
        log_scale, log_density, _ = self.state.evidence
        weight = log_density.softmax(-1).mT[..., None]
        log_std = left.log() / 2 + log_scale.mT[..., None]
        average = (weight * mean).sum(1, keepdim=True)
        apart = mean - average
        variance = (weight * ((2 * log_std).exp() + apart.square())).sum(1, keepdim=True)
        log_spread = variance.clamp_min(LEAST_VARIANCE).log() / 2
        std = log_spread.exp()
        parts = (apart / std, log_std - log_spread, weight.expand_as(mean), average, log_spread)
        features = torch.cat(parts, 1)
        features[:, :-1].clamp_(-FURTHEST, FURTHEST)
        return features.permute(0, 2, 3, 1).float(), average[:, 0], std[:, 0]

    @cached_property
    def _share(self) -> Tensor:
        """Of functions beyond the task's prior in all belief, [batch]."""
        assert self.smooth is not None
        return self.smooth.share(self.state)

    def _beyond(self, points: Tensor) -> Beyond | None:
        if self.smooth is None:
            return None
        assert self.units is not None
        log_weight, mean, std = (part[:, None] for part in self.smooth.predict(points))
        return Beyond(self._share, log_weight, *self.units.restore(mean, std))

    @torch.no_grad()
    def rank(self, candidates: Tensor, goal: Goal) -> CandidateTerms:
        """What candidates [batch, n, design] or a group's own would do for a goal."""
        batch, groups, count = len(candidates), self.state.groups, candidates.shape[-2]
        terms = torch.zeros(batch, groups, count, self.advisor.score_terms)
        log_shares = None
        if goal.points.shape[1]:
            reduction = self.state.variance_reduction(candidates, goal.points, goal.points_mask)
            log_shares = reduction.log_shares().float()
            terms[..., 0] = log_shares[..., -1]
        if goal.has_parameters and self.advisor.hypotheses is not None:
            gain = self.advisor.hypotheses.log_information_gain
            terms[..., 1] = gain(self.hypotheses, candidates, goal.parameters)
        return CandidateTerms(terms, log_shares, self._reduction_beyond(candidates, goal))

    @torch.no_grad()
    def of_candidates(self, candidates: Tensor, goal: Goal) -> CandidateAdvice:
        """As `rank`, with features."""
        features, _, _ = self._expected(candidates)
        terms, log_shares, beyond = self.rank(candidates, goal)
        extra = features.new_zeros(*features.shape[:-1], self.advisor.kernels.number + 2)
        if log_shares is not None:
            extra[..., :-1], extra[..., -1] = log_shares / NATS_UNIT, 1.0
        return CandidateAdvice(torch.cat([features, extra], -1), terms, beyond)

    def _reduction_beyond(self, candidates: Tensor, goal: Goal) -> tuple[Tensor, Tensor] | None:
        """For goals of predictions alone."""
        if self.smooth is None or not goal.points.shape[1] or goal.has_parameters:
            return None
        reduction = self.smooth.log_variance_reduction(candidates, goal.points, goal.points_mask)
        return self._share, reduction[:, None]

    @torch.no_grad()
    def extend(self, design: Tensor, outcome: Tensor) -> Advice:
        """With one more observation, of a batch of one group each."""
        context = self.source.context.append(design, outcome)
        grown = replace(
            self,
            source=_Source(context, None, None),
            state=self.state.extend(design, outcome),
            _hypotheses=self._hypotheses and self._hypotheses.extend(design, outcome),
            _smooth=self._smooth and self._smooth.extend(design, outcome),
        )
        return grown

    def prefixes(self, visible: Tensor) -> Advice:
        """For groups [batch, group, context] that each see a prefix of a whole context."""
        source = self.source._replace(visible=visible)
        seen = self._hypotheses and self._hypotheses.prefixes(visible)
        return Advice(self.advisor, source, self.state.prefixes(visible), self.noise, seen)
