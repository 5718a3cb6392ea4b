"""The teacher for functions against Gaussian processes computed one at a time."""

import pytest
import torch
from processes import kernel
from small import seeded
from torch import Tensor

import aline
from aline.episodes import Goal, RandomPolicy, play
from aline.functions.task import gp2d
from aline.functions.teacher import requirement, true_variance_reduction
from aline.tasks import get
from aline.tasks.task import SimulatedWorld

TASK = gp2d(horizon=6)


def points_goal(batch: int, count: int = 5) -> Goal:
    """Predictions at some points, the last of which is padding in every other episode."""
    mask = torch.ones(batch, count, dtype=torch.bool)
    mask[::2, -1] = False
    nothing = torch.zeros(batch, len(TASK.spec.parameters), dtype=torch.bool)
    return Goal(nothing, TASK.spec.design.sample(batch, count, seeded(7)), mask)


def variance(world: SimulatedWorld, episode: int, observed: Tensor, at: Tensor) -> Tensor:
    """The summed variance of one episode's function at points, from its very definition."""
    theta = TASK.spec.parameters.to_user(world.theta[episode])
    size = float(theta["output_scale"]) ** 2
    x, points = (TASK.spec.design.to_user(v).double() for v in (observed, at))

    def matrix(a: Tensor, b: Tensor) -> Tensor:
        steps = (a[:, None] - b[None]) / theta["lengthscale"].double()
        return size * kernel(int(world.hidden["kernel"][episode]), steps.norm(dim=-1))

    cross = matrix(points, x)
    inverse = torch.linalg.inv(matrix(x, x) + 0.01**2 * torch.eye(len(x)).double())
    return (size - (cross @ inverse * cross).sum(1)).sum()


@pytest.mark.parametrize("steps", [0, 2, 6])
def test_it_is_the_variance_that_a_design_takes_away(steps: int) -> None:
    goal, generator = points_goal(6), seeded(3)
    world = TASK.draw(6, generator)
    assert isinstance(world, SimulatedWorld)
    policy = RandomPolicy(TASK.spec.design)
    context = play(policy, world, goal, steps=6, generator=generator)
    designs = TASK.spec.design.sample(6, 4, seeded(1))
    visible = (torch.arange(6) < torch.tensor([[steps], [1]])).expand(6, -1, -1)
    found = true_variance_reduction(world, context.designs, visible, designs, goal)[:, 0]
    for episode in range(6):
        at = goal.points[episode][goal.points_mask[episode]]
        observed = context.designs[episode, :steps]
        now = variance(world, episode, observed, at)
        more = (torch.cat([observed, one[None]]) for one in designs[episode])
        then = torch.stack([variance(world, episode, one, at) for one in more])
        assert torch.allclose(found[episode].double(), now - then, atol=2e-4)


def test_only_functions_are_taught() -> None:
    for name in aline.tasks.BUILT_IN:
        assert (requirement(get(name)) is None) is name.startswith("gp")
