"""A teacher for functions drawn from a Gaussian process: for predictions, and for its parameters.

While training, the covariance that a function was drawn with is known. So what an outcome at any
design would take of the variance at the goal's points is exact. The policy cannot see the
covariance: it learns the average over those that could have given the data. What an outcome would
tell of the parameters, the network's hypotheses say: a teacher that knows the kind of kernel would
take for news of a lengthscale what could as well come from another kind.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aline.errors import InternalError
from aline.functions.advisor import FunctionAdvice
from aline.functions.task import FunctionTask, Process
from aline.model import Network
from aline.tasks import Task
from aline.tasks.task import SimulatedWorld
from aline.training.config import TrainingConfig
from aline.training.losses import Played, paired_pool_loss
from aline.training.teacher import ALTERNATIVES, Lesson, Teacher


class FunctionTeacher(Teacher):
    """Knows what outcomes tell of a goal's points or parameters; of both, q judges."""

    def __init__(self, task: Task):
        self.space = task.spec.design

    def loss(
        self, network: Network, played: Played, config: TrainingConfig, generator: torch.Generator
    ) -> Tensor:
        """The teacher's; where it knows nothing of the goal, or half of it, q judges."""
        wants_parameters = bool(played.goal.parameters.any())
        if wants_parameters and (played.goal.points.shape[1] or not network.advisor.has_frames):
            return paired_pool_loss(network, played, config, generator)
        return super().loss(network, played, config, generator)

    def lesson(self, played: Played, visible: Tensor, generator: torch.Generator) -> Lesson:
        """For designs drawn from anywhere."""
        designs = self.space.sample(played.batch, ALTERNATIVES, generator)
        worth = self.fall if played.goal.points.shape[1] else self.told
        return Lesson(designs, worth(played, visible, designs))

    @torch.no_grad()
    def fall(self, played: Played, visible: Tensor, designs: Tensor) -> Tensor:
        """By how much an outcome at designs [batch, n, design] lowers the variance at the goal.

        Summed over the goal's points, [batch, group, n], in the outcome's units.
        """
        world, process = _known(played)
        goal, count = played.goal, designs.shape[1]
        points = torch.cat([designs, goal.points], 1)
        prior = _covariance(world, process, designs, points)[:, None]
        rows = _whitened(world, process, played.context.designs, points)[:, None]
        rows = rows * visible[..., None]
        known = prior - rows[..., :count].mT @ rows  # [batch, group, n, point]
        own = known[..., :count].diagonal(dim1=-2, dim2=-1).clamp_min(0)
        told = (known[..., count:].square() * goal.points_mask[:, None, None]).sum(-1)
        return (told / (own + process.noise**2)).float()

    @torch.no_grad()
    def told(self, played: Played, visible: Tensor, designs: Tensor) -> Tensor:
        """What outcomes at designs [batch, n, design] would tell of the goal's parameters.

        In nats, [batch, group, n], by the network's own hypotheses: the policy leans on these, and
        what it learns of other goals shall not carry it away from them.
        """
        assert isinstance(played.advice, FunctionAdvice)
        advice = played.advice.regrouped(visible)
        return advice.of_candidates(designs, played.goal).terms[..., 1].exp()


def _known(played: Played) -> tuple[SimulatedWorld, Process]:
    """The world, whose functions are of a known Gaussian process."""
    world = played.world
    if not isinstance(world, SimulatedWorld) or not isinstance(world.task, FunctionTask):
        raise InternalError("this world's functions are of no known Gaussian process")
    return world, world.task.process


def _covariance(world: SimulatedWorld, process: Process, a: Tensor, b: Tensor) -> Tensor:
    """Of the functions at designs [batch, n, design] and [batch, m, design]."""
    design = world.task.spec.design
    return process.covariance(world.values(), design.name_columns(a), design.name_columns(b))


def _whitened(world: SimulatedWorld, process: Process, observed: Tensor, points: Tensor) -> Tensor:
    """Points over the observations' Cholesky factor, [batch, context, point].

    The factor of the first t observations is its leading block, and so it is with the rows.
    """
    matrix = _covariance(world, process, observed, observed)
    matrix.diagonal(dim1=-2, dim2=-1).add_(process.noise**2)
    factor = torch.linalg.cholesky(matrix)
    cross = _covariance(world, process, observed, points)
    rows: Tensor = torch.linalg.solve_triangular(factor, cross, upper=False)
    return rows
