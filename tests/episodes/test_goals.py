import math
from dataclasses import replace

import pytest
import torch
from small import scores_of, seeded, small_network
from torch.distributions import Uniform

from aline.episodes import Context, Goal, draw_goals, goal_of, in_turn, predictions
from aline.errors import InputError
from aline.spaces import Box, Pool, Real
from aline.tasks import PREDICTIONS, Spec, Task, get

SPEC = get("psychometric").spec


LINE = {
    "parameters": {"a": Uniform(0.0, 1.0), "b": Uniform(0.0, 1.0)},
    "design": Box(x=(0.0, 4.0)),
    "outcome": Real(0.0, 1.0),
    "simulate": lambda theta, design, generator: theta["a"] * design["x"],
    "horizon": 5,
}


def line(**changes: object) -> Spec:
    return Task(**LINE | changes).spec  # type: ignore[arg-type]


def test_parameters_by_name() -> None:
    goal = goal_of(SPEC, ["slope", "lapse"])
    assert goal.parameters.tolist() == [[False, True, False, True]]
    assert goal.points.shape == (1, 0, 1)
    assert goal.count.tolist() == [2]


def test_one_name_may_stand_alone() -> None:
    assert goal_of(SPEC, "guess").parameters.sum() == 1


def test_predictions_at_given_designs() -> None:
    goal = goal_of(SPEC, ["slope", predictions(at={"stimulus": [-5.0, 0.0, 5.0]})])
    assert goal.points[0, :, 0].tolist() == [-1.0, 0.0, 1.0]
    assert goal.count.tolist() == [4]


def test_predictions_anywhere_spread_over_the_design_space() -> None:
    box = goal_of(line(), PREDICTIONS).points
    assert box.shape == (1, 64, 1)
    assert box.min() < -0.9
    assert box.max() > 0.9
    pool = goal_of(line(design=Pool(x=[0.0, 1.0, 5.0])), PREDICTIONS).points
    assert pool.shape == (1, 3, 1)


def test_predictions_in_a_region_spread_over_it() -> None:
    spec = line(design=Box(x=(0.0, 4.0), y=(-1.0, 1.0)))
    goal = goal_of(spec, ["a", predictions(region=Box(x=(1.0, 2.0)))])
    x, y = spec.design.to_user(goal.points[0]).unbind(-1)
    assert goal.count.tolist() == [65]
    assert 1.0 <= float(x.min()) < 1.1 < 1.9 < float(x.max()) <= 2.0
    assert float(y.min()) < -0.9
    assert float(y.max()) > 0.9
    pool = line(design=Pool(x=[0.0, 1.0, 2.0, 5.0]))
    inside = goal_of(pool, predictions(region=Box(x=(0.5, 3.0)))).points
    assert pool.design.to_user(inside[0, :, 0:1]).flatten().tolist() == pytest.approx([1.0, 2.0])


def test_training_wants_predictions_anywhere_and_in_regions() -> None:
    points = draw_goals(line(targets={(PREDICTIONS,): 1.0}), 4000, seeded(2)).points[..., 0]
    assert float(points.abs().max()) <= 1.0
    width = points.amax(1) - points.amin(1)
    # Eight points anywhere span less than half of [-1, 1] with probability 0.0352.
    assert 0.15 < float((width < 1.0).float().mean()) < 0.35
    assert float(points.mean()) == pytest.approx(0.0, abs=0.03)


def test_a_policy_reads_a_set_of_points_whatever_their_number() -> None:
    spec = line()
    eight, many = (predictions(at={"x": [1.0] * count}) for count in (8, 64))
    assert goal_of(spec, ["a", eight]).log_weight.tolist() == [[0.0, -math.inf] + [0.0] * 8]
    weights = goal_of(spec, ["a", many]).log_weight
    assert float(weights[:, 2:].exp().sum()) == pytest.approx(8.0)
    candidates = spec.design.sample(1, 10, seeded(3))
    network = small_network(Task(**LINE))  # type: ignore[arg-type]
    nothing = network.encode(Context.empty(1, 1))
    scores = [scores_of(network, nothing, goal_of(spec, t), candidates) for t in (eight, many)]
    assert torch.allclose(*scores, atol=1e-5)


def test_chosen_lists_each_episodes_parameters() -> None:
    goal = draw_goals(SPEC, 40, seeded(0))
    index, real = goal.chosen()
    for row, rows, mask in zip(goal.parameters, index, real, strict=True):
        assert set(rows[mask].tolist()) == set(row.nonzero()[:, 0].tolist())


def test_goals_are_drawn_by_their_shares() -> None:
    spec = line(targets={("a",): 0.7, ("a", "b"): 0.2, (PREDICTIONS, "b"): 0.1})
    generator = seeded(1)
    goals = [draw_goals(spec, 8, generator) for _ in range(1000)]
    # A batch wants predictions throughout or not at all.
    wants = torch.tensor([goal.points.shape[1] > 0 for goal in goals])
    assert float(wants.float().mean()) == pytest.approx(0.1, abs=3 * 0.3 / 1000**0.5)
    code = torch.tensor([1.0, 2.0])
    kinds = torch.cat([goal.parameters.float() @ code for goal in goals if not goal.points.numel()])
    share = float((kinds == 1).float().mean())
    assert share == pytest.approx(7 / 9, abs=3 * 0.42 / 7000**0.5)
    assert all(bool((goal.count > 0).all()) for goal in goals)


def parts(goal: Goal) -> list[tuple[list[bool], int]]:
    """What each turn wants: parameters, and how many points."""
    return [(turn.parameters[0].tolist(), turn.points.shape[1]) for turn in goal.turns]


def test_what_no_trained_goal_holds_is_taken_in_turn() -> None:
    all_four = goal_of(SPEC, ["slope", "lapse", "threshold", "guess"])
    shape, rates = [True, True, False, False], [False, False, True, True]
    cycle = [shape] * 2 + [rates] * 3
    assert parts(all_four) == [(part, 0) for part in cycle]
    for observed in range(12):
        assert all_four.pursued(observed).parameters.tolist() == [cycle[observed % 5]]
    lapse = [False, False, False, True]
    three = goal_of(SPEC, ["threshold", "slope", "lapse"])
    assert parts(three) == [(part, 0) for part in [shape] * 2 + [lapse] * 3]
    one_by_one = goal_of(replace(SPEC, turns=()), SPEC.parameters.names)
    assert parts(one_by_one) == [(shape, 0), (rates, 0)]


@pytest.mark.parametrize("names", [["guess", "lapse"], ["threshold"], ["lapse"]])
def test_what_a_trained_goal_holds_is_pursued_as_it_is(names: list[str]) -> None:
    goal = goal_of(SPEC, names)
    assert goal.turns == ()
    assert goal.pursued(3) is goal


def test_parameters_and_predictions_are_taken_in_turn() -> None:
    at = predictions(at={"x": [1.0, 2.0, 3.0]})
    assert parts(goal_of(line(), ["a", "b", at])) == [([True, True], 0), ([False, False], 3)]
    together = line(targets={("a", PREDICTIONS): 1.0, ("b",): 1.0})
    assert parts(goal_of(together, ["a", at])) == []
    assert parts(goal_of(together, ["a", "b", at])) == [([True, False], 3), ([False, True], 0)]


def test_a_goal_that_training_left_out_is_pursued_as_it_is() -> None:
    wanted = ["slope", "guess", predictions(at={"stimulus": [0.0]})]
    assert goal_of(SPEC, wanted).turns == ()


def test_a_batch_takes_the_turns_of_one() -> None:
    goal = goal_of(SPEC, SPEC.parameters.names)
    for observed in range(3):
        alone, several = goal.pursued(observed), goal.repeat(3).pursued(observed)
        assert torch.equal(several.parameters, alone.parameters.expand(3, -1))
        assert several.points.shape == (3, 0, 1)


def test_mistakes() -> None:
    with pytest.raises(InputError, match=r"at least one of threshold, slope.*got none"):
        goal_of(SPEC, [])
    with pytest.raises(InputError, match=r"parameters are threshold.*got 'speed'"):
        goal_of(SPEC, ["speed"])
    with pytest.raises(InputError, match="stimulus must lie in"):
        goal_of(SPEC, [predictions(at={"stimulus": 9.0})])
    with pytest.raises(InputError, match="designs or a region"):
        predictions()
    with pytest.raises(InputError, match="at least one design"):
        goal_of(SPEC, [predictions(at={"stimulus": []})])
    with pytest.raises(InputError, match="axes stimulus, got time"):
        goal_of(SPEC, [predictions(region=Box(time=(0.0, 1.0)))])
    with pytest.raises(InputError, match="stimulus must lie in"):
        goal_of(SPEC, [predictions(region=Box(stimulus=(0.0, 9.0)))])


def test_parts_are_taken_in_turn_by_name() -> None:
    spec = get("psychometric").spec
    goal = goal_of(spec, in_turn(["threshold", "slope"], "guess", "guess"))
    assert goal.parameters.tolist() == [[True, True, True, False]]
    aims = [goal.pursued(n).parameters.tolist()[0] for n in range(4)]
    guess = [False, False, True, False]
    assert aims == [[True, True, False, False], guess, guess, [True, True, False, False]]


def test_mistakes_in_turn() -> None:
    spec = get("psychometric").spec
    with pytest.raises(InputError, match="at least two parts"):
        in_turn(["threshold", "slope"])
    with pytest.raises(InputError, match="is a whole target"):
        goal_of(spec, ["lapse", in_turn("threshold", "guess")])
    with pytest.raises(InputError, match="got 'slop'"):
        goal_of(spec, in_turn("threshold", "slop"))
