"""The published protocols as a user writes them: simulator and likelihood say the same."""

from pathlib import Path

import pytest
import torch

from aline.app.taskfile import load_task
from aline.tasks import Task, get

FOLDER = Path(__file__).parents[2] / "benchmarks" / "protocols"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
DRAWS = 20_000
FINE = 4001  # values of a real outcome that an integral sums over


def protocol(name: str) -> Task:
    return load_task(f"{FOLDER / name}.py:task").fitted()


@pytest.mark.parametrize("name", NAMES)
def test_a_protocol_is_a_task_without_hints(name):
    task = protocol(name).checked()
    assert task.explore is None
    assert task.log_peak is None
    assert not {**task.model, **task.training}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "sir"])
def test_the_likelihood_sums_to_one_and_has_the_simulators_moments(name):
    task = protocol(name)
    generator = torch.Generator().manual_seed(1)
    world = task.draw(4, generator)
    design = task.spec.design.sample(4, 1, generator)
    simulated = world.answer(design.expand(-1, DRAWS, -1), generator).double()
    values, weights = every_outcome(task, simulated)
    log_prob = task.log_prob(world.theta[:, None].double(), design[:, None].double(), values)
    shares = log_prob[..., 0].exp() * weights
    values = values[..., 0]
    mean = (shares * values).sum(-1)
    variance, fourth = ((shares * (values - mean[:, None]) ** power).sum(-1) for power in (2, 4))
    assert torch.allclose(shares.sum(-1), torch.ones(4).double(), atol=2e-3)
    assert_near(simulated.mean(1), mean, variance)
    assert_near(simulated.var(1), variance, fourth - variance**2)


def assert_near(found: torch.Tensor, expected: torch.Tensor, variance: torch.Tensor) -> None:
    error = (variance.clamp_min(0) / DRAWS).sqrt()
    assert bool(((found - expected).abs() < 4.5 * error + 2e-3).all())


def every_outcome(task: Task, simulated: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Outcomes [world, value, 1] and the weights [world, value] of their densities."""
    known = task.spec.outcome.enumerate()
    if known is not None:
        values = known.double()[None, :, None].expand(4, -1, 1)
        return values, torch.ones(values.shape[:2]).double()
    low, high = simulated.min(1).values, simulated.max(1).values
    margin = 0.3 * (high - low)
    limits = task.spec.outcome.saturated() or (-torch.inf, torch.inf)
    low, high = (low - margin).clamp(*limits), (high + margin).clamp(*limits)
    steps = torch.linspace(0, 1, FINE).double()
    inside = low[:, None] + (high - low)[:, None] * steps
    width = ((high - low) / (FINE - 1))[:, None].expand(-1, FINE) * task.spec.outcome.scale
    if task.spec.outcome.saturated() is None:
        return inside[..., None], width
    # A limit has a probability of its own.
    ends = torch.tensor(limits).double().expand(4, 2)
    within = (inside > limits[0] + 1e-4) & (inside < limits[1] - 1e-4)
    values = torch.cat([inside.clamp(limits[0] + 1e-4, limits[1] - 1e-4), ends], 1)
    return values[..., None], torch.cat([width * within, torch.ones(4, 2).double()], 1)


def test_prey_are_eaten_as_the_differential_equation_says():
    task = protocol("prey")
    theta = {"a": torch.tensor([[0.3]]), "Th": torch.tensor([[0.4]])}
    left, hours = 80.0, 24.0
    for _ in range(100_000):
        left -= hours / 100_000 * 0.3 * left**2 / (1 + 0.3 * 0.4 * left**2)
    design = {"prey": torch.full((1, 50_000), 80.0)}
    eaten = task.simulate(theta, design, torch.Generator().manual_seed(0)).mean()
    assert eaten == pytest.approx(80 - left, abs=0.1)


def test_an_epidemic_is_read_without_noise():
    generator = torch.Generator().manual_seed(0)
    world = protocol("sir").draw(200, generator)
    days = world.task.spec.design.to_network(torch.tensor([[0.0], [30.0], [30.0]]))
    infected = world.simulate(days.expand(200, -1, -1), generator)
    assert bool((infected[:, 0] == 2).all())
    assert torch.equal(infected[:, 1], infected[:, 2])
    assert 20 < float(infected[:, 1].mean()) < 300


@pytest.mark.parametrize("name", ["ces", "location", "psychometric"])
def test_a_plain_likelihood_is_that_of_the_built_in_task(name):
    plain, own = protocol(f"{name}_plain"), get(name).fitted()
    generator = torch.Generator().manual_seed(0)
    world = plain.draw(200, generator)
    design = plain.spec.design.sample(200, 5, generator)
    outcome = world.simulate(design, generator).double()
    theta = {name: value.double() for name, value in world.values().items()}
    columns = {n: x.double() for n, x in plain.spec.design.name_columns(design).items()}
    found, known = (task.log_likelihood(theta, columns, outcome) for task in (plain, own))
    # Single precision weights of goods do not quite sum to one.
    assert torch.allclose(found, known, rtol=1e-5, atol=1e-3)
