"""Exact greedy play: its posterior against closed forms, its choices against what is known."""

import pytest
import torch
from small import goal_for, seeded
from torch.distributions import Bernoulli, Categorical, Normal, Poisson, Uniform

from aline.baselines.particles import CLOSE, ParticlePolicy, effective
from aline.policies.information import information_by
from aline.spaces import Binary, Box, Count, Outcomes, Real
from aline.spaces import Categorical as Labels
from aline.tasks import Task, get
from aline.tasks.linear import exact_posterior

LINEAR = get("linear", horizon=4)


def line_task(outcome, distribution, **changes) -> Task:
    """Outcomes that tell about `rate` at x = 1, and about nothing at x = 0."""
    settings = {
        "parameters": {"rate": Uniform(0.1, 0.9)},
        "design": Box(x=(0.0, 1.0)),
        "horizon": 3,
        "simulate": lambda theta, design, generator: simulated(
            distribution, theta, design, generator
        ),
        "log_likelihood": lambda theta, design, y: distribution(
            0.5 + (theta["rate"] - 0.5) * design["x"]
        ).log_prob(y),
    }
    return Task(outcome=outcome, **{**settings, **changes})


def simulated(distribution, theta, design, generator):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        return distribution(0.5 + (theta["rate"] - 0.5) * design["x"]).sample()


def choice(share):
    return Categorical(torch.stack([share, (1 - share) / 2, (1 - share) / 2], -1))


def several() -> Task:
    """A choice and a time, both from the same rate."""

    def simulate(theta, design, generator):
        share = 0.5 + (theta["rate"] - 0.5) * design["x"]
        yes = torch.rand(share.shape, generator=generator) < share
        return {"yes": yes, "time": share + 0.1 * torch.randn(share.shape, generator=generator)}

    def log_likelihood(theta, design, outcome):
        share = 0.5 + (theta["rate"] - 0.5) * design["x"]
        yes = Bernoulli(share).log_prob(
            outcome["yes"].float().expand(torch.broadcast_shapes(outcome["yes"].shape, share.shape))
        )
        return yes + Normal(share, 0.1).log_prob(outcome["time"])

    outcome = Outcomes(yes=Binary(), time=Real(loc=0.5, scale=0.3))
    both = {"simulate": simulate, "log_likelihood": log_likelihood}
    return line_task(outcome, Bernoulli, **both)


KINDS = {
    "binary": lambda: line_task(Binary(), Bernoulli),
    "labels": lambda: line_task(Labels(["a", "b", "c"]), choice),
    "count": lambda: line_task(Count(), lambda share: Poisson(5 * share)),
    "real": lambda: line_task(Real(), lambda share: Normal(share, 0.2)),
    "several": several,
}


def test_particles_are_the_exact_posterior() -> None:
    policy = ParticlePolicy(LINEAR, particles=4000)
    world = LINEAR.draw(6, seeded(0))
    designs = LINEAR.spec.design.sample(6, 8, seeded(1))
    outcomes = world.answer(designs, seeded(2))
    state = policy.begin(goal_for(LINEAR.spec, ("slope",), 6))
    for step in range(8):
        state = policy.observe(state, designs[:, step], outcomes[:, step])
    x = LINEAR.spec.design.to_user(designs)[..., 0]
    mean, covariance = exact_posterior(x, LINEAR.spec.outcome.to_user(outcomes))
    drawn = state.draw(4000, seeded(3))
    std = covariance.diagonal(dim1=1, dim2=2).sqrt()
    assert torch.allclose(drawn.mean(1), mean, atol=0.1 * float(std.max()))
    assert torch.allclose(drawn.std(1), std, rtol=0.1)


def test_a_sharp_observation_leaves_enough_that_count() -> None:
    sharp = line_task(Real(loc=0.5, scale=0.2), lambda share: Normal(share, 1e-4))
    policy = ParticlePolicy(sharp)
    state = policy.begin(goal_for(sharp.spec, ("rate",), 1))
    design, outcome = torch.ones(1, 1), sharp.spec.outcome.to_network(torch.tensor([0.7])).float()
    state = policy.observe(state, design, outcome)
    rate = sharp.spec.parameters.to_user(state.draw(500, seeded(0)))["rate"]
    assert float(effective(state.log_weight)) >= 0.5 * policy.particles
    assert float(rate.mean()) == pytest.approx(0.7, abs=2e-5)
    assert float(rate.std()) == pytest.approx(1e-4, rel=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_for_any_outcome_it_asks_where_most_is_told(kind: str) -> None:
    task = KINDS[kind]().fitted()
    policy = ParticlePolicy(task, particles=500)
    state = policy.begin(goal_for(task.spec, ("rate",), 2))
    truths, designs = state.draw(CLOSE.truths, seeded(0)), torch.tensor([[[-1.0], [1.0]]] * 2)
    gain = information_by(task, CLOSE, truths, designs, seeded(1))
    assert torch.allclose(gain[:, 0], torch.zeros(2), atol=1e-4)
    assert bool((gain[:, 1] > 0.02).all())
    design = policy.choose(state, None, seeded(2))
    assert bool((design > 0.5).all())
    outcome = task.draw(2, seeded(3)).answer(design[:, None], seeded(4))[:, 0]
    assert policy.observe(state, design, outcome).seen.length == 1
