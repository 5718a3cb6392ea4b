import numpy as np
import pytest
import torch

from aline.app.demo import Demo
from aline.app.expectation import expectations_of
from aline.tasks.psychometric import psychometric


def test_the_truth_of_a_yes_no_task_is_its_response_function(demos: dict[str, Demo]) -> None:
    demo = demos["psychometric"]
    (found,) = expectations_of(demo)
    theta = {name: torch.tensor(value) for name, value in demo.truth.items()}
    exact = psychometric().probability(theta, {"stimulus": torch.tensor(found.x)})
    assert found.truth == pytest.approx(exact.numpy(), abs=1e-5)
    assert found.x[[0, -1]].tolist() == [-5.0, 5.0]


def test_the_mean_is_the_models_own_prediction(demos: dict[str, Demo]) -> None:
    demo = demos["psychometric"]
    (found,) = expectations_of(demo)
    predicted = demo.experiment.predict({"stimulus": found.x.tolist()}).mean
    assert found.mean == pytest.approx(np.asarray(predicted))


def test_the_band_of_a_yes_no_task_is_of_curves_and_a_probability(demos: dict[str, Demo]) -> None:
    (found,) = expectations_of(demos["psychometric"])
    assert found.is_of_curves
    assert found.band is not None
    low, high = found.band
    assert ((low >= 0) & (low < high) & (high <= 1)).all()


def test_the_band_of_a_real_outcome_is_the_predictive_interval(demos: dict[str, Demo]) -> None:
    demo = demos["linear"]
    (found,) = expectations_of(demo)
    assert not found.is_of_curves
    assert found.band is not None
    low, high = demo.experiment.predict({"x": found.x.tolist()}).interval(0.95)
    assert found.band[0] == pytest.approx(np.asarray(low))
    assert found.band[1] == pytest.approx(np.asarray(high))


def test_the_truth_of_a_real_outcome_is_its_mean(demos: dict[str, Demo]) -> None:
    demo = demos["linear"]
    (found,) = expectations_of(demo)
    line = demo.truth["intercept"] + demo.truth["slope"] * found.x
    # The mean of 1000 simulations with noise 0.5 at each of 161 points.
    assert found.truth == pytest.approx(line, abs=4.5 * 0.5 / 1000**0.5)
