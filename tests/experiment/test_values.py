"""Posteriors of discrete parameters, and of those that exist only under a value."""

import math
from pathlib import Path

import pytest
import torch
from discrete import PROBS, TRENDS, trend_task
from small import SIZES, seeded, small_network

from aline import Categorical, Experiment
from aline.errors import InputError
from aline.model import Model, ModelConfig, fresh


def answered(experiment: Experiment, count: int = 4) -> Experiment:
    for _ in range(count):
        trial = experiment.ask()
        experiment.tell(trial, trial.design["x"] > 0)
    return experiment


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return answered(Experiment(Model(small_network(trend_task())), target=["trend"]))


def model_with_priors() -> Model:
    config = ModelConfig(priors=True, **SIZES)  # type: ignore[arg-type]
    return Model(fresh(trend_task().spec, config, seeded(0)).eval().requires_grad_(False))


def test_probabilities_by_label(experiment: Experiment) -> None:
    posterior = experiment.posterior()
    found = posterior.probabilities("trend")
    assert tuple(found) == TRENDS
    assert sum(found.values()) == pytest.approx(1.0)
    assert posterior["trend"].probabilities == found
    mean = found["falls"] + 2 * found["neither"]
    assert posterior.mean["trend"] == pytest.approx(mean)
    for label, p in found.items():
        assert float(posterior.log_prob({"trend": label}).exp()) == pytest.approx(p, abs=1e-6)
    assert posterior.pdf("trend", [0, 1, 2, 0.5]).tolist() == [*found.values(), 0.0]
    first = next(iter(found.values()))
    assert posterior.quantile("trend", first / 2) == 0
    assert posterior.quantile("trend", 1) == 2
    likeliest = max(found, key=lambda label: found[label])
    assert f"trend  {likeliest} " in repr(posterior)
    assert "trend: " in repr(posterior["trend"])


def test_only_discrete_parameters_have_probabilities(experiment: Experiment) -> None:
    with pytest.raises(InputError, match="ask about trend"):
        experiment.posterior().probabilities("bias")
    assert experiment.posterior()["bias"].probabilities == {}


def test_draws_are_places_as_a_simulator_takes_them(experiment: Experiment) -> None:
    posterior = experiment.posterior()
    drawn = posterior.sample(4000)
    assert drawn["trend"].dtype == torch.int64
    share = torch.bincount(drawn["trend"], minlength=3) / 4000
    expected = torch.tensor(list(posterior.probabilities("trend").values()))
    assert (share - expected).abs().max() < 0.03
    of_one = torch.bincount(posterior["trend"].sample((4000,)), minlength=3) / 4000
    assert (of_one - expected).abs().max() < 0.03
    assert bool(drawn["slope"].isfinite().all())


def test_frames_have_labels_and_nothing_where_a_parameter_does_not_exist(
    experiment: Experiment,
) -> None:
    posterior = experiment.posterior()
    table = posterior.to_frame()
    assert list(table.index) == ["trend=rises", "trend=falls", "trend=neither", "slope", "bias"]
    assert table["mean"]["trend=falls"] == pytest.approx(posterior.probabilities("trend")["falls"])
    assert math.isnan(table["low"]["trend=falls"])
    draws = posterior.to_frame(200)
    assert set(draws["trend"]) <= set(TRENDS)
    assert (draws["slope"].notna() == (draws["trend"] == "rises")).all()


def test_a_parameter_under_a_value_is_described_given_it(experiment: Experiment) -> None:
    """By the conditional of the joint posterior, as its draws where it exists have it."""
    posterior = experiment.posterior()
    drawn = posterior.to_frame(20_000)["slope"].dropna()
    assert posterior.mean["slope"] == pytest.approx(drawn.mean(), abs=5 * drawn.sem())
    # Draws have what comes before in the order; slope comes right after trend.
    assert posterior.std["slope"] == pytest.approx(drawn.std(), rel=0.05)


def test_refined_counts_draws() -> None:
    experiment = answered(Experiment(Model(small_network(trend_task()))))
    posterior = experiment.refined(trend_task())
    found = posterior.probabilities("trend")
    drawn = posterior.to_frame(2000)
    assert found["rises"] == pytest.approx((drawn["trend"] == "rises").mean(), abs=0.05)
    for label, p in found.items():
        assert float(posterior.log_prob({"trend": label}).exp()) == pytest.approx(p, abs=0.01)
    # Every answer was yes where x is positive: it rises.
    assert found["rises"] > 0.8
    assert posterior.interval("slope")[0] > 0.2


def test_arviz_takes_the_places(experiment: Experiment) -> None:
    pytest.importorskip("arviz")
    draws = experiment.posterior().to_arviz(draws=100).posterior["trend"]
    assert set(draws.values.flatten().tolist()) <= {0, 1, 2}


def test_plots_are_bars(experiment: Experiment) -> None:
    panels = experiment.posterior().plot()
    labels = [tick.get_text() for tick in panels.flat[0].get_xticklabels()]
    assert labels == list(TRENDS)
    assert len(experiment.posterior().plot(["bias", "trend"]).flat) == 2


def test_a_known_value_and_probabilities_at_run_time(tmp_path: Path) -> None:
    model, storage = model_with_priors(), f"sqlite:///{tmp_path / 'lab.db'}"
    known = answered(Experiment(model, known={"trend": "falls"}, storage=storage))
    assert known.posterior().probabilities("trend")["falls"] > 0.99
    assert Experiment.resume(storage, model=model).known == {"trend": "falls"}
    wanted = {"rises": 0.1, "falls": 0.2, "neither": 0.7}
    chosen = Experiment(model, prior={"trend": wanted})
    network_prior = chosen.posterior().probabilities("trend")
    assert network_prior["neither"] > 0.5 > network_prior["rises"]
    same = Experiment(model, prior={"trend": Categorical(TRENDS, tuple(wanted.values()))})
    assert same.posterior().probabilities("trend") == network_prior
    assert not chosen.posterior().warnings


def test_a_prior_that_cannot_be_had_is_said() -> None:
    prior = {"trend": {"rises": 0.49, "falls": 0.02, "neither": 0.49}}
    warnings = Experiment(model_with_priors(), prior=prior).posterior().warnings
    assert any("taken as" in text for text in warnings)


@pytest.mark.parametrize(
    "settings",
    [
        {"known": {"trend": "fals"}},
        {"known": {"trend": 0.5}},
        {"prior": {"trend": {"rises": 1.0}}},
        {"prior": {"trend": {"rises": 0.9, "falls": 0.9, "neither": 0.2}}},
        {"prior": {"trend": torch.distributions.Normal(0.0, 1.0)}},
    ],
)
def test_mistakes_are_explained(settings: dict) -> None:
    with pytest.raises(InputError):
        Experiment(model_with_priors(), **settings)


def test_an_earlier_posterior_is_a_prior(experiment: Experiment) -> None:
    earlier = experiment.posterior()
    later = Experiment(model_with_priors(), prior=earlier)
    found, before = later.posterior().probabilities("trend"), earlier.probabilities("trend")
    assert sum(PROBS) == pytest.approx(1.0)
    assert max(found, key=found.get) == max(before, key=before.get)
