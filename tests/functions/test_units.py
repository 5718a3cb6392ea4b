"""What the network says does not depend on the units that outcomes come in."""

import math

import pytest
import torch
from small import SIZES, goal_for, random_context, seeded, small_network

from aline.engine import BatchEngine
from aline.episodes import Context, Offer, play
from aline.functions.problems import FunctionWorld, function_named
from aline.model import (
    LearnedPolicy,
    Mixture,
    ModelConfig,
    Network,
    Units,
    fresh,
    read_standardised,
)
from aline.tasks import get

TASK = get("gp1d", horizon=6)
CONTEXTS = pytest.mark.parametrize("context", ["independent", "full"])


def beliefs(context: Context, kind: str) -> Mixture:
    view = read_standardised(small_network(TASK, context=kind), context)  # type: ignore[arg-type]
    belief = view.predictive(torch.linspace(-1, 1, 5).view(1, 1, 5, 1))
    assert isinstance(belief, Mixture)
    return belief


@CONTEXTS
@pytest.mark.parametrize(("scale", "loc"), [(1000.0, 0.0), (1e-6, 0.0), (3.0, -50.0)])
def test_predictions_follow_the_outcomes_units(context: str, scale: float, loc: float) -> None:
    data = random_context(TASK.spec, 3, 6)
    doubled = Context(data.designs, data.outcomes.double())
    moved = Context(data.designs, doubled.outcomes * scale + loc)
    plain, other = beliefs(doubled, context), beliefs(moved, context)
    assert torch.allclose(other.mean, plain.mean * scale + loc, rtol=1e-4, atol=1e-5 * scale)
    assert torch.allclose(other.std, plain.std * scale, rtol=1e-4)


KERNELS = fresh(
    TASK.spec, ModelConfig(plugin="functions", plugin_settings={"kernels": 3}, **SIZES), seeded(0)
).requires_grad_(False)


@pytest.mark.parametrize("network", [small_network(TASK), KERNELS], ids=["plain", "kernels"])
def test_growing_is_reading_anew(network: Network) -> None:
    data = random_context(TASK.spec, 2, 5)
    view = read_standardised(network, Context.empty(2, 1))
    for step in range(5):
        view = view.extend(data.designs[:, step], data.outcomes[:, step])
    whole = read_standardised(network, data)
    points = torch.linspace(-1, 1, 5).view(1, 1, 5, 1).expand(2, 1, 5, 1)
    grown, read = view.predictive(points), whole.predictive(points)
    assert isinstance(grown, Mixture)
    assert isinstance(read, Mixture)
    assert torch.allclose(grown.mean, read.mean, atol=1e-6)
    assert torch.equal(view.context.outcomes, data.outcomes)


def test_before_a_second_outcome_the_scale_is_the_tasks() -> None:
    nothing = Units.of(torch.zeros(2, 0))
    assert (nothing.loc.tolist(), nothing.scale.tolist()) == ([0.0, 0.0], [1.0, 1.0])
    one = Units.of(torch.tensor([[7.0]]))
    assert (one.loc.tolist(), one.scale.tolist()) == ([7.0], [1.0])
    same = Units.of(torch.full((1, 4), 0.3))
    assert same.scale.tolist() == [1.0]


def test_the_scale_is_the_standard_error_of_the_next_outcome() -> None:
    """Of many samples the mean square of (next - mean) / scale is near one, even of few each."""
    draws = torch.randn(40000, 7, generator=seeded(0)).double() * 5 + 100
    units = Units.of(draws[:, :6])
    assert float(units.scale.mean()) == pytest.approx(5 * math.sqrt(7 / 5), rel=0.08)
    many = Units.of(draws.reshape(10, -1))
    assert float(many.scale.mean()) == pytest.approx(5, rel=0.01)


@CONTEXTS
def test_a_policy_asks_the_same_in_any_units(context: str) -> None:
    network = small_network(TASK, context=context)  # type: ignore[arg-type]
    policy = LearnedPolicy(BatchEngine(network), standardise=True)
    goal = goal_for(TASK.spec, ("predictions",), 2)
    offer = Offer(TASK.spec.design.sample(2, 30, seeded(0)))
    data = random_context(TASK.spec, 2, 4)

    def asked(scale: float) -> torch.Tensor:
        state = policy.begin(goal)
        for step in range(4):
            state = policy.observe(state, data.designs[:, step], data.outcomes[:, step] * scale)
        return policy.choose(state, offer, seeded(1))

    assert torch.equal(asked(1.0), asked(2000.0))


def test_a_function_outside_the_prior_is_played() -> None:
    spec, camel = get("gp2d").spec, function_named("three_hump_camel")
    policy = LearnedPolicy(small_network(get("gp2d")), standardise=True, candidates=20)
    world = FunctionWorld(camel, spec, 2)
    given = camel.sample(spec, 2, 1, seeded(0))
    goal = goal_for(spec, ("predictions",), 2)
    context = play(policy, world, goal, steps=4, generator=seeded(1), given=given)
    assert context.outcomes.isfinite().all()
