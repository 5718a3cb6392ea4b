import pytest
import torch
from small import seeded

from aline.baselines import Procedure, PsiMarginal, QuestPlus
from aline.errors import InputError
from aline.tasks import get

GRID = {"threshold": 41, "slope": 11, "guess": 5, "lapse": 5}
TRUTH = {"threshold": 1.2, "slope": 0.4, "guess": 0.5, "lapse": 0.1}


def test_it_finds_an_observers_threshold() -> None:
    task, generator = get("psychometric"), seeded(1)
    procedure = Procedure(PsiMarginal(task, GRID), target="threshold")
    world = task.world(TRUTH)
    before = procedure.std["threshold"]
    for _ in range(60):
        design = procedure.ask()
        assert -5 <= design["stimulus"] <= 5
        x = task.spec.design.read(design)[None]
        procedure.tell(design, world.answer(x, generator).item() > 0)
    assert len(procedure.trials) == 60
    assert procedure.std["threshold"] < 0.3 * before
    assert abs(procedure.mean["threshold"] - 1.2) < 3 * procedure.std["threshold"]


def test_what_was_asked_for_is_answered_from_the_table() -> None:
    """A stimulus goes to the user's units and back without becoming another one."""
    task = get("psychometric")
    procedure, other = Procedure(QuestPlus(task, GRID)), Procedure(QuestPlus(task, GRID))
    design = procedure.ask()
    procedure.tell(design, True)
    x = other.method.choose(other._belief, None, seeded(0))
    other._belief = other.method.observe(other._belief, x, torch.ones(1))
    assert procedure.mean == other.mean


def test_marginals_sum_to_one_and_give_the_mean() -> None:
    procedure = Procedure(QuestPlus(get("psychometric"), GRID))
    procedure.tell({"stimulus": 1.0}, 0)
    values, weight = procedure.marginal("guess")
    assert len(values) == 5
    assert float(weight.sum()) == pytest.approx(1.0, abs=1e-5)
    assert float(values @ weight) == pytest.approx(procedure.mean["guess"], abs=1e-5)
    with pytest.raises(InputError, match="parameters are threshold"):
        procedure.marginal("bias")


def test_goals_switch() -> None:
    procedure = Procedure(PsiMarginal(get("psychometric"), GRID), ["threshold", "slope"])
    assert procedure.target == ["threshold", "slope"]
    at_threshold = procedure.ask()["stimulus"]
    procedure.target = ["guess", "lapse"]
    assert procedure.target == ["guess", "lapse"]
    assert abs(procedure.ask()["stimulus"]) > abs(at_threshold)


def test_a_bad_trial_changes_nothing() -> None:
    procedure = Procedure(QuestPlus(get("psychometric"), GRID))
    before = procedure.mean
    for design, outcome in (({"stimulus": 9.0}, 1), ({"stimulus": 1.0}, 2), ({"x": 1.0}, 1)):
        with pytest.raises(InputError):
            procedure.tell(design, outcome)
    assert procedure.mean == before
    assert procedure.trials == []
