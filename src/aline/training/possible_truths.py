"""Truths that could have given the same data.

Put the truth of an episode among others. Knowing the data and all of them, but not which is which,
each is the truth with a probability in proportion to its posterior density over the density that
the others were drawn with. So q may learn from any of them, drawn with that probability: the loss
has the same expectation, however many there are and wherever they come from, and far less noise
wherever the data leave much open. Once q is right, this noise is all that is left in its gradient.

The others are drawn from q itself, and anew each time the data have doubled, so that many stay
likely as data come in. Those of a stage must not know the data that come later in it, which depend
on the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from aline.episodes import Context
from aline.spaces.outcomes import Mixture
from aline.tasks import Task

PRIOR_SHARE = 0.1  # of the others come from the prior, so that no weight can explode


def stage_starts(length: int) -> list[int]:
    """After how many observations, of `length`, others are drawn: 0, 1, 2, 4, 8, ..."""
    return [0, *(2**i for i in range(length.bit_length()))]


@dataclass(frozen=True)
class PossibleTruths:
    """The truths of a batch of episodes among others, with how likely each is to be the truth.

    Every episode has others of its own: what they share by chance would not average out.
    """

    theta: Tensor  # [batch, stage, 1 + other, parameter], the truth first
    log_weight: Tensor  # [batch, length, 1 + other] after that many observations
    stage: Tensor  # [length] whose others these are

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        task: Task,
        truth: Tensor,
        context: Context,
        q: Mixture,
        count: int,
        generator: torch.Generator,
    ) -> PossibleTruths:
        """Draw `count` others a stage from q [batch, stage, parameter] at its start."""
        starts = stage_starts(context.length)
        first = truth[:, None, None].expand(-1, len(starts), -1, -1)
        theta = torch.cat([first, _others(q, count, generator)], 2)
        before = -_log_drawn_over_prior(q, theta)
        weights = []
        for i, (start, end) in enumerate(pairwise([*starts, context.length + 1])):
            designs, outcomes = context.designs[:, None, : end - 1], context.outcomes[:, : end - 1]
            each = task.log_prob(theta[:, i], designs, outcomes[:, None])
            total = torch.cat([before[:, i, :, None], each], -1).cumsum(-1)
            weights.append(total[..., start:].mT)
        stage = [torch.full((part.shape[1],), i) for i, part in enumerate(weights)]
        return cls(theta, torch.cat(weights, 1), torch.cat(stage))

    def draw(self, lengths: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Truths [batch, prefix, count, parameter] after `lengths` [batch, prefix] observations.

        The draws of a prefix are spread evenly over its probabilities.
        """
        row = torch.arange(len(lengths))[:, None]
        cumulated = self.log_weight[row, lengths].softmax(-1).cumsum(-1)
        position = torch.arange(count) + torch.rand(*lengths.shape, 1, generator=generator)
        last = self.theta.shape[2] - 1
        index = torch.searchsorted(cumulated, position / count).clamp(max=last)
        return self.theta[row[..., None], self.stage[lengths][..., None], index]


def _others(q: Mixture, count: int, generator: torch.Generator) -> Tensor:
    """Draws [batch, stage, count, parameter], some of them from the prior."""
    drawn = q.sample(count, generator).movedim(0, 2)
    plain = torch.randn(drawn.shape, generator=generator)
    is_plain = torch.rand(drawn.shape[:-1], generator=generator) < PRIOR_SHARE
    return torch.where(is_plain[..., None], plain, drawn)


def _log_drawn_over_prior(q: Mixture, theta: Tensor) -> Tensor:
    """Log density [batch, stage, n] that the others are drawn with, over the prior's."""
    wide = q.unsqueeze(2)
    prior = (-0.5 * theta.square() - 0.5 * math.log(2 * math.pi)).sum(-1)
    gain = wide.log_prob(theta).sum(-1) - prior
    return torch.logaddexp(gain + math.log(1 - PRIOR_SHARE), gain.new_tensor(math.log(PRIOR_SHARE)))


def has_parameter_likelihood(task: Task) -> bool:
    """Whether the parameters alone say how likely data are."""
    return bool(len(task.spec.parameters)) and task.log_likelihood is not None and not task.latent
