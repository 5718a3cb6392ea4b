"""QUEST+ (Watson 2017, Journal of Vision 17(3):10), written from the paper.

Every trial shows the stimulus after which the posterior of all parameters together is expected to
have the smallest entropy.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aline.baselines.grid import GridPolicy


class QuestPlus(GridPolicy):
    """Aims at all parameters together, whatever the goal."""

    def targets(self, goal: Tensor) -> Tensor:
        """All of them."""
        return torch.ones_like(goal)
