"""Goals at run time, as the shipped psychometric weights pursue them, on many observers."""

import pytest
from torch import Tensor

from aline import zoo
from aline.engine import BatchEngine
from aline.errors import NotFoundError
from aline.evaluation.observers import Played, play_observers
from aline.policies import LearnedPolicy
from aline.tasks import get

TASK = get("psychometric")
OBSERVERS = 40
PLACE, RATES = ("threshold", "slope"), ("guess", "lapse")


def played(target: tuple[str, ...], **options: object) -> Played:
    policy = LearnedPolicy(BatchEngine(zoo.load("psychometric").network))
    return play_observers(policy, TASK, target, count=OBSERVERS, seed=7, **options)  # type: ignore[arg-type]


def stimuli(played: Played) -> Tensor:
    """In the user's units, [observer, trial]."""
    return TASK.spec.design.to_user(played.context.designs)[..., 0]


def near_threshold(one: Played) -> Tensor:
    """The share of observers with a stimulus near their threshold, by trial."""
    threshold = TASK.spec.parameters.to_labels(one.theta)["threshold"]
    return ((stimuli(one) - threshold[:, None]).abs() < 1).float().mean(0)


def at_extremes(one: Played) -> Tensor:
    return (stimuli(one).abs() > 4).float().mean(0)


@pytest.fixture(scope="module")
def aimed() -> dict[tuple[str, ...], Played]:
    goals = [PLACE, RATES, ("threshold",), ("lapse",), PLACE + RATES]
    return {goal: played(goal) for goal in goals}


@pytest.mark.parametrize("goal", [PLACE, ("threshold",)])
def test_threshold_and_slope_are_sought_at_the_threshold(
    aimed: dict[tuple[str, ...], Played], goal: tuple[str, ...]
) -> None:
    assert float(near_threshold(aimed[goal])[15:].mean()) > 0.6
    assert float(at_extremes(aimed[goal])[15:].mean()) < 0.1


@pytest.mark.parametrize("goal", [RATES, ("lapse",)])
def test_guess_and_lapse_are_sought_at_the_extremes(
    aimed: dict[tuple[str, ...], Played], goal: tuple[str, ...]
) -> None:
    assert float(at_extremes(aimed[goal])[1:].mean()) > 0.7


def test_all_four_never_trained_on_are_sought_by_turns_at_the_threshold_and_the_extremes(
    aimed: dict[tuple[str, ...], Played],
) -> None:
    both = aimed[PLACE + RATES]
    shape, rates = ([n for n in range(15, 30) if (n % 5 < 2) is first] for first in (True, False))
    assert float(near_threshold(both)[shape].mean()) > 0.6
    assert float(at_extremes(both)[shape].mean()) < 0.2
    assert float(near_threshold(both)[rates].mean()) < 0.2
    assert float(at_extremes(both)[rates].mean()) > 0.7


def test_after_a_switch_the_stimuli_move_within_two_trials(
    aimed: dict[tuple[str, ...], Played],
) -> None:
    first = aimed[PLACE].context.designs[:, :15]
    switched = at_extremes(played(RATES, given=first))
    assert float(switched[14]) < 0.2
    assert float(switched[16]) > 0.8


def test_a_preset_without_weights_says_how_to_train_it() -> None:
    with pytest.raises(NotFoundError, match="aline train psychometric-2afc"):
        zoo.load("psychometric-2afc")
