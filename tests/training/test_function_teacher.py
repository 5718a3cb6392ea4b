"""The teacher for functions against Gaussian processes computed one at a time."""

from dataclasses import replace

import pytest
import torch
from small import SIZES, seeded
from torch import Tensor

import aline
from aline.episodes import Context, Goal, RandomPolicy, goal_of, play
from aline.model import ModelConfig, Network, fresh
from aline.tasks import PREDICTIONS, Task, get
from aline.tasks.gp import KERNELS, covariance
from aline.tasks.task import SimulatedWorld
from aline.training import TrainingConfig
from aline.training.function_teacher import FunctionTeacher, information, requirement
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


def density(world: SimulatedWorld, episode: int, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Log density of one episode's outcomes y [n, draw] at x, from its very definition."""
    theta = TASK.spec.parameters.to_user(z[None])
    name = KERNELS[int(world.hidden["kernel"][episode])]
    points = TASK.spec.design.to_user(x).double()
    apart = ((points[:, None] - points[None]) / theta["lengthscale"][0]).norm(dim=-1)
    matrix = theta["output_scale"] ** 2 * covariance(name, apart) + 0.01**2 * torch.eye(len(x))
    return -0.5 * ((y * torch.linalg.solve(matrix, y)).sum(0) + torch.logdet(matrix))


def test_information_is_how_much_the_score_varies() -> None:
    """Over draws of the outcomes, by the very definition of Fisher's information."""
    episodes = played(parameters_goal(2, "lengthscale", "output_scale"))
    world, x = episodes.world, episodes.context.designs
    assert isinstance(world, SimulatedWorld)
    found, _ = information(episodes, up_to(torch.tensor([[6], [6]]), 6), x[:, :1])
    for episode in range(2):
        matrix = world.covariance(x, x)[episode].double() + 0.01**2 * torch.eye(6)
        noise = torch.randn(6, 4000, generator=seeded(1), dtype=torch.double)
        y = torch.linalg.cholesky(matrix) @ noise
        z = world.theta[episode].double()
        steps = 1e-4 * torch.eye(3, dtype=torch.double)
        ends = [[density(world, episode, z + way * one, x[episode], y) for one in steps]
                for way in (1, -1)]  # fmt: skip
        score = (torch.stack(ends[0], 1) - torch.stack(ends[1], 1)) / 2e-4  # [draw, parameter]
        error = 4 * (score[:, :, None] * score[:, None]).std(0) / 4000**0.5
        assert ((score.T @ score / 4000 - found[episode, 0]).abs() < error + 1e-3).all()


def test_information_of_outcomes_adds_up() -> None:
    episodes = played(parameters_goal(4, "lengthscale"))
    designs = TASK.spec.design.sample(4, 3, seeded(1))
    before, more = information(episodes, up_to(torch.tensor([[5, 2]]).expand(4, -1), 6), designs)
    for count, group in ((5, 0), (2, 1)):
        for number in range(3):
            x = [episodes.context.designs[:, :count], designs[:, [number]]]
            context = Context(torch.cat(x, 1), torch.zeros(4, count + 1))
            visible = torch.ones(4, 1, count + 1, dtype=torch.bool)
            after, _ = information(replace(episodes, context=context), visible, designs)
            assert torch.allclose(after[:, 0], before[:, group] + more[:, group, number])


def test_its_worth_for_parameters_is_what_a_normal_posterior_gains() -> None:
    """Of those that are wanted, whatever the others are: their own entropy falls."""
    names = TASK.spec.parameters.labels
    designs, visible = TASK.spec.design.sample(5, 4, seeded(1)), up_to(torch.full((5, 1), 4), 6)
    for wanted in ([0, 1, 2], [2], [0, 1]):
        episodes = played(parameters_goal(5, *(names[i] for i in wanted)))
        before, more = information(episodes, visible, designs)
        one = torch.eye(3, dtype=torch.double)
        spread = [
            torch.linalg.inv(one + known)[..., wanted, :][..., wanted].logdet()
            for known in (before[:, 0, None], before[:, 0, None] + more[:, 0])
        ]
        found = TEACHER.gain(episodes, visible, designs)[:, 0]
        assert (found > 0).all()
        assert torch.allclose(found, ((spread[0] - spread[1]) / 2).float(), atol=1e-5)


def network() -> Network:
    return fresh(TASK.spec, ModelConfig(kernels=3, **SIZES), seeded(0))


@pytest.mark.parametrize("goal", [points_goal(6), parameters_goal(6, "lengthscale")])
def test_its_loss_reaches_the_policy_and_never_q(goal: Goal) -> None:
    made = network()
    TEACHER.loss(made, played(goal), TrainingConfig(), seeded(0)).backward()  # type: ignore[no-untyped-call]
    touched = {p for p in made.parameters() if p.grad is not None and bool(p.grad.any())}
    assert (made.policy.trust in touched) is bool(goal.points.shape[1])
    assert touched
    assert touched <= set(made.policy.parameters())


def test_goals_of_parameters_and_predictions_are_judged_by_q() -> None:
    made = network()
    episodes = played(parameters_goal(4, "output_scale", PREDICTIONS))
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
