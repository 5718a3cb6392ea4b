"""Intervals for functions that no kernel fits: wide enough, and never narrower than they were."""

import pytest
import torch
from small import seeded

from aline import zoo
from aline.engine import BatchEngine
from aline.evaluation.active import Problem, make_problem, policy_of
from aline.evaluation.active import learn as learn_runs
from aline.functions.caution import FIRST, KEPT, power_of_evidence, widened
from aline.functions.task import NOISE
from aline.spaces.outcomes import Mixture
from aline.tasks import get


def test_the_first_observations_count_fully_and_later_ones_in_part() -> None:
    assert power_of_evidence(2, 1) == power_of_evidence(9, 2) == 1.0
    assert power_of_evidence(10, 1) == pytest.approx((FIRST + 7 * KEPT) / 10)
    assert power_of_evidence(10_000, 1) == pytest.approx(KEPT, abs=0.001)


def test_widening_leaves_the_mean_and_multiplies_the_deviation() -> None:
    parts = torch.randn(3, 2, 5, 4, generator=seeded(0)).double()
    belief = Mixture(parts[0].log_softmax(-1), parts[1], parts[2].exp())
    factor = torch.tensor([[1.0, 2.0, 3.0, 1.5, 10.0]]).expand(2, -1)
    (mean, std), (expected, before) = widened(belief, factor).moments(), belief.moments()
    assert torch.allclose(mean, expected)
    assert torch.allclose(std, factor * before)


@pytest.fixture(scope="module")
def wave() -> Problem:
    """Gramacy's function, fast waves that fade: ten runs."""
    model = zoo.load("gp1d")
    return make_problem("gramacy1d", get("gp1d").described_by(model.spec), 10, seed=5)


def test_intervals_hold_what_they_say_where_no_kernel_fits(
    wave: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = zoo.load("gp1d")

    def covered() -> float:
        policy = policy_of("aline", model, wave)
        return float(learn_runs(wave, policy, wave.aimed(), 10, seed=0).covered[:, -1].mean())

    ours = covered()
    monkeypatch.setattr("aline.functions.standardised.cautious", lambda belief, *_: belief)
    plain = covered()
    assert plain < 0.75
    assert ours > plain + 0.1


def test_no_interval_is_narrower_and_no_mean_moves(
    wave: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = zoo.load("gp1d").network.advisor.in_units(BatchEngine(zoo.load("gp1d").network), NOISE)
    designs = wave.pool[:, :8]
    outcomes = wave.world.answer(designs, seeded(1))
    state = engine.begin(10)
    for step in range(8):
        state = engine.extend(state, designs[:, step], outcomes[:, step])
    mean, std = engine.predictive(state, wave.targets).moments()
    monkeypatch.setattr("aline.functions.standardised.cautious", lambda belief, *_: belief)
    expected, before = engine.predictive(state, wave.targets).moments()
    assert torch.allclose(mean, expected, atol=1e-5)
    assert bool((std >= before * (1 - 1e-6)).all())
