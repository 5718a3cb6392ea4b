"""What designs are expected to tell, against closed forms."""

import math

import pytest
import torch
from small import seeded
from torch.distributions import Uniform

import aline
from aline.engine import BatchEngine
from aline.evaluation.simulated import Protocol, play_protocol
from aline.model import ModelConfig
from aline.policies import LearnedPolicy
from aline.policies.information import expected_information
from aline.spaces import Binary, Box
from aline.tasks import Task, get
from aline.tasks.linear import NOISE, exact_information_gain
from aline.training import TrainingConfig
from aline.training.particle_teacher import goal_similarity

STATES = 600  # all with the same question, so that their mean is precise


def test_information_of_a_linear_model() -> None:
    task = get("linear").fitted()
    truths = torch.randn(STATES, 64, 2, generator=seeded(0))
    x = torch.tensor([0.0, 0.5, 1.0])
    designs = x[:, None].expand(STATES, -1, -1)
    found = expected_information(task, truths, designs, 16, seeded(1))
    slope = task.spec.design.to_user(designs)[0, :, 0]
    exact = 0.5 * torch.log1p((1 + slope**2) / NOISE**2)
    error = found.std(0) / math.sqrt(STATES)
    assert ((found.mean(0) - exact).abs() < 3 * error + 0.03).all()


def test_information_about_a_part_of_the_parameters() -> None:
    """At x = 0 a linear model says nothing of its slope, and far out much."""
    task = get("linear").fitted()
    truths = torch.randn(STATES, 64, 2, generator=seeded(0))
    designs = torch.tensor([[0.0], [1.0]]).expand(STATES, -1, -1)
    similarity = goal_similarity(truths, torch.tensor([[False, True]]).expand(STATES, -1))
    found = expected_information(task, truths, designs, 16, seeded(1), similarity).mean(0)
    far = float(task.spec.design.to_user(designs)[0, 1, 0])
    exact = 0.5 * math.log1p(far**2 / (1 + NOISE**2))
    assert found[0] < 0.1
    assert 0.6 * exact < found[1] < 1.1 * exact  # its similarity smooths


def test_a_goal_of_everything_needs_no_kernel() -> None:
    truths = torch.randn(2, 8, 2, generator=seeded(0))
    assert goal_similarity(truths, torch.ones(2, 2, dtype=torch.bool)) is None
    mixed = goal_similarity(truths, torch.tensor([[True, True], [True, False]]))
    assert mixed is not None
    torch.testing.assert_close(mixed[0], torch.eye(8))


def test_few_outcomes_are_all_visited() -> None:
    """Without noise: the entropy of the answer less that of each truth's."""
    task = Task(
        parameters={"rate": Uniform(0.0, 1.0)},
        design=Box(x=(0.0, 1.0)),
        outcome=Binary(),
        simulate=lambda theta, design, generator: (
            torch.rand(design["x"].shape, generator=generator) < theta["rate"]
        ),
        log_likelihood=lambda theta, design, outcome: torch.where(
            outcome > 0, theta["rate"], 1 - theta["rate"]
        ).log(),
        horizon=3,
    )
    truths = torch.randn(1, 50, 1, generator=seeded(0))
    found = expected_information(task, truths, torch.zeros(1, 1, 1), 16, seeded(1))
    p = task.spec.parameters.to_user(truths)["rate"][0]
    entropy = torch.special.entr(torch.stack([p, 1 - p])).sum(0).mean()
    mean = torch.stack([p.mean(), 1 - p.mean()])
    assert float(found) == pytest.approx(float(torch.special.entr(mean).sum() - entropy), abs=1e-5)


def test_a_short_training_finds_the_informative_ends() -> None:
    """A linear model is learned best at both ends of its axis."""
    task = get("linear", horizon=4).fitted()
    sizes = ModelConfig(width=16, heads=2, layers=2, feedforward=32, components=3)
    settings = {"batch": 64, "prefixes": 2, "points": 0, "possible_truths": 32}
    config = TrainingConfig(**settings, learning_rate=5e-3)  # type: ignore[arg-type]
    model = aline.train(task, rounds=30, model=sizes, config=config, progress=False)
    policy = LearnedPolicy(BatchEngine(model.network))
    names = tuple(task.spec.parameters.priors)
    _, context = play_protocol(policy, task, names, Protocol(100, 4, seed=1))
    told = exact_information_gain(task.spec.design.to_user(context.designs)[..., 0]).mean()
    ends = task.spec.design.to_user(torch.tensor([-1.0, 1.0, -1.0, 1.0])[None, :, None])[..., 0]
    assert told > 0.95 * exact_information_gain(ends).mean()
