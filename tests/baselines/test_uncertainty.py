import pytest
import torch
from small import goal_for, seeded, small_network

from aline.baselines.uncertainty import UncertaintyPolicy
from aline.engine import BatchEngine
from aline.episodes import Offer
from aline.model import Bernoulli, Mixture


def test_a_yes_or_no_is_least_certain_at_one_half() -> None:
    scores = Bernoulli(torch.tensor([-40.0, -1.0, 0.0, 2.0, 40.0])).uncertainty()
    assert scores.argmax() == 2
    assert scores[2].item() == pytest.approx(0.6931, abs=1e-4)
    assert scores[[0, 4]].tolist() == pytest.approx([0.0, 0.0], abs=1e-6)


def test_a_number_is_as_uncertain_as_its_spread() -> None:
    apart = Mixture(
        torch.tensor([[0.5, 0.5]] * 2).log(),
        torch.tensor([[-1.0, 1.0], [0.0, 0.0]]),
        torch.full((2, 2), 0.1),
    )
    assert apart.uncertainty().tolist() == pytest.approx([1.005, 0.1], abs=1e-3)


@pytest.mark.parametrize("task", ["psychometric", "location"])
def test_the_most_uncertain_candidate_is_chosen(task: str) -> None:
    network = small_network(task)
    engine = BatchEngine(network)
    policy = UncertaintyPolicy(engine)
    state = policy.begin(goal_for(network.spec, network.spec.parameters.names[:1], 3))
    points = network.spec.design.sample(3, 9, seeded(0))
    state = policy.observe(state, points[:, 0], torch.ones(3))
    best = engine.predictive(state.state, points).uncertainty().argmax(1)
    chosen = policy.choose(state, Offer(points), seeded(1))
    assert torch.equal(chosen, points[torch.arange(3), best])
