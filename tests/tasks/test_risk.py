import math

import pytest
import torch
from small import seeded
from torch import Tensor

from aline.errors import InputError
from aline.tasks import get
from aline.tasks.risk import log_likelihood, log_odds


def given(**values: float) -> dict[str, Tensor]:
    return {name: torch.tensor([[value]]) for name, value in values.items()}


def lottery(
    probability: float, ambiguity: float, reward: float, reference: float
) -> dict[str, Tensor]:
    return given(probability=probability, ambiguity=ambiguity, reward=reward, reference=reference)


def test_who_is_neutral_compares_expected_rewards() -> None:
    neutral = given(alpha=1.0, beta=0.0, gamma=1.0)
    assert log_odds(neutral, lottery(0.25, 0.0, 50.0, 25.0)).item() == pytest.approx(0.0, abs=1e-5)
    assert log_odds(neutral, lottery(0.38, 0.0, 18.0, 5.0)).item() == pytest.approx(
        0.38 * 18 - 2.5, abs=1e-5
    )
    # Hidden odds around one half are one half.
    assert log_odds(neutral, lottery(0.5, 0.75, 18.0, 10.0)).item() == pytest.approx(4.0, abs=1e-5)


def test_ambiguity_takes_half_of_it_from_the_probability() -> None:
    averse = given(alpha=1.0, beta=1.0, gamma=1.0)
    found = log_odds(averse, lottery(0.5, 0.5, 18.0, 9.0)).item()
    assert found == pytest.approx(0.25 * 18 - 4.5, abs=1e-5)


def test_gamma_and_a_concave_utility() -> None:
    careful = given(alpha=0.5, beta=0.0, gamma=2.0)
    found = log_odds(careful, lottery(0.25, 0.0, 25.0, 9.0)).item()
    assert found == pytest.approx(2 * (0.25 * 5 - 0.5 * 3), abs=1e-5)
    yes = log_likelihood(careful, lottery(0.25, 0.0, 25.0, 9.0), torch.ones(1, 1)).exp().item()
    assert yes == pytest.approx(1 / (1 + math.exp(0.5)), abs=1e-5)


def test_who_does_not_care_tosses_a_coin() -> None:
    careless = given(alpha=3.0, beta=3.0, gamma=0.0)
    assert log_odds(careless, lottery(0.5, 0.75, 250.0, 5.0)).item() == 0


def test_every_lottery_wins_more_and_is_risky_or_ambiguous() -> None:
    design = get("risk").spec.design
    assert design.points is not None
    probability, ambiguity, reward, reference = design.points.unbind(-1)
    assert bool((reward > reference).all())
    assert bool(((probability < 0.5) != (ambiguity > 0)).all())
    pairs = {(round(p.item(), 2), a.item()) for p, a in zip(probability, ambiguity, strict=True)}
    known = {(0.13, 0.0), (0.25, 0.0), (0.38, 0.0)}
    assert pairs == known | {(0.5, 0.25), (0.5, 0.5), (0.5, 0.75)}
    # Of 11 x 11 rewards and references 77 have the larger reward.
    assert len(design.points) == 6 * 77


def test_drawn_lotteries_are_among_them_and_others_are_refused() -> None:
    design = get("risk").spec.design
    drawn = design.sample(4, 50, seeded(0))
    assert bool(design.allows(drawn).all())
    with pytest.raises(InputError, match="reward > reference"):
        design.read({"probability": 0.25, "ambiguity": 0.0, "reward": 5, "reference": 125})
