"""Calibration: right posteriors pass, wrong ones are named."""

import pytest
import torch
from small import seeded, small_functions

from aline.episodes import Context
from aline.evaluation import evaluate
from aline.evaluation.calibration import (
    BINS,
    Calibration,
    _joint_ranks,
    calibration_of_predictions,
    needed,
)
from aline.evaluation.simulated import Simulated
from aline.model import Mixture, Model
from aline.tasks import get

N = 1000


def calibration(ranks: torch.Tensor, joint: torch.Tensor | None = None) -> Calibration:
    together = torch.rand(len(ranks), generator=seeded(9)) if joint is None else joint
    return Calibration("a", 30, {"a": ranks}, together, is_joint=True)


def test_uniform_ranks_are_inside_their_band_and_intervals_hold_what_they_say() -> None:
    found = calibration(torch.rand(N, generator=seeded(1)))
    low, high = found.band()
    assert low < N / BINS < high
    ranks, coverage, joint = found.sentences()
    assert "inside for every parameter" in ranks
    assert "within 2 points" in coverage
    assert "no sign that it is wrong" in joint


def test_a_posterior_that_is_too_narrow_is_named() -> None:
    """Truths lie one and a half of its standard deviations away, not one."""
    ranks = torch.special.ndtr(1.5 * torch.randn(N, generator=seeded(2)))
    found = calibration(ranks)
    assert "outside for a" in found.sentences()[0]
    assert "more than 2 points" in found.sentences()[1]
    assert found.coverage()["a"][8] < 0.8


def test_the_experiments_that_coverage_takes_follow_from_its_precision() -> None:
    assert needed(0.5) == 2401
    assert needed(0.9) == 864


class Independent:
    """A network without a joint posterior, as far as the test needs one."""

    conditional = None


def played(correlation: float) -> Simulated:
    """Truths of two parameters that depend on each other, and a q of their marginals."""
    a, noise = torch.randn(2, 2000, generator=seeded(3))
    b = correlation * a + (1 - correlation**2) ** 0.5 * noise
    shape = (2000, 1, 2, 1)
    q = Mixture(torch.zeros(shape), torch.zeros(shape), torch.ones(shape))
    return Simulated(torch.stack([a, b], 1), Context.empty(2000, 1), q, (30,))


@pytest.mark.parametrize(("correlation", "is_right"), [(0.0, True), (0.9, False)])
def test_tarp_sees_what_marginals_hide(correlation: float, is_right: bool) -> None:
    joint = _joint_ranks(Independent(), played(correlation), seeded(4))
    found = calibration(torch.rand(N, generator=seeded(5)), joint)
    assert (found.joint_p() > 0.01) == is_right


def test_rows_say_how_many_bins_are_outside_and_what_intervals_hold() -> None:
    right = torch.rand(N, generator=seeded(1))
    narrow = torch.special.ndtr(1.5 * torch.randn(N, generator=seeded(2)))
    found = Calibration("a,b", 30, {"a": right, "b": narrow})
    values = {metric: estimate for metric, _, estimate in found.measured()}
    assert values["ranks_outside:a"].value == 0
    assert values["ranks_outside:b"].value > 2
    assert values["coverage_0.9:a"].value == pytest.approx(0.9, abs=0.03)
    assert values["coverage_0.95:b"].value < 0.87
    assert "tarp_p" not in values


def test_predictions_of_functions_are_checked_one_an_experiment() -> None:
    task = get("gp1d", horizon=3)
    model = Model(small_functions(task))
    found = calibration_of_predictions(model, task, 60, seed=0)
    assert found.n == 60
    assert float(found.ranks["predictions"].min()) > 0
    again = calibration_of_predictions(model, task, 60, seed=0)
    assert torch.equal(found.ranks["predictions"], again.ranks["predictions"])
    told = evaluate(model, task, episodes=4)
    assert [one["target"] for one in told["calibration"]][-1] == "predictions"
    assert told["calibration"][-1]["joint"] is None
