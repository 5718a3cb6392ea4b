"""The family of priors that a network learns, where they may be chosen for an experiment."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from aline.episodes import Goal
from aline.model.prior import KNOWN, own_prior

OWN_SHARE = 0.5  # of episodes have the task's own priors alone
NARROWEST = 0.01  # standard deviation of a chosen prior, the task's own being 1
FARTHEST = 2.5  # where a narrow prior's mean, or a known value, may lie


def draw_priors(batch: int, parameters: int, generator: torch.Generator) -> Tensor:
    """Means and standard deviations [batch, parameter, 2] on the network's scale.

    A third of an episode's parameters have the task's own prior, a third are known, a third have a
    prior of any width down to a hundredth, anywhere inside the task's own.
    """
    shape = (batch, parameters)
    kind = torch.rand(shape, generator=generator) * 3
    std = torch.exp(math.log(NARROWEST) * torch.rand(shape, generator=generator))
    std = torch.where(kind < 1, KNOWN, std)
    place = FARTHEST * (2 * torch.rand(shape, generator=generator) - 1)
    chosen = torch.stack([place * (1 - std * std).clamp_min(0.0).sqrt(), std], -1)
    is_own = (torch.rand(batch, 1, generator=generator) < OWN_SHARE) | (kind > 2)
    return torch.where(is_own[..., None], own_prior(batch, parameters), chosen)


def draw_truths(prior: Tensor, generator: torch.Generator) -> Tensor:
    """Parameters [batch, parameter] from priors [batch, parameter, 2]."""
    mean, std = prior.unbind(-1)
    return mean + std * torch.randn(mean.shape, generator=generator)


def without_known(goal: Goal, prior: Tensor) -> Goal:
    """Goals less what is known; where nothing is left of one, all that is not known."""
    unknown = prior[..., 1] > KNOWN
    left = goal.parameters & unknown
    is_over = ~(left.any(1, keepdim=True) | goal.points_mask.any(1, keepdim=True))
    left = torch.where(is_over, unknown, left)
    # Where everything is known, any goal will do.
    nothing = is_over & ~unknown.any(1, keepdim=True)
    return replace(goal, parameters=torch.where(nothing, goal.parameters, left))
