"""What a learned kernel says of a context, as a plug-in of the network (model/advice.py).

It has weights, which are trained with the network's: tables teach the kernel what landscapes have
in common, and the network what the kernel gets wrong. Candidates are ranked by the share of the
variance at a goal's points that their outcome would take away.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aline.episodes import Context, Goal
from aline.errors import InputError
from aline.landscapes.kernel import LearnedKernel, Posterior, grouped
from aline.model.advice import Advice, Frame, NoAdvisor, PointAdvice
from aline.tasks import Spec

STEEP = 20.0  # what a candidate's logit gains as what it would teach grows e-fold


class LandscapeAdvisor(NoAdvisor):
    """Built for a task's spec."""

    context_width, point_width = 2, 4
    is_learned = True

    def __init__(self, spec: Spec, **sizes: int):
        super().__init__()
        if not spec.outcome.is_linear:
            raise InputError("landscapes have real outcomes without limits: leave the plug-in out")
        self.kernel = LearnedKernel(len(spec.design), **sizes)

    def read(self, context: Context) -> LandscapeAdvice:
        """Take a whole context in, for one group that sees all of it."""
        return LandscapeAdvice(self, context, self.kernel.read(context))


class LandscapeAdvice(Advice):
    """A context as the kernel holds it."""

    def __init__(self, advisor: LandscapeAdvisor, context: Context, state: Posterior):
        super().__init__(len(state.white), state.visible.shape[1], context.length)
        self.advisor, self.source, self.state = advisor, context, state

    def context_features(self) -> Tensor:
        """How surprising outcomes were, and how many there are."""
        count = self.state.visible.sum(-1)
        return torch.stack([self.state.surprise().log(), (1 + count).log()], -1).float()

    def at_points(self, points: Tensor) -> PointAdvice:
        """What is expected there."""
        mean, variance = self.state.moments(self.advisor.kernel.embed(grouped(points)))
        mean, log_std = mean.float(), variance.log().float() / 2
        about = self.context_features()[:, :, None].expand(*mean.shape, -1)
        features = torch.cat([torch.stack([mean, log_std], -1), about], -1)
        return PointAdvice(features, Frame(mean, log_std.exp()))

    @torch.no_grad()
    def scores(self, candidates: Tensor, goal: Goal) -> Tensor:
        """By what outcomes take away of the variance at the goal's points."""
        share = self.state.log_variance_share(candidates, goal.points, goal.points_mask)
        return STEEP * share.float()

    def regrouped(self, visible: Tensor) -> LandscapeAdvice:
        """For groups that see prefixes of the whole context."""
        return LandscapeAdvice(self.advisor, self.source, self.state.prefixes(visible))

    def extend(self, design: Tensor, outcome: Tensor) -> LandscapeAdvice:
        """With one more observation."""
        return self.advisor.read(self.source.append(design, outcome))


def advisor(spec: Spec, **settings: Any) -> LandscapeAdvisor:
    """The plug-in for a task, by its settings."""
    return LandscapeAdvisor(spec, **settings)
