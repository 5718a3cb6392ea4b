"""The losses: what they leave alone, and that their gradients point where the truth is."""

from dataclasses import replace

import pytest
import torch
from small import posterior_of

from aline.episodes import Context, RandomPolicy, draw_goals, play
from aline.model import ModelConfig, fresh
from aline.tasks import get
from aline.training import TrainingConfig
from aline.training.losses import (
    Played,
    inference_loss,
    judge,
    paired_box_loss,
    paired_pool_loss,
    pathwise_loss,
    sample_decisions,
    sampled_pool_loss,
    standardise,
    stratified,
    target_log_prob,
    up_to,
)

CONFIG = TrainingConfig(batch=12, prefixes=3, points=2, candidates=6, alternatives=4)
SMALL = {"width": 16, "heads": 2, "layers": 2, "feedforward": 32, "components": 3}


def played(name: str, policy: str, context: str = "independent"):
    """A small network and a batch of random episodes of a built-in task.

    Without Newton steps where a point is proposed, as in a training: these pass no gradient.
    """
    generator = torch.Generator().manual_seed(0)
    task = get(name, horizon=5)
    steps = 0 if policy == "box" else 2
    config = ModelConfig(policy=policy, context=context, newton_steps=steps, **SMALL)
    network = fresh(task.spec, config, generator)
    world = task.draw(CONFIG.batch, generator)
    goal = draw_goals(task.spec, CONFIG.batch, generator)
    episodes = play(RandomPolicy(task.spec.design), world, goal, steps=5, generator=generator)
    outcomes = world.answer(goal.points, generator)
    advice = network.advisor.read(episodes)
    return network, Played(world, goal, episodes, outcomes, advice), generator


@pytest.mark.parametrize("context", ["independent", "full"])
@pytest.mark.parametrize(
    ("name", "policy", "loss"),
    [
        ("psychometric", "pool", paired_pool_loss),
        ("psychometric", "pool", sampled_pool_loss),
        ("location", "box", pathwise_loss),
        ("location", "box", paired_box_loss),
        ("linear", "box", pathwise_loss),
        ("linear", "pool", paired_pool_loss),
    ],
)
def test_policy_losses_reach_the_policy_and_never_q(name, policy, loss, context):
    network, episodes, generator = played(name, policy, context)
    loss(network, episodes, CONFIG, generator).backward()
    own = set(network.policy.parameters())
    touched = [p for p in network.parameters() if p.grad is not None and bool(p.grad.any())]
    assert touched
    assert set(touched) <= own


@pytest.mark.parametrize("context", ["independent", "full"])
@pytest.mark.parametrize("name", ["psychometric", "location", "linear"])
def test_inference_loss_reaches_q_and_never_the_policy(name, context):
    network, episodes, generator = played(name, "pool", context)
    inference_loss(network, episodes, CONFIG, CONFIG.points, generator).backward()
    assert all(p.grad is None for p in network.policy.parameters())
    assert network.nothing.grad is not None


def test_judging_the_executed_design_gives_the_episode_itself():
    """Swapping a design for itself (with a noise-free answer) must change nothing."""
    network, episodes, generator = played("psychometric", "pool")

    class Replay:
        theta = episodes.world.theta

        def answer(self, designs, generator):
            same = (designs[:, :, None] == episodes.context.designs[:, None]).all(-1)
            return episodes.context.outcomes.gather(1, same.float().argmax(2))

        def branches(self, designs, generator):
            outcomes = self.answer(designs, generator)[..., None]
            return outcomes, torch.ones_like(outcomes)

    replayed = replace(episodes, world=Replay())
    at = sample_decisions(network, replayed, CONFIG, generator)
    executed = episodes.context.designs[torch.arange(12), at.step]
    value = judge(network, replayed, at, executed[:, None].expand(-1, 3, -1), generator)
    seen = up_to(at.horizon[:, None], episodes.length)
    expected = target_log_prob(network, episodes.read(network, seen), episodes)
    assert torch.allclose(value, expected.expand_as(value), atol=1e-5)


def test_known_probabilities_give_the_expected_value():
    """A binary outcome's branches must average what single draws average."""
    network, episodes, generator = played("psychometric", "pool")
    at = sample_decisions(network, episodes, CONFIG, generator)
    designs = torch.linspace(-1, 1, 3).view(1, 3, 1).expand(12, 3, 1)
    expected = judge(network, episodes, at, designs, generator)

    class Drawn:
        theta = episodes.world.theta

        def branches(self, designs, generator):
            many = [episodes.world.answer(designs, generator) for _ in range(400)]
            outcomes = torch.stack(many, -1)
            return outcomes, torch.full_like(outcomes, 1 / 400)

    drawn = replace(episodes, world=Drawn())
    sampled = judge(network, drawn, at, designs, generator)
    assert (sampled - expected).abs().max() < 0.05


def test_paired_gradient_prefers_the_informative_design():
    """With an exact q, the policy's gradient must favour |x| = 1 over x = 0 for a slope."""
    from aline.tasks.linear import exact_posterior

    generator = torch.Generator().manual_seed(1)
    task = get("linear", horizon=1)
    world = task.draw(4000, generator)
    designs = torch.tensor([0.0, 1.0]).view(1, 2, 1).expand(4000, 2, 1)
    outcomes = world.answer(designs, generator)
    x = task.spec.design.to_user(designs)[..., 0].reshape(-1, 1)
    y = task.spec.outcome.to_user(outcomes).reshape(-1, 1)
    mean, covariance = exact_posterior(x, y)
    slope = torch.distributions.Normal(mean[:, 1], covariance[:, 1, 1].sqrt())
    value = slope.log_prob(world.theta[:, 1].repeat_interleave(2)).view(-1, 2)
    gain = value[:, 1] - value[:, 0]
    assert gain.mean() > 4 * gain.std() / 4000**0.5


def test_the_value_of_a_state_averages_the_chosen_targets_only():
    network, episodes, _ = played("linear", "pool")
    encoded = network.encode(episodes.context)
    parameters = network.posterior(encoded).log_prob(episodes.world.theta[:, None])[:, 0]
    points = network.predictive(encoded, episodes.goal.points)
    points = points.log_prob(episodes.goal_outcomes[:, None])[:, 0]
    for i, value in enumerate(target_log_prob(network, encoded, episodes)[:, 0]):
        wanted = torch.cat(
            [
                parameters[i][episodes.goal.parameters[i]],
                points[i][episodes.goal.points_mask[i]],
            ]
        )
        assert torch.allclose(value, wanted.mean(), atol=1e-5)


def test_stratified_prefixes_cover_every_length():
    drawn = stratified(400, 4, 31, torch.Generator().manual_seed(0))
    assert set(drawn.flatten().tolist()) == set(range(31))
    assert (drawn.diff(dim=1) >= 0).all()


@pytest.mark.parametrize(
    ("name", "policy", "loss"),
    [
        ("location", "box", pathwise_loss),
        ("location", "box", paired_box_loss),
        ("psychometric", "pool", paired_pool_loss),
    ],
)
def test_a_context_that_is_encoded_once_teaches_the_same(name, policy, loss):
    """One step is reconsidered, so that a pathwise loss encodes the others no more."""
    network, episodes, _ = played(name, policy)
    config = replace(CONFIG, decisions=1)

    def learned(known: Played) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(1)
        q = inference_loss(network, known, config, config.points, generator)
        total = q + loss(network, known, config, generator)
        every = list(network.parameters())
        found = torch.autograd.grad(total, every, allow_unused=True, materialize_grads=True)
        return [total, *found]

    whole = learned(episodes)
    once = learned(replace(episodes, encoded=network.encode(episodes.context)))
    for a, b in zip(whole, once, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def test_pathwise_gradient_matches_finite_differences():
    """d log q / d design through simulator and network, against a numerical derivative."""
    network, episodes, _ = played("linear", "box")
    network = network.double()
    world = episodes.world
    designs = torch.full((12, 1, 1), 0.3, dtype=torch.float64, requires_grad=True)

    def value(x):
        outcomes = world.answer(x, torch.Generator().manual_seed(5))
        belief = posterior_of(network, Context(x, outcomes.double()))
        return belief.log_prob(world.theta[:, None].double()).sum(2)[:, 0]

    value(designs).sum().backward()
    step = 1e-5
    with torch.no_grad():
        slope = (value(designs + step) - value(designs - step)) / (2 * step)
    assert torch.allclose(designs.grad[:, 0, 0], slope, atol=2e-4)


def test_late_steps_count_as_much_as_early_ones():
    generator = torch.Generator().manual_seed(0)
    step = torch.arange(30).repeat(40)
    gains = torch.randn(1200, 8, generator=generator) * 0.8 ** step[:, None]
    spread = standardise(gains, step).view(40, 30, 8).square().mean((0, 2)).sqrt()
    assert spread.min() > 0.4
    assert spread.max() < 2.0
