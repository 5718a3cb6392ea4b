"""What is known before an experiment."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.distributions import LogNormal, Normal, Uniform

from aline import Box, Experiment, Real, Task, train
from aline.errors import InputError, StateError
from aline.model import Model, ModelConfig, fresh
from aline.tasks import get
from tests.small import SIZES, seeded, small_model


def model_with_priors() -> Model:
    config = ModelConfig(priors=True, **SIZES)  # type: ignore[arg-type]
    network = fresh(get("psychometric").spec, config, seeded(0)).eval().requires_grad_(False)
    return Model(network)


def answered(experiment: Experiment, count: int = 4) -> Experiment:
    for _ in range(count):
        trial = experiment.ask()
        experiment.tell(trial, trial.design["stimulus"] > 0)
    return experiment


def test_a_known_value_is_in_the_posterior_and_leaves_the_default_goal() -> None:
    experiment = answered(Experiment(model_with_priors(), known={"guess": 0.5}))
    assert experiment.target == ["threshold", "slope", "lapse"]
    assert experiment.posterior().mean["guess"] == pytest.approx(0.5, abs=0.01)
    assert experiment.known == {"guess": 0.5}


def test_what_is_known_survives_a_resume(tmp_path: Path) -> None:
    storage, model = f"sqlite:///{tmp_path / 'lab.db'}", model_with_priors()
    first = Experiment(model, known={"guess": 0.5}, prior={"threshold": Normal(-1.0, 0.4)},
                       storage=storage)  # fmt: skip
    answered(first)
    first.known = {"guess": 0.4}
    again = Experiment.resume(storage, model=model)
    assert again.known == first.known
    assert again.posterior().mean == first.posterior().mean
    assert again._state.choice == first._state.choice


def test_values_and_priors_change_mid_run() -> None:
    experiment = answered(Experiment(model_with_priors(), target="threshold"))
    before = experiment.posterior().mean
    experiment.known = {"lapse": 0.1}
    assert experiment.posterior().mean["lapse"] == pytest.approx(0.1, abs=0.01)
    experiment.set_prior({"slope": Uniform(0.2, 0.8)})
    assert experiment.posterior().mean["slope"] != before["slope"]
    assert experiment.known == {"lapse": 0.1}
    experiment.known = None
    experiment.set_prior(None)
    assert experiment.posterior().mean == before
    assert len(experiment.history()) == 5


def test_the_earlier_posterior_is_the_next_prior() -> None:
    first = answered(Experiment(model_with_priors()))
    second = Experiment(model_with_priors(), prior=first.posterior())
    assert second._state.knowledge.keys() == {"threshold", "slope", "guess", "lapse"}


def test_the_prior_is_the_posterior_before_any_data_on_the_networks_scale() -> None:
    experiment = Experiment(model_with_priors(), prior={"threshold": Normal(-1.0, 0.02)})
    assert experiment.posterior().mean["threshold"] == pytest.approx(-1.0, abs=0.2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"known": {"gues": 0.5}}, "did you mean"),
        ({"known": {"guess": 0.95}}, "guess must lie in [0.1, 0.9], got 0.95"),
        ({"known": {"guess": "half"}}, "a known value is a number"),
        ({"known": 0.5}, "known maps names"),
        ({"prior": {"slope": 0.5}}, "a prior is a torch distribution"),
        ({"prior": {"slope": LogNormal(0.0, 3.0)}}, "of its mass outside [0.1, 2]"),
        ({"prior": {"guess": Uniform(0.2, 0.3)}, "known": {"guess": 0.5}}, "give one of them"),
        ({"known": {"guess": 0.5}, "target": ["guess"]}, "guess is known"),
        ({"known": {"threshold": 0, "slope": 1, "guess": 0.5, "lapse": 0.1}}, "every parameter"),
    ],
)
def test_mistakes_are_told_in_words(settings: dict, words: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(InputError) as error:
        Experiment(model_with_priors(), **settings)
    assert words in str(error.value)


def test_a_model_that_was_not_trained_for_it_says_so() -> None:
    with pytest.raises(InputError, match="aline train --priors"):
        Experiment(small_model(), known={"guess": 0.5})


def test_a_goal_must_not_become_known() -> None:
    experiment = Experiment(model_with_priors(), target=["guess", "threshold"])
    with pytest.raises(InputError, match="guess is known"):
        experiment.known = {"guess": 0.5}
    assert experiment.known == {}


def test_a_prior_at_the_edge_is_said_to_be_a_guess() -> None:
    experiment = Experiment(model_with_priors(), prior={"threshold": Uniform(-3.0, -2.99)})
    assert "edge" in experiment.posterior().warnings[0]


def test_a_prior_of_any_shape_is_the_posterior_before_any_data() -> None:
    """A window is no normal on the network's scale: the draws are weighed by it."""
    model, window = trained_with_priors(), Uniform(0.5, 2.5)
    posterior = Experiment(model, prior={"x": window}).posterior()
    assert posterior.mean["x"] == pytest.approx(1.5, abs=0.1)
    low, high = posterior.interval("x", 0.9)
    assert (low, high) == pytest.approx((0.6, 2.4), abs=0.1)
    draws = posterior.sample(2000)["x"]
    assert float(draws.min()) >= 0.5
    assert float(draws.max()) <= 2.5
    assert not posterior.warnings


def test_a_refined_posterior_knows_the_shape_of_a_prior() -> None:
    """One reading of x with noise 1, under a window: a normal that is cut."""
    task = reading_task()
    experiment = Experiment(trained_with_priors(), prior={"x": Uniform(0.5, 2.5)})
    experiment.attach({"gain": [1.0]}, [2.5])
    exact = np.linspace(0.5, 2.5, 4001)
    weight = np.exp(-0.5 * (2.5 - exact) ** 2)
    wanted = float((exact * weight).sum() / weight.sum())
    assert experiment.refined(task).mean["x"] == pytest.approx(wanted, abs=0.03)
    assert experiment.history()[-1].mean["x"] == experiment.posterior().mean["x"]


def reading_task() -> Task:
    def simulate(theta, design, generator):  # type: ignore[no-untyped-def]
        mean = theta["x"] * design["gain"]
        return mean + torch.randn(mean.shape, generator=generator)

    def log_likelihood(theta, design, outcome):  # type: ignore[no-untyped-def]
        return Normal(theta["x"] * design["gain"], 1.0).log_prob(outcome)

    return Task(parameters={"x": Uniform(-5.0, 5.0), "y": Uniform(-1.0, 1.0)},
                design=Box(gain=(0.5, 1.0)), outcome=Real(), simulate=simulate,
                log_likelihood=log_likelihood, horizon=2)  # fmt: skip


@cache
def trained_with_priors() -> Model:
    """Long enough to give the prior where there are no data."""
    sizes = {**SIZES, "priors": True}
    return train(reading_task(), rounds=15, progress=False, model=sizes,
                 config={"batch": 32, "emulator_updates": 4})  # fmt: skip


def test_an_experiment_stays_in_its_units(tmp_path: Path) -> None:
    """A model in other units is the same model, with the same exported graph."""
    task, config = get("detection"), ModelConfig(priors=True, **SIZES)  # type: ignore[arg-type]
    model = Model(fresh(task.spec, config, seeded(0)).eval().requires_grad_(False))
    storage, there = f"sqlite:///{tmp_path / 'lab.db'}", model.in_units(stimulus=(-40.0, 0.0))
    assert there.digest == model.digest
    Experiment(there, storage=storage).ask()
    assert len(Experiment.resume(storage, model=there).trials) == 1
    with pytest.raises(StateError, match="was run in stimulus from -40 to 0, and this model is in"):
        Experiment.resume(storage, model=model)
