"""What is known of the parameters before any data, where it differs from the task's own prior.

On the network's scale the task's prior is N(0, 1). A prior that is chosen for an experiment is a
normal there, and a value that is known is a very narrow one. A posterior is then in units of its
prior, as ever; what a known value says about other parameters is the learned likelihood's to
say, at that value.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from aline.model.advice import Frame
from aline.model.config import ModelConfig
from aline.model.tokens import octaves_of

KNOWN = 1e-3  # the standard deviation of a value that is known
WIDE = 3.0  # prior standard deviations that count as the whole range of a parameter
FAR = 8.0  # standard deviations of a prior beyond which a number is as good as any other


def own_prior(batch: int, parameters: int) -> Tensor:
    """The task's own, [batch, parameter, 2]: means and standard deviations."""
    return torch.tensor([0.0, 1.0]).expand(batch, parameters, 2)


class PriorTokens(nn.Module):
    """What priors add to every token that asks: nothing, where they are the task's own."""

    def __init__(self, parameters: int, config: ModelConfig):
        super().__init__()
        self.octaves = config.octaves
        self.embed = nn.Sequential(
            nn.Linear(parameters * (2 + 2 * config.octaves), config.feedforward, bias=False),
            nn.ReLU(),
            nn.Linear(config.feedforward, config.width, bias=False),
        )

    def forward(self, prior: Frame) -> Tensor:
        """Of priors [batch, group, parameter], for all tokens: [batch, group, 1, embed]."""
        narrow = prior.std.log() / math.log(KNOWN)
        fine = octaves_of(prior.mean / WIDE, self.octaves)
        fine = fine * (1 - prior.std).repeat_interleave(self.octaves, -1).repeat(1, 1, 2)
        out: Tensor = self.embed(torch.cat([prior.mean, narrow, fine], -1))
        return out[:, :, None]


def seen_from(prior: Frame, tokens: Tensor, raw: Tensor, *zoom: Tensor) -> list[Tensor]:
    """What a head makes a belief of, with numbers in units of the prior [batch, group, p]."""
    mean, std = prior.mean[..., None], prior.std[..., None]
    near = ((raw - mean) / std).clamp(-FAR, FAR)
    return [tokens, near, *(scale - std.log() for scale in zoom)]
