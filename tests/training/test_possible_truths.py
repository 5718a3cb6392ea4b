"""Truths that could have given the same data."""

from dataclasses import replace

import pytest
import torch

from aline.episodes import RandomPolicy, draw_goals, play
from aline.model import Mixture, ModelConfig, fresh
from aline.model.advice import NoAdvisor
from aline.model.guesses import Guesses
from aline.tasks import Task, get
from aline.tasks.linear import exact_posterior
from aline.training import TrainingConfig
from aline.training.losses import Played, inference_loss, up_to
from aline.training.possible_truths import PossibleTruths, has_parameter_likelihood, stage_starts
from aline.zoo import load

LENGTH = 20
CONFIG = TrainingConfig(batch=200, prefixes=3, points=0)


def random_episodes(task: Task, batch: int, seed: int = 0) -> tuple[Played, torch.Generator]:
    generator = torch.Generator().manual_seed(seed)
    world, goal = task.draw(batch, generator), draw_goals(task.spec, batch, generator)
    policy = RandomPolicy(task.spec.design)
    context = play(policy, world, goal, steps=LENGTH, generator=generator)
    outcomes = world.answer(goal.points, generator)
    return Played(world, goal, context, outcomes, NoAdvisor().read(context)), generator


def prior(batch: int, parameters: int, mean: float = 0.0, std: float = 1.0) -> Mixture:
    """What q says before any data; or, with another mean and spread, q as wrong as can be."""
    shape = batch, len(stage_starts(LENGTH)), parameters, 1
    return Mixture(torch.zeros(shape), torch.full(shape, mean), torch.full(shape, std))


def stand_ins_of(
    task: Task, played: Played, count: int, generator: torch.Generator, q: Mixture | None = None
) -> PossibleTruths:
    q = q or prior(played.batch, len(task.spec.parameters))
    return PossibleTruths.of(
        task, played.world.theta, played.context, Guesses.single(q), count, generator
    )


def with_stand_ins(task: Task, played: Played, count: int, generator: torch.Generator) -> Played:
    possible_truths = stand_ins_of(task, played, count, generator)
    return replace(played, possible_truths=possible_truths)


def test_draws_follow_the_closed_form_posterior() -> None:
    task = get("linear").fitted()
    played, generator = random_episodes(task, 40)
    designs, outcomes = played.context.designs, played.context.outcomes
    possible_truths = stand_ins_of(task, played, 20_000, generator)
    for length in (0, 1, 3):
        drawn = possible_truths.draw(torch.full((40, 1), length), 500, generator)[:, 0]
        x = task.spec.design.name_columns(designs[:, :length])["x"]
        mean, covariance = exact_posterior(x, task.spec.outcome.to_user(outcomes[:, :length]))
        spread = covariance.diagonal(dim1=1, dim2=2).sqrt()
        # The prior is N(0, 1), so that the network's scale is the user's.
        assert ((drawn.mean(1) - mean).abs() / spread).mean() < 0.1
        torch.testing.assert_close(
            (drawn.std(1) / spread).mean(), torch.tensor(1.0), atol=0.05, rtol=0
        )


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.7, 0.4), (-0.5, 2.0)])
def test_few_others_are_no_less_right(mean: float, std: float) -> None:
    """With the truth among them, draws and data go together as the truth and data do.

    However few the others are and however wrong the q that they come from.
    """
    task = get("psychometric")
    played, generator = random_episodes(task, 3000)
    possible_truths = stand_ins_of(task, played, 5, generator, prior(3000, 4, mean, std))
    drawn = possible_truths.draw(torch.full((3000, 1), LENGTH), 8, generator)[:, 0]
    said_yes = played.context.outcomes.mean(1)
    for column in range(len(task.spec.parameters)):
        of_truth = (played.world.theta[:, column] * said_yes).mean()
        of_drawn = (drawn[..., column] * said_yes[:, None]).mean()
        assert abs(of_truth - of_drawn) < 0.035


def test_before_any_data_all_are_as_likely() -> None:
    task = get("psychometric")
    played, generator = random_episodes(task, 6)
    possible_truths = stand_ins_of(task, played, 7, generator)
    drawn = possible_truths.draw(torch.zeros(6, 1, dtype=torch.long), 8, generator)[:, 0]
    for row in range(6):
        torch.testing.assert_close(drawn[row], possible_truths.theta[row, 0])


def test_gradient_is_the_same_with_less_noise() -> None:
    task = get("psychometric")
    network = fresh(
        task.spec,
        ModelConfig(policy="pool", width=16, heads=2, layers=2, feedforward=32),
        torch.Generator().manual_seed(0),
    )

    def gradients(count: int) -> torch.Tensor:
        found = []
        for seed in range(20):
            played, generator = random_episodes(task, 100, seed)
            if count:
                played = with_stand_ins(task, played, count, generator)
            network.zero_grad()
            inference_loss(network, played, CONFIG, 0, generator).backward()
            found.append(network.posterior_head.mlp.second.bias.grad.clone())
        return torch.stack(found)

    plain, quiet = gradients(0), gradients(256)
    error = (plain.var(0) / 20).sqrt()
    assert ((plain.mean(0) - quiet.mean(0)).abs() < 4.5 * error + 1e-6).all()
    assert quiet.var(0).sum() < 0.4 * plain.var(0).sum()


def test_who_has_parameter_likelihood() -> None:
    assert has_parameter_likelihood(get("psychometric"))
    assert has_parameter_likelihood(get("linear"))
    assert not has_parameter_likelihood(get("gp1d"))  # the function is latent


@pytest.mark.parametrize("name", ["psychometric", "linear"])
def test_impossible_others_are_never_drawn(name: str) -> None:
    task = get(name).fitted()
    played, generator = random_episodes(task, 4)
    found = stand_ins_of(task, played, 3, generator)
    found.log_weight[:, 1:, 1:] = -torch.inf
    drawn = found.draw(torch.full((4, 1), 2), 8, generator)[:, 0]
    torch.testing.assert_close(drawn, found.theta[:, 2, :1].expand_as(drawn))


def test_others_from_q_stay_likely() -> None:
    """Where few draws of the prior could still have given the data."""
    model = load("psychometric")
    task = get("psychometric")
    played, generator = random_episodes(task, 40)
    starts = torch.tensor([stage_starts(LENGTH)]).expand(40, -1)
    q = model.network.posterior(played.read(model.network, up_to(starts, LENGTH)))

    def effective(possible_truths: PossibleTruths) -> float:
        fit = possible_truths.log_likelihood[:, -1].sum(-1)
        weight = (possible_truths.log_weight[:, -1] + fit).softmax(-1)
        return float((1 / weight.square().sum(-1)).mean())

    plain = stand_ins_of(task, played, 256, generator)
    assert effective(stand_ins_of(task, played, 256, generator, q)) > 1.5 * effective(plain)
