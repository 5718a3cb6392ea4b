"""Engines: the same answers however the data came, and no run that is not needed."""

from collections.abc import Callable
from functools import cache

import pytest
import torch
from outcome_kinds import KINDS
from small import (
    everything,
    goal_for,
    largest_difference,
    seeded,
    simulated_context,
    small_functions,
    small_network,
)
from torch import Tensor

from aline.engine import BatchEngine, Data, LiveEngine, TorchRunner
from aline.engine.runners import Array
from aline.episodes import Context, Goal, goal_of, predictions
from aline.model import Network
from aline.tasks import Task, get

TOLERANCE = 1e-5
BATCH, LENGTHS = 2, (0, 1, 5)
OUTCOMES = ("real", "censored", "binary", "categorical", "ordinal", "count", "choice and time")


@cache
def task_of(name: str) -> Task:
    if name == "functions":
        return get("gp1d").fitted()
    return (KINDS[name].task() if name in KINDS else get(name)).fitted()


def plain(name: str, **options: str) -> Callable[[], Network]:
    return lambda: small_network(task_of(name), **options)  # type: ignore[arg-type]


NETWORKS: dict[str, tuple[str, Callable[[], Network]]] = {
    **{f"{name}, pool": (name, plain(name)) for name in OUTCOMES},
    **{f"{name}, box": (name, plain(name, policy="box")) for name in ("real", "choice and time")},
    "several axes, box": ("location", plain("location", policy="box", zoom_layers=2)),
    "full context, pool": ("binary", plain("binary", context="full")),
    "full context, box": ("real", plain("real", context="full", policy="box")),
    "functions": ("functions", lambda: small_functions(hypotheses=0)),
    "functions, hypotheses": ("functions", small_functions),
}
EVERY = pytest.mark.parametrize("name", NETWORKS)
WITHOUT_PLUG_IN = pytest.mark.parametrize(
    "name", [name for name in NETWORKS if not name.startswith("functions")]
)


@cache
def network_of(name: str) -> tuple[Task, Network]:
    task, make = NETWORKS[name]
    return task_of(task), make()


class Counting(TorchRunner):
    """Counts its runs."""

    runs = 0

    def run(self, given: dict[str, Array]) -> dict[str, Array]:  # type: ignore[override]
        self.runs += 1
        return super().run(given)


def live_engine(network: Network) -> tuple[LiveEngine, Counting]:
    runner = Counting(network)
    return LiveEngine(network, runner), runner


def both_kinds(task: Task) -> Goal:
    """A parameter and predictions."""
    at = {name: [0.1, 0.4] for name in task.spec.design.names}
    return goal_of(task.spec, [task.spec.parameters.names[0], predictions(at=at)])


def next_design(engine: BatchEngine | LiveEngine, state: object, goal: Goal) -> Tensor:
    """What the policy says, [batch, numbers]."""
    if engine.network.is_box:
        proposal = engine.propose(state, goal)  # type: ignore[arg-type]
        return torch.cat([proposal.mean, proposal.log_std], 1)
    points = engine.network.spec.design.sample(len(goal.parameters), 7, seeded(5))
    return engine.scores(state, goal, points)  # type: ignore[arg-type]


@torch.inference_mode()
def answers(engine: BatchEngine | LiveEngine, state: object, goal: Goal) -> list[Tensor]:
    """Posterior, predictions, and what the policy says for a goal."""
    points = engine.network.spec.design.sample(len(goal.parameters), 4, seeded(6))
    return [
        everything(engine.posterior(state)),  # type: ignore[arg-type]
        everything(engine.predictive(state, points)),  # type: ignore[arg-type]
        next_design(engine, state, goal),
    ]


def assert_same(one: list[Tensor], other: list[Tensor], tolerance: float = TOLERANCE) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.shape == b.shape
        # Scores of functions count twentyfold: they may be large.
        assert torch.allclose(a, b, rtol=tolerance, atol=tolerance), largest_difference(a, b)


def rounding(name: str) -> float:
    """What kernels expect is solved for in another order, in single precision.

    Draws of hypotheses near the data are chosen by weights: a last digit may change one of them.
    """
    if name == "functions, hypotheses":
        return 2e-2
    return 1e-3 if name == "functions" else TOLERANCE


def part(context: Context, length: int, rows: slice = slice(None)) -> Context:
    return Context(context.designs[rows, :length], context.outcomes[rows, :length])


@torch.inference_mode()
def played(engine: BatchEngine | LiveEngine, context: Context) -> object:
    """A context, one observation after the other."""
    state = engine.begin(len(context.designs))
    for step in range(context.length):
        state = engine.extend(state, context.designs[:, step], context.outcomes[:, step])  # type: ignore[arg-type]
    return state


@EVERY
@pytest.mark.parametrize("length", LENGTHS)
def test_live_answers_are_those_of_the_network(name: str, length: int) -> None:
    task, network = network_of(name)
    context = simulated_context(task, BATCH, length)
    live, _ = live_engine(network)
    batch = BatchEngine(network)
    for goal in (goal_for(task.spec, task.spec.parameters.names[:1], 1), both_kinds(task)):
        goals = goal.repeat(BATCH)
        with torch.inference_mode():
            read = batch.read(context)
        whole = answers(batch, read, goals)
        one_by_one = answers(batch, played(batch, context), goals)
        assert_same(answers(live, live.read(context), goals), whole)
        # A live state takes what was added in when it is asked, a plug-in then all at once.
        assert_same(answers(live, played(live, context), goals), one_by_one, rounding(name))
        assert_same(one_by_one, whole, rounding(name))


@EVERY
def test_answers_depend_on_the_data_and_the_policys_on_the_goal(name: str) -> None:
    """Without this the equalities here would be empty."""
    task, network = network_of(name)
    live, _ = live_engine(network)
    one, other = (live.read(simulated_context(task, 1, 5, seed)) for seed in (0, 1))
    goals = both_kinds(task), goal_for(task.spec, task.spec.parameters.names[:1], 1)
    for a, b in zip(answers(live, one, goals[0]), answers(live, other, goals[0]), strict=True):
        assert largest_difference(a, b) > 1e-3
    assert largest_difference(*(next_design(live, one, goal) for goal in goals)) > 1e-4


@WITHOUT_PLUG_IN
def test_several_experiments_together_are_each_alone(name: str) -> None:
    task, network = network_of(name)
    live, runner = live_engine(network)
    lengths, names = (5, 0, 1, 3), task.spec.parameters.names
    context = simulated_context(task, len(lengths), 5)
    several = [
        live.read(part(context, n, slice(row, row + 1))) for row, n in enumerate(lengths)
    ]
    goals = [goal_of(task.spec, [names[row % len(names)]]) for row in range(len(lengths))]
    together, goal = Data.together(several), Goal.together(goals)
    assert together.context.length == 5
    found = answers(live, together, goal)
    space = network.spec.design
    points, candidates = (space.sample(len(lengths), n, seeded(s)) for n, s in ((4, 6), (7, 5)))
    for row, own in enumerate(goals):
        rows, alone = slice(row, row + 1), several[row]
        expected = [live.posterior(alone), live.predictive(alone, points[rows])]
        for a, b in zip(found, expected, strict=False):
            assert largest_difference(a[rows], everything(b)) < TOLERANCE
        if network.is_box:
            proposal = live.propose(alone, own)
            policy = torch.cat([proposal.mean, proposal.log_std], 1)
        else:
            policy = live.scores(alone, own, candidates[rows])
        assert largest_difference(found[-1][rows], policy) < TOLERANCE
    for state in several:
        state.answers = None
    together.share(several)
    before = runner.runs
    for row, state in enumerate(several):
        shared = everything(live.posterior(state))
        assert largest_difference(found[0][row : row + 1], shared) < TOLERANCE
    assert runner.runs == before


@EVERY
def test_the_order_of_the_data_does_not_matter(name: str) -> None:
    task, network = network_of(name)
    live, _ = live_engine(network)
    context, order = simulated_context(task, BATCH, 5), torch.tensor([3, 0, 4, 2, 1])
    shuffled = Context(context.designs[:, order], context.outcomes[:, order])
    goal = both_kinds(task).repeat(BATCH)
    found, other = (answers(live, live.read(each), goal) for each in (context, shuffled))
    assert_same(found, other, rounding(name))


@EVERY
def test_extending_leaves_the_earlier_state_alone(name: str) -> None:
    task, network = network_of(name)
    context, goal = simulated_context(task, BATCH, 3), both_kinds(task).repeat(BATCH)
    for engine in (live_engine(network)[0], BatchEngine(network)):
        with torch.inference_mode():
            state = played(engine, part(context, 2))
            before = answers(engine, state, goal)
            more = engine.extend(state, context.designs[:, 2], context.outcomes[:, 2])  # type: ignore[arg-type]
            grown = answers(engine, more, goal)
            again = answers(engine, state, goal)
        assert all(torch.equal(a, b) for a, b in zip(before, again, strict=True))
        assert largest_difference(before[0], grown[0]) > 1e-4
        assert engine.context(state).length == 2  # type: ignore[arg-type]
        assert torch.equal(engine.context(more).designs, context.designs)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["binary, pool", "real, box"])
def test_answers_are_reused(name: str) -> None:
    task, network = network_of(name)
    live, runner = live_engine(network)
    state, goal = live.read(simulated_context(task, 1, 3)), both_kinds(task)
    candidates = network.spec.design.sample(1, 6, seeded(0))

    def ask(goal: Goal, candidates: Tensor) -> None:
        if network.is_box:
            live.propose(state, goal)
        else:
            live.scores(state, goal, candidates)

    ask(goal, candidates)
    posterior = live.posterior(state)
    ask(goal, candidates)
    assert torch.equal(live.posterior(state).mean, posterior.mean)
    assert runner.runs == 1
    ask(goal_for(task.spec, task.spec.parameters.names[:1], 1), candidates)
    assert runner.runs == 2
    live.posterior(state)
    live.posterior(state)
    assert runner.runs == 2
    grown = live.extend(state, candidates[:, 0], state.context.outcomes[:, 0])
    live.posterior(grown)
    live.posterior(grown)
    assert runner.runs == 3


def test_a_plug_in_chooses_without_a_run() -> None:
    task, network = network_of("functions, hypotheses")
    live, runner = live_engine(network)
    state, goal = live.read(simulated_context(task, 1, 3)), both_kinds(task)
    live.scores(state, goal, network.spec.design.sample(1, 6, seeded(0)))
    assert runner.runs == 0
    live.posterior(state)
    live.posterior(state)
    assert runner.runs == 1


def test_other_candidates_are_scored_anew() -> None:
    task, network = network_of("binary, pool")
    live, runner = live_engine(network)
    state, goal = live.read(simulated_context(task, 1, 3)), both_kinds(task)
    one, other = (network.spec.design.sample(1, 6, seeded(seed)) for seed in (0, 1))
    assert not torch.equal(live.scores(state, goal, one), live.scores(state, goal, other))
    assert runner.runs == 2


def test_a_task_without_parameters_has_an_empty_posterior() -> None:
    task = KINDS["real"].task(
        parameters={},
        simulate=lambda theta, design, generator: design["x"].sin(),
        log_likelihood=None,
    ).fitted()
    network = small_network(task)
    live, _ = live_engine(network)
    context, batch = simulated_context(task, BATCH, 3), BatchEngine(network)
    goal = goal_of(task.spec, ["predictions"]).repeat(BATCH)
    assert live.posterior(live.read(context)).mean.shape[:2] == (BATCH, 0)
    with torch.inference_mode():
        read = batch.read(context)
    assert batch.posterior(read).mean.shape[:2] == (BATCH, 0)
    # An empty posterior has no numbers to compare, whatever its number of components.
    assert_same(answers(live, live.read(context), goal)[1:], answers(batch, read, goal)[1:])


def test_a_plug_in_reads_many_at_once_and_few_one_by_one() -> None:
    """A replay adds thousands of observations before anybody asks."""
    task, network = network_of("functions, hypotheses")
    live, _ = live_engine(network)
    goal = both_kinds(task)
    for length in (3, 70):
        context = simulated_context(task, 1, length)
        grown = played(live, context)
        found, whole = (answers(live, each, goal) for each in (grown, live.read(context)))
        assert_same(found, whole, rounding("functions, hypotheses"))
