"""The teacher for functions against Gaussian processes computed one at a time."""

from dataclasses import replace

import pytest
import torch
from small import SIZES, seeded
from torch import Tensor

import aline
from aline.episodes import Context, Goal, RandomPolicy, goal_of, play
from aline.functions.task import KERNELS, covariance
from aline.functions.teacher import FunctionTeacher, requirement
from aline.model import ModelConfig, Network, fresh
from aline.tasks import PREDICTIONS, Task, get
from aline.tasks.task import SimulatedWorld
from aline.training import TrainingConfig
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


def parameters_goal(batch: int, *names: str) -> Goal:
    return goal_of(TASK.spec, names).repeat(batch)


def with_bank(made: Network, goal: Goal) -> Played:
    """Episodes as a training holds them."""
    episodes = played(goal)
    assert made.kernels is not None
    return replace(episodes, bank=made.kernels.read(episodes.context, None, None))


def test_its_worth_for_parameters_is_what_hypotheses_say() -> None:
    """At every state, of its own observations only."""
    made = network()
    episodes = with_bank(made, parameters_goal(5, "lengthscale"))
    designs = TASK.spec.design.sample(5, 4, seeded(1))
    found = TEACHER.told(episodes, up_to(torch.tensor([[4, 2]]).expand(5, -1), 6), designs)
    x, y = episodes.context.designs, episodes.context.outcomes
    assert made.hypotheses is not None
    for count, group in ((4, 0), (2, 1)):
        seen = made.hypotheses.read(Context(x[:, :count], y[:, :count]), None, None)
        told = made.hypotheses.telling(seen, designs[:, None], episodes.goal.parameters).exp()
        assert torch.allclose(found[:, group], told[:, 0], rtol=1e-3, atol=1e-5)


def network() -> Network:
    return fresh(
        TASK.spec,
        ModelConfig(plugin="functions", plugin_settings={"kernels": 3, "hypotheses": 24}, **SIZES),
        seeded(0),
    )


@pytest.mark.parametrize("goal", [points_goal(6), parameters_goal(6, "lengthscale")])
def test_its_loss_reaches_the_policy_and_never_q(goal: Goal) -> None:
    made = network()
    episodes = with_bank(made, goal)
    TEACHER.loss(made, episodes, TrainingConfig(), seeded(0)).backward()  # type: ignore[no-untyped-call]
    touched = {p for p in made.parameters() if p.grad is not None and bool(p.grad.any())}
    assert (made.policy.trust in touched) is bool(goal.points.shape[1])
    assert (made.policy.belief in touched) is not bool(goal.points.shape[1])
    assert touched
    assert touched <= set(made.policy.parameters())


@pytest.mark.parametrize("count", [0, 24])
def test_where_it_knows_too_little_q_judges(count: int) -> None:
    """Of parameters and predictions at once, and of parameters without hypotheses."""
    made = fresh(
        TASK.spec,
        ModelConfig(
            plugin="functions", plugin_settings={"kernels": 3, "hypotheses": count}, **SIZES
        ),
        seeded(0),
    )
    both = ("output_scale", PREDICTIONS) if count else ("output_scale",)
    episodes = with_bank(made, parameters_goal(4, *both))
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
