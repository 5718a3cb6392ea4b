"""Experiments on designs as labs have them: searched, stored and read by their axes' kinds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lab_tasks import choice_task, item_task, side_task, sweep_task
from small import seeded, small_model

import aline
from aline.episodes import RandomPolicy, goal_of, offers_of, play
from aline.errors import InputError, StateError
from aline.experiment import Experiment
from aline.spaces import Box, Levels, Log
from aline.tasks import Task

TRAINING = {"batch": 16, "updates": 2, "prefixes": 2, "points": 2, "candidates": 6}
SIZES = {"width": 16, "heads": 2, "layers": 2, "feedforward": 32, "components": 3}


def run(experiment: Experiment) -> None:
    while not experiment.finished:
        experiment.tell(experiment.ask(), 1)


@pytest.mark.parametrize("make", [choice_task, side_task, sweep_task, item_task])
def test_a_stored_experiment_is_the_same_after_a_resume(make: Any, tmp_path: Path) -> None:
    task: Task = make()
    small_model(task).save(tmp_path / "model")
    url = f"sqlite:///{tmp_path}/lab.db"
    experiment = Experiment(aline.load(tmp_path / "model"), storage=url)
    first = experiment.ask()
    assert task.spec.design.read(first.design).shape == (1, len(task.spec.design))
    experiment.tell(first, 1)
    again = Experiment.resume(url)
    assert again.trials == experiment.trials
    assert again._state.choice == experiment._state.choice
    assert experiment.to_frame()[list(task.spec.design.names)].iloc[0].to_dict() == first.design


def test_asks_keep_to_values_and_conditions() -> None:
    task = choice_task()
    experiment = Experiment(small_model(task), horizon=12)
    run(experiment)
    for trial in experiment.trials:
        design = trial.design
        assert design["delay"] in (1, 7, 30, 180)
        assert design["frame"] in ("gain", "loss")
        assert float(design["amount"]) > 100 * float(design["cost"])
    assert "frame " + str(experiment.trials[0].design["frame"]) in repr(experiment.trials[0])


def test_restricting_some_axes() -> None:
    experiment = Experiment(small_model(choice_task()), horizon=12)
    experiment.restrict(Box(frame=["loss"], delay=(5, 50), cost=Log(0.1, 1)))
    for _ in range(6):
        design = experiment.ask().design
        assert (design["frame"], float(design["delay"]) in (7, 30)) == ("loss", True)
        assert 0.1 <= float(design["cost"]) <= 1
    with pytest.raises(InputError, match="frame must be one of gain, loss, none, got 'win'"):
        experiment.restrict(Box(frame=["win"]))
    with pytest.raises(InputError, match=r"no design of .* satisfies"):
        experiment.restrict(Box(frame=["none"]))
    with pytest.raises(InputError, match="amount takes bounds here"):
        experiment.restrict(Box(amount=Levels([10, 20])))


def test_predictions_in_a_region_of_named_levels() -> None:
    region = aline.predictions(region=Box(frame=["gain"], delay=[1, 7, 30]))
    experiment = Experiment(small_model(choice_task()), target=[region])
    points = experiment._state.goal.points[0]
    columns = experiment.spec.design.name_columns(points)
    assert set(columns["frame"].tolist()) == {0}
    assert set(columns["delay"].tolist()) == {1, 7, 30}
    assert bool(experiment.spec.design.allows(points).all())
    experiment.ask()


def test_items_of_a_bank_are_used_once_by_everyone() -> None:
    task = item_task()
    experiment = Experiment(small_model(task), horizon=6)
    run(experiment)
    assert {trial.design["item"] for trial in experiment.trials} == {f"q{i}" for i in range(1, 7)}
    experiment.horizon = 7
    with pytest.raises(StateError, match="all 6 designs on offer are measured or open"):
        experiment.ask()
    experiment.restrict(None, repeats=True)
    experiment.ask()
    world, goal = task.draw(8, seeded(0)), goal_of(task.spec, ["ability"]).repeat(8)
    given = task.spec.design.sample(8, 2, seeded(1))
    offers = offers_of(task.spec.design, 8)
    policy = RandomPolicy(task.spec.design)
    played = play(policy, world, goal, steps=6, generator=seeded(2), offers=offers, given=given)
    for designs in played.designs[..., 0]:
        assert len(set(designs.tolist())) == 6
    with pytest.raises(InputError, match="one for each of 9 trials, got 6"):
        item_task(6, 9)


@pytest.mark.parametrize("make", [choice_task, item_task])
def test_a_training_meets_only_what_is_possible(make: Any, monkeypatch: Any) -> None:
    task: Task = make()
    seen: list[dict[str, torch.Tensor]] = []

    def watched(theta: Any, design: Any, generator: torch.Generator) -> Any:
        seen.append(design)
        return make().simulate(theta, design, generator)

    task.simulate = watched
    config = {**TRAINING, "warmup": 0.0, "random_share": 0.0}
    model = aline.train(task, rounds=2, model=SIZES, config=config, progress=False, verdict=False)
    assert len(seen) > 4
    condition = model.spec.design.condition
    for columns in seen:
        assert condition is None or bool(condition(columns).all())
    episodes = [c["item"] for c in seen if "item" in c and c["item"].shape[1] == 1]
    played = torch.cat(episodes[: task.spec.horizon], 1) if episodes else torch.zeros(0, 1)
    for items in played.tolist():
        assert len(set(items)) == len(items)


def test_a_policy_learns_which_level_tells() -> None:
    config = {**TRAINING, "batch": 32, "updates": 3, "learning_rate": 3e-3}
    model = aline.train(
        side_task(), rounds=16, model=SIZES, config=config, progress=False, verdict=False
    )
    experiment = Experiment(model)
    assert experiment.ask().design == {"side": "middle"}


def test_a_condition_of_its_own_functions_needs_the_task(tmp_path: Path) -> None:
    task = sweep_task()
    odd = Box(dose=Log(0.01, 10), hours=[1, 2, 24]).where(
        lambda d: torch.log(d["dose"]) < d["hours"]
    )
    task.spec = replace(task.spec, design=odd)
    small_model(task).save(tmp_path)
    with pytest.raises(StateError, match=r"aline.load\(MODEL, task=task\)"):
        Experiment(aline.load(tmp_path)).ask()
    trial = Experiment(aline.load(tmp_path, task=task)).ask()
    assert bool(odd.allows(odd.read(trial.design)).all())


def test_a_box_policy_is_refused_where_it_would_propose_what_is_impossible() -> None:
    with pytest.raises(InputError, match="sets of values or a condition: use policy='pool'"):
        aline.train(choice_task(), rounds=1, model={**SIZES, "policy": "box"}, progress=False)
