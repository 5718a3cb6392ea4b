"""Retention against its formulas."""

import math

import pytest
import torch
from small import seeded

from aline import Task
from aline.errors import InputError
from aline.spaces import Categorical
from aline.tasks import get
from aline.tasks.retention import recall

THETA = {"a": torch.tensor(0.8), "b_power": torch.tensor(0.5), "b_exponential": torch.tensor(0.1)}


@pytest.mark.parametrize(("model", "expected"), [(0, 0.8 * 4**-0.5), (1, 0.8 * math.exp(-0.3))])
def test_recall_follows_the_model(model: int, expected: float) -> None:
    theta = {**THETA, "model": torch.tensor(model)}
    assert float(recall(theta, {"time": torch.tensor(3.0)})) == pytest.approx(expected)


def test_the_likelihood_is_a_probability_and_the_simulators() -> None:
    task = get("retention")
    theta = task.spec.parameters.to_network({**THETA, "model": "power"})
    counts = torch.arange(11.0)
    design = task.spec.design.to_network(torch.tensor([[3.0]])).expand(11, 1)
    p = task.log_prob(theta[None], design[None], counts[None])[0].exp()
    assert float(p.sum()) == pytest.approx(1.0, abs=1e-5)
    world = task.worlds(theta.expand(4000, -1), seeded(0))
    answers = world.answer(design[:1].expand(4000, 1, 1), seeded(1))
    standard_error = (10 * 0.4 * 0.6 / 4000) ** 0.5
    assert float(answers.mean()) == pytest.approx(4.0, abs=4 * standard_error)


def test_what_does_not_exist_does_not_matter() -> None:
    task, generator = get("retention"), seeded(2)
    world = task.draw(200, generator)
    designs = task.spec.design.sample(200, 5, generator)
    outcomes = world.answer(designs, generator)
    other = world.theta.clone()
    is_power = task.spec.parameters.to_user(other)["model"] == 0
    column = torch.where(is_power, 3, 2)
    other[torch.arange(200), column] += 1.0
    same = task.log_prob(world.theta, designs, outcomes)
    torch.testing.assert_close(task.log_prob(other, designs, outcomes), same)


def test_probabilities_are_not_for_outcomes() -> None:
    with pytest.raises(InputError, match="leave them out"):
        Task(
            parameters={},
            design=get("retention").spec.design,
            outcome=Categorical(("a", "b"), (0.5, 0.5)),
            simulate=lambda theta, design, generator: design["time"],
            horizon=3,
        )
