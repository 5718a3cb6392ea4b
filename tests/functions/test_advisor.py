"""The door, against the code that it takes the place of (1e-5 relative, in double precision)."""

from dataclasses import replace

import pytest
import torch
from small import seeded
from torch import Tensor

from aline.episodes import Context, Goal, goal_of
from aline.errors import InputError, InternalError
from aline.functions import Advice, Advisor
from aline.functions.kernels import Kernels, Shapes
from aline.model.hypotheses import Hypotheses as OldHypotheses
from aline.model.kernels import KernelBank
from aline.tasks import get

TASK = get("gp2d")
SPEC = TASK.spec
BATCH, COUNT, KERNELS, HYPOTHESES = 3, 9, 6, 24
DESIGNS = SPEC.design.sample(BATCH, COUNT, seeded(1))
OUTCOMES = TASK.draw(BATCH, seeded(2)).answer(DESIGNS, seeded(3))
POINTS, CANDIDATES = (SPEC.design.sample(BATCH, n, seeded(n)) for n in (5, 7))
LENGTHS = torch.tensor([[2, 5, 9]] * BATCH)
VISIBLE = torch.arange(COUNT) < LENGTHS[..., None]
EXTRA = Context(
    SPEC.design.sample(3 * BATCH, 1, seeded(6)), torch.randn(3 * BATCH, 1, generator=seeded(7))
)
GROUPS = pytest.mark.parametrize(
    ("visible", "extra"),
    [(None, None), (VISIBLE, None), (VISIBLE, EXTRA)],
    ids=["whole", "prefixes", "extra"],
)


def goals(batch: int = BATCH) -> tuple[Goal, Goal]:
    """Predictions, some of them padding, and parameters."""
    points = goal_of(SPEC, ["predictions"]).repeat(batch)
    mask = points.points_mask.clone()
    mask[:, ::2] = False
    parameters = goal_of(SPEC, ["lengthscale", "output_scale"]).repeat(batch)
    return replace(points, points_mask=mask), parameters


def context(dtype: torch.dtype = torch.float64) -> Context:
    return Context(DESIGNS.to(dtype), OUTCOMES.to(dtype))


def advisor(dtype: torch.dtype = torch.float64, draws: bool = True) -> Advisor:
    made = Advisor(SPEC, KERNELS, HYPOTHESES, draws).eval()
    assert made.kernels.shapes is not None
    shapes = Shapes(*(part.to(dtype) for part in made.kernels.shapes))
    made.kernels = Kernels(made.kernels.rate.to(dtype), shapes, made.kernels.noise.to(dtype))
    return made


def old() -> KernelBank:
    made = KernelBank.spread(2, KERNELS)
    made.hypotheses = OldHypotheses(SPEC, HYPOTHESES)
    return made.eval()


def close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a.double(), b.double(), rtol=1e-5, atol=1e-6)


@GROUPS
def test_points_are_told_what_they_were(visible: Tensor | None, extra: Context | None) -> None:
    doubled = extra and Context(extra.designs.double(), extra.outcomes.double())
    advice = advisor().read(context(), visible, doubled)
    bank = old().read(context(), visible, doubled)
    for shared in (True, False):
        groups = bank.seen.shape[1]
        points = POINTS[:, None] if shared else POINTS[:, None].expand(-1, groups, -1, -1) * 0.9
        expected = bank.predict(points.double())
        found = advice.at_points((points[:, 0] if shared else points).double())
        assert close(found.features, expected.features)
        assert close(found.frame.mean, expected.mean)
        assert close(found.frame.std, expected.std)
    assert close(advice.state.describe(), bank.describe())


@pytest.mark.parametrize("visible", [None, VISIBLE], ids=["whole", "prefixes"])
def test_candidates_are_told_what_they_were(visible: Tensor | None) -> None:
    advice, goal = advisor().read(context(), visible), goals()[0]
    bank = old().read(context(), visible, None)
    expected = bank.worth(CANDIDATES[:, None].double(), goal.points.double(), goal.points_mask)
    goal = replace(goal, points=goal.points.double())
    found = advice.of_candidates(CANDIDATES.double(), goal)
    assert close(found.terms[..., 0], expected[..., -1])
    assert close(found.features[..., -KERNELS - 2 : -1], expected / 4)
    assert bool((found.features[..., -1] == 1).all())
    assert bool((found.terms[..., 1] == 0).all())


@GROUPS
def test_parameters_are_told_what_they_were(visible: Tensor | None, extra: Context | None) -> None:
    """In single precision, as hypotheses are always."""
    single = torch.float32
    advice = advisor(single).read(context(single), visible, extra)
    bank = old().read(context(single), visible, extra)
    assert isinstance(bank.kernels.hypotheses, OldHypotheses)
    expected = bank.kernels.hypotheses.guess(bank.supposed)
    frame = advice.parameter_frame()
    assert frame is not None
    assert torch.allclose(frame.mean, expected.mean, atol=1e-3)
    assert torch.allclose(frame.std, expected.std, rtol=1e-3)
    features = advice.context_features()
    assert features.shape[-1] == advice.advisor.context_width
    described = torch.cat([bank.describe(), expected.describe()], -1)
    assert torch.allclose(features, described, atol=5e-3)
    if extra is None:
        goal = goals()[1]
        telling = bank.kernels.hypotheses.train().telling  # by the grid alone
        told = telling(bank.supposed, CANDIDATES[:, None], goal.parameters)
        found = advice.of_candidates(CANDIDATES, goal)
        assert torch.allclose(found.terms[..., 1], told, atol=5e-3)
        assert bool((found.features[..., -KERNELS - 2 :] == 0).all())


@pytest.mark.parametrize("standardise", [False, True], ids=["task", "own"])
def test_growing_is_reading(standardise: bool) -> None:
    # Where draws lie turns on the last digit of single precision.
    made, whole = advisor(torch.float32, draws=False), context(torch.float32)
    outcomes = whole.outcomes.double() * 50 + 1e5 if standardise else whole.outcomes
    whole = Context(whole.designs, outcomes)
    nothing = Context(whole.designs[:, :0], outcomes[:, :0])
    grown = made.read(nothing, standardise=standardise)
    for step in range(COUNT):
        grown = grown.extend(whole.designs[:, step], outcomes[:, step])
        if step % 2:
            numbers(grown)
    read = made.read(whole, standardise=standardise)
    for mine, theirs in zip(numbers(grown), numbers(read), strict=True):
        assert torch.allclose(mine.float(), theirs.float(), rtol=1e-3, atol=0.02)


GOALS = goals()


def numbers(advice: Advice) -> list[Tensor]:
    """What is the same whatever the way."""
    points = advice.at_points(POINTS)
    units = advice.units
    mean = points.frame.mean if units is None else units.standardise(points.frame.mean)
    terms = [advice.of_candidates(CANDIDATES, goal).terms for goal in GOALS]
    return [points.features, mean, *terms, advice.context_features()]


def test_widths() -> None:
    made = advisor(torch.float32)
    advice = made.read(context(torch.float32))
    assert advice.at_points(POINTS).features.shape == (BATCH, 1, 5, made.point_width)
    for goal in GOALS:
        found = advice.of_candidates(CANDIDATES, goal)
        assert found.features.shape == (BATCH, 1, 7, made.candidate_width)
        assert found.terms.shape == (BATCH, 1, 7, made.score_terms)
    plain = Advisor(SPEC, KERNELS).read(context(torch.float32))
    assert plain.parameter_frame() is None
    assert plain.context_features().shape[-1] == plain.advisor.context_width
    assert not list(made.parameters())
    assert not made.state_dict()


def test_in_a_users_units_there_is_more_beyond_the_prior() -> None:
    made = Advisor(SPEC, KERNELS, HYPOTHESES).eval()
    outcomes = OUTCOMES.double() * 1000 + 5e5
    advice = made.read(Context(DESIGNS, outcomes), standardise=True, noise=20.0)
    points = advice.at_points(POINTS)
    assert points.beyond is not None
    assert bool((points.beyond.share > 0).all())
    assert points.least_std is not None
    assert points.least_std.tolist() == [20.0] * BATCH
    spread = float(outcomes.max() - outcomes.min())
    for mean in (points.frame.mean, points.beyond.mean):
        assert float((mean - 5e5).abs().max()) < 2 * spread
    assert advice.of_candidates(CANDIDATES, GOALS[0]).beyond is not None
    assert advice.of_candidates(CANDIDATES, GOALS[1]).beyond is None
    first = Context(DESIGNS[:, :1], outcomes[:, :1])
    assert made.read(first, standardise=True).at_points(POINTS).beyond is None


def test_mistakes() -> None:
    with pytest.raises(InputError, match="real outcomes"):
        Advisor(get("psychometric").spec, 4)
    with pytest.raises(InternalError, match="standardised"):
        advisor().read(context(), VISIBLE, standardise=True)
    with pytest.raises(InternalError, match="no hypotheses"):
        _ = Advisor(SPEC, 4).read(context()).hypotheses
