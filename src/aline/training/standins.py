"""Truths that could have given the same data.

Put the truth of an episode among others from the prior. Knowing the data and all of them, but not
which is which, each gave the data with a probability in proportion to its likelihood. So q may
learn from any of them, drawn with that probability: the loss has the same expectation, however many
there are, and far less noise wherever the data leave much open. Once q is right, this noise is all
that is left in its gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from aline.episodes import Context
from aline.tasks import Task


@dataclass(frozen=True)
class StandIns:
    """The truths of a batch of episodes among others, with how likely each makes the data.

    Every episode has others of its own: what they share by chance would not average out.
    """

    theta: Tensor  # [batch, 1 + other, parameter], the truth first
    log_likelihood: Tensor  # [batch, length, 1 + other] of that many observations

    @classmethod
    @torch.no_grad()
    def of(
        cls, task: Task, truth: Tensor, context: Context, count: int, generator: torch.Generator
    ) -> StandIns:
        """Draw `count` others for episodes with these observations."""
        others = task.spec.parameters.sample(len(truth) * count, generator)
        theta = torch.cat([truth[:, None], others.view(len(truth), count, -1)], 1)
        each = task.log_prob(theta, context.designs[:, None], context.outcomes[:, None])
        total = each.mT.cumsum(1)
        return cls(theta, torch.cat([torch.zeros_like(total[:, :1]), total], 1))

    def draw(self, lengths: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Truths [batch, prefix, count, parameter] after `lengths` [batch, prefix] observations.

        The draws of a prefix are spread evenly over its probabilities.
        """
        rows = lengths[..., None].expand(-1, -1, self.log_likelihood.shape[2])
        cumulated = self.log_likelihood.gather(1, rows).softmax(-1).cumsum(-1)
        position = torch.arange(count) + torch.rand(*lengths.shape, 1, generator=generator)
        last = self.theta.shape[1] - 1
        index = torch.searchsorted(cumulated, position / count).clamp(max=last)
        return self.theta[torch.arange(len(index))[:, None, None], index]


def can_stand_in(task: Task) -> bool:
    """Whether the parameters alone say how likely data are."""
    return bool(len(task.spec.parameters)) and task.log_likelihood is not None and not task.latent
