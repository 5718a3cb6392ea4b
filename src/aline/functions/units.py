"""Outcomes in a user's units: standardised as they arrive, predictions mapped back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Units:
    """A location and a scale for each episode, [batch]."""

    loc: Tensor
    scale: Tensor

    @classmethod
    def of(cls, outcomes: Tensor) -> Units:
        """Those of outcomes [batch, context] so far.

        Before the first outcome both are the task's, and the scale before the second. The spread of
        few outcomes is likely too small: it is widened to the standard error of the next outcome.
        """
        batch, count = outcomes.shape
        if count < 2:
            loc = outcomes[:, 0] if count else outcomes.new_zeros(batch)
            return cls(loc, outcomes.new_ones(batch))
        spread, loc = torch.std_mean(outcomes, 1)
        spread = spread * math.sqrt((count + 1) / (count - 1))
        # Outcomes that are all the same say nothing of their scale.
        return cls(loc, torch.where(spread > 1e-12 * loc.abs(), spread, 1.0))

    def standardise(self, outcomes: Tensor) -> Tensor:
        """Outcomes [batch, ...] less the location, over the scale."""
        loc, scale = (_along(part, outcomes) for part in (self.loc, self.scale))
        return (outcomes - loc) / scale

    def restore(self, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
        """A mean and a standard deviation [batch, ...] of standardised outcomes, as these came."""
        loc, scale = (_along(part, mean) for part in (self.loc, self.scale))
        return mean * scale + loc, std * scale

    def standardise_whitened(self, white: Tensor) -> Tensor:
        """Standardised outcomes over a factor, from outcomes and ones over it, [..., 2]."""
        outcomes, ones = white.unbind(-1)
        loc, scale = (_along(part, outcomes) for part in (self.loc, self.scale))
        return torch.addcmul(outcomes, loc, ones, value=-1).div_(scale)


def _along(part: Tensor, values: Tensor) -> Tensor:
    return part.view(-1, *[1] * (values.dim() - 1))
