"""A teacher for predictions of a function drawn from a Gaussian process.

While training, the covariance that a function was drawn with is known, so what an outcome at any
design would take of the variance at the goal's points is exact. The policy cannot see the
covariance: it learns the average over those that could have given the data.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aline.errors import InternalError
from aline.model import Network
from aline.tasks import PREDICTIONS, Task
from aline.tasks.task import SimulatedWorld
from aline.training.config import TrainingConfig
from aline.training.losses import Played, paired_pool_loss
from aline.training.teacher import ALTERNATIVES, Lesson, Teacher


class FunctionTeacher(Teacher):
    """Knows the expected fall of the variance at the goal's points; else credits are paired."""

    def __init__(self, task: Task):
        self.space = task.spec.design

    def loss(
        self, network: Network, played: Played, config: TrainingConfig, generator: torch.Generator
    ) -> Tensor:
        """The teacher's for goals of predictions; where parameters are wanted too, q judges."""
        if bool(played.goal.parameters.any()):
            return paired_pool_loss(network, played, config, generator)
        return super().loss(network, played, config, generator)

    def lesson(self, played: Played, visible: Tensor, generator: torch.Generator) -> Lesson:
        """For designs drawn from anywhere."""
        designs = self.space.sample(played.batch, ALTERNATIVES, generator)
        return Lesson(designs[:, None], self.fall(played, visible, designs))

    @torch.no_grad()
    def fall(self, played: Played, visible: Tensor, designs: Tensor) -> Tensor:
        """By how much an outcome at designs [batch, n, design] lowers the variance at the goal.

        Summed over the goal's points, [batch, group, n], in the outcome's units.
        """
        world, goal, count = played.world, played.goal, designs.shape[1]
        if not isinstance(world, SimulatedWorld) or world.task.process is None:
            raise InternalError("this world's functions are of no known Gaussian process")
        points = torch.cat([designs, goal.points], 1)
        prior = world.covariance(designs, points)[:, None]
        rows = _whitened(world, played.context.designs, points)[:, None] * visible[..., None]
        known = prior - rows[..., :count].mT @ rows  # [batch, group, n, point]
        own = known[..., :count].diagonal(dim1=-2, dim2=-1).clamp_min(0)
        told = (known[..., count:].square() * goal.points_mask[:, None, None]).sum(-1)
        return (told / (own + world.task.process.noise**2)).float()


def _whitened(world: SimulatedWorld, observed: Tensor, points: Tensor) -> Tensor:
    """Points over the observations' Cholesky factor, [batch, context, point].

    The factor of the first t observations is its leading block, and so it is with the rows.
    """
    assert world.task.process is not None
    matrix = world.covariance(observed, observed)
    matrix.diagonal(dim1=-2, dim2=-1).add_(world.task.process.noise**2)
    factor = torch.linalg.cholesky(matrix)
    rows: Tensor = torch.linalg.solve_triangular(
        factor, world.covariance(observed, points), upper=False
    )
    return rows


def requirement(task: Task) -> str | None:
    """What a task lacks for its policy to be taught, in words."""
    if task.process is None:
        return "a Gaussian process behind its outcomes"
    if not any(PREDICTIONS in names for names, _ in task.spec.targets):
        return "goals of predictions"
    return None
