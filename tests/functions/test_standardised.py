"""Outcomes in a user's units: whatever these are, the same is said of them."""

import math

import pytest
import torch
from small import goal_for, seeded, small_functions
from torch import Tensor

from aline.engine import BatchEngine, LiveEngine, TorchRunner
from aline.episodes import Context, Goal
from aline.errors import InternalError
from aline.functions.standardised import Standardised, StandardisedEngine, mixed
from aline.spaces.outcomes import Mixture

NETWORK = small_functions("gp2d", kernels=6)
SPEC = NETWORK.spec
POINTS, OFFERS = (SPEC.design.sample(2, n, seeded(n)) for n in (9, 7))
GOAL = Goal(
    torch.zeros(2, len(SPEC.parameters), dtype=torch.bool),
    POINTS,
    torch.ones(2, 9, dtype=torch.bool),
)


def valley(count: int, scale: float = 1.0, offset: float = 0.0) -> Context:
    """Two functions, one rougher than the other, measured at random."""
    x = SPEC.design.sample(2, count, seeded(1))
    rate = torch.tensor([[3.0], [9.0]]).double()
    y = (rate * x[..., 0].double()).sin() + 0.3 * x[..., 1].double() ** 2
    return Context(x, scale * y + offset)


def engine(noise: float | None = None) -> StandardisedEngine:
    return StandardisedEngine(BatchEngine(NETWORK), noise)


def told(of: StandardisedEngine, state: Standardised) -> list[Tensor]:
    """Moments of predictions, and scores."""
    mean, std = of.predictive(state, POINTS).moments()
    return [mean, std, of.scores(state, GOAL, OFFERS).double()]


@pytest.mark.parametrize("noise", [None, 0.05], ids=["unknown", "known"])
@pytest.mark.parametrize("count", [2, 3, 12])
@pytest.mark.parametrize(("scale", "offset"), [(1e4, 0.0), (1e-3, 50.0), (-2.0, -7e5)])
def test_units_do_not_matter(count: int, scale: float, offset: float, noise: float | None) -> None:
    plain, moved = engine(noise), engine(None if noise is None else noise * abs(scale))
    if scale < 0:  # the network is not told that a function may be turned over; the rest is
        plain.inner = moved.inner = Ensemble(NETWORK)
    mean, std, scores = told(plain, plain.read(valley(count)))
    found = told(moved, moved.read(valley(count, scale, offset)))
    assert torch.allclose((found[0] - offset) / scale, mean, atol=2e-3)
    assert torch.allclose(found[1] / abs(scale), std, rtol=5e-3)
    assert torch.allclose(found[2], scores, atol=0.05)


class Ensemble(BatchEngine):
    """Answers by the plug-in's frame alone."""

    def predictive(self, state: object, points: Tensor) -> Mixture:
        frame = state.encoded.advice.at_points(points).frame  # type: ignore[attr-defined]
        return Mixture(*(part[:, 0, :, None] for part in (torch.zeros_like(frame.mean), *frame)))


def test_before_two_outcomes_the_scale_is_the_tasks() -> None:
    ours, offset = engine(), 300.0
    nothing = ours.predictive(ours.begin(2), POINTS)
    plain = ours.inner.predictive(ours.inner.begin(2), POINTS)
    for mine, theirs in zip(nothing.moments(), plain.moments(), strict=True):
        assert torch.allclose(mine.float(), theirs, atol=1e-5)
    mean, std, _ = told(ours, ours.read(valley(1)))
    moved = told(ours, ours.read(valley(1, offset=offset)))
    assert torch.allclose(moved[0] - offset, mean, atol=1e-4)
    assert torch.allclose(moved[1], std, rtol=1e-4)


def test_growing_is_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for which smooth kernels got neighbours, which depends on the way."""
    ours, context = engine(), valley(12, 100.0, 3.0)
    grown = ours.begin(2)
    for step in range(12):
        told(ours, grown)
        grown = ours.extend(grown, context.designs[:, step], context.outcomes[:, step])
    assert torch.equal(ours.context(grown).outcomes, context.outcomes)
    (mean, std, _), (expected, spread, _) = (told(ours, s) for s in (grown, ours.read(context)))
    assert torch.allclose(mean, expected, atol=4.0)  # of a spread of 70
    assert torch.allclose(std, spread, rtol=0.15)
    monkeypatch.setattr("aline.functions.standardised.Known.smooth", lambda *_: None)
    for mine, theirs in zip(told(ours, grown), told(ours, ours.read(context)), strict=True):
        assert torch.allclose(mine, theirs, rtol=5e-3, atol=0.05)


def test_states_are_values() -> None:
    """Two futures of one past, and the past again."""
    ours, context = engine(), valley(8)
    past = ours.read(Context(context.designs[:, :6], context.outcomes[:, :6]))
    before = told(ours, past)
    futures = [ours.extend(past, context.designs[:, i], context.outcomes[:, i]) for i in (6, 7)]
    first = told(ours, futures[0])
    told(ours, futures[1])
    for state, expected in ((past, before), (futures[0], first)):
        for mine, theirs in zip(told(ours, state), expected, strict=True):
            assert torch.allclose(mine, theirs, atol=1e-4)


def test_many_observations_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aline.functions.standardised.MANY", 4)
    ours, context = engine(), valley(12)
    state = ours.begin(2)
    told(ours, state)
    for step in range(12):
        state = ours.extend(state, context.designs[:, step], context.outcomes[:, step])
    for mine, theirs in zip(told(ours, state), told(ours, ours.read(context)), strict=True):
        assert torch.allclose(mine, theirs)


def test_no_outcome_is_known_better_than_its_noise() -> None:
    unit = 0.6  # of the task's outcomes
    noise = 0.4
    ours = engine(noise)
    belief = ours.predictive(ours.read(valley(40)), POINTS)
    assert isinstance(belief, Mixture)
    assert float(belief.std.min()) * unit >= noise * (1 - 1e-5)


def test_a_live_engine_says_the_same() -> None:
    live = StandardisedEngine(LiveEngine(NETWORK, TorchRunner(NETWORK)))
    context = valley(9, 20.0, 5.0)
    ours = engine()
    for mine, theirs in zip(told(ours, ours.read(context)), told(live, live.read(context)),
                            strict=True):  # fmt: skip
        assert torch.allclose(mine, theirs, rtol=1e-3, atol=1e-2)
    grown = ours.read(context), live.read(context)
    posteriors = [of.posterior(state) for of, state in zip((ours, live), grown, strict=True)]
    for mine, theirs in zip(*(q.moments() for q in posteriors), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-3)


def test_smooth_functions_have_no_say_about_parameters() -> None:
    ours, goal = engine(), goal_for(SPEC, ("lengthscale",), 2)
    state = ours.read(valley(9))
    plain = state.known.advice.scores(OFFERS, goal)[:, 0]
    assert torch.equal(ours.scores(state, goal, OFFERS), plain)


def test_a_share_is_a_share_of_the_weight() -> None:
    one, other = (
        Mixture(torch.full((2, 3, 1), 0.0), torch.full((2, 3, 1), m), torch.ones(2, 3, 1))
        for m in (0.0, 4.0)
    )
    share = torch.tensor([0.25, 1.0])
    both = mixed(one, other, share)
    assert torch.allclose(both.log_weight.exp().sum(-1), torch.ones(2, 3))
    assert torch.allclose(both.moments()[0], (4 * share)[:, None].expand(2, 3))
    assert float(both.moments()[1][0, 0]) == pytest.approx(math.sqrt(1 + 16 * 0.25 * 0.75))


def test_what_it_cannot_do() -> None:
    ours, context = engine(), valley(3)
    with pytest.raises(InternalError, match="padded"):
        ours.read(Context(context.designs, context.outcomes, torch.ones(2, 3, dtype=torch.bool)))
    with pytest.raises(InternalError, match="scores candidates"):
        ours.propose(ours.begin(2), GOAL)
