import math

import pytest
import torch
from torch import Tensor

from aline.tasks import get
from aline.tasks.csf import SPREAD, log10_sensitivity, log_likelihood, probability

EYE = {
    "log10_peak_sensitivity": 2.0,
    "log10_peak_frequency": math.log10(3.0),
    "log10_bandwidth": math.log10(2.0),
    "truncation": 0.5,
    "guess": 0.5,
    "lapse": 0.04,
}


def given(**changes: float) -> dict[str, Tensor]:
    return {name: torch.tensor([[value]]) for name, value in {**EYE, **changes}.items()}


def grating(contrast: float, frequency: float) -> dict[str, Tensor]:
    return {"contrast": torch.tensor([[contrast]]), "frequency": torch.tensor([[frequency]])}


def sensitivity(frequency: float, **changes: float) -> float:
    return float(log10_sensitivity(given(**changes), grating(1.0, frequency)).item())


def test_the_peak_is_where_it_is_said_to_be() -> None:
    assert sensitivity(3.0) == pytest.approx(2.0, abs=1e-5)
    assert max(sensitivity(f) for f in (0.2, 1.0, 2.9, 3.1, 10.0, 36.0)) < 2.0


@pytest.mark.parametrize("octaves", [1.0, 2.0, 4.0])
def test_the_bandwidth_is_the_width_in_octaves_at_half_height(octaves: float) -> None:
    for side in (-1, 1):
        edge = 3.0 * 2 ** (side * octaves / 2)
        half = sensitivity(edge, log10_bandwidth=math.log10(octaves))
        assert half == pytest.approx(2.0 - math.log10(2), abs=1e-4)


@pytest.mark.parametrize("theirs", [1.0, 3.0, 10.0])
def test_the_other_convention_is_a_bandwidth_of_one_and_log2_of_theirs(theirs: float) -> None:
    ours = 1 + math.log2(theirs)
    away = math.log10(6.0) - math.log10(3.0)
    expected = 2.0 - math.log10(2) * (away / (math.log10(2 * theirs) / 2)) ** 2
    found = sensitivity(6.0, log10_bandwidth=math.log10(ours))
    assert found == pytest.approx(expected, abs=1e-4)


def test_only_below_the_peak_it_is_truncated() -> None:
    assert sensitivity(0.2) == pytest.approx(1.5, abs=1e-5)
    assert sensitivity(2.5) == pytest.approx(sensitivity(3.6), abs=1e-4)  # not so far down yet
    assert sensitivity(36.0) < 0


def test_at_threshold_half_of_what_is_not_guessed_or_lapsed_is_right() -> None:
    for guess, lapse in ((0.5, 0.0), (0.1, 0.04)):
        found = probability(given(guess=guess, lapse=lapse), grating(0.01, 3.0)).item()
        assert found == pytest.approx(guess + (1 - guess - lapse) / 2, abs=1e-5)


def test_two_alternatives_without_lapses_are_the_published_function() -> None:
    """1 - 0.5 / (1 + exp((log10 S + log10 c) / 0.25))."""
    for contrast in (0.002, 0.01, 0.02, 0.5):
        z = (2.0 + math.log10(contrast)) / SPREAD
        found = probability(given(lapse=0.0), grating(contrast, 3.0)).item()
        assert found == pytest.approx(1 - 0.5 / (1 + math.exp(z)), abs=1e-5)


def test_what_cannot_be_has_a_finite_likelihood() -> None:
    never = log_likelihood(given(guess=0.0), grating(0.001, 36.0), torch.ones(1, 1)).item()
    assert -20 < never < -15
    lapse = log_likelihood(given(guess=0.0), grating(1.0, 3.0), torch.zeros(1, 1)).exp().item()
    assert lapse == pytest.approx(0.04, abs=1e-3)


def test_its_designs_reach_the_usual_gratings() -> None:
    """QuickCSF's 24 contrasts and 20 frequencies."""
    design = get("csf").spec.design
    grid = {"contrast": [10 ** (-0.1 * i) for i in range(24)], "frequency": [0.2, 36.0] * 12}
    assert len(design.read(grid)) == 24
