from collections.abc import Callable
from typing import Any

import pytest
import torch
from small import seeded
from torch import Tensor
from torch.distributions import Normal, Uniform

from aline.errors import InputError, NotFoundError
from aline.spaces import Binary, Box, Real
from aline.tasks import PREDICTIONS, Task, get, is_differentiable


def decay(theta: Any, design: Any, generator: torch.Generator) -> Tensor:
    mean = theta["amplitude"] * torch.exp(-theta["rate"] * design["time"])
    return mean + 0.1 * torch.randn(mean.shape, generator=generator)


def make(**changes: Any) -> Task:
    fields: dict[str, Any] = {
        "parameters": {"rate": Uniform(0.1, 2.0), "amplitude": Uniform(0.5, 5.0)},
        "design": Box(time=(0.0, 10.0)),
        "outcome": Real(),
        "simulate": decay,
        "horizon": 20,
    }
    return Task(**fields | changes)


def test_outcome_scale_is_measured_once_and_is_a_constant() -> None:
    first, second = make().fitted(), make().fitted()
    assert first.spec.outcome == second.spec.outcome
    assert first.spec.outcome.is_fitted
    assert first.fitted() is first


def test_default_targets_are_all_each_and_predictions() -> None:
    assert dict(make().spec.targets) == pytest.approx(
        {("rate", "amplitude"): 0.4, (PREDICTIONS,): 0.2, ("rate",): 0.2, ("amplitude",): 0.2}
    )


def test_world_of_known_parameters() -> None:
    task = make().fitted()
    world = task.world({"rate": 1.0, "amplitude": 2.0})
    x = task.spec.design.read({"time": [1.0] * 400})[None]
    outcomes = task.spec.outcome.to_user(world.answer(x, seeded(0)))
    assert float(outcomes.mean()) == pytest.approx(2 * 0.3679, abs=4 * 0.1 / 20)


def test_spec_fields_read_as_the_tasks_own() -> None:
    assert make().horizon == 20
    with pytest.raises(AttributeError, match="no attribute 'length'"):
        _ = make().length


def test_described_by_takes_the_models_scale() -> None:
    other = make(outcome=Real(1.0, 2.0)).spec
    assert make().described_by(other).spec.outcome == Real(1.0, 2.0)


def test_described_by_another_task_is_refused() -> None:
    with pytest.raises(InputError, match="trained with other design than this task"):
        make().described_by(make(design=Box(time=(0.0, 5.0)), outcome=Real(0.0, 1.0)).spec)


def test_differentiable_when_outcomes_carry_a_gradient() -> None:
    assert is_differentiable(make())
    assert not is_differentiable(get("psychometric"))


def test_informative_designs_are_those_explored_on_the_networks_scale() -> None:
    task = make(explore=lambda theta, count, generator: {"time": theta["rate"].expand(-1, count)})
    theta = task.draw(4, seeded(0)).theta
    rate = task.spec.parameters.to_user(theta)["rate"]
    found = task.informative(theta, 3, seeded(1))
    assert found.shape == (4, 3, 1)
    assert torch.allclose(task.spec.design.to_user(found)[:, 0, 0], rate, atol=1e-5)
    with pytest.raises(InputError, match="has no explore: give one"):
        make().informative(theta, 3, seeded(1))


def test_branches_weigh_both_answers_by_their_probability() -> None:
    task = get("psychometric")
    world = task.draw(4, seeded(0))
    designs = task.spec.design.sample(4, 3, seeded(1))
    outcomes, weights = world.branches(designs, seeded(2))
    assert outcomes.shape == weights.shape == (4, 3, 2)
    assert torch.allclose(weights.sum(-1), torch.ones(4, 3), atol=1e-5)


def test_branches_are_one_draw_without_a_likelihood() -> None:
    task = make().fitted()
    designs = task.spec.design.sample(4, 3, seeded(1))
    outcomes, weights = task.draw(4, seeded(0)).branches(designs, seeded(2))
    assert outcomes.shape == (4, 3, 1)
    assert torch.equal(weights, torch.ones(4, 3, 1))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: make(horizon=0), "horizon must be a whole number of trials, at least 1, got 0"),
        (lambda: make(horizon=2.5), "horizon must be a whole number"),
        (lambda: make(design=(0, 1)), "design must be a Box, Pool or Grid"),
        (lambda: make(outcome="real"), r"outcome must be Real\(\), Binary\(\)"),
        (lambda: make(simulate=None), "simulate must be callable"),
        (lambda: make(targets={("speed",): 1.0}), "parameters are rate, amplitude, got 'speed'"),
        (lambda: make(targets={}), "targets must not be empty"),
        (lambda: make(targets={("rate",): 0.0}), "shares of targets must be positive"),
        (lambda: make(targets={("rate",): 2.0, ("amplitude",): -1.0}), "must be positive"),
        (lambda: make(turns={("rate",): 0}), "turns must be a whole number of trials, at least 1"),
        (lambda: make(turns={("speed",): 2}), "for some of the targets, got .*speed"),
        (lambda: make(parameters={PREDICTIONS: Normal(0.0, 1.0)}), "rename the parameter"),
        (
            lambda: make(simulate=lambda theta, design, generator: theta["rate"]).fitted(),
            r"outcomes of the designs' shape \(512, 16\), got \(512, 1\)",
        ),
        (
            lambda: make(simulate=lambda t, d, g: decay(t, d, g) * torch.inf).fitted(),
            "NaN or infinite outcomes",
        ),
        (
            lambda: make().log_prob(torch.zeros(1, 2), torch.zeros(1, 1, 1), torch.zeros(1, 1)),
            "task task has no log_likelihood",
        ),
    ],
)
def test_mistakes(build: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build()


def test_unknown_built_in() -> None:
    with pytest.raises(NotFoundError, match=r"built-in tasks are psychometric.*got 'astrology'"):
        get("astrology")


def test_binary_outcomes_may_be_booleans() -> None:
    task = make(outcome=Binary(), simulate=lambda t, d, g: decay(t, d, g) > 1)
    outcomes = task.draw(2, seeded(0)).answer(torch.zeros(2, 3, 1), seeded(1))
    assert set(outcomes.unique().tolist()) <= {-1.0, 1.0}


def test_a_task_and_its_spec_are_shown_in_a_line() -> None:
    words = "task: parameters rate, amplitude; design time; outcome a number; 20 trials"
    assert repr(make()) == f"<Task {words}>"
    assert repr(make().spec) == f"<Spec {words}>"


def test_did_you_mean_a_task() -> None:
    with pytest.raises(NotFoundError, match=r"got 'psychometrik': did you mean psychometric\?"):
        get("psychometrik")
