"""What Gaussian processes say of a context, as a plug-in of the network (model/advice.py).

An ensemble of fixed kernels gives features and frames for predictions, hypotheses about the
parameters those for posteriors, and both rank candidates: by the share of the variance at a goal's
points that an outcome would take away, or by the nats that it would give about parameters.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from aline.episodes import Context, Goal
from aline.errors import InputError, InternalError
from aline.functions import ensemble
from aline.functions.ensemble import LEAST_VARIANCE, Posterior
from aline.functions.hypotheses import Hypotheses, ParameterPosterior
from aline.model.advice import Advice, Frame, NoAdvisor, PointAdvice
from aline.tasks import Spec

FURTHEST = 5.0  # features are cut there
STEEP = 20.0  # what a candidate's logit gains as what it would teach grows e-fold


class FunctionAdvisor(NoAdvisor):
    """Built for a task's spec and settings; has no weights."""

    def __init__(self, spec: Spec, kernels: int = 12, hypotheses: int = 0):
        super().__init__()
        if not spec.outcome.is_linear:
            raise InputError("functions have real outcomes without limits: leave the plug-in out")
        self.kernels = ensemble.spread_kernels(len(spec.design), kernels)
        self.hypotheses = Hypotheses(spec, hypotheses) if hypotheses else None
        self.point_width = 3 * kernels + 2
        self.context_width = 2 * kernels + 1 + (self.hypotheses.width if self.hypotheses else 0)
        self.has_frames = self.hypotheses is not None

    @torch.no_grad()
    def read(self, context: Context) -> FunctionAdvice:
        """Take a whole context in, for one group that sees all of it."""
        visible = None if context.mask is None else context.mask[:, None]
        return self.read_groups(Source(context, visible))

    def read_groups(self, source: Source, standardise: bool = False) -> FunctionAdvice:
        """For groups that see prefixes; with `standardise`, outcomes may have any units."""
        state = ensemble.read(self.kernels, *source, standardise)
        return FunctionAdvice(self, source, state)

    def in_units(self, engine: Any, noise: float | None) -> Any:
        """An engine that standardises outcomes as they arrive."""
        from aline.functions.standardised import StandardisedEngine

        return StandardisedEngine(engine, noise)


class Source(NamedTuple):
    """What was read, for parts of the advice that are computed only when asked for."""

    context: Context
    visible: Tensor | None = None  # bool [batch, group, context]


class FunctionAdvice(Advice):
    """A context as the ensemble and the hypotheses hold it."""

    def __init__(
        self,
        advisor: FunctionAdvisor,
        source: Source,
        state: Posterior,
        hypotheses: Posterior | None = None,
    ):
        super().__init__(len(state.designs), state.groups, state.count)
        self.advisor, self.source, self.state = advisor, source, state
        self._hypotheses = hypotheses

    @property
    def hypotheses(self) -> Posterior:
        """The context as hypotheses about the parameters see it."""
        if self._hypotheses is None:
            if self.advisor.hypotheses is None:
                raise InternalError("this plug-in has no hypotheses about parameters")
            standardise = self.state.units is not None
            self._hypotheses = self.advisor.hypotheses.read(*self.source, standardise)
        return self._hypotheses

    @cached_property
    def parameters(self) -> ParameterPosterior | None:
        """What the data leave of the parameters, by hypotheses."""
        hypotheses = self.advisor.hypotheses
        return None if hypotheses is None else hypotheses.posterior(self.hypotheses)

    @torch.no_grad()
    def context_features(self) -> Tensor:
        """Of the ensemble, and of what hypotheses say."""
        features = [self.state.describe()]
        if self.parameters is not None:
            features.append(self.parameters.describe())
        return torch.cat(features, -1).float()

    @torch.no_grad()
    def parameter_frame(self) -> Frame | None:
        """By the hypotheses."""
        found = self.parameters
        return None if found is None else Frame(found.mean.float(), found.std.float())

    @torch.no_grad()
    def at_points(self, points: Tensor) -> PointAdvice:
        """What is expected there: the average over kernels, and how each departs from it.

        The same tensor, passed again after one more observation, costs one row for each point.
        """
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
        frame = Frame(average[:, 0].float(), std[:, 0].float())
        return PointAdvice(features.permute(0, 2, 3, 1).float(), frame)

    @torch.no_grad()
    def scores(self, candidates: Tensor, goal: Goal) -> Tensor:
        """The logs of the shares of variance and of the nats, where the goal wants them."""
        total = torch.zeros(*self.shape, candidates.shape[-2])
        if goal.points.shape[1]:
            share = self.state.log_variance_share(candidates, goal.points, goal.points_mask)
            total = total + share.float() * goal.points_mask.any(1)[:, None, None]
        if goal.has_parameters and self.advisor.hypotheses is not None:
            gain = self.advisor.hypotheses.log_information_gain
            total = total + gain(self.hypotheses, candidates, goal.parameters).float()
        return STEEP * total

    @torch.no_grad()
    def regrouped(self, visible: Tensor) -> FunctionAdvice:
        """For groups that see prefixes of the whole context."""
        source = Source(self.source.context, visible)
        hypotheses = self._hypotheses and self._hypotheses.prefixes(visible)
        return FunctionAdvice(self.advisor, source, self.state.prefixes(visible), hypotheses)

    @torch.no_grad()
    def extend(self, design: Tensor, outcome: Tensor) -> FunctionAdvice:
        """With one more observation."""
        state = self.state.extend(design, outcome)
        hypotheses = self._hypotheses and self._hypotheses.extend(design, outcome)
        source = Source(Context(state.designs, state.outcomes))
        return FunctionAdvice(self.advisor, source, state, hypotheses)


def advisor(spec: Spec, **settings: Any) -> FunctionAdvisor:
    """The plug-in for a task, by its settings."""
    return FunctionAdvisor(spec, **settings)
