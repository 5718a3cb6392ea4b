"""The search for a fixed schedule."""

import pytest
import torch
from small import seeded, small_network

from aline.evaluation.judge import Measurement
from aline.evaluation.schedule import find_schedule
from aline.spaces import Pool
from aline.tasks import get
from aline.tasks.linear import exact_information_gain

LINEAR = get("linear", horizon=4)


def test_a_line_is_measured_at_both_ends() -> None:
    network = small_network(LINEAR)
    measure = Measurement.of(LINEAR, network).quick
    found = find_schedule(LINEAR, network, measure, seeded(0), passes=2)
    best = exact_information_gain(torch.tensor([-1.0, -1.0, 1.0, 1.0]))
    told = exact_information_gain(LINEAR.spec.design.to_user(found)[:, 0])
    assert float(told) == pytest.approx(float(best), abs=0.05)


def test_without_a_likelihood_the_posterior_judges() -> None:
    task = get("linear", horizon=3)
    task.log_likelihood = None
    network = small_network(task)
    measure = Measurement.of(task, network)
    assert measure.contrastive is None
    found = find_schedule(task, network, measure, seeded(0), passes=1)
    assert found.shape == (3, 1)
    assert bool((found.abs() <= 1).all())


def test_of_a_pool_only_its_points_are_asked() -> None:
    task = get("linear", horizon=3)
    pool = Pool(x=[-1.0, -0.2, 0.1, 1.0])
    task.spec = task.spec.__class__(**{**vars(task.spec), "design": pool})
    network = small_network(task)
    found = find_schedule(task, network, Measurement.of(task, network).quick, seeded(0), passes=1)
    every = pool.to_network(pool.points)
    assert bool((found[:, None] == every).all(-1).any(1).all())


def test_a_search_without_time_still_has_a_schedule() -> None:
    network = small_network(LINEAR)
    measure = Measurement.of(LINEAR, network).quick
    found = find_schedule(LINEAR, network, measure, seeded(0), lambda: True)
    assert found.shape == (4, 1)
