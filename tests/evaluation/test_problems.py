import math

import pytest
import torch
from small import seeded

from aline.errors import InputError, NotFoundError
from aline.evaluation.problems import FUNCTIONS, FunctionWorld, function_named
from aline.tasks import get


def at(name: str, *point: float) -> float:
    """A function at a point of its own domain, through the GP task's inputs."""
    function = function_named(name)
    low, high = function.domain
    x = (torch.tensor(point, dtype=torch.float64) - low) / (high - low) * 2 - 1
    return float(function(x * function.half))


# Known minima and values, from the functions' definitions.
@pytest.mark.parametrize(
    ("name", "point", "value"),
    [
        ("branin", (math.pi, 2.275), (0.397887 - 44.81) / 51.95),
        ("branin", (9.42478, 2.475), (0.397887 - 44.81) / 51.95),
        ("goldstein_price", (0.0, -1.0), (math.log(3) - 6) / 4),
        ("goldstein_price", (1.8, 0.2), (math.log(84) - 6) / 4),
        ("ackley", (0.0, 0.0), 0.0),
        ("ackley", (1.0, 1.0), 3.625385 / 5),
        ("three_hump_camel", (0.0, 0.0), 0.0),
        ("three_hump_camel", (2.0, 2.0), 8 - 16.8 + 64 / 6 + 8),
        ("gramacy2d", (math.sqrt(0.5), 0.0), math.sqrt(0.5) * math.exp(-0.5)),
        ("gramacy1d", (0.548563,), -0.869011 / 3),
        ("gramacy1d", (1.0,), 0.0),
        ("higdon", (2.5,), 1.2),
        ("higdon", (10.0,), 0.0),
        ("higdon", (20.0,), 1.0),
    ],
)
def test_values_are_the_published_ones(name: str, point: tuple[float, ...], value: float) -> None:
    assert at(name, *point) == pytest.approx(value, abs=2e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_world_answers_with_noise_in_the_tasks_units(name: str) -> None:
    function = function_named(name)
    spec = get(f"gp{function.dimensions}d").spec
    x = function.sample(spec, 3, 400, seeded(0))
    assert float(spec.design.to_user(x).abs().max()) <= function.half
    world = FunctionWorld(function, spec, 3)
    outcomes = spec.outcome.to_user(world.answer(x, seeded(1)))
    noise = outcomes - function(spec.design.to_user(x))
    assert outcomes.isfinite().all()
    assert float(noise.std()) == pytest.approx(0.01, rel=0.1)


def test_a_function_needs_a_task_of_its_dimensions() -> None:
    with pytest.raises(InputError, match="gp2d"):
        FunctionWorld(function_named("branin"), get("gp1d").spec, 2)
    with pytest.raises(NotFoundError, match="branin"):
        function_named("rosenbrock")
