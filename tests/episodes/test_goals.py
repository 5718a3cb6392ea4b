import pytest
import torch
from small import seeded
from torch.distributions import Uniform

from aline.episodes import draw_goals, goal_of, predictions
from aline.errors import InputError
from aline.spaces import Box, Pool, Real
from aline.tasks import PREDICTIONS, Spec, Task, get

SPEC = get("psychometric").spec


def line(**changes: object) -> Spec:
    fields = {
        "parameters": {"a": Uniform(0.0, 1.0), "b": Uniform(0.0, 1.0)},
        "design": Box(x=(0.0, 4.0)),
        "outcome": Real(0.0, 1.0),
        "simulate": lambda theta, design, generator: theta["a"] * design["x"],
        "horizon": 5,
    }
    return Task(**fields | changes).spec  # type: ignore[arg-type]


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


def test_mistakes() -> None:
    with pytest.raises(InputError, match=r"at least one of threshold, slope.*got none"):
        goal_of(SPEC, [])
    with pytest.raises(InputError, match=r"parameters are threshold.*got 'speed'"):
        goal_of(SPEC, ["speed"])
    with pytest.raises(InputError, match="stimulus must lie in"):
        goal_of(SPEC, [predictions(at={"stimulus": 9.0})])
