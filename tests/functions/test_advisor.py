"""The plug-in of functions at the door through which the network speaks to it."""

from dataclasses import replace

import pytest
import torch
from processes import Process
from small import goal_for, random_context, seeded
from torch import Tensor

from aline.episodes import Context, Goal
from aline.errors import InputError
from aline.functions.advisor import STEEP, FunctionAdvice, FunctionAdvisor
from aline.functions.ensemble import NOISE_RATIO, spread_kernels
from aline.spaces import Real
from aline.tasks import get

SPEC = get("gp2d").spec
ADVISOR = FunctionAdvisor(SPEC, kernels=6, hypotheses=24)
POINTS = SPEC.design.sample(3, 5, seeded(4))
OFFERS = SPEC.design.sample(3, 8, seeded(5))
NAMES = ("lengthscale", "output_scale")
POINT_GOAL = Goal(
    torch.zeros(3, len(SPEC.parameters), dtype=torch.bool),
    POINTS,
    torch.ones(3, 5, dtype=torch.bool),
)
PARAMETER_GOAL = goal_for(SPEC, NAMES, 3)


def told(advice: FunctionAdvice) -> dict[str, Tensor]:
    """Everything that the network may ask for."""
    point, frame = advice.at_points(POINTS), advice.parameter_frame()
    assert point.frame is not None
    assert frame is not None
    return {
        "context": advice.context_features(),
        "points": point.features,
        "expected": torch.stack(point.frame, -1),
        "parameters": torch.stack(frame, -1),
        "for points": advice.scores(OFFERS, POINT_GOAL),
        "for parameters": advice.scores(OFFERS, PARAMETER_GOAL),
    }


def assert_same(mine: dict[str, Tensor], theirs: dict[str, Tensor], atol: float = 2e-3) -> None:
    for name, value in mine.items():
        assert torch.allclose(value, theirs[name], atol=atol, rtol=1e-3), name


def first(context: Context, count: int) -> Context:
    return Context(context.designs[:, :count], context.outcomes[:, :count])


@pytest.mark.parametrize("count", [0, 1, 6])
def test_shapes_and_numbers(count: int) -> None:
    found = told(ADVISOR.read(random_context(SPEC, 3, count)))
    shapes = {name: tuple(value.shape[2:]) for name, value in found.items()}
    assert shapes == {
        "context": (ADVISOR.context_width,),
        "points": (5, ADVISOR.point_width),
        "expected": (5, 2),
        "parameters": (len(SPEC.parameters), 2),
        "for points": (8,),
        "for parameters": (8,),
    }
    for value in found.values():
        assert value.shape[:2] == (3, 1)
        assert value.dtype == torch.float32
        assert value.isfinite().all()


def test_before_any_data_a_frame_is_the_prior() -> None:
    found = told(ADVISOR.read(Context.empty(3, 2)))
    mean, std = found["expected"].unbind(-1)
    assert float(mean.abs().max()) == 0.0
    assert torch.allclose(std, torch.full_like(std, (1 + NOISE_RATIO) ** 0.5))
    # Of as few as 24 hypotheses, and 2 of them for each way to be tied or not.
    assert torch.allclose(found["parameters"][..., 0], torch.zeros(3, 1, 3), atol=0.2)
    assert torch.allclose(found["parameters"][..., 1], torch.ones(3, 1, 3), atol=0.2)


def test_growing_is_reading() -> None:
    context = random_context(SPEC, 3, 6)
    grown = ADVISOR.read(Context.empty(3, 2))
    for step in range(6):
        if step != 3:  # nobody has to ask each time
            told(grown)
        grown = grown.extend(context.designs[:, step], context.outcomes[:, step])
    assert grown.length == 6
    assert torch.equal(grown.source.context.outcomes, context.outcomes)
    assert_same(told(grown), told(ADVISOR.read(context)))


def test_prefixes_are_each_read_alone() -> None:
    context = random_context(SPEC, 3, 6)
    lengths = [0, 2, 6]
    visible = (torch.arange(6) < torch.tensor(lengths)[:, None]).expand(3, -1, -1)
    whole = ADVISOR.read(context)
    told(whole)  # the hypotheses are then there to be split
    for advice in (whole.regrouped(visible), ADVISOR.read(context).regrouped(visible)):
        assert advice.shape == (3, 3)
        every = told(advice)
        for group, length in enumerate(lengths):
            alone = told(ADVISOR.read(first(context, length)))
            assert_same({name: value[:, [group]] for name, value in every.items()}, alone)


def test_padding_is_not_read() -> None:
    context = random_context(SPEC, 3, 6)
    padded = Context(context.designs, context.outcomes, torch.arange(6).expand(3, 6) < 4)
    assert_same(told(ADVISOR.read(padded)), told(ADVISOR.read(first(context, 4))))


def test_the_order_of_data_does_not_matter() -> None:
    context, order = random_context(SPEC, 3, 6), torch.tensor([4, 2, 0, 5, 1, 3])
    mixed = Context(context.designs[:, order], context.outcomes[:, order])
    assert_same(told(ADVISOR.read(mixed)), told(ADVISOR.read(context)))


def test_the_best_candidate_takes_most_of_the_goals_variance() -> None:
    """By adding each candidate to the data, of a single kernel."""
    advisor, context = FunctionAdvisor(SPEC, kernels=1), random_context(SPEC, 3, 6)
    scores = advisor.read(context).scores(OFFERS, POINT_GOAL)[:, 0] / STEEP
    rate = spread_kernels(2, 1).rate[0].double()
    process = Process(0, (-0.5 / rate).sqrt(), NOISE_RATIO)
    x, points = context.designs[0].double(), POINTS[0].double()
    now = process.variance(x, points)
    for score, offer in zip(scores[0], OFFERS[0].double(), strict=True):
        left = process.variance(torch.cat([x, offer[None]]), points)
        share = float(1 - left / now)
        assert float(score.exp()) == pytest.approx(max(share, 1e-4), rel=1e-2, abs=1e-5)


def test_a_goal_of_both_adds_what_is_learned_of_either() -> None:
    advice = ADVISOR.read(random_context(SPEC, 3, 6))
    both = Goal(PARAMETER_GOAL.parameters, POINTS, POINT_GOAL.points_mask)
    parts = [advice.scores(OFFERS, goal) for goal in (POINT_GOAL, PARAMETER_GOAL)]
    assert torch.allclose(advice.scores(OFFERS, both), parts[0] + parts[1], atol=1e-4)
    # Points that are only padding count for nothing.
    padded = Goal(both.parameters, POINTS, torch.zeros(3, 5, dtype=torch.bool))
    assert torch.allclose(advice.scores(OFFERS, padded), parts[1], atol=1e-4)


def test_without_hypotheses_nothing_is_said_of_parameters() -> None:
    advisor = FunctionAdvisor(SPEC, kernels=6)
    advice = advisor.read(random_context(SPEC, 3, 6))
    assert not advisor.has_frames
    assert advice.parameter_frame() is None
    assert advice.context_features().shape == (3, 1, advisor.context_width)
    assert float(advice.scores(OFFERS, PARAMETER_GOAL).abs().max()) == 0.0


def test_functions_have_plain_real_outcomes() -> None:
    with pytest.raises(InputError, match="leave the plug-in out"):
        FunctionAdvisor(replace(SPEC, outcome=Real(0.0, 1.0, limits=(0.0, 1.0))))
