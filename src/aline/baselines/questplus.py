"""QUEST+ (Watson 2017, Journal of Vision 17(3):10), written from the paper.

Every trial shows the stimulus after which the posterior of all parameters together is expected to
have the smallest entropy.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aline.baselines.grid import GridPolicy


class QuestPlus(GridPolicy):
    """Aims at all parameters together, whatever the goal.

    >>> from aline.baselines import Procedure
    >>> from aline.tasks import get
    >>> grid = {"threshold": 21, "slope": 11, "guess": 5, "lapse": 5}
    >>> procedure = Procedure(QuestPlus(get("psychometric"), grid))
    >>> procedure.tell(procedure.ask(), True)
    """

    def targets(self, goal: Tensor) -> Tensor:
        """All of them."""
        return torch.ones_like(goal)
