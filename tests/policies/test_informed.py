"""Designs judged by the task itself, against what is known exactly of a line."""

import pytest
import torch
from small import goal_for, seeded, small_network

from aline.engine import BatchEngine
from aline.episodes import Context, Offer
from aline.model import Mixture
from aline.policies import LearnedPolicy
from aline.policies.importance import tempered
from aline.policies.information import Effort, information_by
from aline.policies.informed import Informed
from aline.tasks import Task, get, simulator_of
from aline.tasks.linear import exact_information_gain, exact_posterior


def line() -> Task:
    """The linear task with the two ends named as informative."""
    task = get("linear")
    task.explore = lambda theta, count, generator: {
        "x": torch.ones(len(theta["slope"]), count)
        * (1 - 2 * torch.randint(2, (1, count), generator=generator))
    }
    return task


INFORMED = Informed(line())


def test_information_is_that_of_a_line() -> None:
    truths = torch.randn(1, 4000, 2, generator=seeded(0))
    designs = torch.tensor([[[-1.0], [0.0], [0.5]]])
    found = information_by(line(), Effort(4000, 1000), truths, designs, seeded(1))[0]
    exact = exact_information_gain(designs[0])
    assert torch.allclose(found, exact, atol=0.1)


def test_information_does_not_depend_on_how_much_is_held_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    truths = torch.randn(4, 30, 2, generator=seeded(0))
    designs = torch.tensor([-1.0, 1.0])[None, :, None].expand(4, 2, 1)
    whole = information_by(line(), Effort(30, 30), truths, designs, seeded(1))
    monkeypatch.setattr("aline.policies.information.AT_ONCE", 1)
    parts = information_by(line(), Effort(30, 30), truths, designs, seeded(1))
    assert torch.allclose(whole.mean(), parts.mean(), atol=0.5)
    assert parts.shape == whole.shape


def test_the_best_of_many_designs_is_at_an_end_of_the_line() -> None:
    truths = torch.randn(20, 64, 2, generator=seeded(0)) * torch.tensor([1.0, 10.0])
    designs = torch.linspace(-0.2, 0.2, 40).expand(20, 40)[..., None].clone()
    designs[:, 7] = 1.0
    assert bool((INFORMED.best(truths, designs, seeded(1)) == 7).float().mean() > 0.8)


def test_half_of_the_candidates_are_what_the_task_names() -> None:
    truths = torch.randn(3, 4, 2, generator=seeded(0))
    found = INFORMED.candidates(truths, 11, seeded(1))
    assert found.shape == (3, 11, 1)
    assert bool((found[:, :6].abs() == 1).all())
    assert bool((found[:, 6:].abs() < 1).all())


def test_weights_are_tempered_only_as_far_as_needed() -> None:
    even, sharp = 0.1 * torch.randn(1, 100, generator=seeded(0)), torch.arange(100.0)[None] * 5
    weights = tempered(torch.cat([even, sharp]), 30.0)
    effective = 1 / weights.square().sum(1)
    assert torch.allclose(weights[0], even[0].softmax(0))
    assert float(effective[1]) == pytest.approx(30.0, abs=0.1)


def test_likely_truths_fit_the_data_together() -> None:
    """From q as wide as the prior: nearer to the exact posterior, with its correlation."""
    x = torch.full((1, 3), 1.0)
    y = torch.full((1, 3), 0.8)
    task = INFORMED.task
    seen = Context(x[..., None], task.spec.outcome.to_network(y))
    prior = Mixture(torch.zeros(1, 2, 1), torch.zeros(1, 2, 1), torch.ones(1, 2, 1))
    found = torch.cat([INFORMED.likely(prior, seen, seeded(n))[0] for n in range(20)])
    mean, _ = exact_posterior(x, y)
    assert torch.allclose(found.mean(0), mean[0], atol=0.15)
    assert float(torch.corrcoef(found.T)[0, 1]) < -0.5


def test_an_informed_policy_asks_the_task_it_is_given() -> None:
    task = line()
    engine = BatchEngine(small_network(task, policy="informed"))
    policy = LearnedPolicy(engine, candidates=20, task=task)
    goal = goal_for(task.spec, ("slope", "intercept"), 40)
    chosen = policy.choose(policy.begin(goal), None, seeded(0))
    assert float(chosen.abs().mean()) > 0.8  # of a uniform choice 0.5


def test_without_a_simulator_it_is_a_pool_policy() -> None:
    task = line()
    engine = BatchEngine(small_network(task, policy="informed"))
    assert LearnedPolicy(engine).informed is None  # the built-in line names no designs
    assert LearnedPolicy(engine, task=task).informed is not None
    offer = Offer(task.spec.design.sample(2, 9, seeded(1)))
    goal = goal_for(task.spec, ("slope",), 2)
    pool = LearnedPolicy(engine)
    scores = engine.scores(pool.begin(goal).state, goal, offer.points)
    chosen = pool.choose(pool.begin(goal), offer, seeded(0))
    assert torch.equal(chosen, offer.points[torch.arange(2), scores.argmax(1)])


def test_a_model_finds_the_simulator_of_a_built_in_task() -> None:
    spec = get("ces", horizon=4).fitted().spec
    found = simulator_of(spec)
    assert found is not None
    assert found.spec is spec
    network = small_network("ces", policy="informed")
    assert LearnedPolicy(BatchEngine(network)).informed is not None
    own = Task(
        name="ces",
        parameters=line().spec.parameters,
        design=line().spec.design,
        outcome=line().spec.outcome,
        simulate=line().simulate,
        horizon=2,
    )
    assert simulator_of(own.spec) is None  # a task of that name, but another
