"""The amortised baselines learn on a task whose best designs are known: the ends of the line."""

import pytest
import torch
from small import seeded

from aline.baselines import (
    Dad,
    DadConfig,
    RlBoed,
    RlBoedConfig,
    VpceConfig,
    VpcePolicy,
    Vsoed,
    VsoedConfig,
    learn,
)
from aline.baselines.history import History, Learner, from_linear, roll, to_linear
from aline.baselines.replay import Replay
from aline.episodes import Policy, RandomPolicy
from aline.errors import InputError
from aline.evaluation import Protocol, play_protocol
from aline.tasks import get
from aline.tasks.linear import exact_information_gain, exact_posterior

LINEAR = get("linear", horizon=3)


def gain(policy: Policy, episodes: int = 200) -> float:
    """The exact information of a policy's experiments."""
    names = LINEAR.spec.parameters.names
    _, context = play_protocol(policy, LINEAR, names, Protocol(episodes, 3))
    return float(exact_information_gain(LINEAR.spec.design.to_user(context.designs)[..., 0]).mean())


def learners() -> dict[str, tuple[Learner, int]]:
    dad = DadConfig(contrastive=100, batch=64, learning_rate=2e-2, decay=1.0)
    vsoed = VsoedConfig(
        batch=128,
        buffer=30_000,
        width=32,
        noise=0.4,
        updates=4,
        components=2,
        learning_rate=2e-3,
        decay=0.999,
        target_rate=0.05,
    )
    redq = RlBoedConfig(
        contrastive=100,
        episodes=32,
        updates=64,
        batch=128,
        width=32,
        code=16,
        policy_rate=3e-2,
        critic_rate=3e-3,
        target_rate=0.02,
    )
    return {
        "dad": (Dad(LINEAR, dad), 60),
        "vsoed": (Vsoed(LINEAR, vsoed), 300),
        "rl-boed": (RlBoed(LINEAR, redq), 20),
    }


BEST = float(exact_information_gain(torch.tensor([[-1.0, 1.0, 1.0]])))


@pytest.mark.parametrize("name", ["dad", "vsoed", "rl-boed"])
def test_learns_to_measure_far_out(name: str) -> None:
    learner, rounds = learners()[name]
    random, before = gain(RandomPolicy(LINEAR.spec.design)), gain(learner.policy())
    seconds = learn(learner, rounds=rounds)
    after = gain(learner.policy())
    assert seconds > 0
    assert after > before
    assert after > random + 0.5 * (BEST - random)


def test_vpce_measures_far_out_at_once() -> None:
    config = VpceConfig(
        fit_steps=60, fit_rate=0.1, design_steps=40, design_rate=0.2, contrastive=40, outer=40
    )
    policy = VpcePolicy(LINEAR, config)
    random = gain(RandomPolicy(LINEAR.spec.design))
    assert gain(policy, 30) > random + 0.5 * (BEST - random)


def test_vpce_fits_the_posterior() -> None:
    x, y = torch.tensor([[-0.8, 0.1, 0.9]]), torch.tensor([[-1.0, 0.3, 1.4]])
    policy = VpcePolicy(LINEAR, VpceConfig(fit_steps=400, fit_rate=0.05, fit_draws=64))
    context = policy.begin(_goal(1))
    for step in range(3):
        outcome = LINEAR.spec.outcome.to_network(y[:, step])
        context = policy.observe(context, x[:, step : step + 1], outcome)
    with torch.enable_grad():
        mean, std = policy.fit(context, seeded(0))
    exact, covariance = exact_posterior(x, y)
    assert torch.allclose(mean, exact, atol=0.1)
    # A mean-field Gaussian has the conditional widths.
    width = torch.linalg.inv(covariance).diagonal(dim1=-2, dim2=-1).rsqrt()
    assert torch.allclose(std, width, rtol=0.15)


def _goal(batch: int):  # type: ignore[no-untyped-def]
    from small import goal_for

    return goal_for(LINEAR.spec, LINEAR.spec.parameters.names, batch)


def test_linear_coordinates_are_the_users_whatever_the_network_sees() -> None:
    space = get("ces").spec.design
    x = space.sample(5, 4, seeded(0))
    linear = to_linear(space, x)
    assert float(linear.abs().max()) <= 1.0001
    assert torch.allclose(space.to_user(from_linear(space, linear)), space.to_user(x), atol=1e-3)
    assert float(linear.std()) == pytest.approx(3**-0.5, rel=0.15)


def test_rewards_of_the_steps_add_up_to_spce() -> None:
    learner = RlBoed(LINEAR, RlBoedConfig(contrastive=50))
    with torch.no_grad():
        rolled = roll(LINEAR, lambda history, step: learner.act(history), 6, seeded(0))
        rewards = learner.rewards(rolled, seeded(1))
        draws = LINEAR.spec.parameters.sample(50, seeded(1))
        x, y = torch.stack(rolled.x, 1), rolled.history.outcomes
        truth = LINEAR.log_prob(rolled.world.theta, x, y).sum(-1)
        others = LINEAR.log_prob(draws[:, None], x, y).sum(-1)
    evidence = torch.cat([truth[None], others]).logsumexp(0) - torch.tensor(51.0).log()
    assert torch.allclose(rewards.sum(1), truth - evidence, atol=1e-4)


def test_replay_forgets_the_oldest() -> None:
    replay = Replay(20)
    for number in range(5):
        size = (8, 3)
        history = History(torch.zeros(*size, 1), torch.full(size, float(number)), torch.ones(size))
        replay.add(history, torch.full((8, 2), float(number)))
    assert len(replay) == 24
    history, theta, _ = replay.draw(200, seeded(0))
    assert set(theta[:, 0].tolist()) == {2.0, 3.0, 4.0}
    assert torch.equal(history.outcomes[:, 0], theta[:, 0])


def test_what_cannot_be_differentiated_is_refused() -> None:
    for make in (Dad, VpcePolicy):
        with pytest.raises(InputError, match="differentiates outcomes"):
            make(get("psychometric"))
