"""The shipped CES model asks what tells more than random baskets, and says how sure it is."""

import pytest

import aline
from aline.engine import BatchEngine
from aline.episodes import RandomPolicy
from aline.evaluation import Protocol, measure_information, play_protocol
from aline.evaluation.simulated import posteriors_after
from aline.model import Model
from aline.policies import LearnedPolicy
from aline.tasks import Task, get

PROTOCOL = Protocol(episodes=60, steps=10, start=1, seed=11)
ALL = ("rho", "alpha", "u")


@pytest.fixture(scope="module")
def model() -> Model:
    return aline.load("ces")


@pytest.fixture(scope="module")
def task(model: Model) -> Task:
    return get("ces").described_by(model.spec)


def test_its_designs_tell_more_than_random_ones(model: Model, task: Task) -> None:
    policies = LearnedPolicy(BatchEngine(model.network)), RandomPolicy(task.spec.design)
    ours, random = (
        measure_information(policy, task, PROTOCOL, 20_000).bounds for policy in policies
    )
    assert ours is not None
    assert random is not None
    assert ours.lower.value > ours.cap - 0.6
    assert random.lower.value < ours.cap - 2


def test_its_intervals_hold_the_truth_as_often_as_they_say(model: Model, task: Task) -> None:
    theta, context = play_protocol(LearnedPolicy(BatchEngine(model.network)), task, ALL, PROTOCOL)
    rank = posteriors_after(model.network, context, [10]).cdf(theta[:, None])
    within = ((rank > 0.05) & (rank < 0.95)).float().mean()
    assert float(within) == pytest.approx(0.9, abs=0.08)  # 240 parameters, three standard errors
