"""The capital that raises a flag, from what good experiments reach."""

import numpy as np
import pytest

from aline.evaluation.faults import LEAST, limit_of
from aline.experiment.typical import LEVEL


@pytest.mark.parametrize("count", [200, 1000])
def test_no_more_than_one_in_twenty_reach_the_limit_whatever_capitals_are_like(count: int) -> None:
    """In 95 of a hundred samples; capitals of the heaviest tail that a fair bet may have."""
    luck = np.random.default_rng(0)
    limits = [limit_of((1 / luck.random(count)).tolist()) for _ in range(400)]
    reached = np.array([1 / limit for limit in limits])  # the chance of reaching each
    assert (reached > LEVEL).mean() < 0.08
    assert reached.mean() > 0.02  # and not far less: what is found depends on it


def test_few_experiments_have_a_limit_that_none_of_them_reached() -> None:
    assert limit_of([1.5, 8.0, 3.0]) > 8.0
    assert limit_of([1.0] * 100) == LEAST
