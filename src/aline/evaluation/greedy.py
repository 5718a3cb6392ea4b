"""The exact greedy optimum: the stimulus with the most information about the goal in one step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from aline.baselines.psi_marginal import PsiMarginal
from aline.episodes import Context, goal_of
from aline.errors import InputError
from aline.evaluation.quadrature import quadrature
from aline.tasks import Task
from aline.tasks.lattice import Lattice

_BATCH = 50


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


def information_share(oracle: PsiMarginal, context: Context, target: Sequence[str]) -> Tensor:
    """The information expected of each design over that of the best one, [batch, step].

    Both are exact and about the target, given what was measured before. The designs must be among
    the oracle's stimuli.
    """
    batch, steps = context.outcomes.shape
    shares = torch.empty(batch, steps)
    for rows in torch.arange(batch).split(_BATCH):
        state = oracle.begin(goal_of(oracle.spec, target).repeat(len(rows)))
        for step in range(steps):
            design = context.designs[rows, step]
            distance = (oracle.stimuli - design[:, None]).abs().amax(-1)
            if float(distance.amin(1).max()) > 1e-5:
                raise InputError(
                    "a design is not among the oracle's stimuli: it cannot be compared"
                )
            information = oracle.information(state)
            chosen = information.gather(1, distance.argmin(1, keepdim=True))[:, 0]
            shares[rows, step] = chosen / information.amax(1)
            state = oracle.observe(state, design, context.outcomes[rows, step])
    return shares
