import pytest
import torch
from small import posterior_of, seeded, small_network

from aline.baselines import PsiMarginal
from aline.engine import BatchEngine
from aline.episodes import RandomPolicy
from aline.evaluation.observers import (
    grid_errors,
    network_errors,
    play_observers,
    posterior_rmse,
)
from aline.policies import LearnedPolicy
from aline.tasks import get

GRID = {"threshold": 9, "slope": 4, "guess": 3, "lapse": 3}
TARGET = ("threshold", "slope")


def test_policies_meet_the_same_observers_with_the_same_luck() -> None:
    task = get("psychometric", horizon=5)
    policies = (PsiMarginal(task, GRID), RandomPolicy(task.spec.design))
    a, b = (play_observers(policy, task, TARGET, count=6, seed=1) for policy in policies)
    assert torch.equal(a.theta, b.theta)
    assert torch.equal(a.context.designs[:, 0], b.context.designs[:, 0])
    assert torch.equal(a.context.outcomes[:, 0], b.context.outcomes[:, 0])
    assert not torch.equal(a.context.designs[:, 1], b.context.designs[:, 1])


def test_what_was_asked_before_is_answered_again_as_it_was() -> None:
    task = get("psychometric", horizon=6)
    policy = LearnedPolicy(BatchEngine(small_network(task)))
    first = play_observers(policy, task, TARGET, count=5, seed=2, steps=3)
    both = play_observers(policy, task, ("lapse",), count=5, seed=2, given=first.context.designs)
    assert torch.equal(both.context.designs[:, :3], first.context.designs)
    assert torch.equal(both.context.outcomes[:, :3], first.context.outcomes)
    assert both.context.length == 6


def test_errors_of_a_grid_are_those_of_its_posterior() -> None:
    task = get("psychometric", horizon=2)
    method = PsiMarginal(task, GRID)
    played = play_observers(method, task, TARGET, count=3, seed=0)
    errors = grid_errors(method, played)
    assert errors["slope"].shape == (3, 3)
    weight = method.lattice.weight
    truth = task.spec.parameters.to_labels(played.theta)["slope"]
    for step in range(3):
        expected = (weight * (method.values["slope"] - truth[1]) ** 2).sum()
        assert float(errors["slope"][1, step]) == pytest.approx(float(expected), rel=1e-3)
        if step < 2:
            design, outcome = (
                part[1, step] for part in (played.context.designs, played.context.outcomes)
            )
            log_prob = task.log_prob(method.lattice.z, design[None, None], outcome[None, None])
            weight = (weight.log() + log_prob[:, 0]).softmax(0)


def test_errors_of_the_network_are_those_of_its_draws() -> None:
    task = get("psychometric", horizon=4)
    network = small_network(task)
    played = play_observers(LearnedPolicy(BatchEngine(network)), task, TARGET, count=3, seed=0)
    errors = network_errors(network, played)
    assert errors["guess"].shape == (3, 5)
    some = network_errors(network, played, [0, 4])
    assert torch.allclose(some["guess"], errors["guess"][:, [0, 4]], rtol=0.2)
    with torch.no_grad():
        draws = posterior_of(network, played.context).sample(20000, seeded(0))[:, :, 0]
    truth = task.spec.parameters.to_labels(played.theta)["guess"]
    expected = (task.spec.parameters.to_labels(draws)["guess"] - truth).square().mean(0)
    assert torch.allclose(errors["guess"][:, -1], expected, rtol=0.2)


def test_the_posterior_rmse_is_the_mean_of_the_parameters_roots() -> None:
    errors = {"a": torch.tensor([[1.0, 9.0]]), "b": torch.tensor([[25.0, 9.0]])}
    assert posterior_rmse(errors, ("a", "b")).tolist() == [[3.0, 3.0]]
    assert posterior_rmse(errors, ("b",)).tolist() == [[5.0, 3.0]]
