import math

import pytest
import torch
from small import seeded
from torch import Tensor

from aline.tasks import get
from aline.tasks.discounting import advantage, log_likelihood, probability, worth

HYPERBOLIC, EXPONENTIAL = 0, 1


def given(model: int, k: float = 0.01, alpha: float = 2.0) -> dict[str, Tensor]:
    return {
        "model": torch.tensor([[model]]),
        "log_k": torch.tensor([[math.log(k)]]),
        "alpha": torch.tensor([[alpha]]),
    }


def offer(reward: float, days: float) -> dict[str, Tensor]:
    return {"reward": torch.tensor([[reward]]), "days": torch.tensor([[days]])}


def test_after_one_over_k_days_half_is_left_of_a_hyperbola_and_one_over_e_else() -> None:
    at = offer(0.0, 100.0)
    assert worth(given(HYPERBOLIC), at).item() == pytest.approx(50.0, abs=1e-4)
    assert worth(given(EXPONENTIAL), at).item() == pytest.approx(100 / math.e, abs=1e-4)


def test_both_laws_agree_on_the_first_day_and_part_later() -> None:
    for days, apart in ((1.0, 0.01), (1000.0, 9.0)):
        law = [worth(given(model), offer(0.0, days)).item() for model in (0, 1)]
        assert (law[0] - law[1] > apart) == (days > 1)


def test_a_choice_between_equals_is_even_and_slips_remain() -> None:
    now = [
        probability(advantage(given(HYPERBOLIC), offer(reward, 100.0))).item()
        for reward in (50.0, 100.0, 0.0)
    ]
    assert now == pytest.approx([0.5, 0.99, 0.01], abs=1e-4)


def test_one_of_noise_is_a_difference_over_the_root_of_two() -> None:
    """As in DAD: P(now) = 0.01 + 0.98 Phi(sqrt(2) (R - V) / alpha), alpha 0.001 above zero."""
    z = advantage(given(HYPERBOLIC, alpha=1.999), offer(52.0, 100.0)).item()
    assert z == pytest.approx(math.sqrt(2), abs=1e-4)
    yes = log_likelihood(given(HYPERBOLIC, alpha=1.999), offer(52.0, 100.0), torch.ones(1, 1))
    assert yes.exp().item() == pytest.approx(0.01 + 0.98 * 0.9213504, abs=1e-4)


def test_a_logistic_choice_of_the_documented_steepness_rises_as_fast() -> None:
    """Its slope where both are worth the same is tau / 4; docs/experiments.md gives alpha."""
    tau, step = 1.5, 0.01
    theta = given(HYPERBOLIC, alpha=2.2 / tau)
    low, high = (probability(advantage(theta, offer(50 + d, 100.0))).item() for d in (-step, step))
    assert (high - low) / (2 * step) == pytest.approx(tau / 4, rel=0.02)


def test_the_prior_reaches_what_others_use() -> None:
    """Rates of DAD's N(-4.25, 1.5), and ADOpy's from 1e-5 to 1 a week, within two deviations."""
    scale = get("discounting").spec.parameters
    ends = [-4.25 - 3.0, -4.25 + 3.0, math.log(1e-5 / 7), math.log(1 / 7)]
    assert float(scale.coordinate("log_k", torch.tensor(ends)).abs().max()) < 2


def test_the_laws_are_equally_likely_before_any_choice() -> None:
    task = get("discounting")
    model = task.spec.parameters.to_user(task.draw(4000, seeded(0)).theta)["model"]
    assert float(model.float().mean()) == pytest.approx(0.5, abs=0.03)
