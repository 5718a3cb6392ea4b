"""The teacher against the exact greedy optimum, and that a policy learns from it."""

from dataclasses import replace

import pytest
import torch
from small import goal_for, scores_of, seeded, small_network
from torch import Tensor
from torch.distributions import Uniform

import aline
from aline.baselines import PsiMarginal
from aline.engine import BatchEngine
from aline.episodes import Context, RandomPolicy, play
from aline.errors import InputError
from aline.evaluation.greedy import exact_greedy
from aline.model import ModelConfig
from aline.model.advice import NoAdvisor
from aline.policies import LearnedPolicy
from aline.spaces import Binary, Box, Design, Pool
from aline.tasks import PREDICTIONS, Task, get
from aline.training import TrainingConfig
from aline.training.lattice_teacher import POINTS, LatticeTeacher, choose_nodes, requirement
from aline.training.losses import Played, paired_pool_loss, sampled_pool_loss, up_to
from aline.training.particle_teacher import ParticleTeacher
from aline.training.teacher import Teacher
from aline.training.train import choose_policy_loss

AIMS = (("threshold", "slope"), ("guess", "lapse"))


def played(task: Task, target: tuple[str, ...], batch: int, steps: int) -> Played:
    """Episodes of random designs, which lie on no grid."""
    generator = seeded(3)
    world, goal = task.draw(batch, generator), goal_for(task.spec, target, batch)
    policy = RandomPolicy(task.spec.design)
    context = play(policy, world, goal, steps=steps, generator=generator)
    outcomes = world.answer(goal.points, generator)
    return Played(world, goal, context, outcomes, NoAdvisor().read(context))


def taught(teacher: LatticeTeacher, episodes: Played, steps: list[int]) -> Tensor:
    """The information [batch, step, stimulus] after so many observations, at every stimulus."""
    visible = up_to(torch.tensor(steps).expand(episodes.batch, -1), episodes.length)
    goals = episodes.goal.parameters[:, None].expand(-1, len(steps), -1)
    compared = torch.arange(len(teacher.stimuli))
    return teacher.information(episodes.context, visible, goals, compared)


def expected(oracle: PsiMarginal, episodes: Played, stimuli: Tensor, steps: list[int]) -> Tensor:
    """The same by a grid method that takes the observations as they are, one by one."""
    points = stimuli.expand(episodes.batch, -1, -1)
    state, found = oracle.begin(episodes.goal), []
    for step in range(episodes.length + 1):
        if step in steps:
            found.append(oracle.information(state, points))
        if step < episodes.length:
            context = episodes.context
            state = oracle.observe(state, context.designs[:, step], context.outcomes[:, step])
    return torch.stack(found, 1)


@pytest.fixture(scope="module")
def teacher() -> LatticeTeacher:
    return LatticeTeacher(get("psychometric"))


@pytest.mark.parametrize(
    ("name", "nodes", "target"),
    [
        ("psychometric", (64, 24, 6, 6), AIMS[0]),
        ("psychometric", (64, 24, 6, 6), AIMS[1]),
        ("psychometric-2afc", (80, 24, 6), AIMS[0]),
        ("psychometric-2afc", (80, 24, 6), ("lapse",)),
    ],
)
def test_its_information_is_the_exact_one(
    name: str, nodes: tuple[int, ...], target: tuple[str, ...]
) -> None:
    task = get(name)
    teacher = LatticeTeacher(task)
    episodes, steps = played(task, target, 4, 24), [0, 6, 24]
    some = torch.arange(0, len(teacher.stimuli), 9)
    exact = expected(exact_greedy(task, nodes), episodes, teacher.stimuli[some], steps)
    gain = taught(teacher, episodes, steps)[..., some]
    error = (gain - exact).abs().amax(-1) / exact.amax(-1)
    assert float(error.max()) < 0.08
    assert float(error.mean()) < 0.02


def line(design: Design, **options: object) -> Task:
    """A yes/no task with a logistic function and no other parameters, or with other settings."""

    def log_likelihood(theta, design, outcome):  # type: ignore[no-untyped-def]
        strength = 8 * (design["x"] - theta["middle"])
        return torch.nn.functional.logsigmoid(torch.where(outcome > 0.5, strength, -strength))

    def simulate(theta, design, generator):  # type: ignore[no-untyped-def]
        chance = torch.sigmoid(8 * (design["x"] - theta["middle"]))
        return torch.rand(chance.shape, generator=generator) < chance

    settings = {
        "parameters": {"middle": Uniform(-1.0, 1.0)},
        "outcome": Binary(),
        "log_likelihood": log_likelihood,
        "targets": {("middle",): 1.0},
        "horizon": 4,
        **options,
    }
    return Task(design=design, simulate=simulate, **settings)  # type: ignore[arg-type]


def test_designs_of_a_pool_are_counted_as_they_are() -> None:
    task = line(Pool(x=[-0.9, -0.2, 0.0, 0.05, 0.7]))
    teacher = LatticeTeacher(task)
    oracle = PsiMarginal(task, teacher.lattice)
    episodes = played(task, ("middle",), 3, 4)
    exact = expected(oracle, episodes, teacher.stimuli, [0, 2, 4])
    assert torch.allclose(taught(teacher, episodes, [0, 2, 4]), exact, atol=1e-5)


def test_impossible_answers_leave_numbers() -> None:
    """A known guess rate of zero makes some answers impossible at some points of the lattice."""
    task = aline.Psychometric("normal", guess=0.0, lapse=0.0)
    episodes = played(task, ("threshold",), 2, 1)
    designs = torch.tensor([-1.0, 1.0]).view(1, 2, 1).expand(2, 2, 1)
    surprising = Context(designs, torch.tensor([[1.0, -1.0]] * 2))  # yes to nothing, no to all
    episodes = replace(episodes, context=surprising)
    gain = taught(LatticeTeacher(task), episodes, [0, 1, 2])
    assert bool(gain.isfinite().all())


@pytest.mark.parametrize(
    "name", [name for name in aline.tasks.BUILT_IN if name.startswith("psychometric")]
)
def test_nodes_go_where_the_function_bends(name: str) -> None:
    task = get(name)
    nodes = dict(zip(task.spec.parameters.names, choose_nodes(task), strict=True))
    assert nodes["threshold"] > nodes["slope"] > nodes["lapse"]
    assert POINTS / 2 < torch.tensor(list(nodes.values())).prod() <= POINTS


@pytest.mark.parametrize("context", ["independent", "full"])
def test_its_loss_reaches_the_policy_and_never_q(teacher: LatticeTeacher, context: str) -> None:
    network = small_network(context=context).requires_grad_(True)  # type: ignore[arg-type]
    episodes = played(get("psychometric"), AIMS[1], 6, 5)
    loss = teacher.loss(network, episodes, TrainingConfig(), seeded(0))
    loss.backward()  # type: ignore[no-untyped-call]
    touched = {p for p in network.parameters() if p.grad is not None and bool(p.grad.any())}
    assert touched
    assert touched <= set(network.policy.parameters())


def test_a_policy_learns_to_take_the_best_stimulus() -> None:
    """After two observations, on which the best stimulus depends."""
    task = line(Box(x=(-1.0, 1.0)), horizon=3)
    teacher, network = LatticeTeacher(task), small_network(task)
    episodes, new = played(task, ("middle",), 64, 3), played(task, ("middle",), 100, 2)
    gain = taught(teacher, new, [2])[:, 0]

    def share() -> float:
        stimuli = teacher.stimuli.expand(new.batch, -1, -1)
        encoded = network.encode(new.context)
        best = scores_of(network, encoded, new.goal, stimuli).argmax(2)
        return float((gain.gather(1, best)[:, 0] / gain.amax(1)).mean())

    untaught, own = share(), network.policy.requires_grad_(True)
    optimiser, generator = torch.optim.Adam(own.parameters(), 1e-2), seeded(0)
    for _ in range(60):
        optimiser.zero_grad()
        loss = teacher.loss(network, episodes, TrainingConfig(), generator)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    own.requires_grad_(False)
    assert untaught < 0.6
    assert share() > 0.8


def test_it_is_the_default_where_it_applies() -> None:
    def chosen(task: Task, **settings: str) -> object:
        config = TrainingConfig(**settings)  # type: ignore[arg-type]
        asked = {name: task.model[name] for name in ("policy", "plugin") if "plugin" in task.model}
        model = ModelConfig(**asked)
        return choose_policy_loss(task.fitted(), model, config, differentiable=False)

    found = chosen(line(Box(x=(-1.0, 1.0))))
    assert isinstance(getattr(found, "__self__", None), Teacher)
    assert chosen(line(Box(x=(-1.0, 1.0))), credit="paired") is paired_pool_loss
    assert chosen(line(Box(x=(-1.0, 1.0))), credit="return") is sampled_pool_loss
    assert isinstance(getattr(chosen(get("linear")), "__self__", None), ParticleTeacher)
    assert chosen(get("gp1d")) is None  # the plug-in chooses
    for name in aline.tasks.BUILT_IN:
        is_small = name.startswith("psychometric") or name in ("detection", "risk")
        assert (requirement(get(name)) is None) is is_small


BOX = Box(x=(-1.0, 1.0))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (line(BOX, log_likelihood=None), "a log_likelihood of the parameters alone"),
        (line(BOX, targets={(PREDICTIONS,): 1.0}), "a goal of parameters"),
        (line(BOX, latent=lambda theta, generator: {}), "without latent"),
        (line(BOX, log_likelihood=lambda t, d, y: d["x"] * torch.nan), "returned NaN"),
    ],
)
def test_it_says_what_it_needs(task: Task, message: str) -> None:
    config, model = TrainingConfig(credit="information"), ModelConfig()
    with pytest.raises(InputError, match=message):
        aline.train(task, rounds=1, config=config, model=model, progress=False)


def test_it_is_for_pool_policies() -> None:
    config, model = TrainingConfig(credit="information"), ModelConfig(policy="box")
    with pytest.raises(InputError, match="for a pool policy"):
        aline.train(get("psychometric"), rounds=1, model=model, config=config, progress=False)


def test_a_short_training() -> None:
    task = get("psychometric", horizon=4)
    network = aline.train(task, rounds=2, config={"batch": 20}, progress=False).network
    policy = LearnedPolicy(BatchEngine(network))
    goal = goal_for(task.spec, AIMS[0], 2)
    context = play(policy, task.draw(2, seeded(0)), goal, steps=4, generator=seeded(1))
    assert bool((context.designs.abs() <= 1).all())
