"""A discrete parameter, learned, against the exact posterior."""

import pytest
import torch
from discrete import PROBS, trend_task
from small import SIZES, seeded

from aline import train
from aline.episodes import Context
from aline.evaluation.exact import exact_log_marginals
from aline.evaluation.simulated import posteriors_after
from aline.model import Model
from aline.spaces.outcomes.cut import CutMixture
from aline.training import TrainingConfig
from aline.training.particle_teacher import goal_similarity

LENGTHS = [0, 2, 4, 6]


@pytest.fixture(scope="module")
def learned() -> Model:
    # All rounds play random designs: q is what is tested.
    config = TrainingConfig(
        batch=64, warmup=1.0, prefixes=2, points=0, learning_rate=5e-3, emulator_updates=4,
        possible_truths=32,
    )  # fmt: skip
    sizes = {**SIZES, "newton_steps": 1}
    return train(trend_task(), rounds=30, config=config, model=sizes, progress=False)


@pytest.fixture(scope="module")
def played(learned: Model) -> tuple[torch.Tensor, Context]:
    task, generator = trend_task(), seeded(5)
    world = task.draw(200, generator)
    designs = task.spec.design.sample(200, 6, generator)
    return world.theta, Context(designs, world.answer(designs, generator))


def test_without_data_the_probabilities_are_the_priors(learned: Model) -> None:
    q = learned.network.posterior(learned.network.begin(1))[0, 0]
    assert isinstance(q, CutMixture)
    torch.testing.assert_close(q.probabilities()[0], torch.tensor(PROBS), atol=0.03, rtol=0)


def test_probabilities_are_close_to_the_exact_ones(
    learned: Model, played: tuple[torch.Tensor, Context]
) -> None:
    """Log score of the true value: the gap's standard error is about 0.01."""
    theta, context = played
    exact = exact_log_marginals(trend_task(), context, theta, LENGTHS[1:], [1, 24, 24])
    q = posteriors_after(learned.network, context, LENGTHS)
    gap = (exact - q.log_prob(theta[:, None])[:, 1:]).mean(0)
    assert gap[:, 0].max() < 0.04
    told = exact[:, -1, 0] - torch.distributions.Normal(0.0, 1.0).log_prob(theta[:, 0])
    assert float(told.mean()) > 0.25  # there is something to know


def test_the_joint_posterior_knows_what_goes_with_a_value(
    learned: Model, played: tuple[torch.Tensor, Context]
) -> None:
    """Where the trend is neither, the data say nothing about the slope."""
    _, context = played
    parameters = learned.spec.parameters
    one = Context(context.designs[:1], context.outcomes[:1])
    joint = learned.network.joint(learned.network.encode(one))
    drawn = joint.sample(4000, seeded(0))[0, 0]
    exists = parameters.to_user(drawn)["trend"] == 2
    assert abs(float(drawn[exists, 1].mean())) < 0.35
    given = joint.marginals_given(*parameters.place({"trend": "neither"}))
    assert abs(float(given.moments()[0][1])) < 0.35


def test_ranks_are_even(learned: Model, played: tuple[torch.Tensor, Context]) -> None:
    theta, context = played
    ranks = posteriors_after(learned.network, context, LENGTHS).cdf(theta[:, None])[:, -1, 0]
    even = (torch.arange(200) + 0.5) / 200
    assert float((ranks.sort().values - even).abs().max()) < 0.13  # KS at 0.2 %


def test_truths_of_one_value_agree_and_others_do_not() -> None:
    parameters = trend_task().spec.parameters
    truths = torch.randn(2, 30, 3, generator=seeded(0))
    similarity = goal_similarity(truths, torch.tensor([[True, False, False]] * 2), parameters)
    assert similarity is not None
    kind = parameters.to_user(truths)["trend"]
    same = (kind[:, :, None] == kind[:, None]).float()
    torch.testing.assert_close(similarity, same / same.sum(-1, keepdim=True))
