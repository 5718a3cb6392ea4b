"""The exact greedy optimum: the stimulus that really tells most about the goal in one step."""

from __future__ import annotations

import math
from collections.abc import Sequence

from aline.baselines.grid import Lattice
from aline.baselines.psi_marginal import PsiMarginal
from aline.evaluation.exact import quadrature
from aline.tasks import Task


def exact_greedy(task: Task, nodes: Sequence[int]) -> PsiMarginal:
    """The policy that maximises targeted information on a Gauss-Legendre grid of the prior.

    `nodes` are the grid's, one number a parameter: enough of them, and its posterior is the exact
    one. It chooses from 200 evenly spaced stimuli or from what is on offer.
    """
    axes = []
    for count, scale in zip(nodes, task.spec.parameters.scales, strict=True):
        bounded = all(map(math.isfinite, scale.support))
        axis = quadrature(count, (-1.0, 1.0), bounded)
        axes.append((axis.z, axis.log_weight.exp()))
    return PsiMarginal(task, Lattice.of_axes(axes))
