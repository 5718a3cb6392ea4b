import torch
from small import goal_for, seeded, small_network

from aline.baselines import AcePolicy, UncertaintyPolicy, train_ace
from aline.engine import BatchEngine
from aline.episodes import Offer
from aline.model import ModelConfig
from aline.tasks import get
from aline.training import TrainingConfig

TASK = get("gp1d", horizon=3)


def test_uncertainty_is_of_the_networks_own_predictions() -> None:
    engine = BatchEngine(small_network(TASK))
    goal = goal_for(TASK.spec, ("predictions",), 2)
    offer = Offer(TASK.spec.design.sample(2, 20, seeded(0)))
    ours, plain = AcePolicy(engine), UncertaintyPolicy(engine)
    data = torch.tensor([[0.1], [0.2]]), torch.tensor([0.5, -0.5])
    asked = [
        policy.choose(policy.observe(policy.begin(goal), *data), offer, seeded(1))
        for policy in (ours, plain)
    ]
    assert torch.equal(*asked)


def test_training_never_plays_the_policy() -> None:
    config = TrainingConfig(batch=8, updates=1, prefixes=2)
    sizes = ModelConfig(width=8, heads=1, layers=2, feedforward=8, components=2)
    one, other = (
        train_ace(TASK, rounds=rounds, config=config, model=sizes, progress=False)
        for rounds in (1, 4)
    )
    first, last = one.network.policy.state_dict(), other.network.policy.state_dict()
    decay = [k for k in first if not torch.allclose(first[k], last[k], rtol=1e-3, atol=1e-6)]
    assert not decay  # untouched but for weight decay
    assert other.training["config"]["warmup"] == 1.0
