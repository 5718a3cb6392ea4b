"""A teacher for functions drawn from a Gaussian process: for predictions, and for its parameters.

While training, the covariance that a function was drawn with is known. So what an outcome at any
design would take of the variance at the goal's points is exact, and so is the Fisher information
that it would add about the parameters. The policy cannot see the covariance: it learns the average
over those that could have given the data.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from aline.errors import InternalError
from aline.model import Network
from aline.tasks import PREDICTIONS, Task
from aline.tasks.task import SimulatedWorld
from aline.training.config import TrainingConfig
from aline.training.losses import Played, paired_pool_loss
from aline.training.teacher import ALTERNATIVES, Lesson, Teacher

STEP = 1e-3  # of a parameter on its normal scale, for derivatives by differences


class FunctionTeacher(Teacher):
    """Knows what outcomes tell of a goal's points or parameters; of both, credits are paired."""

    def __init__(self, task: Task):
        self.space = task.spec.design

    def loss(
        self, network: Network, played: Played, config: TrainingConfig, generator: torch.Generator
    ) -> Tensor:
        """The teacher's; where parameters and predictions are wanted together, q judges."""
        if played.goal.points.shape[1] and bool(played.goal.parameters.any()):
            return paired_pool_loss(network, played, config, generator)
        return super().loss(network, played, config, generator)

    def lesson(self, played: Played, visible: Tensor, generator: torch.Generator) -> Lesson:
        """For designs drawn from anywhere."""
        designs = self.space.sample(played.batch, ALTERNATIVES, generator)
        worth = self.fall if played.goal.points.shape[1] else self.gain
        return Lesson(designs[:, None], worth(played, visible, designs))

    @torch.no_grad()
    def fall(self, played: Played, visible: Tensor, designs: Tensor) -> Tensor:
        """By how much an outcome at designs [batch, n, design] lowers the variance at the goal.

        Summed over the goal's points, [batch, group, n], in the outcome's units.
        """
        world, noise = _known(played)
        goal, count = played.goal, designs.shape[1]
        points = torch.cat([designs, goal.points], 1)
        prior = world.covariance(designs, points)[:, None]
        rows = _whitened(world, noise, played.context.designs, points)[:, None] * visible[..., None]
        known = prior - rows[..., :count].mT @ rows  # [batch, group, n, point]
        own = known[..., :count].diagonal(dim1=-2, dim2=-1).clamp_min(0)
        told = (known[..., count:].square() * goal.points_mask[:, None, None]).sum(-1)
        return (told / (own + noise**2)).float()

    @torch.no_grad()
    def gain(self, played: Played, visible: Tensor, designs: Tensor) -> Tensor:
        """What an outcome at designs [batch, n, design] is expected to tell of the parameters.

        In nats, [batch, group, n], if the posterior were normal: by the Fisher information at the
        truth together with the prior's, which is one on the normal scale of every parameter.
        """
        before, more = information(played, visible, designs)
        before = before + torch.eye(before.shape[-1])
        wanted = played.goal.parameters[:, None, None]
        after = _log_precision(before[:, :, None] + more, wanted)
        return (after - _log_precision(before, wanted[:, 0])[..., None]).float() / 2


def information(played: Played, visible: Tensor, designs: Tensor) -> tuple[Tensor, Tensor]:
    """Fisher information about all parameters, on their normal scale, at the truth.

    That in the outcomes at the designs that are `visible` [batch, group, context], whatever they
    were, [batch, group, parameter, parameter]; and what one more outcome at each of designs
    [batch, n, design] would add to it on average, [batch, group, n, parameter, parameter].
    """
    world, noise = _known(played)
    seen = visible[..., None].double()  # [batch, group, context, 1]
    observed = played.context.designs
    value, slope = _with_slopes(world, torch.cat([observed, designs], 1))
    count = observed.shape[1]
    among = seen * seen.mT
    matrix = value[:, :, :count, :count] * among
    matrix = matrix + torch.diag_embed(seen[..., 0] * noise**2 + 1 - seen[..., 0])
    inverse = torch.linalg.inv(matrix)
    cross, own = value[:, :, :count, count:] * seen, value[:, 0, count:, count:]
    # From here on the parameters' axis is the first.
    bend, cross_bend = slope[..., :count, :count] * among, slope[..., :count, count:] * seen
    own_bend = slope[..., count:, count:].diagonal(dim1=-2, dim2=-1)
    turned = inverse @ bend
    before = 0.5 * torch.einsum("pbgnm,qbgmn->bgpq", turned, turned)
    # An outcome is normal given the others: its mean and variance depend on the parameters.
    weights = inverse @ cross
    variance = own.diagonal(dim1=-2, dim2=-1)[:, None] + noise**2 - (cross * weights).sum(-2)
    mean_bend = cross_bend - bend @ weights
    bent = (own_bend - (weights * (mean_bend + cross_bend)).sum(-2)) / variance
    moved = torch.einsum("pbgnm,qbgnm->bgmpq", mean_bend, inverse @ mean_bend)
    changed = torch.einsum("pbgm,qbgm->bgmpq", bent, bent)
    return before, moved / variance[..., None, None] + 0.5 * changed


def _with_slopes(world: SimulatedWorld, points: Tensor) -> tuple[Tensor, Tensor]:
    """The covariance of points, and its derivatives by each parameter on the normal scale.

    [batch, 1, point, point] and [parameter, batch, 1, point, point], in double precision.
    """
    theta, points = world.theta.double(), points.double()
    step = STEP * torch.eye(theta.shape[1], dtype=theta.dtype)

    def at(moved: Tensor) -> Tensor:
        return replace(world, theta=moved).covariance(points, points)[:, None]

    slopes = [(at(theta + one) - at(theta - one)) / (2 * STEP) for one in step]
    return at(theta), torch.stack(slopes)


def _log_precision(information: Tensor, wanted: Tensor) -> Tensor:
    """Log determinant [...] of what is known of the parameters `wanted` [..., parameter].

    The others are not known either: theirs is taken off that of all.
    """
    rest = ~(wanted[..., None] | wanted[..., None, :])
    others = torch.where(rest, information, torch.eye(information.shape[-1], dtype=torch.double))
    known: Tensor = torch.linalg.slogdet(information)[1] - torch.linalg.slogdet(others)[1]
    return known


def _known(played: Played) -> tuple[SimulatedWorld, float]:
    """The world, whose functions are of a known Gaussian process, and their noise."""
    world = played.world
    if not isinstance(world, SimulatedWorld) or world.task.process is None:
        raise InternalError("this world's functions are of no known Gaussian process")
    return world, world.task.process.noise


def _whitened(world: SimulatedWorld, noise: float, observed: Tensor, points: Tensor) -> Tensor:
    """Points over the observations' Cholesky factor, [batch, context, point].

    The factor of the first t observations is its leading block, and so it is with the rows.
    """
    matrix = world.covariance(observed, observed)
    matrix.diagonal(dim1=-2, dim2=-1).add_(noise**2)
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
