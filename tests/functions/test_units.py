import math

import pytest
import torch
from small import seeded

from aline.functions.units import Units


def test_before_a_second_outcome_the_scale_is_the_tasks() -> None:
    nothing = Units.of(torch.zeros(2, 0))
    assert (nothing.loc.tolist(), nothing.scale.tolist()) == ([0.0, 0.0], [1.0, 1.0])
    one = Units.of(torch.tensor([[7.0]]))
    assert (one.loc.tolist(), one.scale.tolist()) == ([7.0], [1.0])
    same = Units.of(torch.full((1, 4), 0.3))
    assert same.scale.tolist() == [1.0]


def test_the_scale_is_the_standard_error_of_the_next_outcome() -> None:
    """Of many samples the mean square of (next - mean) / scale is near one, even of few each."""
    draws = torch.randn(40000, 7, generator=seeded(0)).double() * 5 + 100
    units = Units.of(draws[:, :6])
    assert float(units.scale.mean()) == pytest.approx(5 * math.sqrt(7 / 5), rel=0.08)
    many = Units.of(draws.reshape(10, -1))
    assert float(many.scale.mean()) == pytest.approx(5, rel=0.01)


def test_standardised_outcomes_are_in_units_of_the_scale_from_the_location() -> None:
    outcomes = torch.randn(3, 5, generator=seeded(0)).double() * 40 + 1e6
    units = Units.of(outcomes)
    back = units.standardise(outcomes) * units.scale[:, None] + units.loc[:, None]
    assert torch.allclose(back, outcomes, rtol=1e-12)
