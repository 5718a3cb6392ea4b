import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small import seeded

from aline.errors import InputError
from aline.spaces import Box, Grid, Pool, design_from_json

BOX = Box(time=(0.0, 10.0), dose=(-1.0, 3.0))


@settings(max_examples=50, deadline=None)
@given(time=st.floats(0, 10), dose=st.floats(-1, 3))
def test_round_trip(time: float, dose: float) -> None:
    x = BOX.read({"time": time, "dose": dose})
    assert x.shape == (1, 2)
    assert bool((x.abs() <= 1).all())
    assert torch.allclose(BOX.to_user(x)[0], torch.tensor([time, dose]), atol=1e-5)


@given(x=st.floats(-5, 5, width=32))
def test_values_stay_inside_the_bounds(x: float) -> None:
    values = BOX.to_user(torch.full((2,), x))
    assert bool(((values >= BOX.low) & (values <= BOX.high)).all())


def test_columns_are_named_as_the_simulator_wants_them() -> None:
    columns = BOX.name_columns(torch.tensor([[[0.0, -1.0], [1.0, 1.0]]]))
    assert {name: value.tolist() for name, value in columns.items()} == {
        "time": [[5.0, 10.0]],
        "dose": [[-1.0, 3.0]],
    }


def test_box_samples_fill_the_box() -> None:
    x = BOX.sample(50, 40, seeded(0))
    assert x.shape == (50, 40, 2)
    assert x.min() < -0.95
    assert x.max() > 0.95


@given(count=st.integers(1, 6), seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_pool_samples_are_points_of_the_pool_without_repeats(count: int, seed: int) -> None:
    pool = Pool(dose=[0.1, 1.0, 10.0, 20.0, 30.0, 45.0])
    for row in pool.to_user(pool.sample(4, count, seeded(seed)))[..., 0]:
        assert len(set(row.tolist())) == count
        distance = (row[:, None] - pool.points[:, 0]).abs().min(1).values
        assert float(distance.max()) < 1e-4


def test_pool_gives_more_samples_than_it_has_points() -> None:
    assert Pool(dose=[0.1, 1.0]).sample(3, 9, seeded(0)).shape == (3, 9, 1)


def test_grid_has_every_combination() -> None:
    grid = Grid(dose=[0.1, 1.0], time=[1, 2, 3])
    assert grid.names == ("dose", "time")
    assert grid.points is not None
    assert len({tuple(point) for point in grid.points.tolist()}) == 6


@pytest.mark.parametrize("design", [BOX, Pool(a=[0.0, 1.0, 4.0], b=[2.0, 1.0, 2.0])])
def test_json_round_trip(design: Box | Pool) -> None:
    again = design_from_json(json.loads(json.dumps(design.to_json())))
    x = design.sample(5, 3, seeded(3))
    assert again.names == design.names
    assert torch.equal(again.to_user(x), design.to_user(x))
    assert torch.equal(again.sample(5, 3, seeded(3)), x)


def test_lists_of_designs() -> None:
    x = BOX.read({"dose": [0, 1, 2], "time": torch.tensor([1.0, 2.0, 3.0])})
    assert BOX.to_user(x)[:, 0].tolist() == pytest.approx([1, 2, 3])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"time": 11.0, "dose": 0.0}, r"time must lie in \[0, 10\], got 11: pass design values"),
        ({"time": math.nan, "dose": 0.0}, r"time must lie in \[0, 10\], got nan"),
        ({"time": 1.0}, "a design must name exactly time, dose, got time"),
        ({"time": 1.0, "dose": 0.0, "x": 1.0}, "must name exactly time, dose, got time, dose, x"),
        ({"time": "soon", "dose": 0.0}, "time must be a number or a list of numbers, got 'soon'"),
        ({"time": [1.0, 2.0], "dose": [0.0]}, "one length, got time: 2, dose: 1"),
        (3.0, r"a design must name its axes, got 3.0: pass \{'time': ..., 'dose': ...\}"),
    ],
)
def test_bad_designs(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        BOX.read(values)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box(), "at least one axis"),
        (lambda: Box(x=(1.0, 1.0)), r"bounds of x must be finite with low < high, got \(1, 1\)"),
        (lambda: Box(x=(0.0, math.inf)), "bounds of x must be finite"),
        (lambda: Box(x=3.0), r"bounds of x must be \(low, high\), got 3.0"),
        (lambda: Pool(x=[1.0]), "at least two points, got 1"),
        (lambda: Pool(x=[1.0, 2.0], y=[1.0]), "one length, got x: 2, y: 1"),
        (lambda: Pool(x=[1.0, math.nan]), "bounds of x must be finite"),
    ],
)
def test_bad_spaces(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


COMPARED = Box(left=(0.0, 10.0), right=(2.0, 12.0), loud=(0.0, 1.0)).compared(
    {"right": "left"}, linear_within=0.01
)


def test_a_compared_axis_is_seen_as_its_difference() -> None:
    values = torch.tensor([[5.0, 5.0, 0.5], [5.0, 5.01, 0.5], [5.0, 6.0, 0.5], [0.0, 12.0, 0.5]])
    x = COMPARED.to_network(values)
    assert x[:, 0].tolist() == pytest.approx([0.0, 0.0, 0.0, -1.0])
    scale = math.asinh(12 / 0.01)
    expected = [0.0, math.asinh(1) / scale, math.asinh(100) / scale, 1.0]
    assert x[:, 1].tolist() == pytest.approx(expected, abs=1e-5)
    assert torch.allclose(COMPARED.to_user(x), values, atol=1e-4)


def test_compared_designs_are_uniform_in_the_users_units() -> None:
    values = COMPARED.to_user(COMPARED.sample(1, 4000, torch.Generator().manual_seed(0)))[0]
    assert values.mean(0).tolist() == pytest.approx([5.0, 7.0, 0.5], abs=0.2)
    assert bool((values >= COMPARED.low).all() and (values <= COMPARED.high).all())


def test_a_difference_that_leads_out_of_bounds_settles_on_the_bound() -> None:
    x = torch.tensor([1.0, 0.9, 0.0])
    assert COMPARED.to_user(x).tolist() == pytest.approx([10.0, 12.0, 0.5])
    settled = COMPARED.settled(x)
    assert torch.equal(COMPARED.to_user(settled), COMPARED.to_user(x))
    assert float(settled[1]) < 0.9
    plain = Box(a=(0.0, 1.0))
    assert plain.settled(x) is x


def test_compared_json_round_trip() -> None:
    again = design_from_json(json.loads(json.dumps(COMPARED.to_json())))
    assert again.to_json() == COMPARED.to_json()
    x = torch.tensor([0.3, -0.2, 0.1])
    assert torch.equal(again.to_user(x), COMPARED.to_user(x))


def test_impossible_comparisons() -> None:
    box = Box(a=(0.0, 1.0), b=(0.0, 1.0), c=(0.0, 1.0))
    with pytest.raises(InputError, match="axes a, b, c, got 'd'"):
        box.compared({"a": "d"}, linear_within=0.1)
    with pytest.raises(InputError, match="not relative itself"):
        box.compared({"a": "b", "b": "c"}, linear_within=0.1)
    with pytest.raises(InputError, match="linear_within must be a positive"):
        box.compared({"a": "b"}, linear_within=0.0)
