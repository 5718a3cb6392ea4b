"""The kinds of design axes: their values, their scales and what is drawn of them."""

import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small import seeded

from aline.errors import InputError
from aline.spaces import Box, Grid, Levels, Log, Pool, design_from_json

MIXED = Box(
    amount=(10, 790), delay=[180, 1, 7, 30], side=["left", "right", "none"], dose=Log(0.01, 1)
)


@settings(max_examples=50, deadline=None)
@given(
    amount=st.floats(10, 790),
    delay=st.sampled_from([1, 7, 30, 180]),
    side=st.sampled_from(["left", "right", "none"]),
    dose=st.floats(0.01, 1),
)
def test_round_trip(amount: float, delay: int, side: str, dose: float) -> None:
    x = MIXED.read({"amount": amount, "delay": delay, "side": side, "dose": dose})
    assert bool((x.abs() <= 1).all())
    found = MIXED.name_values(MIXED.to_user(x)[0].tolist())
    assert found["amount"] == pytest.approx(amount, rel=1e-5)
    assert found["dose"] == pytest.approx(dose, rel=1e-5)
    assert (found["delay"], found["side"]) == (delay, side)
    assert torch.equal(MIXED.settled(x), x)


@settings(deadline=None)
@given(x=st.lists(st.floats(-2, 2, width=32), min_size=4, max_size=4))
def test_any_place_settles_on_a_value(x: list[float]) -> None:
    settled = MIXED.settled(torch.tensor(x))
    named = MIXED.name_values(MIXED.to_user(settled).tolist())
    assert torch.allclose(MIXED.read(named)[0], settled, atol=1e-5)
    assert MIXED.name_values(MIXED.to_user(torch.tensor(x)).tolist()) == named


def test_designs_are_drawn_evenly_over_every_kind() -> None:
    columns = MIXED.name_columns(MIXED.sample(4, 5000, seeded(0)))
    flat = {name: column.flatten() for name, column in columns.items()}
    n = 20_000
    for name, values in (("delay", [1, 7, 30, 180]), ("side", [0, 1, 2])):
        share = torch.tensor([float((flat[name] == value).float().mean()) for value in values])
        p = 1 / len(values)
        assert float((share - p).abs().max()) < 4 * math.sqrt(p * (1 - p) / n)
    # Uniform on their scales: the mean of a uniform on [0, 1] has the error 0.29 / sqrt(n).
    assert float(((flat["amount"] - 10) / 780).mean()) == pytest.approx(0.5, abs=4 * 0.29 / n**0.5)
    share = (flat["dose"] / 0.01).log() / math.log(100)
    assert float(share.mean()) == pytest.approx(0.5, abs=4 * 0.29 / n**0.5)
    assert flat["side"].dtype == torch.int64  # so that a simulator can look things up by it


def test_numbers_of_a_set_lie_by_rank_and_names_in_their_order() -> None:
    assert Levels([180, 1, 30]).to_network(torch.tensor([1.0, 30.0, 180.0])).tolist() == [-1, 0, 1]
    named = Levels(["b", "a", "c"])
    assert named.values == ("b", "a", "c")
    assert named.which(named.to_network(torch.tensor([0.0, 2.0]))).tolist() == [
        [1, 0, 0],
        [0, 0, 1],
    ]


def test_a_log_axis_moves_in_ratios() -> None:
    dose = Log(0.01, 1)
    assert dose.to_user(torch.tensor([-1.0, 0.0, 1.0])).tolist() == pytest.approx([0.01, 0.1, 1.0])
    assert [dose.text(v) for v in (0.0123456, 0.987654)] == ["0.0123", "0.988"]


def test_a_box_of_sets_is_the_list_of_combinations() -> None:
    box = Box(delay=[1, 7, 30], side=["left", "right"])
    assert box.points is not None
    assert box.points.tolist() == Grid(delay=[1, 7, 30], side=[0.0, 1.0]).points.tolist()  # type: ignore[union-attr]
    few = box.where(lambda d: (d["side"] == "left") | (d["delay"] > 5))
    assert len(few.points) == 5  # type: ignore[arg-type]


def test_pools_take_names() -> None:
    bank = Pool(item=["q1", "q2", "q3"], difficulty=[0.5, -1.0, 2.0], repeats=False)
    assert bank.point_columns() == {"item": ["q1", "q2", "q3"], "difficulty": [0.5, -1.0, 2.0]}
    assert not bank.repeats
    x = bank.read({"item": "q3", "difficulty": 2.0})
    assert bank.name_values(bank.to_user(x)[0].tolist()) == {"item": "q3", "difficulty": 2.0}


def test_conditions_hold_for_all_that_is_drawn_and_evenly() -> None:
    box = Box(soon=(0, 10), late=(0, 10)).where(lambda d: d["late"] > d["soon"])
    x = box.sample(10, 2000, seeded(1))
    assert x.shape == (10, 2000, 2)
    assert bool(box.allows(x).all())
    soon, late = box.to_user(x).flatten(0, 1).unbind(-1)
    # The least of two uniforms has the mean 1/3, the greatest 2/3, each a deviation of 0.236.
    error = 4 * 2.36 / math.sqrt(20_000)
    assert float(soon.mean()) == pytest.approx(10 / 3, abs=error)
    assert float(late.mean()) == pytest.approx(20 / 3, abs=error)


def test_a_rare_condition_is_still_met() -> None:
    box = Box(a=(0, 1), b=(0, 1)).where(lambda d: (d["a"] - d["b"]).abs() < 0.002)
    assert bool(box.allows(box.sample(1, 500, seeded(0))).all())


def test_a_search_keeps_to_what_is_possible() -> None:
    box = MIXED.where(lambda d: d["amount"] > 400 * d["dose"])
    start = box.sample(1, 500, seeded(0))
    wanted = start + 0.5 * torch.randn(start.shape, generator=seeded(1))
    near = box.possible(wanted, start)
    assert bool(box.allows(near).all())
    assert torch.equal(box.settled(near), near)
    assert float((near != start).any(-1).float().mean()) > 0.8
    assert bool(box.allows(box.spread_evenly(64)).all())


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (lambda d: d["late"] > d["soon"], "late > soon"),
        (lambda d: (d["late"] - d["soon"] >= 2) & (d["side"] == "left"),
         "((late - soon) >= 2) and (side == left)"),
        (lambda d: ~(abs(d["late"] - d["soon"]) < 1) | (1 / d["late"] > 3),
         "not (abs(late - soon) < 1) or ((1 / late) > 3)"),
    ],
)  # fmt: skip
def test_a_condition_is_kept_as_plain_data(condition: Any, words: str) -> None:
    box = Box(soon=(0, 10), late=(1, 10), side=["left", "right"]).where(condition)
    again = design_from_json(json.loads(json.dumps(box.to_json())))
    assert again.condition is not None
    free = Box(soon=(0, 10), late=(1, 10), side=["left", "right"])
    x = free.sample(1, 300, seeded(0))
    assert torch.equal(again.allows(x), condition(_with_numbers(free.name_columns(x))))
    assert again.condition.words() == words


def _with_numbers(columns: dict[str, torch.Tensor]) -> dict[str, Any]:
    class Named(torch.Tensor):
        def __eq__(self, other: object) -> Any:
            return super().__eq__(["left", "right"].index(str(other)))

    return {**columns, "side": columns["side"].as_subclass(Named)}


def test_a_condition_of_other_functions_lives_in_the_task() -> None:
    box = Box(a=(1, 10), b=(1, 10)).where(lambda d: torch.log(d["a"]) > d["b"] / 10)
    loaded = design_from_json(json.loads(json.dumps(box.to_json())))
    with pytest.raises(Exception, match=r"aline.load\(MODEL, task=task\)"):
        loaded.sample(1, 1, seeded(0))
    loaded.knowing(box)
    assert torch.equal(loaded.sample(1, 9, seeded(0)), box.sample(1, 9, seeded(0)))


@pytest.mark.parametrize("design", [MIXED, Pool(item=["a", "b"], x=[1.0, 2.0], repeats=False)])
def test_json_round_trip(design: Any) -> None:
    again = design_from_json(json.loads(json.dumps(design.to_json())))
    assert again.words() == design.words()
    assert again.repeats is design.repeats
    assert torch.equal(again.sample(3, 2, seeded(0)), design.sample(3, 2, seeded(0)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box(x=[0, 10]), r"write \(0, 10\) for any value between them, or Levels\(\[0, 10"),
        (lambda: Box(x=[1, 1, 2]), "takes different numbers or different names"),
        (lambda: Box(x=["a", 2]), "finite numbers, or names throughout, got 'a'"),
        (lambda: Box(x=Log(0, 1)), r"positive bounds, low < high, got Log\(0, 1\)"),
        (lambda: Box(a=(0, 1), b=(0, 1)).where(lambda d: d["a"] > 2), "no design satisfies the "
         "condition a > 2: of 131,072 drawn"),
        (lambda: Box(a=(0, 1)).where(lambda d: d["b"] > 0), "can use the axes a, got 'b'"),
        (lambda: Box(a=(0, 1)).where(lambda d: 0.1 < d["a"] < 0.5), r"\(1 < x\) & \(x < 5\)"),
        (lambda: Box(a=["l", "r"], b=(0, 1)).where(lambda d: d["a"] == "up"),
         "names the level 'up', and a is one of l, r"),
        (lambda: Box(a=(0, 1)).where(lambda d: True), "a yes or no for every row .* got True"),
        (lambda: Box(a=(0, 1)).where(3), "where takes a function"),
        (lambda: Pool(x=[1.0, 2.0]).where(lambda d: d["x"] > 5), "leaves 0 of 2: relax it"),
        (lambda: MIXED.compared({"delay": "amount"}, linear_within=1.0), "must have bounds"),
    ],
)  # fmt: skip
def test_bad_axes(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delay": 5}, "delay must be one of 1, 7, 30, 180, got 5: pass one of these"),
        ({"side": "up"}, "side must be one of left, right, none, got 'up'"),
        ({"side": 1}, "side must be one of left, right, none, got 1"),
        ({"dose": 2}, r"dose must lie in \[0.01, 1\], got 2"),
    ],
)
def test_bad_values(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MIXED.read({"amount": 100, "delay": 7, "side": "left", "dose": 0.1} | change)


def test_designs_that_break_the_condition_are_refused() -> None:
    box = Box(soon=(0, 10), late=(0, 10)).where(lambda d: d["late"] > d["soon"])
    with pytest.raises(InputError, match=r"must satisfy late > soon, got soon 5\.00, late 3"):
        box.read({"soon": 5, "late": 3})
