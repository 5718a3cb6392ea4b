"""What every task promises. A new built-in task is tested by being in the list."""

import json

import pytest
import torch
from scipy import stats
from small import seeded
from torch import Tensor

from aline.spaces import Binary, Real
from aline.tasks import BUILT_IN, PREDICTIONS, Spec, Task, get

TASKS = {name: get(name) for name in BUILT_IN}
TASKS["location of two sources in one dimension"] = get("location", sources=2, dimensions=1)
EVERY = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())
WITH_LIKELIHOOD = pytest.mark.parametrize(
    "task",
    [task for task in TASKS.values() if task.log_likelihood is not None],
    ids=[name for name, task in TASKS.items() if task.log_likelihood is not None],
)
WITH_EXPLORE = pytest.mark.parametrize(
    "task",
    [task for task in TASKS.values() if task.explore is not None],
    ids=[name for name, task in TASKS.items() if task.explore is not None],
)


@EVERY
def test_worlds_answer_in_the_declared_shape(task: Task) -> None:
    generator = seeded(0)
    world = task.fitted().draw(5, generator)
    assert world.theta.shape == (5, len(task.spec.parameters))
    outcomes = world.answer(task.spec.design.sample(5, 7, generator), generator)
    assert outcomes.shape == (5, 7)
    assert outcomes.dtype == torch.float32
    assert outcomes.isfinite().all()
    if isinstance(task.spec.outcome, Binary):
        assert set(outcomes.unique().tolist()) <= {-1.0, 1.0}


@EVERY
def test_no_designs_no_outcomes(task: Task) -> None:
    designs = torch.zeros(3, 0, len(task.spec.design))
    assert task.fitted().draw(3, seeded(0)).answer(designs, seeded(0)).shape == (3, 0)


@EVERY
def test_the_same_seed_gives_the_same_world(task: Task) -> None:
    def run() -> tuple[Tensor, Tensor]:
        generator = seeded(3)
        world = task.fitted().draw(4, generator)
        designs = task.spec.design.sample(4, 6, generator)
        return world.theta, world.answer(designs, generator)

    for first, second in zip(run(), run(), strict=True):
        assert torch.equal(first, second)


@EVERY
def test_outcomes_are_of_order_one_for_the_network(task: Task) -> None:
    generator = seeded(1)
    world = task.fitted().draw(500, generator)
    outcomes = world.answer(task.spec.design.sample(500, 4, generator), generator)
    seen = task.fitted().spec.outcome.encode(outcomes)
    assert 0.3 < float(seen.std()) < 3
    assert abs(float(seen.mean())) < 1.5


@EVERY
def test_extreme_parameters_and_designs_give_numbers(task: Task) -> None:
    count, corners = len(task.spec.parameters), 2 ** len(task.spec.design)
    theta = torch.tensor([-5.0, 5.0])[:, None].expand(2, count)
    edges = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * len(task.spec.design))
    designs = edges.view(1, corners, -1).expand(2, corners, -1)
    world = task.fitted().worlds(theta, seeded(1))
    outcomes = world.answer(designs, seeded(0))
    assert outcomes.isfinite().all()
    if task.log_likelihood is not None:
        assert task.fitted().log_prob(theta, designs, outcomes).isfinite().all()


@EVERY
def test_targets_are_named_and_their_shares_sum_to_one(task: Task) -> None:
    assert sum(share for _, share in task.spec.targets) == pytest.approx(1.0)
    for names, _ in task.spec.targets:
        assert PREDICTIONS in names or bool(task.spec.parameters.mask(names).any())


@EVERY
def test_spec_is_plain_data(task: Task) -> None:
    plain = task.fitted().spec.to_json()
    again = Spec.from_json(json.loads(json.dumps(plain)))
    assert again.to_json() == json.loads(json.dumps(plain))


@pytest.mark.parametrize("name", BUILT_IN)
def test_config_makes_the_same_task_again(name: str) -> None:
    task = get(name, horizon=7)
    assert task.spec.horizon == 7
    assert get(name, **task.spec.config).spec.to_json() == task.spec.to_json()


@WITH_LIKELIHOOD
def test_likelihood_is_the_simulators(task: Task) -> None:
    """Each outcome's place in the distribution that the likelihood claims is uniform."""
    if task.spec.outcome.enumerate() is not None:
        check_frequencies(task)
    elif isinstance(task.spec.outcome, Real) and task.spec.outcome.limits is not None:
        check_limits(task)
    else:
        check_ranks(task)


def check_limits(task: Task) -> None:
    """How often an outcome is cut off at each limit; between them is for the task's own tests."""
    generator, draws = seeded(5), 2000
    world = task.draw(100, generator)
    designs = task.spec.design.sample(100, 1, generator)
    outcomes = world.answer(designs.expand(100, draws, -1), generator)
    assert isinstance(task.spec.outcome, Real)
    limits = task.spec.outcome.saturated()
    assert limits is not None
    for limit in limits:
        claimed = task.log_prob(world.theta, designs, torch.full((100, 1), limit)).exp()[:, 0]
        frequency = ((outcomes - limit).abs() < 1e-4).float().mean(1)
        z = (frequency - claimed) / (claimed * (1 - claimed) / draws).sqrt().clamp_min(1e-4)
        assert float(z.abs().max()) < 5
        assert bool((claimed > 0.1).any())


def check_frequencies(task: Task) -> None:
    """How often each of finitely many outcomes comes; their probabilities sum to one."""
    generator, draws = seeded(5), 4000
    world = task.draw(30, generator)
    designs = task.spec.design.sample(30, 1, generator)
    outcomes = world.answer(designs.expand(30, draws, -1), generator)
    every = task.spec.outcome.enumerate()
    assert every is not None
    claimed = task.log_prob(world.theta[:, None], designs[:, None], every[None, :, None]).exp()
    assert torch.allclose(claimed.sum(1)[:, 0], torch.ones(30), atol=1e-5)
    for value, share in zip(every, claimed[..., 0].unbind(1), strict=True):
        frequency = (outcomes == value).float().mean(1)
        z = (frequency - share) / (share * (1 - share) / draws).sqrt().clamp_min(1e-4)
        assert float(z.abs().max()) < 4.5


def check_ranks(task: Task) -> None:
    generator, batch = seeded(5), 400
    task = task.fitted()
    world = task.draw(batch, generator)
    designs = task.spec.design.sample(batch, 1, generator)
    outcomes = world.answer(designs, generator)
    # A fine grid around each outcome, wide against any noise.
    grid = outcomes + torch.linspace(-8, 8, 4001)
    log_density = task.log_prob(world.theta, designs.expand(batch, 4001, -1), grid).double()
    density = log_density.exp()
    cdf = torch.cumulative_trapezoid(density, task.spec.outcome.to_user(grid).double())
    assert torch.allclose(cdf[:, -1], torch.ones(batch, dtype=torch.float64), atol=5e-3)
    assert stats.kstest(cdf[:, 1999].numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize(
    "task", [task for task in TASKS.values() if task.log_peak], ids=lambda task: task.spec.name
)
def test_the_likelihood_stays_below_its_peak(task: Task) -> None:
    task, generator = task.fitted(), seeded(7)
    assert task.log_peak is not None
    world = task.draw(200, generator)
    designs = task.spec.design.sample(200, 5, generator)
    outcomes = world.answer(designs, generator)
    for theta in (world.theta, world.theta.roll(1, 0)):
        log_prob = task.log_prob(theta, designs, outcomes)
        peak = task.log_peak(
            task.spec.parameters.to_user(theta[:, None]),
            task.spec.design.name_columns(designs),
            task.spec.outcome.to_user(outcomes),
        )
        assert bool((log_prob.sum(-1) <= peak + 1e-4).all())


@WITH_LIKELIHOOD
def test_likelihood_broadcasts_over_leading_axes(task: Task) -> None:
    task, generator = task.fitted(), seeded(6)
    world = task.draw(3, generator)
    designs = task.spec.design.sample(3, 4, generator)
    outcomes = world.answer(designs, generator)
    plain = task.log_prob(world.theta, designs, outcomes)
    assert plain.shape == (3, 4)
    apart = task.log_prob(world.theta[:, None], designs[None], outcomes[None])
    assert torch.allclose(apart.diagonal().T, plain, atol=1e-5)


@WITH_EXPLORE
def test_explored_designs_lie_in_the_design_space(task: Task) -> None:
    assert task.explore is not None
    theta = task.spec.parameters.to_user(task.draw(6, seeded(0)).theta[:, None])
    named = task.explore(theta, 9, seeded(1))
    assert set(named) == set(task.spec.design.names)
    for name, values in named.items():
        assert values.shape == (6, 9)
        axis = task.spec.design.names.index(name)
        assert bool((values >= task.spec.design.low[axis]).all())
        assert bool((values <= task.spec.design.high[axis]).all())
