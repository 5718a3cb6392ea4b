import math

import pytest
import torch
from small import seeded

from aline.evaluation.estimates import Estimate, mean, proportion


def test_mean_with_its_interval() -> None:
    estimate = mean(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert estimate.value == 2.5
    assert estimate.n == 4
    assert estimate.ci95 == pytest.approx(1.96 * math.sqrt(5 / 3) / 2, rel=1e-3)
    assert str(Estimate(0.1234, 0.0456, 9)) == "0.123 ± 0.046"


def test_mean_interval_holds_the_truth_as_often_as_it_says() -> None:
    estimates = [mean(row) for row in torch.randn(2000, 50, generator=seeded(0))]
    held = sum(abs(e.value) <= e.ci95 for e in estimates) / 2000
    # The normal quantile is slightly short for 50 values: 94.4 %.
    assert held == pytest.approx(0.944, abs=3 * math.sqrt(0.95 * 0.05 / 2000))


def test_proportion_is_sane_at_the_ends() -> None:
    assert proportion(torch.ones(10) > 0).value == 1.0
    assert 0 < proportion(torch.ones(10) > 0).ci95 < 0.2
    assert proportion(torch.arange(100) < 90).ci95 == pytest.approx(0.059, abs=2e-3)
