"""Experiments: what they ask, what they take, what they refuse, and that nothing is lost."""

import json
import math
from dataclasses import FrozenInstanceError, replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from experiment.small import KINDS, SIZES, TASKS, small
from hypothesis import given, settings
from hypothesis import strategies as st

import aline
from aline.engine import LiveEngine
from aline.errors import (
    AlineError,
    InputError,
    NotFoundError,
    StateError,
    StorageError,
)
from aline.experiment import Experiment, Trial, open_storage
from aline.experiment.storage import MemoryStorage
from aline.model import Model, ModelConfig, fresh
from aline.spaces import Box, Grid, Pool


def start(kind: str = "binary-box", policy: str = "pool", **settings) -> Experiment:
    return Experiment(small(kind, policy), **settings)


def run(experiment: Experiment, count: int, outcome=lambda number: number % 2) -> None:
    for _ in range(count):
        trial = experiment.ask()
        experiment.tell(trial, outcome(trial.number))


def belief(experiment: Experiment) -> torch.Tensor:
    """Everything the posterior is made of, or the prediction where there are no parameters."""
    posterior = experiment.posterior()
    if not posterior.names:
        return experiment.predict({"stimulus": [-1.0, 0.0, 2.0]}).mean
    m = posterior._mixture
    return torch.cat([m.log_weight, m.mean, m.std], -1)


def snapshot(experiment: Experiment):
    """What must not change when a call fails: the journal, the live object, the posterior."""
    journal = json.dumps(experiment._storage.read(experiment.name))
    live = (experiment.trials, experiment.target, experiment.horizon, experiment.stop)
    return journal, repr(live), belief(experiment).tolist()


# A whole experiment, of every kind.


@pytest.mark.parametrize(("kind", "policy", "context"), KINDS)
def test_runs_to_its_end(kind: str, policy: str, context: str) -> None:
    experiment = Experiment(small(kind, policy, context))
    before = belief(experiment)
    space = TASKS[kind].spec.design
    while not experiment.finished:
        trial = experiment.ask()
        space.read(trial.design)  # named, and inside
        experiment.tell(trial, 1)
    assert [trial.state for trial in experiment.trials] == ["told"] * 6
    assert [trial.number for trial in experiment.trials] == list(range(6))
    assert not torch.allclose(before, belief(experiment))


@pytest.mark.parametrize(("kind", "policy", "context"), KINDS)
def test_resumed_experiment_is_the_same_and_asks_the_same(
    kind: str, policy: str, context: str, tmp_path: Path
) -> None:
    model, url = small(kind, policy, context), f"sqlite:///{tmp_path}/lab.db"
    live = Experiment(model, storage=url, seed=3)
    run(live, 3)
    left = live.ask()
    resumed = Experiment.resume(url, model=model)
    assert resumed.trials == live.trials
    assert torch.equal(belief(resumed), belief(live))
    resumed.tell(left.number, 1)
    other = Experiment(model, seed=3)
    run(other, 3)
    other.tell(other.ask(), 1)
    assert resumed.ask().design == other.ask().design


def test_contexts_longer_than_the_horizon_work() -> None:
    experiment = start(horizon=40)
    run(experiment, 40)
    assert experiment.finished
    assert math.isfinite(experiment.posterior().mean["threshold"])


def test_public_name() -> None:
    assert aline.Experiment is Experiment
    assert (
        repr(start())
        == "<Experiment 'small-1': 0 of 6 trials told, 0 open, target threshold, slope>"
    )


# Asking.


def test_the_seed_alone_decides() -> None:
    def designs(seed: int) -> list[dict[str, float]]:
        experiment = start(seed=seed)
        run(experiment, 3)
        return [trial.design for trial in experiment.trials]

    assert designs(1) == designs(1)
    assert designs(1) != designs(2)


@pytest.mark.parametrize(("kind", "policy", "context"), KINDS)
def test_open_trials_get_different_designs(kind: str, policy: str, context: str) -> None:
    experiment = Experiment(small(kind, policy, context))
    run(experiment, 1)
    asked = [experiment.ask() for _ in range(4)]
    assert len({tuple(trial.design.values()) for trial in asked}) == 4
    assert [trial.state for trial in experiment.trials[1:]] == ["asked"] * 4
    for trial in reversed(asked):
        experiment.tell(trial, 0)
    assert [trial.outcome for trial in experiment.trials[1:]] == [0.0] * 4


def test_open_trials_do_not_touch_the_posterior() -> None:
    experiment = start()
    run(experiment, 2)
    before = belief(experiment)
    experiment.ask()
    experiment.ask()
    assert torch.equal(belief(experiment), before)


def test_a_second_ask_looks_at_what_the_first_will_probably_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same candidates are scored with and without the open trial's expected outcome."""
    experiment = start(horizon=20)
    run(experiment, 2)
    first = experiment.ask()
    scored = []
    original = LiveEngine.scores

    def scores(engine, data, goal, candidates):
        scored.append(data.context.length)
        return original(engine, data, goal, candidates)

    monkeypatch.setattr(LiveEngine, "scores", scores)
    experiment.ask()
    assert scored == [3]  # two told, one expected
    assert first.outcome is None


def test_pool_with_everything_open_repeats() -> None:
    experiment = start("pool", horizon=10)
    asked = [experiment.ask().design["dose"] for _ in range(6)]
    assert set(asked[:5]) == {0.1, 0.3, 1.0, 3.0, 10.0}


def test_designs_read_as_they_were_written() -> None:
    experiment = start("pool")
    assert experiment.ask().design["dose"] in (0.1, 0.3, 1.0, 3.0, 10.0)


def test_asking_when_finished_is_explained() -> None:
    experiment = start(horizon=2)
    run(experiment, 2)
    assert experiment.finished
    with pytest.raises(StateError, match=r"finished, 2 of 2 trials are told: raise .*horizon"):
        experiment.ask()
    experiment.horizon = 3
    assert not experiment.finished
    experiment.tell(experiment.ask(), 1)
    assert experiment.finished


def test_asking_for_more_than_is_left_is_explained() -> None:
    experiment = start(horizon=3)
    trials = [experiment.ask() for _ in range(3)]
    with pytest.raises(StateError, match=r"3 trials are open \(0, 1, 2\): tell or abandon"):
        experiment.ask()
    experiment.abandon(trials[1])
    assert experiment.ask().number == 3


def test_attached_data_does_not_use_up_the_horizon() -> None:
    experiment = start(horizon=2)
    experiment.attach({"stimulus": [0.0, 1.0, 2.0]}, [0, 1, 1])
    assert not experiment.finished
    run(experiment, 2)
    assert experiment.finished


# Telling.


def test_telling_another_design() -> None:
    experiment = start()
    asked = experiment.ask()
    told = experiment.tell(asked, True, design={"stimulus": 1.25})
    assert told == experiment.trials[0]
    assert told.design == {"stimulus": 1.25}
    assert told.proposed == asked.design
    direct = start()
    direct.attach({"stimulus": [1.25]}, [1])
    assert torch.equal(belief(experiment), belief(direct))


def test_telling_the_proposed_design_is_no_change() -> None:
    experiment = start()
    asked = experiment.ask()
    assert experiment.tell(asked, 1, design=asked.design).proposed is None


@pytest.mark.parametrize(
    "outcome", [1, 1.0, True, np.int64(1), np.bool_(True), torch.tensor(1), torch.tensor([1.0])]
)
def test_outcomes_come_in_many_types(outcome: object) -> None:
    experiment = start()
    assert experiment.tell(experiment.ask(), outcome).outcome == 1.0


def test_order_of_tells_does_not_matter() -> None:
    beliefs = []
    for order in permutations(range(3)):
        experiment = start()
        trials = [experiment.ask() for _ in range(3)]
        for number in order:
            experiment.tell(trials[number], number % 2)
        beliefs.append(belief(experiment))
    for other in beliefs[1:]:
        assert torch.allclose(other, beliefs[0], atol=1e-5)


def test_target_changes_what_is_asked_and_never_the_posterior() -> None:
    experiment = start(target="threshold", horizon=30)
    run(experiment, 3)
    before, first = belief(experiment), experiment._state.choice
    designs = {tuple(first.values())}
    for target in ("slope", ["threshold", "slope"], aline.predictions(at={"stimulus": [4.0]})):
        experiment.target = target
        assert torch.equal(belief(experiment), before)
        designs.add(tuple(experiment._state.choice.values()))
    scores = []
    candidates = torch.linspace(-1, 1, 20)[None, :, None]
    for target in ("threshold", "slope"):
        experiment.target = target
        state = experiment._state
        scores.append(state.engine.scores(state.data, state.goal, candidates))
    assert not torch.allclose(*scores)


def test_a_goal_beyond_the_trained_ones_is_pursued_in_turns(tmp_path: Path) -> None:
    """As if the experimenter had changed the goal before every trial; the posterior cannot tell."""
    url = f"sqlite:///{tmp_path}/lab.db"
    point = aline.predictions(at={"stimulus": [2.0]})
    whole = start(storage=url, target=["threshold", "slope", point], horizon=30)
    by_hand = start(horizon=30)
    for number in range(5):
        by_hand.target = point if number % 2 else ["threshold", "slope"]
        trial, other = whole.ask(), by_hand.ask()
        assert trial.design == other.design
        for experiment in (whole, by_hand):
            experiment.tell(experiment.trials[number], number % 3 == 0)
        assert torch.equal(belief(whole), belief(by_hand))
    expected = whole._state.choice
    assert Experiment.resume(url, model=small())._state.choice == expected


def test_trials_asked_ahead_take_their_turns_too() -> None:
    model = aline.load("psychometric")
    experiment = Experiment(model, target=["threshold", "slope", "guess", "lapse"])
    for number in range(6):
        experiment.tell(experiment.ask(), number % 2)
    ahead = [abs(experiment.ask().design["stimulus"]) for _ in range(4)]
    assert min(ahead) < 3 < 4 < max(ahead)


def test_targets_survive_a_resume(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    target = ["slope", aline.predictions(at={"stimulus": torch.tensor([0.5, 1.5])})]
    experiment = start(storage=url, target=target)
    expected = ["slope", aline.predictions(at={"stimulus": [0.5, 1.5]})]
    assert experiment.target == expected
    assert Experiment.resume(url, model=small()).target == expected
    experiment.target = None
    assert Experiment.resume(url, model=small()).target == ["threshold", "slope"]


def test_default_target_without_parameters_is_predictions() -> None:
    assert start("predictions-only").target == ["predictions"]


def test_one_forward_pass_serves_the_posterior_and_the_next_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment = start()
    run(experiment, 2)
    runner, runs = experiment._state.engine.runner, []
    original = runner.run
    monkeypatch.setattr(runner, "run", lambda given: runs.append(1) or original(given))
    posterior = experiment.posterior()
    assert experiment.posterior() is posterior
    experiment.ask()
    assert len(runs) == 1


# Abandoning, redoing, attaching, restricting.


def test_abandoning_an_open_trial() -> None:
    experiment = start()
    trial = experiment.ask()
    assert experiment.abandon(trial).state == "abandoned"
    with pytest.raises(StateError, match="trial 0 cannot be told, it is abandoned already"):
        experiment.tell(trial, 1)
    assert torch.equal(belief(experiment), belief(start()))


def test_abandoning_a_told_trial_takes_its_outcome_out(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    experiment = start(storage=url)
    run(experiment, 3)
    experiment.abandon(1)
    assert not experiment.finished
    assert experiment.trials[1].state == "abandoned"
    without = start()
    kept = [experiment.trials[0], experiment.trials[2]]
    without.attach({"stimulus": [t.design["stimulus"] for t in kept]}, [t.outcome for t in kept])
    assert torch.allclose(belief(experiment), belief(without), atol=1e-6)
    assert torch.equal(belief(Experiment.resume(url, model=small())), belief(experiment))
    with pytest.raises(StateError, match="it is abandoned already"):
        experiment.abandon(1)


def test_redoing_an_open_trial_replaces_it() -> None:
    experiment = start(horizon=1)
    trial = experiment.ask()
    again = experiment.redo(trial)
    assert again == Trial(1, trial.design)
    assert [t.state for t in experiment.trials] == ["abandoned", "asked"]
    experiment.tell(again, 1)
    assert experiment.finished


def test_redoing_a_told_trial_repeats_it() -> None:
    experiment = start()
    run(experiment, 1)
    again = experiment.redo(0)
    experiment.tell(again, 1)
    assert [t.state for t in experiment.trials] == ["told", "told"]
    assert experiment.trials[1].design == experiment.trials[0].design


def test_attaching_earlier_data() -> None:
    experiment = start("real-box", policy="box")
    trials = experiment.attach(
        {"x": np.array([0.1, 0.5]), "time": torch.tensor([1.0, 2.0])}, np.array([99.0, 104.0])
    )
    assert trials == experiment.trials
    assert trials[1].design == {"x": 0.5, "time": 2.0}
    assert trials[1].outcome == 104.0
    assert {t.source for t in trials} == {"attached"}
    assert experiment.ask().number == 2


def test_restricting_to_points() -> None:
    experiment = start()
    experiment.restrict({"stimulus": [0.1, 0.7, 2.3]})
    for _ in range(6):
        trial = experiment.ask()
        assert trial.design["stimulus"] in (0.1, 0.7, 2.3)
        experiment.tell(trial, 1)


@pytest.mark.parametrize("policy", ["pool", "box"])
def test_restricting_to_a_box(policy: str) -> None:
    experiment = start("real-box", policy)
    experiment.restrict(Box(time=(2.0, 2.5)))
    for _ in range(5):
        trial = experiment.ask()
        assert 2.0 <= trial.design["time"] <= 2.5
        experiment.tell(trial, 100)
    experiment.restrict(None)
    assert not experiment._state.allowed.part


def test_restricting_a_pool_to_a_box_keeps_its_points() -> None:
    experiment = start("pool")
    experiment.restrict(Box(dose=(0.2, 2.0)))
    asked = {experiment.ask().design["dose"] for _ in range(4)}
    assert asked == {0.3, 1.0}


def test_restricting_with_pools_and_grids() -> None:
    experiment = start("real-box", "box")
    experiment.restrict(Grid(x=[0.25, 0.75], time=[1, 2]))
    assert experiment.ask().design["x"] in (0.25, 0.75)
    experiment.restrict(Pool(time=[3, 4], x=[0.1, 0.2]))
    assert experiment.ask().design in ({"x": 0.1, "time": 3}, {"x": 0.2, "time": 4})


def test_without_repeats_no_point_comes_twice() -> None:
    experiment = start("pool", horizon=10)
    experiment.restrict(repeats=False)
    experiment.tell(experiment.ask(), 0, design={"dose": 3.0})
    run(experiment, 2)
    experiment.ask()
    doses = [trial.design["dose"] for trial in experiment.trials]
    assert len(set(doses)) == 4
    remaining = 5 - len(set(doses))
    for _ in range(remaining):
        experiment.ask()
    with pytest.raises(StateError, match="all 5 designs on offer are measured or open"):
        experiment.ask()


def test_restrictions_survive_a_resume(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    experiment = start(storage=url)
    experiment.restrict({"stimulus": [0.25, 0.75]}, repeats=False)
    first = experiment.ask().design["stimulus"]
    second = Experiment.resume(url, model=small()).ask().design["stimulus"]
    assert {first, second} == {0.25, 0.75}


# Stopping.


def test_stopping_rule_on_posterior_width() -> None:
    low, high = start().posterior().interval("threshold")
    assert start(stop={"threshold": (high - low) * 1.01}).finished
    assert not start(stop={"threshold": (high - low) * 0.99}).finished
    wide = 1e6
    assert not start(stop={"threshold": (high - low) * 0.99, "slope": wide}).finished
    experiment = start(stop={"slope": wide})
    with pytest.raises(StateError, match=r"its stopping rule holds: set experiment.stop = None"):
        experiment.ask()
    experiment.stop = None
    assert experiment.stop == {}
    experiment.ask()


def test_stopping_rule_survives_a_resume(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    experiment = start("real-box", storage=url)
    experiment.stop = {"w_3": 1.0}
    assert experiment.finished
    resumed = Experiment.resume(url, model=small("real-box"))
    assert resumed.stop == {"w_3": 1.0}
    assert resumed.finished


# Mistakes: one clear line, and nothing has changed.

MISTAKES = [
    (lambda e: e.tell(0, math.nan), "a binary outcome must be 0 or 1"),
    (lambda e: e.tell(0, 2), "a binary outcome must be 0 or 1 .* got 2"),
    (lambda e: e.tell(0, [1, 0]), r"an outcome must be one number, got shape \(2,\)"),
    (lambda e: e.tell(0, "yes"), "an outcome must be a number, got 'yes'"),
    (lambda e: e.tell(0, None), "an outcome must be a number, got None"),
    (lambda e: e.tell(9, 1), "trials are numbered from 0 to 2, got 9"),
    (lambda e: e.tell(-1, 1), "trials are numbered from 0 to 2, got -1"),
    (lambda e: e.tell("first", 1), "a trial is what ask.* got 'first'"),
    (lambda e: e.tell(True, 1), "a trial is what ask.* got True"),
    (lambda e: e.tell(1, 1), "trial 1 cannot be told, it is told already; open trials: 0"),
    (lambda e: e.tell(2, 1), "trial 2 cannot be told, it is abandoned already"),
    (lambda e: e.tell(Trial(0, {"stimulus": 4.5}), 1), "trial 0 of this experiment has another"),
    (lambda e: e.tell(0, 1, {"stimulus": 7.3}), r"stimulus must lie in \[-5, 5\], got 7.3"),
    (lambda e: e.tell(0, 1, {"stimulus": math.nan}), r"stimulus must lie in \[-5, 5\], got nan"),
    (lambda e: e.tell(0, 1, {"stimulus": [1, 2]}), "a trial has one design, got 2"),
    (lambda e: e.tell(0, 1, {"contrast": 1}), "must name exactly stimulus, got contrast"),
    (lambda e: e.tell(0, 1, 3.0), "a design must name its axes, got 3.0"),
    (lambda e: e.tell(0, 1, {"stimulus": "high"}), "must be a number .* got 'high'"),
    (lambda e: e.abandon(2), "trial 2 cannot be abandoned, it is abandoned already"),
    (lambda e: e.redo(5), "trials are numbered from 0 to 2, got 5"),
    (lambda e: e.attach({"stimulus": [0, 1]}, [1]), "got 2 designs and 1 outcomes"),
    (lambda e: e.attach({"stimulus": []}, []), "got 0 designs and 0 outcomes"),
    (lambda e: e.attach({"stimulus": [0, 9]}, [1, 1]), r"must lie in \[-5, 5\], got 9"),
    (lambda e: e.attach({"stimulus": [0, 1]}, [1, math.inf]), "must be 0 or 1"),
    (lambda e: e.restrict({"stimulus": [9]}), r"must lie in \[-5, 5\], got 9"),
    (lambda e: e.restrict({"stimulus": []}), "at least one design"),
    (lambda e: e.restrict({"time": [1]}), "must name exactly stimulus"),
    (lambda e: e.restrict(Box(stimulus=(-9, 0))), r"got \(-9, 0\): a restriction only narrows"),
    (lambda e: e.restrict(Box(time=(0, 1))), "designs have the axes stimulus, got time"),
    (lambda e: setattr(e, "target", "threshhold"), "got 'threshhold'"),
    (lambda e: setattr(e, "target", []), "at least one of threshold, slope, got none"),
    (lambda e: setattr(e, "target", [3]), "a target is a parameter's name, .* got 3"),
    (lambda e: setattr(e, "target", 3), "a target is a parameter's name, .* got 3"),
    (
        lambda e: setattr(e, "target", aline.predictions(at={"stimulus": [9]})),
        r"must lie in \[-5, 5\], got 9",
    ),
    (lambda e: setattr(e, "horizon", 0), "horizon must be a whole number, at least 1, got 0"),
    (lambda e: setattr(e, "horizon", 2.5), "horizon must be a whole number, at least 1, got 2.5"),
    (
        lambda e: setattr(e, "stop", {"bias": 1}),
        "stop takes widths of threshold, slope, got 'bias'",
    ),
    (lambda e: setattr(e, "stop", {"slope": -1}), "for slope must be positive, got -1"),
    (lambda e: setattr(e, "stop", 0.5), "stop maps names to widths.* got 0.5"),
    (lambda e: e.predict({"stimulus": 9}), r"must lie in \[-5, 5\], got 9"),
    (lambda e: e.posterior()["bias"], "got 'bias'"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
@pytest.mark.parametrize("storage", ["memory", "sqlite"])
def test_a_mistake_is_explained_and_changes_nothing(
    mistake, message: str, storage: str, tmp_path: Path
) -> None:
    url = "memory://" if storage == "memory" else f"sqlite:///{tmp_path}/lab.db"
    experiment = start(storage=url)
    trials = [experiment.ask() for _ in range(3)]
    experiment.tell(trials[1], 1)
    experiment.abandon(trials[2])
    before = snapshot(experiment)
    with pytest.raises(AlineError, match=message) as caught:
        mistake(experiment)
    assert "\n" not in str(caught.value)
    assert snapshot(experiment) == before
    experiment.tell(trials[0], 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": "bias"}, "got 'bias'"),
        ({"horizon": -3}, "at least 1, got -3"),
        ({"candidates": 0}, "candidates must be a whole number, at least 1, got 0"),
        ({"seed": "lucky"}, "seed must be a whole number, got 'lucky'"),
        ({"stop": {"threshold": math.nan}}, "must be positive, got nan"),
        ({"name": ""}, "an experiment's name must .* got ''"),
        ({"storage": "mysql://lab"}, "storage must be .* got 'mysql://lab'"),
    ],
)
def test_a_mistake_at_the_start_creates_nothing(settings, message: str, tmp_path: Path) -> None:
    storage = MemoryStorage()
    with pytest.raises(AlineError, match=message):
        Experiment(small(), **{"storage": storage, **settings})
    assert storage.names() == []


def test_a_model_is_needed() -> None:
    with pytest.raises(InputError, match=r"takes a trained model, got 'psychometric': pass aline"):
        Experiment("psychometric")


def test_a_real_outcome_must_be_finite() -> None:
    experiment = start("real-box")
    trial = experiment.ask()
    with pytest.raises(InputError, match="finite number, got nan: abandon the trial"):
        experiment.tell(trial, math.nan)
    experiment.tell(trial, 101.5)


def test_a_failed_write_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    experiment = start(storage=storage)
    trial = experiment.ask()
    before = snapshot(experiment)

    def full(*_: object) -> None:
        raise StorageError("lab.db: the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "append", full)
        with pytest.raises(StorageError, match="disk is full"):
            experiment.tell(trial, 1)
    assert snapshot(experiment) == before
    experiment.tell(trial, 1)


def test_a_failed_forward_pass_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = start()
    trial = experiment.ask()
    before = snapshot(experiment)
    with monkeypatch.context() as patch:
        patch.setattr(LiveEngine, "extend", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            experiment.tell(trial, 1)
    assert snapshot(experiment) == before
    experiment.tell(trial, 1)


def test_an_interrupt_after_the_write_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored but not yet seen: the next call finds it."""
    storage = MemoryStorage()
    experiment = start(storage=storage)
    trial, write = experiment.ask(), storage.append

    def interrupted(*arguments: object) -> None:
        write(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(storage, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            experiment.tell(trial, 1)
    with pytest.raises(StateError, match="trial 0 cannot be told, it is told already"):
        experiment.tell(trial, 1)
    assert experiment.trials[0].outcome == 1.0


def test_trials_cannot_be_changed_from_outside() -> None:
    experiment = start()
    trial = experiment.ask()
    with pytest.raises(FrozenInstanceError):
        trial.outcome = 1.0
    trial.design["stimulus"] = 99.0
    experiment.trials[0].design["stimulus"] = 99.0
    assert experiment.trials[0].design["stimulus"] != 99.0
    with pytest.raises(StateError, match="another design"):
        experiment.tell(trial, 1)


# Storage and resuming.


def test_names_are_given_in_order(tmp_path: Path) -> None:
    storage = open_storage(f"sqlite:///{tmp_path}/lab.db")
    first, second = start(storage=storage), start(storage=storage)
    named = start(storage=storage, name="subject 7")
    assert [first.name, second.name, named.name] == ["small-1", "small-2", "subject 7"]
    with pytest.raises(StateError, match="named 'subject 7' is in this storage already"):
        start(storage=storage, name="subject 7")
    with pytest.raises(StateError, match="holds 'small-1', 'small-2', 'subject 7': say which"):
        Experiment.resume(storage, model=small())
    assert Experiment.resume(storage, "subject 7", small()).name == "subject 7"
    with pytest.raises(NotFoundError, match="got 'subject 8'"):
        Experiment.resume(storage, "subject 8", small())


def test_resuming_nothing_is_explained(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no database at"):
        Experiment.resume(f"sqlite:///{tmp_path}/typo.db")
    assert not list(tmp_path.iterdir())
    with pytest.raises(NotFoundError, match="the storage holds no experiment"):
        Experiment.resume("memory://")


def test_the_model_is_found_where_it_was(tmp_path: Path) -> None:
    folder, url = small().save(tmp_path / "model"), f"sqlite:///{tmp_path}/lab.db"
    experiment = Experiment(aline.load(folder), storage=url)
    run(experiment, 2)
    assert torch.equal(belief(Experiment.resume(url)), belief(experiment))
    folder.rename(tmp_path / "moved")
    with pytest.raises(NotFoundError, match=r"is no longer at .*model: pass it"):
        Experiment.resume(url)
    assert Experiment.resume(url, model=aline.load(tmp_path / "moved")).trials == experiment.trials


def test_a_model_in_memory_must_be_passed() -> None:
    storage = MemoryStorage()
    start(storage=storage)
    with pytest.raises(StateError, match="was in memory only: pass it"):
        Experiment.resume(storage)


def test_another_model_is_refused() -> None:
    storage = MemoryStorage()
    start(storage=storage)
    network = fresh(TASKS["binary-box"].spec, ModelConfig(**SIZES), torch.Generator())
    with pytest.raises(StateError, match="was run with another model of task 'small'"):
        Experiment.resume(storage, model=Model(network))


def test_measurements_on_a_card_do_not_make_another_model() -> None:
    storage = MemoryStorage()
    start(storage=storage)
    measured = replace(small(), measurements={"gap": 0.01}, training={"seconds": 3})
    Experiment.resume(storage, model=measured)


def _write(events: list[dict[str, object]]) -> MemoryStorage:
    storage = MemoryStorage()
    storage.create("a", {**start()._storage.read("small-1")[0]})
    for sequence, event in enumerate(events, 1):
        storage.append("a", sequence, event)
    return storage


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([{"event": "teleported"}], "event 'teleported' that this aline does not know: upgrade"),
        ([{"event": "told", "trial": 0, "outcome": 1.0}], "event 1 .* does not fit"),
        ([{"event": "asked", "trial": 3, "design": {"stimulus": 1}}], "starts trial 3 after 0"),
        ([{"event": "asked", "trial": 0}], "event 1 .* does not fit"),
    ],
)
def test_a_journal_that_makes_no_sense_is_refused(events, message: str) -> None:
    with pytest.raises(StorageError, match=message):
        Experiment.resume(_write(events), model=small())


def test_a_journal_of_a_newer_aline_is_refused() -> None:
    storage = MemoryStorage()
    storage.create("a", {**start()._storage.read("small-1")[0], "version": 99})
    with pytest.raises(StorageError, match="written by a newer aline: upgrade"):
        Experiment.resume(storage, model=small())


def test_two_objects_on_one_experiment(tmp_path: Path) -> None:
    """Each sees what the other did as soon as it writes; no trial is told twice."""
    url = f"sqlite:///{tmp_path}/lab.db"
    one = start(storage=url, horizon=20)
    two = Experiment.resume(url, model=small())
    a, b = one.ask(), two.ask()
    assert (a.number, b.number) == (0, 1)
    assert a.design != b.design
    one.tell(a, 1)
    with pytest.raises(StateError, match="trial 0 cannot be told, it is told already"):
        two.tell(a.number, 0)
    two.tell(b, 0)
    one.target = "slope"
    assert two.attach({"stimulus": [1.0]}, [1])[0].number == 2
    one.ask()
    assert one.trials[:3] == two.trials
    assert torch.equal(belief(one), belief(two))
    assert two.target == ["slope"]


# Invariants.

outcomes = st.lists(st.booleans(), min_size=0, max_size=8)
stimuli = st.floats(-5, 5, width=32)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask")),
        st.tuples(st.just("tell"), st.booleans()),
        st.tuples(st.just("tell elsewhere"), st.booleans(), stimuli),
        st.tuples(st.just("abandon")),
        st.tuples(st.just("redo")),
        st.tuples(st.just("attach"), st.lists(st.tuples(stimuli, st.booleans()), min_size=1)),
        st.tuples(st.just("target"), st.sampled_from(["threshold", "slope", None])),
        st.tuples(st.just("restrict"), st.lists(stimuli, min_size=1)),
    ),
    max_size=12,
)


def _step(experiment: Experiment, kind: str, *values) -> None:
    open_trials = [trial for trial in experiment.trials if trial.state == "asked"]
    if kind == "ask":
        experiment.ask()
    elif kind == "attach":
        experiment.attach({"stimulus": [x for x, _ in values[0]]}, [y for _, y in values[0]])
    elif kind == "target":
        experiment.target = values[0]
    elif kind == "restrict":
        experiment.restrict({"stimulus": values[0]})
    elif open_trials and kind == "tell":
        experiment.tell(open_trials[-1], values[0])
    elif open_trials and kind == "tell elsewhere":
        experiment.tell(open_trials[0], values[0], {"stimulus": values[1]})
    elif experiment.trials and kind == "abandon":
        trial = experiment.trials[-1]
        if trial.state != "abandoned":
            experiment.abandon(trial)
    elif experiment.trials and kind == "redo":
        experiment.redo(experiment.trials[0])


@settings(max_examples=60, deadline=None)
@given(steps)
def test_replay_equals_live(history) -> None:
    storage = MemoryStorage()
    live = start(storage=storage, horizon=100)
    for kind, *values in history:
        _step(live, kind, *values)
    replayed = Experiment.resume(storage, model=small())
    assert replayed.trials == live.trials
    assert replayed.target == live.target
    assert torch.allclose(belief(replayed), belief(live), atol=1e-6)
    assert replayed.posterior().mean == pytest.approx(live.posterior().mean, abs=1e-6)
    assert replayed._state.choice == live._state.choice


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(stimuli, st.booleans()), min_size=1, max_size=12), st.randoms())
def test_order_of_the_data_does_not_matter(data, random) -> None:
    shuffled = data.copy()
    random.shuffle(shuffled)
    beliefs = []
    for rows in (data, shuffled):
        experiment = start()
        experiment.attach({"stimulus": [x for x, _ in rows]}, [y for _, y in rows])
        beliefs.append(belief(experiment))
    assert torch.allclose(*beliefs, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(-(2**63), 2**63))
def test_any_seed_will_do(seed: int) -> None:
    start(seed=seed).ask()


@pytest.mark.parametrize(("kind", "policy", "context"), KINDS)
def test_predictions_have_one_row_a_design(kind: str, policy: str, context: str) -> None:
    experiment = Experiment(small(kind, policy, context))
    run(experiment, 2)
    points = {name: [0.2, 0.4, 0.9] for name in TASKS[kind].spec.design.names}
    found = experiment.predict(points)
    assert len(found) == 3
    assert found.mean.shape == found.std.shape == (3,)
    low, high = found.interval()
    assert bool((low <= high).all())
    assert found.log_prob([0, 1, 0]).shape == (3,)
    found.mean.requires_grad_()  # an ordinary tensor, not one of inference mode


# Keys, metadata, closing, and others who write.


def test_a_repeated_call_with_its_key_counts_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    experiment = start(storage=url)
    asked = experiment.ask(key="ask 1")
    assert experiment.ask(key="ask 1") == asked
    told = experiment.tell(asked, 1, key="tell 1")
    before = snapshot(experiment)
    assert experiment.tell(asked, 1, key="tell 1") == told
    resumed = Experiment.resume(url, model=small())
    assert resumed.tell(asked, 1, key="tell 1") == told
    assert resumed.ask(key="ask 1") == told  # the trial as it is now
    assert snapshot(experiment) == before
    added = experiment.attach({"stimulus": [1.0, 2.0]}, [0, 1], key="data")
    assert experiment.attach({"stimulus": [1.0, 2.0]}, [0, 1], key="data") == added
    assert experiment.abandon(2, key="oops") == experiment.abandon(2, key="oops")
    assert experiment.redo(2, key="again") == experiment.redo(2, key="again")
    assert len(experiment.trials) == 4


def test_a_key_marks_one_call() -> None:
    experiment = start()
    trial = experiment.ask(key="a")
    experiment.tell(trial, 1, key="b")
    before = snapshot(experiment)
    for call in (
        lambda: experiment.tell(trial, 0, key="b"),
        lambda: experiment.tell(trial, 1, key="a"),
        lambda: experiment.abandon(trial, key="b"),
        lambda: experiment.ask(key="b"),
    ):
        with pytest.raises(StateError, match=r"the key '.' has marked another call"):
            call()
    for key in ("", "x" * 201, 7):
        with pytest.raises(InputError, match="a key must be a text of 1 to 200 characters"):
            experiment.ask(key=key)
    assert snapshot(experiment) == before


def test_undo_takes_the_last_outcome_back_and_asks_it_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    experiment = start(storage=url)
    with pytest.raises(StateError, match="nothing to take back"):
        experiment.undo()
    run(experiment, 1)
    before = belief(experiment)
    run(experiment, 1)
    mistaken, left = experiment.trials[1], experiment.ask()
    again = experiment.undo(key="u")
    assert experiment.undo(key="u") == again
    assert again == Trial(3, mistaken.design)
    states = [trial.state for trial in experiment.trials]
    assert states == ["told", "abandoned", "abandoned", "asked"]
    assert left.number == 2
    assert torch.allclose(belief(experiment), before, atol=1e-6)
    resumed = Experiment.resume(url, model=small())
    assert resumed.trials == experiment.trials
    assert torch.allclose(belief(resumed), before, atol=1e-6)


def test_a_snapshot_stays_as_it_was() -> None:
    experiment = start()
    run(experiment, 1)
    moment = experiment.snapshot()
    run(experiment, 1)
    assert len(moment.trials) == 1
    assert len(moment.history()) == 2
    assert len(experiment.history()) == 3


def test_metadata_stays_with_the_experiment(tmp_path: Path) -> None:
    url, metadata = f"sqlite:///{tmp_path}/lab.db", {"participant": 7, "notes": ["left eye"]}
    start(storage=url, metadata=metadata)
    resumed = Experiment.resume(url, model=small())
    assert resumed.metadata == metadata
    assert resumed.created.endswith("+00:00")
    for wrong in ({"x": float("nan")}, {"x": object()}, [1], "text"):
        with pytest.raises(InputError, match="metadata"):
            start(metadata=wrong)


def test_a_closed_experiment_can_only_be_looked_at(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    experiment = start(storage=url)
    run(experiment, 2)
    trial = experiment.ask()
    experiment.close()
    experiment.close()
    assert experiment.finished
    assert experiment.closed
    resumed = Experiment.resume(url, model=small())
    before = snapshot(resumed)
    for call in (
        resumed.ask,
        lambda: resumed.tell(trial, 1),
        lambda: resumed.abandon(trial),
        lambda: resumed.attach({"stimulus": [0.0]}, [1]),
        lambda: setattr(resumed, "horizon", 9),
    ):
        with pytest.raises(StateError, match="is closed: start a new one"):
            call()
    assert snapshot(resumed) == before


def test_refreshing_takes_in_what_others_did(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    one = start(storage=url)
    two = Experiment.resume(url, model=small())
    run(one, 2)
    assert two.trials == ()
    assert two.refresh()
    assert not two.refresh()
    assert two.trials == one.trials
    assert torch.equal(belief(two), belief(one))


@pytest.mark.parametrize(("kind", "policy", "context"), KINDS)
def test_history_is_what_was_known_at_each_observation(
    kind: str, policy: str, context: str
) -> None:
    experiment = Experiment(small(kind, policy, context))
    seen = [experiment.posterior()]
    for _ in range(3):
        experiment.tell(experiment.ask(), 1)
        seen.append(experiment.posterior())
        if len(seen) == 3:
            assert _summaries(experiment.history()) == pytest.approx(_summaries(seen), abs=1e-5)
    assert _summaries(experiment.history()) == pytest.approx(_summaries(seen), abs=1e-5)
    experiment.abandon(2)
    assert _summaries(experiment.history()) == pytest.approx(_summaries(seen[:3]), abs=1e-5)
    experiment.abandon(0)
    assert len(experiment.history()) == 2
    assert _summaries(experiment.history())[-1:] == pytest.approx(
        _summaries([experiment.posterior()])[-1:], abs=1e-5
    )


def _summaries(posteriors: list) -> list[float]:
    return [value for one in posteriors for value in (*one.mean.values(), *one.std.values())]
