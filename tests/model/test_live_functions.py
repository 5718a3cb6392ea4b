"""The live view of a function says what the network says that reads all data at once."""

import pytest
import torch
from small import SIZES, goal_for, random_context, seeded
from torch import Tensor

from aline.episodes import Context, Goal, Offer
from aline.model import Mixture, ModelConfig, Network, View, fresh
from aline.policies import LearnedPolicy
from aline.model.live_functions import SHORTLIST, FunctionView
from aline.model.policy import Memory
from aline.model.running import begin
from aline.tasks import get

pytestmark = pytest.mark.usefixtures("step")

TASK = get("gp2d", horizon=8)
DATA = random_context(TASK.spec, 1, 6)
POINTS = TASK.spec.design.sample(1, 5, seeded(2))[:, None]


def network(**changes: object) -> Network:
    config = ModelConfig(kernels=6, **{**SIZES, **changes})  # type: ignore[arg-type]
    return fresh(TASK.spec, config, seeded(0)).eval().requires_grad_(False)


def live_view(made: Network, count: int = 6) -> View:
    view = begin(made)
    for row in range(count):
        view = view.extend(DATA.designs[:, row], DATA.outcomes[:, row])
    return view


def plain_view(made: Network, count: int = 6) -> View:
    return made.read(Context(DATA.designs[:, :count], DATA.outcomes[:, :count]))


def assert_same(one: object, other: object) -> None:
    assert isinstance(one, Mixture)
    assert isinstance(other, Mixture)
    for a, b in zip(numbers(one), numbers(other), strict=True):
        assert a.shape == b.shape
        assert torch.allclose(a, b, atol=2e-4)


def numbers(belief: Mixture) -> list[Tensor]:
    fresh_one = Mixture(belief.log_weight, belief.mean, belief.std)
    for kept, computed in zip(belief.moments(), fresh_one.moments(), strict=True):
        assert torch.allclose(kept, computed, atol=1e-5)
    return [belief.log_weight, belief.mean, belief.std]


@pytest.mark.parametrize("count", [0, 1, 6])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shortcuts": False},
        {"layers": 3, "policy_layers": 2},
        {"looks": 1},
        {"hypotheses": 16},
    ],
)
def test_posterior_and_predictions_are_the_same(changes: dict[str, object], count: int) -> None:
    """Whatever is asked first; where the parameters' tokens look again, the network reads it."""
    made = network(**changes)
    plain, live, other = plain_view(made, count), live_view(made, count), live_view(made, count)
    assert isinstance(live, FunctionView) == ("looks" not in changes)
    assert_same(live.posterior(), plain.posterior())
    assert_same(live.predictive(POINTS), plain.predictive(POINTS))
    assert_same(other.predictive(POINTS), plain.predictive(POINTS))
    assert_same(other.posterior(), plain.posterior())
    chosen = torch.tensor([[1]])
    assert_same(live.posterior(chosen), plain.posterior(chosen))
    assert torch.allclose(live.moments, plain.moments, atol=2e-4)


def test_extending_leaves_the_view_as_it_was() -> None:
    made = network()
    live, before = live_view(made, 3), plain_view(made, 3)
    for row in (3, 4):
        further = live.extend(DATA.designs[:, row], DATA.outcomes[:, row])
        seen = Context(DATA.designs[:, [0, 1, 2, row]], DATA.outcomes[:, [0, 1, 2, row]])
        assert_same(further.predictive(POINTS), made.read(seen).predictive(POINTS))
    assert_same(live.predictive(POINTS), before.predictive(POINTS))


@pytest.mark.parametrize("hypotheses", [0, 16])
@pytest.mark.parametrize("wanted", [("predictions",), ("lengthscale",), ("scale", "predictions")])
def test_the_best_candidate_has_the_largest_logit(wanted: tuple[str, ...], hypotheses: int) -> None:
    made = network(hypotheses=hypotheses)
    names = [n for n in made.spec.parameters.labels if any(w in n for w in wanted)]
    goal = goal_for(TASK.spec, (*names, *(w for w in wanted if w == "predictions")), 1)
    view, plain = live_view(made), plain_view(made)
    pool = TASK.spec.design.sample(1, 3 * SHORTLIST, seeded(5))
    allowed = torch.rand(1, pool.shape[1], generator=seeded(6)) < 0.7
    scores = plain.scores(pool[:, None], goal)[:, 0]
    assert torch.allclose(view.scores(pool[:, None], goal)[:, 0], scores, atol=1e-3)
    expected = scores.masked_fill(~allowed, -torch.inf).argmax(1)
    assert torch.equal(view.best(pool, goal, allowed), expected)
    assert torch.equal(view.best(pool, goal), scores.argmax(1))


def test_hypotheses_are_asked_only_about_parameters() -> None:
    """And then go on from what they knew an observation ago."""
    made = network(hypotheses=16)
    view = live_view(made, 3)
    pool = TASK.spec.design.sample(1, 10, seeded(5))
    view.best(pool, goal_for(TASK.spec, ("predictions",), 1))
    view.predictive(POINTS)
    assert "supposed" not in vars(view)
    view.best(pool, goal_for(TASK.spec, ("output_scale",), 1))
    further = view.extend(DATA.designs[:, 3], DATA.outcomes[:, 3])
    assert isinstance(further, FunctionView)
    assert further.earlier is vars(view)["supposed"]
    assert_same(further.posterior(), plain_view(made, 4).posterior())


def test_only_what_is_allowed_is_chosen() -> None:
    """Also where fewer are allowed than are scored."""
    made = network()
    goal: Goal = goal_for(TASK.spec, ("predictions",), 1)
    pool = TASK.spec.design.sample(1, 2 * SHORTLIST, seeded(5))
    allowed = torch.zeros(1, pool.shape[1], dtype=torch.bool)
    allowed[0, 17] = True
    chosen = LearnedPolicy(made).choose(
        Memory(live_view(made), goal), Offer(pool, allowed), seeded(0)
    )
    assert torch.equal(chosen, pool[:, 17])
