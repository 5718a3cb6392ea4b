"""The teacher for functions against Gaussian processes computed one at a time."""

import pytest
import torch
from small import SIZES, seeded
from torch import Tensor

import aline
from aline.episodes import Goal, RandomPolicy, goal_of, play
from aline.model import ModelConfig, Network, fresh
from aline.tasks import PREDICTIONS, Task, get
from aline.tasks.gp import KERNELS, covariance
from aline.tasks.task import SimulatedWorld
from aline.training import TrainingConfig
from aline.training.function_teacher import FunctionTeacher, requirement
from aline.training.losses import Played, paired_pool_loss, up_to
from aline.training.train import choose_policy_loss

TASK = get("gp2d", horizon=6)
TEACHER = FunctionTeacher(TASK)


def points_goal(batch: int, count: int = 5) -> Goal:
    """Predictions at some points, the last of which is padding in every other episode."""
    mask = torch.ones(batch, count, dtype=torch.bool)
    mask[::2, -1] = False
    nothing = torch.zeros(batch, len(TASK.spec.parameters), dtype=torch.bool)
    return Goal(nothing, TASK.spec.design.sample(batch, count, seeded(7)), mask)


def played(goal: Goal, seed: int = 3) -> Played:
    """Episodes of random designs."""
    generator = seeded(seed)
    world = TASK.draw(len(goal.parameters), generator)
    policy = RandomPolicy(TASK.spec.design)
    context = play(policy, world, goal, steps=TASK.horizon, generator=generator)
    return Played(world, goal, context, world.answer(goal.points, generator))


def variance(world: SimulatedWorld, episode: int, observed: Tensor, at: Tensor) -> Tensor:
    """The summed variance of one episode's function at points, from its very definition."""
    theta = TASK.spec.parameters.to_user(world.theta[episode])
    name = KERNELS[int(world.hidden["kernel"][episode])]
    size = float(theta["output_scale"]) ** 2
    x, points = (TASK.spec.design.to_user(v).double() for v in (observed, at))

    def matrix(a: Tensor, b: Tensor) -> Tensor:
        steps = (a[:, None] - b[None]) / theta["lengthscale"].double()
        return size * covariance(name, steps.norm(dim=-1))

    cross = matrix(points, x)
    inverse = torch.linalg.inv(matrix(x, x) + 0.01**2 * torch.eye(len(x)).double())
    return (size - (cross @ inverse * cross).sum(1)).sum()


@pytest.mark.parametrize("steps", [0, 2, 6])
def test_its_worth_is_the_variance_a_design_takes_away(steps: int) -> None:
    episodes = played(points_goal(6))
    world, goal = episodes.world, episodes.goal
    assert isinstance(world, SimulatedWorld)
    designs = TASK.spec.design.sample(6, 4, seeded(1))
    visible = up_to(torch.tensor([[steps, 1]]).expand(6, -1), 6)
    found = TEACHER.fall(episodes, visible, designs)[:, 0]
    for episode in range(6):
        at = goal.points[episode][goal.points_mask[episode]]
        observed = episodes.context.designs[episode, :steps]
        now = variance(world, episode, observed, at)
        then = [
            variance(world, episode, torch.cat([observed, one[None]]), at)
            for one in designs[episode]
        ]
        assert torch.allclose(found[episode].double(), now - torch.stack(then), atol=2e-4)


def network() -> Network:
    return fresh(TASK.spec, ModelConfig(kernels=3, **SIZES), seeded(0))


def test_its_loss_reaches_the_policy_and_never_q() -> None:
    made, episodes = network(), played(points_goal(6))
    TEACHER.loss(made, episodes, TrainingConfig(), seeded(0)).backward()  # type: ignore[no-untyped-call]
    touched = {p for p in made.parameters() if p.grad is not None and bool(p.grad.any())}
    assert made.policy.trust in touched
    assert touched <= set(made.policy.parameters())


def test_goals_with_parameters_are_judged_by_q() -> None:
    made = network()
    for names in (("output_scale",), ("output_scale", PREDICTIONS)):
        episodes = played(goal_of(TASK.spec, names).repeat(4))
        losses = [
            loss(made, episodes, TrainingConfig(), seeded(0))
            for loss in (TEACHER.loss, paired_pool_loss)
        ]
        assert torch.equal(*losses)


def test_a_policy_learns_what_its_teacher_knows() -> None:
    """Without the bank's advice at first: what designs are worth has to be found out."""
    made = network()
    with torch.no_grad():
        made.policy.trust.zero_()
    new = played(points_goal(100), seed=5)
    visible = up_to(torch.full((100, 1), 6), 6)
    designs = TASK.spec.design.sample(100, 40, seeded(2))
    fall = TEACHER.fall(new, visible, designs)[:, 0]

    @torch.no_grad()
    def share() -> float:
        best = made.read(new.context).scores(designs[:, None], new.goal)[:, 0].argmax(1)
        return float((fall.gather(1, best[:, None])[:, 0] / fall.amax(1)).mean())

    untaught = share()
    optimiser, generator = torch.optim.Adam(made.policy.parameters(), 1e-2), seeded(0)
    for round_ in range(40):
        episodes = played(points_goal(40), seed=100 + round_)
        optimiser.zero_grad()
        TEACHER.loss(made, episodes, TrainingConfig(), generator).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert untaught < 0.4
    assert share() > 0.75


def test_it_is_the_default_where_it_applies() -> None:
    def chosen(task: Task, **settings: str) -> object:
        config = TrainingConfig(**settings)  # type: ignore[arg-type]
        return choose_policy_loss(task.fitted(), ModelConfig(), config, differentiable=False)

    assert isinstance(getattr(chosen(TASK), "__self__", None), FunctionTeacher)
    assert chosen(TASK, credit="paired") is paired_pool_loss
    for name in aline.tasks.BUILT_IN:
        assert (requirement(get(name)) is None) is name.startswith("gp")


def test_a_short_training() -> None:
    model = aline.train(get("gp1d", horizon=3), rounds=2, progress=False)
    assert "trust" in dict(model.network.policy.named_parameters())
