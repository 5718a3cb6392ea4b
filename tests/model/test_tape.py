"""A batch that is played says what the network says, with fewer operations."""

from dataclasses import replace

import pytest
import torch
from small import SIZES, goal_for, largest_difference, random_context, seeded

from aline.episodes import Context, Goal, draw_goals
from aline.model import Bernoulli, LearnedPolicy, Mixture, ModelConfig, Network, View, fresh
from aline.model.network import MANY
from aline.model.running import begin
from aline.model.tape import ROOM, TapeView
from aline.tasks import get

BATCH = 5
TASKS = ["location", "psychometric", "gp1d"]


def network(name: str, **config: object) -> Network:
    """A network whose every weight matters, norms included."""
    task = get(name).fitted()
    sizes = {**SIZES, "kernels": 4 if name == "gp1d" else 0, **config}
    made = fresh(task.spec, ModelConfig(**sizes), seeded(0))  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=seeded(1)))
    return made.eval().requires_grad_(False)


def extended(view: View, context: Context) -> View:
    for row in range(context.length):
        view = view.extend(context.designs[:, row], context.outcomes[:, row])
    return view


def views(made: Network, count: int) -> tuple[View, View]:
    """The same data as the network reads it, and as a tape grew with it."""
    context = random_context(made.spec, BATCH, count)
    tape = extended(begin(made, BATCH), context)
    assert isinstance(tape, TapeView)
    if made.kernels is None:
        return made.read(context), tape
    # A bank that grew differs in rounding from one that was read at once, and amplifies it.
    return extended(made.read(Context.empty(BATCH, len(made.spec.design))), context), tape


def numbers(belief: Mixture | Bernoulli) -> torch.Tensor:
    if isinstance(belief, Bernoulli):
        return belief.logit
    return torch.stack([belief.log_weight, belief.mean, belief.std])


def assert_close(a: torch.Tensor, b: torch.Tensor) -> None:
    assert a.shape == b.shape
    assert largest_difference(a, b) < 5e-5 * (1 + float(a.abs().max()))


def goals(made: Network) -> list[Goal]:
    """Of parameters, a different one in each episode, and of predictions."""
    every = draw_goals(made.spec, BATCH, seeded(2))
    predicted = goal_for(made.spec, ("predictions",), BATCH)
    mask = torch.rand(predicted.points_mask.shape, generator=seeded(4)) < 0.5
    some = replace(predicted, points_mask=mask)
    return [every, predicted, replace(some, parameters=every.parameters)]


@pytest.mark.parametrize("count", [0, 1, 7, ROOM + 2])
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("config", [{}, {"looks": 2}, {"shortcuts": False}])
def test_posterior_and_predictions_are_the_same(name: str, count: int, config) -> None:
    made = network(name, **config)
    plain, tape = views(made, count)
    points = made.spec.design.sample(BATCH, 3, seeded(3))[:, None]
    assert_close(numbers(plain.posterior()), numbers(tape.posterior()))
    assert_close(plain.moments, tape.moments)
    assert_close(numbers(plain.predictive(points)), numbers(tape.predictive(points)))


@pytest.mark.parametrize("count", [0, 7])
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("candidates", [4, MANY + 1])
def test_scores_are_the_same(name: str, count: int, candidates: int) -> None:
    made = network(name)
    plain, tape = views(made, count)
    offered = made.spec.design.sample(BATCH, candidates, seeded(3))[:, None]
    for goal in goals(made):
        assert_close(plain.scores(offered, goal), tape.scores(offered, goal))


@pytest.mark.parametrize("count", [0, 7])
def test_proposals_are_the_same(count: int) -> None:
    made = network("location", policy="box", looks=2)
    plain, tape = views(made, count)
    for goal in goals(made):
        assert_close(plain.propose(goal).mean, tape.propose(goal).mean)
        assert_close(plain.propose(goal).log_std, tape.propose(goal).log_std)


def test_large_logits_are_no_trouble() -> None:
    """Where one observation has all the weight, and where none has any."""
    for sign in (1, -1):
        made = network("location")
        for layer in (*made.layers, *made.policy.layers):
            layer.query.weight.mul_(sign * 30)
        plain, tape = views(made, 7)
        assert_close(numbers(plain.posterior()), numbers(tape.posterior()))


def test_extending_leaves_the_view_as_it_was() -> None:
    """Two continuations of the same data do not disturb each other."""
    _, tape = views(network("location"), 3)
    before = numbers(tape.posterior())
    zeros, ones = torch.zeros(BATCH, 2), torch.ones(BATCH)
    one = tape.extend(zeros, ones)
    expected = numbers(one.posterior())
    tape.extend(zeros + 1, -ones).posterior()
    again = tape.extend(zeros, ones)
    vars(tape).pop("parameter_states")
    vars(one).pop("parameter_states")
    assert torch.equal(numbers(again.posterior()), expected)
    assert torch.equal(numbers(one.posterior()), expected)
    assert torch.equal(numbers(tape.posterior()), before)


def test_weights_may_take_gradients_while_it_plays() -> None:
    made = network("location", policy="box").requires_grad_(True)
    policy = LearnedPolicy(made)
    state = policy.begin(goal_for(made.spec, ("source_x",), BATCH))
    design = policy.choose(state, None, seeded(0))
    state = policy.observe(state, design, torch.ones(BATCH))
    assert not state.view.tape.requires_grad
    assert policy.choose(state, None, seeded(0)).shape == design.shape
