"""Experiments that ask the fixed schedule of a model's card."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small import small_model

from aline.errors import InputError
from aline.experiment import Experiment
from aline.experiment.foresight import prepare
from aline.model import Model
from aline.tasks import get

TIMES = [-0.5, 0.25, 0.75]


def with_schedule(times: list[float]) -> Model:
    verdict = {"schedule": {"x": times}}
    return replace(small_model(get("linear")), measurements={"verdict": verdict})


def asked(experiment: Experiment, count: int) -> list[Any]:
    """Designs of so many trials, told at once."""
    found = []
    for _ in range(count):
        trial = experiment.ask()
        found.append(round(trial.design["x"], 6))
        experiment.tell(trial, 0.1)
    return found


def test_a_fixed_schedule_is_asked_in_order_and_again() -> None:
    experiment = Experiment(with_schedule(TIMES), policy="fixed")
    assert experiment.policy == "fixed"
    assert asked(experiment, 5) == [*TIMES, *TIMES[:2]]
    learned = Experiment(with_schedule(TIMES))
    learned.attach({"x": [*TIMES, *TIMES[:2]]}, [0.1] * 5)
    assert experiment.posterior().mean == learned.posterior().mean
    assert learned.policy == "learned"


def test_open_trials_count_and_an_abandoned_one_is_asked_again() -> None:
    experiment = Experiment(with_schedule(TIMES), policy="fixed")
    first, second = experiment.ask(), experiment.ask()
    assert round(second.design["x"], 6) == TIMES[1]
    experiment.abandon(second)
    assert round(experiment.ask().design["x"], 6) == TIMES[1]
    experiment.tell(first, 0.2)


def test_a_resumed_experiment_keeps_its_schedule(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'lab.db'}"
    assert asked(Experiment(with_schedule(TIMES), policy="fixed", storage=url), 1) == TIMES[:1]
    resumed = Experiment.resume(url, model=with_schedule([0.0]))  # measured again meanwhile
    assert resumed.policy == "fixed"
    assert asked(resumed, 2) == TIMES[1:]


def test_where_designs_are_restricted_the_nearest_is_asked() -> None:
    experiment = Experiment(with_schedule(TIMES), policy="fixed")
    experiment.restrict({"x": [-1.0, 0.1, 1.0]})
    assert asked(experiment, 3) == [-1.0, 0.1, 1.0]


def test_experiments_with_and_without_a_schedule_are_prepared_together() -> None:
    model = with_schedule(TIMES)
    fixed, learned = Experiment(model, policy="fixed"), Experiment(model)
    prepare([fixed, learned, Experiment(model, policy="fixed")])
    assert round(fixed.ask().design["x"], 6) == TIMES[0]
    assert learned.ask().design == Experiment(model).ask().design


@pytest.mark.parametrize(("policy", "words"), [("fixed", "--verdict --record"), ("best", "'best'")])
def test_mistakes(policy: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Experiment(small_model(get("linear")), policy=policy)
