"""What a design would do for a goal's predictions, where the true covariance is known.

While training, the covariance that a function was drawn with is known, so what an outcome takes of
the variance at the goal's points is exact. The policy cannot see the covariance: it learns the
average over those that could have given the data. For parameters the hypotheses teach instead
(`Advice.of_candidates`): a teacher that knows the kind of kernel would take for news of a
lengthscale what could as well come from another kind.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aline.episodes import Goal
from aline.tasks import PREDICTIONS, Task
from aline.tasks.task import SimulatedWorld


@torch.no_grad()
def true_variance_reduction(
    world: SimulatedWorld, observed: Tensor, visible: Tensor, designs: Tensor, goal: Goal
) -> Tensor:
    """By how much an outcome at designs [batch, n, design] lowers the variance at a goal's points.

    Summed over these, [batch, group, n], in the outcome's units, for groups that see `visible`
    [batch, group, context] of the designs observed [batch, context, design].
    """
    assert world.task.process is not None
    noise, count = world.task.process.noise**2, designs.shape[1]
    points = torch.cat([designs, goal.points], 1)
    rows = _rows_over_factor(world, noise, observed, points)[:, None] * visible[..., None]
    prior = world.covariance(designs, points)[:, None]
    left = prior - rows[..., :count].mT @ rows  # [batch, group, n, point]
    own = left[..., :count].diagonal(dim1=-2, dim2=-1).clamp_min(0)
    squares = (left[..., count:].square() * goal.points_mask[:, None, None]).sum(-1)
    return (squares / (own + noise)).float()


def _rows_over_factor(
    world: SimulatedWorld, noise: float, observed: Tensor, points: Tensor
) -> Tensor:
    """Points over the observations' Cholesky factor, [batch, context, point].

    The factor of the first t observations is its leading block, and so it is with the rows.
    """
    matrix = world.covariance(observed, observed)
    matrix.diagonal(dim1=-2, dim2=-1).add_(noise)
    cross = world.covariance(observed, points)
    rows: Tensor = torch.linalg.solve_triangular(torch.linalg.cholesky(matrix), cross, upper=False)
    return rows


def requirement(task: Task) -> str | None:
    """What a task lacks for its policy to be taught, in words."""
    if task.process is None:
        return "a Gaussian process behind its outcomes"
    if not any(PREDICTIONS in names for names, _ in task.spec.targets):
        return "goals of predictions"
    return None
