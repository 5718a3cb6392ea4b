"""Mistakes of newcomers in a simulator, each told with the rule, the value and the remedy."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, Uniform

from aline.errors import InputError, TaskWarning
from aline.spaces import Binary, Box, Outcomes, Real
from aline.tasks import BUILT_IN, Task, get


def probability(theta: Any, design: Any) -> Tensor:
    return torch.sigmoid(2 * (design["stimulus"] - theta["threshold"]))


def answers(theta: Any, design: Any, generator: torch.Generator) -> Tensor:
    p = probability(theta, design)
    return torch.rand(p.shape, generator=generator) < p


def make(**changes: Any) -> Task:
    fields: dict[str, Any] = {
        "parameters": {"threshold": Uniform(-3.0, 3.0)},
        "design": Box(stimulus=(-5.0, 5.0)),
        "outcome": Binary(),
        "simulate": answers,
        "horizon": 20,
    }
    return Task(**fields | changes)


def one_warning(task: Task) -> str:
    with pytest.warns(TaskWarning) as found:
        task.checked()
    (warning,) = found
    return str(warning.message)


def quiet(task: Task) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert task.checked() is task


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_tasks_raise_no_doubt(name: str) -> None:
    quiet(get(name))


def test_a_good_task_of_several_outcomes_raises_no_doubt() -> None:
    def simulate(theta: Any, design: Any, generator: torch.Generator) -> dict[str, Tensor]:
        choice = answers(theta, design, generator)
        return {"choice": choice, "rt": torch.rand(choice.shape, generator=generator)}

    quiet(make())
    quiet(make(outcome=Outcomes(choice=Binary(), rt=Real()), simulate=simulate))


def test_probabilities_are_no_answers() -> None:
    with pytest.raises(InputError, match=r"must be 0 or 1, got 0\.\d+: draw answers from prob"):
        make(simulate=lambda theta, design, generator: probability(theta, design)).checked()


def test_a_numpy_generator_where_torchs_comes() -> None:
    def simulate(theta: Any, design: Any, generator: Any) -> Tensor:
        return design["stimulus"] + generator.normal(size=design["stimulus"].shape)

    rule = r"takes torch tensors and a torch.Generator \(.*'normal'\): draw with torch.randn\(shape"
    with pytest.raises(InputError, match=rule):
        make(outcome=Real(), simulate=simulate).checked()


def test_tensors_where_numpy_arrays_were_expected() -> None:
    def simulate(theta: Any, design: Any, generator: Any) -> Any:
        return design["stimulus"].astype(float) * theta["threshold"]

    with pytest.raises(InputError, match=r"'astype'\): use torch's functions .* or begin with"):
        make(outcome=Real(), simulate=simulate).checked()


def test_numpy_from_explore_and_latent_is_taken() -> None:
    def explore(theta: Any, count: int, generator: torch.Generator) -> dict[str, Any]:
        return {"stimulus": np.zeros((len(theta["threshold"]), count))}

    def latent(theta: Any, generator: torch.Generator) -> dict[str, Any]:
        return {"drift": np.ones((len(theta["threshold"]), 1))}

    task = make(explore=explore, latent=latent).checked()
    world = task.draw(3, torch.Generator())
    assert world.hidden["drift"].dtype == torch.float32
    assert torch.equal(task.informative(world.theta, 4, torch.Generator()), torch.zeros(3, 4, 1))


def test_a_simulator_that_ignores_the_generator_and_has_no_noise() -> None:
    said = one_warning(make(simulate=lambda t, d, g: probability(t, d) > 0.5))
    assert said.startswith("task task: answers should be noisy, and simulate gave the same ones")
    assert "draw its noise with torch.randn(shape, generator=generator)" in said


def test_noise_may_be_all_in_what_is_latent() -> None:
    def latent(theta: Any, generator: torch.Generator) -> dict[str, Tensor]:
        return {"drift": torch.randn(len(theta["threshold"]), 1, generator=generator)}

    quiet(
        make(
            outcome=Real(),
            latent=latent,
            simulate=lambda t, d, g: t["threshold"] * d["stimulus"] + t["drift"],
        )
    )


def test_a_simulator_that_draws_from_elsewhere() -> None:
    said = one_warning(make(simulate=lambda t, d, g: torch.rand(d["stimulus"].shape) < 0.5))
    assert "the same generator must give the same answers" in said
    assert "numpy.random.default_rng(int(torch.randint(2**31, (), generator=generator)))" in said


def test_a_simulator_that_ignores_the_design() -> None:
    def simulate(theta: Any, design: Any, generator: torch.Generator) -> Tensor:
        return theta["threshold"] + torch.randn(design["stimulus"].shape, generator=generator)

    said = one_warning(make(outcome=Real(), simulate=simulate))
    assert said.endswith(
        "answers should depend on the design, and simulate gave the same ones at other designs: "
        "use design['stimulus']"
    )


def test_priors_far_wider_than_the_design_can_tell() -> None:
    said = one_warning(make(parameters={"threshold": Normal(0.0, 200.0)}))
    assert "for 9" in said
    assert "narrow the priors to what the design can tell, or widen the design" in said


def test_a_warning_is_one_line() -> None:
    assert "\n" not in one_warning(make(parameters={"threshold": Normal(0.0, 200.0)}))


def test_a_likelihood_that_does_not_broadcast_is_as_good() -> None:
    """As with a gather, whose index must have the shape of what it picks from."""

    def picked(theta: Any, design: Any, outcome: Tensor) -> Tensor:
        p = probability(theta, design)
        both = torch.stack([1 - p, p], -1)
        return both.gather(-1, outcome.long().expand(p.shape)[..., None])[..., 0].log()

    def plain(theta: Any, design: Any, outcome: Tensor) -> Tensor:
        p = probability(theta, design)
        return torch.where(outcome > 0, p, 1 - p).log()

    one, other = make(log_likelihood=picked).fitted(), make(log_likelihood=plain).fitted()
    theta, designs = torch.randn(2, 1, 3, 1), torch.rand(2, 1, 1, 4, 1)
    outcomes = torch.tensor([-1.0, 1.0]).view(1, 2, 1, 1)
    found = one.log_prob(theta, designs, outcomes)
    assert found.shape == (2, 2, 3, 4)
    torch.testing.assert_close(found, other.log_prob(theta, designs, outcomes))
    quiet(make(log_likelihood=picked))


def test_a_likelihood_whose_outcomes_are_not_certain_together_is_a_doubt() -> None:
    task = make(log_likelihood=lambda theta, design, outcome: probability(theta, design))
    assert "must sum to one, and those of log_likelihood sum to" in one_warning(task)


def test_a_likelihood_that_is_no_number_is_an_error() -> None:
    task = make(log_likelihood=lambda theta, design, outcome: outcome * torch.nan)
    with pytest.raises(InputError, match="log_likelihood returned NaN"):
        task.checked()
