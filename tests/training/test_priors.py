"""Priors that a network learns for run time."""

import math

import torch

from aline import train
from aline.episodes import Context, goal_of
from aline.model.guesses import Guesses
from aline.model.prior import KNOWN
from aline.spaces.outcomes import Mixture
from aline.tasks import get
from aline.training.possible_truths import PossibleTruths
from aline.training.priors import draw_priors, draw_truths, without_known
from tests.small import seeded


def test_half_of_the_episodes_have_the_tasks_own_priors_and_others_any() -> None:
    prior = draw_priors(4000, 3, seeded(0))
    is_own = ((prior[..., 0] == 0) & (prior[..., 1] == 1)).all(1)
    assert 0.5 < float(is_own.float().mean()) < 0.58  # and one in 27 of the others by chance
    std = prior[~is_own][..., 1]
    assert abs(float((std == KNOWN).float().mean()) - 1 / 3) < 0.03
    assert float(std[std != KNOWN].min()) >= 0.01 - 1e-6


def test_truths_come_from_their_priors() -> None:
    prior = torch.tensor([[[1.0, 0.2], [-2.0, KNOWN]]]).expand(20_000, 2, 2)
    theta = draw_truths(prior, seeded(0))
    torch.testing.assert_close(theta.mean(0), torch.tensor([1.0, -2.0]), atol=0.01, rtol=0)
    torch.testing.assert_close(theta.std(0), torch.tensor([0.2, KNOWN]), atol=0.005, rtol=0)


def test_goals_leave_out_what_is_known() -> None:
    spec = get("psychometric").spec
    goal = goal_of(spec, ["guess", "lapse"]).repeat(3)
    std = torch.tensor([[1, 1, 1, 1], [1, 1, KNOWN, 1], [1, 1, KNOWN, KNOWN]])
    found = without_known(goal, torch.stack([torch.zeros(3, 4), std], -1)).parameters
    wanted = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 1], [1, 1, 0, 0]]).bool()
    assert torch.equal(found, wanted)


def test_possible_truths_follow_the_chosen_prior() -> None:
    """Weighed draws have the exact posterior's mean: a normal prior and normal outcomes."""
    task = get("linear", horizon=4).fitted()
    batch, count = 64, 2000
    prior = torch.tensor([0.5, 0.3]).expand(batch, len(task.spec.parameters), 2)
    truth = draw_truths(prior, seeded(1))
    world = task.worlds(truth, seeded(2))
    designs = world.sample(2, seeded(3))
    context = Context(designs, world.answer(designs, seeded(4)), prior=prior)
    p = truth.shape[1]
    q = Mixture(torch.zeros(batch, 2, p, 1), torch.full((batch, 2, p, 1), 0.5),
                torch.full((batch, 2, p, 1), 0.3))  # fmt: skip
    stages = 3  # before any data, after one, after two
    q = q.each(lambda part: part[:, :1].expand(-1, stages, -1, -1))
    possible = PossibleTruths.of(task, truth, context, Guesses.single(q), count, seeded(5))
    lengths = torch.tensor([[0, 2]]).expand(batch, 2)
    drawn = possible.draw(lengths, 500, seeded(6))
    # Before any data the draws are the prior's.
    torch.testing.assert_close(drawn[:, 0].mean((0, 1)), torch.full((p,), 0.5), atol=0.02, rtol=0)
    # A truth and draws of its posterior are exchangeable, so ranks are uniform.
    rank = (drawn[:, 1] < truth[:, None]).float().mean(1)
    error = 3 * math.sqrt(1 / 12 / batch)
    assert (rank.mean(0) - 0.5).abs().max() < error


def test_training_with_priors_repeats_and_ends_finite() -> None:
    task = get("linear", horizon=3)
    small = {"width": 16, "heads": 2, "feedforward": 24, "components": 4}
    model = train(task, rounds=3, progress=False, model={**small, "priors": True},
                  config={"batch": 8, "emulator_updates": 2})  # fmt: skip
    assert model.network.config.priors
    assert all(bool(weight.isfinite().all()) for weight in model.network.state_dict().values())
