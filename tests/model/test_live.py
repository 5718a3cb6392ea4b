"""The live view says what the network says, with fewer operations."""

import pytest
import torch
from torch.distributions import LogNormal, Uniform

from aline.episodes import Context, Goal, goal_of, predictions
from aline.model import Bernoulli, Mixture, ModelConfig, Network, View, fresh
from aline.model.live import LiveView, Question, score_together
from aline.model.running import begin
from aline.spaces import Binary, Box, Real
from aline.tasks import Spec, Task

SIZES = {"width": 16, "heads": 2, "feedforward": 32, "components": 3}
GOALS = [
    ["a"],
    ["b"],
    ["a", "b"],
    [predictions(at={"x": [1, 2], "y": [0, 1]})],
    ["b", "predictions"],
]


def spec(outcome: Binary | Real) -> Spec:
    return Task(
        parameters={"a": Uniform(0.0, 1.0), "b": LogNormal(0.0, 1.0)},
        design=Box(x=(0.0, 10.0), y=(-1.0, 1.0)),
        outcome=outcome,
        simulate=lambda theta, design, generator: design["x"],
        horizon=5,
    ).spec


def network(outcome: Binary | Real = Binary(), **config: object) -> Network:  # noqa: B008
    """A network whose every weight matters, norms included."""
    generator = torch.Generator().manual_seed(0)
    made = fresh(spec(outcome), ModelConfig(**{"layers": 3, **SIZES, **config}), generator)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return made.eval().requires_grad_(False)


def views(made: Network, count: int) -> tuple[View, View]:
    """The same data as the network reads it, and as a live view grew with it."""
    generator = torch.Generator().manual_seed(1)
    designs = torch.rand(1, count, 2, generator=generator) * 2 - 1
    outcomes = torch.where(torch.rand(1, count, generator=generator) < 0.5, -1.0, 1.0)
    live = begin(made)
    for row in range(count):
        live = live.extend(designs[:, row], outcomes[:, row])
    return made.read(Context(designs, outcomes)), live


def numbers(belief: Mixture | Bernoulli) -> torch.Tensor:
    if isinstance(belief, Bernoulli):
        return belief.logit
    return torch.stack([belief.log_weight, belief.mean, belief.std])


def assert_close(a: torch.Tensor, b: torch.Tensor) -> None:
    assert a.shape == b.shape
    assert torch.allclose(a, b, atol=2e-5)


@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize("outcome", [Binary(), Real(0.0, 1.0)])
@pytest.mark.parametrize("depth", [(1, 1, 0), (3, 1, 1), (3, 3, 2)])
def test_posterior_and_predictions_are_the_same(count: int, outcome, depth) -> None:
    sizes = dict(zip(("layers", "policy_layers", "looks"), depth, strict=True))
    plain, live = views(network(outcome, **sizes), count)
    assert isinstance(live, LiveView)
    assert_close(numbers(plain.posterior()), numbers(live.posterior()))
    points = torch.linspace(-1, 1, 10).view(1, 1, 5, 2)
    assert_close(numbers(plain.predictive(points)), numbers(live.predictive(points)))
    chosen = torch.tensor([[1]])
    assert_close(numbers(plain.posterior(chosen)), numbers(live.posterior(chosen)))


@pytest.mark.parametrize("target", GOALS)
@pytest.mark.parametrize("count", [0, 7])
def test_scores_are_the_same(target, count: int) -> None:
    made = network(policy_layers=2)
    goal = goal_of(made.spec, target)
    candidates = torch.linspace(-1, 1, 40).view(1, 1, 20, 2)
    plain, live = views(made, count)
    assert_close(plain.scores(candidates, goal), live.scores(candidates, goal))


@pytest.mark.parametrize("target", GOALS)
def test_proposals_are_the_same(target) -> None:
    made = network(policy="box", looks=2)
    goal = goal_of(made.spec, target)
    plain, live = (view.propose(goal) for view in views(made, 7))
    assert_close(plain.mean, live.mean)
    assert_close(plain.log_std, live.log_std)


def test_padded_points_of_a_goal_do_not_count() -> None:
    made = network()
    goal = goal_of(made.spec, [predictions(at={"x": [1, 2, 3], "y": [0, 1, 0]})])
    shorter = goal_of(made.spec, [predictions(at={"x": [1, 3], "y": [0, 0]})])
    padded = Goal(goal.parameters, goal.points, torch.tensor([[True, False, True]]))
    candidates = torch.linspace(-1, 1, 40).view(1, 1, 20, 2)
    _, live = views(made, 3)
    assert_close(live.scores(candidates, padded), live.scores(candidates, shorter))


def test_extending_leaves_the_view_as_it_was() -> None:
    """Two continuations of the same data do not disturb each other."""
    _, live = views(network(), 3)
    before = numbers(live.posterior())
    one = live.extend(torch.zeros(1, 2), torch.ones(1))
    expected = numbers(one.posterior())
    again = live.extend(torch.zeros(1, 2), torch.ones(1))
    live.extend(torch.ones(1, 2), -torch.ones(1)).posterior()
    assert torch.equal(numbers(again.posterior()), expected)
    assert torch.equal(numbers(live.posterior()), before)


def test_a_full_context_is_read_by_the_network() -> None:
    plain, live = views(network(context="full"), 4)
    assert not isinstance(live, LiveView)
    assert_close(numbers(plain.posterior()), numbers(live.posterior()))


@pytest.mark.parametrize("sizes", [{}, {"policy_layers": 2}, {"looks": 2}, {"context": "full"}])
def test_scores_together_are_those_of_each(sizes) -> None:
    """Contexts, goals and candidates differ in length; what was computed before is used."""
    made, other = network(**sizes), network(Real(0.0, 1.0), **sizes)
    cases = [(made, n, target) for n, target in enumerate(GOALS)]
    cases += [(made, 7, ["a"]), (other, 2, ["a"]), (made, 0, ["b"])]
    questions, expected = [], []
    for index, (one, count, target) in enumerate(cases):
        goal = goal_of(one.spec, target)
        points = 12 if target == ["b"] else 20
        candidates = torch.linspace(-1, 1, 2 * points).roll(index).view(1, 1, points, 2)
        _, live = views(one, count)
        expected.append(live.scores(candidates, goal))
        again = live if index == 1 else views(one, count)[1]
        questions.append(Question(again, candidates, goal))
    for found, alone in zip(score_together(questions), expected, strict=True):
        assert_close(found, alone)
    for question in questions:
        assert_close(*(numbers(q.posterior()) for q in (question.view, fresh_of(question.view))))


def fresh_of(view: View) -> View:
    """The same data, read anew."""
    return view.network.read(view.context)
