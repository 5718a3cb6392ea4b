"""The bank of a running experiment says what a bank says that reads all data at once."""

import pytest
import torch
from small import random_context, seeded
from torch import Tensor

from aline.episodes import Context
from aline.model.kernels import Bank, KernelBank
from aline.model.live_bank import LiveBank
from aline.model.native_bank import NativeBank
from aline.tasks import get

TASK = get("gp2d", horizon=8)
BANK = KernelBank.spread(2, 7)
DATA = random_context(TASK.spec, 1, 12)
CANDIDATES = TASK.spec.design.sample(1, 30, seeded(3))[:, None]
TARGETS = TASK.spec.design.sample(1, 9, seeded(4))
ALL = torch.ones(1, 9, dtype=torch.bool)


@pytest.fixture
def empty(step: str) -> LiveBank:
    return (NativeBank if step == "compiled" else LiveBank).empty(BANK)


def grown(bank: LiveBank, order: list[int], asking: bool = True) -> LiveBank:
    for row in order:
        bank = bank.extend(DATA.designs[:, row], DATA.outcomes[:, row])
        if asking:
            bank.worth(CANDIDATES, TARGETS, ALL)
    return bank


def at_once(order: list[int]) -> Bank:
    return BANK.read(Context(DATA.designs[:, order], DATA.outcomes[:, order]), None, None)


def answers(bank: Bank | LiveBank) -> list[Tensor]:
    expected = bank.predict(CANDIDATES)
    return [
        expected.mean,
        expected.std,
        expected.features,
        bank.predict(TARGETS[:, None]).features,
        bank.worth(CANDIDATES, TARGETS, ALL),
        bank.describe(),
        *bank.fit(),
    ]


def assert_same(one: Bank | LiveBank, other: Bank | LiveBank, tolerance: float = 2e-4) -> None:
    for a, b in zip(answers(one), answers(other), strict=True):
        assert a.shape == b.shape
        assert torch.allclose(a, b, atol=tolerance)


@pytest.mark.parametrize("asking", [True, False])
@pytest.mark.parametrize("count", [0, 1, 12])
def test_it_is_the_bank_that_reads_all_at_once(empty: LiveBank, count: int, asking: bool) -> None:
    assert_same(grown(empty, list(range(count)), asking), at_once(list(range(count))))


def test_order_does_not_matter(empty: LiveBank) -> None:
    assert_same(grown(empty, [3, 1, 4, 0, 5, 9, 2, 6]), grown(empty, [0, 1, 2, 3, 4, 5, 6, 9]))


def test_several_futures_of_the_same_past(empty: LiveBank) -> None:
    past = grown(empty, [0, 1, 2])
    for row in (5, 6, 7):
        future = past.extend(DATA.designs[:, row], DATA.outcomes[:, row])
        assert_same(future, at_once([0, 1, 2, row]))
        further = future.extend(DATA.designs[:, 8], DATA.outcomes[:, 8])
        assert_same(further, at_once([0, 1, 2, row, 8]))
        assert_same(future, at_once([0, 1, 2, row]))
    assert_same(past, at_once([0, 1, 2]))


def test_a_design_of_a_pool_is_taken_in_as_any_other(empty: LiveBank) -> None:
    """What is known of the pool serves, also when one design is measured twice."""
    pool, bank = CANDIDATES[0, 0], empty
    rows, outcomes = [4, 17, 4, 25], DATA.outcomes[:, [0, 1, 0, 2]]
    for row, outcome in zip(rows, outcomes[0], strict=True):
        bank.ask(pool)
        bank = bank.extend(pool[None, row], outcome[None])
    expected = BANK.read(Context(pool[None, rows], outcomes), None, None)
    assert_same(bank, expected, tolerance=1e-3)  # where it was measured, little variance is left


def test_targets_that_are_not_wanted_do_not_count(empty: LiveBank) -> None:
    wanted = torch.tensor([[True, False, True] * 3])
    bank, whole = grown(empty, [0, 1, 2]), at_once([0, 1, 2])
    expected = whole.worth(CANDIDATES, TARGETS, wanted)
    assert torch.allclose(bank.worth(CANDIDATES, TARGETS, wanted), expected, atol=2e-4)


def test_outcomes_in_double_precision_leave_a_bank_in_its_own() -> None:
    """As they come where they are to be standardised."""
    bank = BANK.read(Context(DATA.designs[:, :2], DATA.outcomes[:, :2]), None, None)
    bank = bank.extend(DATA.designs[:, 2], DATA.outcomes[:, 2].double())
    assert_same(bank, at_once([0, 1, 2]))
