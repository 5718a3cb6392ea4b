import json
import math
from typing import Any

import pytest
import torch

from aline.errors import InputError
from aline.spaces import Binary, Real, outcome_from_json


def test_real_round_trip_and_volume() -> None:
    outcome = Real(loc=3.0, scale=2.0)
    y = torch.tensor([-4.0, 0.0, 9.5])
    assert torch.allclose(outcome.to_user(outcome.to_network(y)), y)
    assert outcome.log_volume(y).tolist() == pytest.approx([math.log(2.0)] * 3)


def test_a_knee_round_trips_over_many_orders_and_counts_its_jacobian() -> None:
    outcome = Real(loc=1.0, scale=3.0, linear_within=1e-3)
    y = torch.tensor([-15.0, -0.02, -1e-5, 0.0, 1e-4, 3.0])
    x = outcome.to_network(y).requires_grad_()
    back = outcome.to_user(x)
    assert torch.allclose(back, y, rtol=1e-5, atol=1e-9)
    (slope,) = torch.autograd.grad(back.sum(), x)
    assert torch.allclose(outcome.log_volume(x), slope.log(), atol=1e-4)
    assert float(outcome.log_volume(torch.tensor(400.0))) == pytest.approx(
        math.log(3e-3 / 2) + 1201.0, rel=1e-5
    )


def test_limits_on_the_networks_scale() -> None:
    assert Real(1.0, 2.0, limits=(-3.0, 5.0)).saturated() == pytest.approx((-2.0, 2.0))
    assert Real(1.0, 2.0).saturated() is None


@pytest.mark.parametrize("options", [{"linear_within": 0.0}, {"limits": (1.0, 1.0)}])
def test_impossible_outcomes(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        Real(**options)


def test_real_is_fitted_to_simulations_where_nothing_was_given() -> None:
    samples = torch.tensor([1.0, 3.0, 5.0])
    assert Real().fitted(samples) == Real(loc=3.0, scale=2.0)
    assert Real(loc=0.0).fitted(samples) == Real(loc=0.0, scale=2.0)
    assert not Real().is_fitted


def test_constant_outcomes_still_have_a_scale() -> None:
    assert Real().fitted(torch.ones(5)).to_network(torch.ones(1)).isfinite().all()


def test_binary_round_trip() -> None:
    y = torch.tensor([0.0, 1.0])
    assert Binary().to_network(y).tolist() == [-1.0, 1.0]
    assert torch.equal(Binary().to_user(Binary().to_network(y)), y)
    assert Binary().to_network(y.bool()).tolist() == [-1.0, 1.0]
    assert Binary().log_volume(y).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "outcome", [Real(1.0, 2.0), Real(), Binary(), Real(linear_within=0.1, limits=(-1.0, 2.0))]
)
def test_json_round_trip(outcome: Real | Binary) -> None:
    assert outcome_from_json(json.loads(json.dumps(outcome.to_json()))) == outcome


@pytest.mark.parametrize("value", [True, 1, 1.0, torch.tensor([1])])
def test_ways_to_say_yes(value: Any) -> None:
    assert Binary().read(value) == 1.0


@pytest.mark.parametrize(
    ("outcome", "value", "message"),
    [
        (Real(0.0, 1.0), math.nan, "must be a finite number, got nan: abandon the trial"),
        (Real(0.0, 1.0), "much", "must be a number, got 'much'"),
        (Real(0.0, 1.0), [1.0, 2.0], r"must be one number, got shape \(2,\)"),
        (Binary(), 0.5, "must be 0 or 1"),
        (Binary(), math.nan, "must be 0 or 1"),
        (Binary(), None, "must be a number, got None"),
    ],
)
def test_bad_outcomes(outcome: Real | Binary, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        outcome.read(value)


def test_unfitted_outcome_says_what_to_do() -> None:
    with pytest.raises(InputError, match="no scale yet"):
        Real().to_network(torch.zeros(1))


@pytest.mark.parametrize(
    ("outcome", "possible", "impossible"),
    [
        (Real(loc=2.0, scale=2.0), [102.0, -98.0], [102.1, -1e5, 1e8]),
        (Real(), [1e30, -1e30], [1e31, -1e300]),
        (Real(loc=0.0, scale=6.0, linear_within=0.001), [1e10, -1e10], [1e20, -1e300]),
        (Real(limits=(-15.25, 15.25)), [15.25, 15.2500001], [15.3, -16.0]),
    ],
)
def test_an_outcome_that_no_network_bears_is_refused_with_the_range(
    outcome: Real, possible: list[float], impossible: list[float]
) -> None:
    for value in possible:
        assert outcome.read(value) == pytest.approx(value, rel=1e-7)  # at a limit, the limit
    for value in impossible:
        with pytest.raises(InputError, match=r"must lie in (the limits )?\[-.*\], got"):
            outcome.read(value)
