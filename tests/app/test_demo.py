import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from aline.app.demo import Demo, Observer, run_demo
from aline.app.record import prior_beliefs, targeted
from aline.app.subject import Subject, open_subject
from aline.errors import InputError
from aline.spaces import Parameters
from aline.tasks import Task, get


def test_every_trial_is_reported_as_it_happens(subjects: dict[str, Subject]) -> None:
    seen = []
    demo = run_demo(subjects["psychometric"], trials=3, on_step=seen.append)
    assert [step.number for step in seen] == [0, 1, 2, 3]
    assert seen == list(demo.steps)
    assert seen[0].outcome is None
    assert all(step.outcome in (0.0, 1.0) for step in seen[1:])


def test_the_same_seed_gives_the_same_demo(subjects: dict[str, Subject]) -> None:
    runs = [run_demo(subjects["location"], seed=7).to_json() for _ in range(2)]
    for run in runs:
        for timed in [*run["trials"], run["refined"] or {"seconds": 0.0}]:
            del timed["seconds"]
    assert runs[0] == runs[1]
    assert run_demo(subjects["location"], seed=8).truth != runs[0]["truth"]


def test_what_was_measured_is_what_the_experiment_holds(demos: dict[str, Demo]) -> None:
    demo = demos["linear"]
    assert [(t.design, t.outcome) for t in demo.experiment.trials] == [
        (step.design, step.outcome) for step in demo.steps[1:]
    ]
    assert demo.last.mean == demo.experiment.posterior().mean


def test_the_target_defaults_to_the_tasks_first(demos: dict[str, Demo]) -> None:
    assert demos["psychometric"].target == ("threshold", "slope")
    assert demos["psychometric"].shown == ("threshold", "slope")


def test_an_aim_at_predictions_shows_every_parameter(subjects: dict[str, Subject]) -> None:
    demo = run_demo(subjects["linear"], target=["predictions"], trials=1)
    assert demo.shown == ("intercept", "slope")


def test_an_unknown_target_is_a_clear_error(subjects: dict[str, Subject]) -> None:
    with pytest.raises(InputError, match="got 'treshold'"):
        run_demo(subjects["psychometric"], target=["treshold"])


def test_a_vector_parameter_is_shown_in_parts() -> None:
    from torch.distributions import Normal

    from aline.spaces import Box, Real
    from aline.tasks import Task

    task = Task(
        parameters={"a": Normal(torch.zeros(2), 1.0), "a_b": Normal(0.0, 1.0)},
        design=Box(x=(0.0, 1.0)),
        outcome=Real(0.0, 1.0),
        simulate=lambda theta, design, generator: design["x"],
        horizon=1,
    )
    assert targeted(task.spec, ["a"]) == ("a_1", "a_2")
    assert targeted(task.spec, ["a_2", "a_b"]) == ("a_2", "a_b")


def test_prior_beliefs_of_known_priors() -> None:
    from torch.distributions import Normal, Uniform

    beliefs = prior_beliefs(Parameters({"n": Normal(1.0, 2.0), "u": Uniform(-3.0, 3.0)}))
    # 40,000 draws: the standard deviation is known to 0.5 % and the tails to about 2 %.
    assert beliefs["n"].std == pytest.approx(2.0, rel=0.02)
    assert beliefs["n"].interval == pytest.approx((1 - 3.92, 1 + 3.92), abs=0.08)
    assert beliefs["u"].std == pytest.approx(6 / math.sqrt(12), rel=0.02)
    assert beliefs["u"].interval == pytest.approx((-2.85, 2.85), abs=0.03)


def test_an_observer_answers_in_the_users_units() -> None:
    observer = Observer.drawn(get("linear"), seed=0)
    answers = [observer.answer({"x": 0.5}) for _ in range(400)]
    expected = observer.truth["intercept"] + 0.5 * observer.truth["slope"]
    assert sum(answers) / 400 == pytest.approx(expected, abs=4 * 0.5 / 20)


def test_where_the_network_is_rough_the_likelihood_has_the_last_word(
    demos: dict[str, Demo], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aline.app.record.ROUGH", 1.1)
    demo = replace(demos["location"])
    assert demo.refined is not None
    assert demo.refined.number == demo.last.number
    assert demo.refined.mean == demo.experiment.refined().mean != demo.last.mean
    assert demo.to_json()["refined"]["mean"] == demo.refined.mean


def test_a_good_posterior_is_left_alone(
    demos: dict[str, Demo], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aline.app.record.ROUGH", 0.0)
    assert replace(demos["location"]).refined is None


def test_without_a_likelihood_there_is_nothing_to_refine_with(
    save: Callable[[Task, Path], Path], tmp_path: Path
) -> None:
    folder = save(get("gp1d", horizon=2), tmp_path / "gp1d")
    assert run_demo(open_subject(str(folder))).refined is None
