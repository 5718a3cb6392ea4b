"""CES against plain float64 formulas, and against what public implementations get wrong."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from small import seeded
from torch import Tensor

from aline.tasks import get, is_differentiable
from aline.tasks.ces import LEAST, LIMIT, TAU, log_tail, utility

TASK = get("ces")


def plain_utility(rho: float, alpha: list[float], basket: list[float]) -> float:
    """The paper's formula in float64."""
    goods = np.maximum(np.array(basket, dtype=np.float64), LEAST)
    return float(np.sum(np.array(alpha) * goods**rho) ** (1 / rho))


def plain_log_likelihood(theta: dict, first: list[float], second: list[float], eta: float) -> float:  # type: ignore[type-arg]
    u, rho, alpha = theta["u"], theta["rho"], theta["alpha"]
    mean = u * (plain_utility(rho, alpha, first) - plain_utility(rho, alpha, second))
    sd = u * TAU * (1 + math.dist(first, second))
    if eta >= LIMIT:
        return float(stats.norm.logsf(LIMIT, mean, sd))
    if eta <= -LIMIT:
        return float(stats.norm.logcdf(-LIMIT, mean, sd))
    return float(stats.norm.logpdf(eta, mean, sd))


@pytest.mark.parametrize("rho", [0.01, 0.02, 0.3, 1.0])
def test_utility_keeps_its_digits_for_small_rho(rho: float) -> None:
    alpha, basket = [0.2, 0.5, 0.3], [3.0, 80.0, 0.5]
    theta = {"rho": torch.tensor([rho]), "alpha": torch.tensor([alpha])}
    value = float(utility(theta, [torch.tensor([z]) for z in basket]))
    assert value == pytest.approx(plain_utility(rho, alpha, basket), rel=5e-6)


def test_empty_baskets_are_taken_as_nearly_empty() -> None:
    theta = {"rho": torch.tensor([0.4]), "alpha": torch.tensor([[0.2, 0.5, 0.3]])}
    assert float(utility(theta, [torch.zeros(1)] * 3)) == pytest.approx(LEAST, rel=1e-5)


def test_limit_is_where_the_rating_is_cut_off() -> None:
    assert 1 / (1 + math.exp(LIMIT)) == pytest.approx(2.0**-22, rel=1e-9)


def test_likelihood_is_the_plain_one() -> None:
    """Random truths and designs; outcomes between the limits and at both."""
    generator = seeded(0)
    world = TASK.draw(60, generator)
    theta = TASK.spec.parameters.to_user(world.theta)
    designs = TASK.spec.design.to_user(TASK.spec.design.sample(60, 1, generator))[:, 0]
    preference = world.answer(TASK.spec.design.to_network(designs)[:, None], generator)
    for outcome in (
        TASK.spec.outcome.to_user(preference)[:, 0],
        *(torch.full((60,), s * LIMIT) for s in (-1, 1)),
    ):
        mine = TASK.log_likelihood(  # type: ignore[misc]
            {name: value[:, None] for name, value in theta.items()},
            {name: designs[:, i : i + 1] for i, name in enumerate(TASK.spec.design.names)},
            outcome[:, None],
        )[:, 0]
        for i in range(60):
            one = {"u": float(theta["u"][i]), "rho": float(theta["rho"][i])}
            one["alpha"] = theta["alpha"][i].double().tolist()
            first, second = designs[i, :3].tolist(), designs[i, 3:].tolist()
            eta = float(outcome[i])
            eta = math.copysign(LIMIT, eta) if abs(eta) > LIMIT - 1e-4 else eta
            expected = plain_log_likelihood(one, first, second, eta)
            assert float(mine[i]) == pytest.approx(expected, rel=2e-3, abs=5e-3)


def test_log_tail_is_that_of_the_normal_distribution() -> None:
    x = torch.cat([torch.linspace(-200, 10, 4001), torch.tensor([-8.0, -8.001, -7.999])])
    expected = torch.special.log_ndtr(x.double())
    assert torch.allclose(log_tail(x).double(), expected, rtol=2e-6, atol=2e-7)
    assert torch.allclose(log_tail(x.double()), expected, rtol=2e-6, atol=1e-9)
    x.requires_grad_()
    (slope,) = torch.autograd.grad(log_tail(x).sum(), x)
    assert slope.isfinite().all()


def test_far_tails_are_not_dropped() -> None:
    """Cut off on the side that is 40 standard deviations away: a log, not a floor."""
    theta = {
        "rho": torch.tensor([[1.0]]),
        "alpha": torch.tensor([[[1 / 3, 1 / 3, 1 / 3]]]),
        "u": torch.tensor([[1.0]]),
    }
    names = TASK.spec.design.names
    design = {name: torch.tensor([[50.0]]) for name in names[:3]}
    design |= {name: torch.tensor([[2.0]]) for name in names[3:]}
    assert TASK.log_likelihood is not None
    found = float(TASK.log_likelihood(theta, design, torch.tensor([[-LIMIT]])))
    sd = TAU * (1 + math.sqrt(3) * 48)
    assert found == pytest.approx(float(stats.norm.logcdf(-LIMIT, 48.0, sd)), rel=1e-3)
    assert found < -1000


def test_outcomes_follow_the_likelihood_between_the_limits() -> None:
    """Near indifference few are cut off: their places in the claimed distribution are uniform."""
    generator = seeded(3)
    world = TASK.draw(1500, generator)
    theta = TASK.spec.parameters.to_user(world.theta[:, None])
    assert TASK.explore is not None
    named = TASK.explore(theta, 1, generator)
    designs = torch.stack([named[name] for name in TASK.spec.design.names], -1)
    answers = world.answer(TASK.spec.design.to_network(designs), generator)
    outcomes = TASK.spec.outcome.to_user(answers)[:, 0].double()
    places = []
    for i in range(1500):
        u, rho = float(theta["u"][i]), float(theta["rho"][i])
        alpha, pair = theta["alpha"][i, 0].double().tolist(), designs[i, 0].tolist()
        mean = u * (plain_utility(rho, alpha, pair[:3]) - plain_utility(rho, alpha, pair[3:]))
        sd = u * TAU * (1 + math.dist(pair[:3], pair[3:]))
        if abs(mean) + 5 * sd < LIMIT:
            places.append(float(stats.norm.cdf(float(outcomes[i]), mean, sd)))
    assert len(places) > 800
    assert stats.kstest(places, "uniform").pvalue > 1e-3


def clipped(outcomes: Tensor) -> float:
    eta = TASK.spec.outcome.to_user(outcomes)
    return float((eta.abs() > LIMIT - 1e-3).float().mean())


def test_explored_pairs_are_near_indifference() -> None:
    """Under random designs most outcomes are cut off; of the explored ones few."""
    generator = seeded(1)
    world = TASK.draw(1000, generator)
    assert (
        0.58 < clipped(world.answer(TASK.spec.design.sample(1000, 3, generator), generator)) < 0.68
    )
    assert TASK.explore is not None
    named = TASK.explore(TASK.spec.parameters.to_user(world.theta[:, None]), 3, generator)
    designs = torch.stack([named[name] for name in TASK.spec.design.names], -1)
    assert clipped(world.answer(TASK.spec.design.to_network(designs), generator)) < 0.1


def test_gradients_reach_the_design_and_are_numbers() -> None:
    assert is_differentiable(TASK)
    designs = TASK.spec.design.sample(50, 4, seeded(2))
    designs[:, 0, 3:] = 0.0  # two equal baskets
    designs.requires_grad_()
    world = TASK.draw(50, seeded(3))
    outcomes = world.answer(designs, seeded(4))
    value = outcomes.sum() + TASK.log_prob(world.theta, designs, outcomes).sum()
    (gradient,) = torch.autograd.grad(value, designs)
    assert gradient.isfinite().all()
    assert float(gradient.abs().max()) > 0


def test_the_user_sees_three_weights_and_the_network_two() -> None:
    assert TASK.spec.parameters.names == ("rho", "alpha_1", "alpha_2", "u")
    assert TASK.spec.parameters.labels == ("rho", "alpha_1", "alpha_2", "alpha_3", "u")
    weights = TASK.spec.parameters.to_user(TASK.draw(5, seeded(0)).theta)["alpha"]
    assert torch.allclose(weights.sum(-1), torch.ones(5))
