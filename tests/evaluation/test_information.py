import pytest
import torch
from small import seeded, small_model

from aline.baselines import UncertaintyPolicy
from aline.engine import BatchEngine
from aline.episodes import RandomPolicy
from aline.errors import InputError
from aline.evaluation import (
    Protocol,
    evaluate_information,
    information_rows,
    measure_information,
    play_protocol,
)
from aline.evaluation.information import gains
from aline.tasks import get
from aline.tasks.linear import exact_information_gain

LINEAR = get("linear", horizon=4)


def test_bounds_of_random_designs_hold_the_exact_gain() -> None:
    policy = RandomPolicy(LINEAR.spec.design)
    found = measure_information(policy, LINEAR, Protocol(300, 4), 2000)
    x = LINEAR.spec.design.to_user(found.context.designs)[..., 0]
    exact = float(exact_information_gain(x).mean())
    assert found.bounds is not None
    assert found.bounds.lower.value == pytest.approx(exact, abs=2 * found.bounds.lower.ci95)
    assert found.j is None
    assert found.notes == []


def test_policies_meet_the_same_truths_first_designs_and_pools() -> None:
    model = small_model("linear")
    protocol = Protocol(6, 5, start=2, pool=8, seed=4)
    uncertain = UncertaintyPolicy(BatchEngine(model.network))
    (theta, one), (again, other) = (
        play_protocol(policy, LINEAR, ["slope"], protocol)
        for policy in (RandomPolicy(LINEAR.spec.design), uncertain)
    )
    assert torch.equal(theta, again)
    assert torch.equal(one.designs[:, :2], other.designs[:, :2])
    assert torch.equal(one.outcomes[:, :2], other.outcomes[:, :2])
    assert not torch.equal(one.designs, other.designs)


def test_a_pool_is_asked_without_repeats() -> None:
    policy = RandomPolicy(LINEAR.spec.design)
    _, context = play_protocol(policy, LINEAR, ["slope"], Protocol(4, 9, start=1, pool=8))
    for designs in context.designs[:, 1:, 0]:
        assert len(designs.unique()) == 8


def test_j_is_what_q_gained() -> None:
    """Before any data an untrained q may be off the prior, but J counts from the prior."""
    model = small_model("linear")
    theta = LINEAR.draw(5, seeded(0)).theta
    policy = RandomPolicy(LINEAR.spec.design)
    found = measure_information(policy, LINEAR, Protocol(5, 4), 10, network=model.network)
    joint = model.network.joint(model.network.encode(found.context))
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(found.theta).sum(-1)
    expected = joint.log_prob(found.theta[:, None, None])[:, 0, 0] - prior
    assert torch.allclose(gains(model.network, found.theta, found.context), expected, atol=1e-4)
    assert found.j is not None
    assert found.j.value == pytest.approx(float(expected.mean()), abs=1e-4)
    assert theta.shape == found.theta.shape


def test_an_implicit_simulator_gets_j_only_and_is_told_so() -> None:
    implicit = get("linear", horizon=4)
    implicit.log_likelihood = None
    result = evaluate_information(small_model(implicit), implicit, Protocol(4, 4), 10, 10)
    assert [row["metric"] for row in result["rows"]] == ["j"]
    assert "J only" in result["notes"][0]


def test_rows() -> None:
    found = evaluate_information(small_model(LINEAR), LINEAR, Protocol(4, 4, pool=9), 10, 20)
    assert {row["method"] for row in found["rows"]} == {"aline"}
    assert [row["metric"] for row in found["rows"]] == ["j", "spce", "snmc", "ace", "vnmc"]
    assert found["protocol"]["pool"] == 9
    free = Protocol(4, 4)
    rows = information_rows(
        "random", LINEAR, free, measure_information(RandomPolicy(LINEAR.design), LINEAR, free, 10)
    )
    assert [row["metric"] for row in rows] == ["spce", "snmc"]


def test_mistakes() -> None:
    with pytest.raises(InputError, match="episodes must be at least 1, got 0"):
        Protocol(0, 4)
    with pytest.raises(InputError, match="episodes must be at least 2, got 1"):
        measure_information(RandomPolicy(LINEAR.design), LINEAR, Protocol(1, 4), 10)
    with pytest.raises(InputError, match="needs at least 29 candidates for 30 steps, got 10"):
        Protocol(5, 30, start=1, pool=10)
