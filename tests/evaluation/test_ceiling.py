"""The best of two coins, against enumeration, other policies and simulated experiments."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from small import seeded
from torch import Tensor
from torch.distributions import Uniform

from aline.errors import InputError
from aline.evaluation.ceiling import PRICE, Coins, best_of_coins, expected_rmse, payment
from aline.evaluation.estimates import mean
from aline.evaluation.greedy import exact_greedy
from aline.evaluation.observers import grid_errors, play_observers, posterior_rmse
from aline.tasks import get
from aline.tasks.psychometric import Psychometric, psychometric

TASK = psychometric()
COINS = Coins.of(TASK, 12)
RATES = ("guess", "lapse")


def brute_force(trials: int, choose: Callable[[list[float]], float]) -> float:
    """The expected RMSE of playing the coins, every history walked through, on a fine even grid.

    `choose` makes one of what the two coins would lead to.
    """
    middle = (torch.arange(120, dtype=torch.float64) + 0.5) / 120
    guess, lapse = torch.cartesian_prod(0.1 + 0.8 * middle, 0.5 * middle).T
    ends = guess * lapse, 1 - lapse + guess * lapse

    def walk(joint: Tensor, left: int) -> float:
        """From probabilities [node] of the truth together with what was seen."""
        if not left:
            weight = joint / joint.sum()
            total = torch.zeros_like(guess)
            for rate in (guess, lapse):
                centre = weight @ rate
                total += ((rate - centre) ** 2 + weight @ (rate - centre) ** 2).sqrt() / 2
            return float(joint @ total)
        return choose(
            [walk(joint * yes, left - 1) + walk(joint * (1 - yes), left - 1) for yes in ends]
        )

    return walk(torch.full_like(guess, 1 / len(guess)), trials)


@pytest.mark.parametrize("trials", [0, 1, 2, 3])
def test_it_is_the_least_of_all_policies(trials: int) -> None:
    found = best_of_coins(COINS, trials, expected_rmse)
    assert found == pytest.approx(brute_force(trials, min), abs=1.5e-5)


def test_other_policies_have_more() -> None:
    best = best_of_coins(COINS, 4, expected_rmse)
    either = lambda each: sum(each) / 2  # noqa: E731
    for other in (max, either, lambda each: each[0], lambda each: each[1]):
        assert best < brute_force(4, other)


def test_a_stimulus_is_a_mixture_of_the_ends_whatever_the_rates() -> None:
    theta = TASK.spec.parameters.to_user(torch.randn(50, 1, 4, generator=seeded(0)))
    x = {"stimulus": torch.linspace(-5, 5, 30)}

    def share(guess: float, lapse: float) -> Tensor:
        rates = {"guess": torch.tensor(guess), "lapse": torch.tensor(lapse)}
        low, miss = TASK.form(rates["guess"], rates["lapse"])
        return (TASK.probability({**theta, **rates}, x) - low) / (1 - low - miss)

    shares = share(0.2, 0.4)
    assert 0 <= float(shares.min()) < 0.01 < 0.99 < float(shares.max()) <= 1.00001
    torch.testing.assert_close(shares, share(0.7, 0.1), atol=1e-5, rtol=0)


def some_beliefs(count: int, seed: int) -> Tensor:
    """Posteriors after a few tosses, and mixtures of them."""
    tosses = torch.randint(0, 8, (2 * count, 4), generator=seeded(seed))
    first, second = COINS.beliefs(tosses).chunk(2)
    return torch.cat([first, second, (first + second) / 2])


def test_an_exact_posterior_pays_no_less_than_the_least() -> None:
    beliefs = some_beliefs(100, 1)
    paid, honest = payment(COINS, beliefs), expected_rmse(COINS, beliefs)
    assert bool((paid <= honest).all())
    assert bool((paid > 0.985 * honest).all())  # and the bound is worth something


def test_the_bound_is_nearly_what_two_clean_ends_give() -> None:
    bound, ends = (best_of_coins(COINS, 12, cost) for cost in (payment, expected_rmse))
    assert 0.998 * ends < bound <= ends


def test_the_marginals_are_those_of_the_rates() -> None:
    belief = some_beliefs(1, 5)
    marginal = COINS.marginals(belief)
    mean = belief @ torch.cartesian_prod(*COINS.rates)
    torch.testing.assert_close((marginal * COINS.rates).sum(2), mean)


def test_less_to_know_never_pays() -> None:
    first, second, neither = payment(COINS, some_beliefs(200, 2)).chunk(3)
    assert bool((neither >= (first + second) / 2 - 1e-6).all())


def test_a_search_from_elsewhere_finds_no_cheaper_report() -> None:
    beliefs = some_beliefs(20, 3)
    least = payment(COINS, beliefs)
    generator = seeded(4)
    for _ in range(300):
        report = torch.rand(4, generator=generator, dtype=torch.float64)
        centre = torch.stack([0.1 + 0.8 * report[0], 0.5 * report[1]])
        variance = torch.stack([0.002 + 0.1 * report[2], 0.001 + 0.04 * report[3]])
        square = (torch.cartesian_prod(*COINS.rates) - centre).square()  # [node, rate]
        price = PRICE * (square - variance) / variance.sqrt()
        paid = ((square + variance).sqrt() + price).mean(1)
        assert bool((beliefs @ paid > least - 1e-6).all())


def test_no_simulated_experiment_does_better() -> None:
    trials, oracle = 6, exact_greedy(TASK, (24, 10, 8, 8))
    found = {}
    for target in (RATES, ("threshold", "slope")):
        played = play_observers(oracle, TASK, target, count=300, seed=0, steps=trials)
        found[target] = mean(posterior_rmse(grid_errors(oracle, played), RATES)[:, -1])
    bound = best_of_coins(COINS, trials, payment)
    for error in found.values():
        assert error.value + 2 * error.ci95 > bound
    # Nor is it far below what can be done.
    assert found[RATES].value - 2 * found[RATES].ci95 < best_of_coins(COINS, trials, expected_rmse)


def test_any_form_of_the_asymptotes() -> None:
    contrast = get("psychometric-weibull")
    assert isinstance(contrast, Psychometric)
    coins = Coins.of(contrast, 6)
    guess, lapse = torch.cartesian_prod(*coins.rates).T
    assert torch.equal(coins.yes[:, 0], guess)
    torch.testing.assert_close(coins.yes[:, 1], 1 - lapse)
    cost = partial(best_of_coins, coins, cost=expected_rmse)
    assert cost(2) < cost(1) < cost(0)


def test_rates_that_are_known_have_no_ceiling() -> None:
    with pytest.raises(InputError, match="guess and lapse unknown, got threshold, slope, lapse"):
        Coins.of(Psychometric(guess=0.5, lapse=Uniform(0.0, 0.1)))
