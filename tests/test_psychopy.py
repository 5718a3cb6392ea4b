"""The handler without PsychoPy: its protocol, its files, and the example script."""

import csv
import json
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from small import save_detection, small_model

import aline
from aline.errors import InputError, StateError
from aline.psychopy import AlineHandler, MultiAline
from aline.tasks import get

EXAMPLE = Path(__file__).parents[1] / "examples" / "psychopy_detection.py"


def handler(**options: Any) -> AlineHandler:
    return AlineHandler(small_model("psychometric"), **{"nTrials": 4, **options})


def answered(handler: AlineHandler) -> AlineHandler:
    for level in handler:
        handler.addResponse(level > 0)
    return handler


def test_it_iterates_over_levels_until_all_trials_are_answered() -> None:
    one = handler()
    assert (one.thisTrialN, one.finished, one.nTrials) == (-1, False, 4)
    levels = []
    for number, level in enumerate(one):
        assert one.thisTrialN == number
        assert -5 <= level <= 5
        levels.append(level)
        one.addResponse(number % 2)
    assert one.intensities == levels
    assert one.responses == one.data == [0.0, 1.0, 0.0, 1.0]
    assert one.finished
    with pytest.raises(StopIteration):
        next(one)


def test_it_is_the_experiment_with_the_same_answers() -> None:
    one = answered(handler(target="threshold", seed=3))
    same = aline.Experiment(small_model("psychometric"), "threshold", horizon=4, seed=3)
    while not same.finished:
        trial = same.ask()
        same.tell(trial, trial.design["stimulus"] > 0)
    assert one.intensities == [trial.design["stimulus"] for trial in same.trials]
    assert one.paramEstimate == same.posterior().mean
    assert one.posterior.interval("slope") == same.posterior().interval("slope")


def test_an_intensity_replaces_the_proposed_one() -> None:
    one = handler()
    next(one)
    one.addResponse(1, intensity=2.5)
    assert one.intensities == [2.5]
    (trial,) = one.experiment.trials
    assert trial.design == {"stimulus": 2.5}
    assert trial.proposed is not None


def test_a_bad_response_loses_nothing() -> None:
    one = handler()
    level = next(one)
    for wrong in ({"result": 0.5}, {"result": 1, "intensity": 99.0}):
        with pytest.raises(InputError):
            one.addResponse(**wrong)
    assert one.intensities == [level]
    one.addResponse(1)
    assert one.responses == [1.0]
    with pytest.raises(StateError, match=r"call next\(\) first"):
        one.addResponse(1)


def test_an_unanswered_trial_is_replaced() -> None:
    one = handler()
    next(one)
    one.addOtherData("note", "blinked")
    again = next(one)
    assert one.thisTrialN == 0
    assert one.intensities == [again]
    assert one.otherData == {"note": []}
    one.addResponse(0)
    assert len(answered(one).responses) == 4


def test_other_data_stays_beside_its_trial() -> None:
    one = handler(nTrials=3)
    with pytest.raises(StateError):
        one.addOtherData("seconds", 1.0)
    for number, _ in enumerate(one):
        one.addResponse(1)
        if number != 1:
            one.addOtherData("seconds", 0.1 * number)
    assert one.otherData == {"seconds": [0.0, None, 0.2]}


def test_levels_may_be_restricted() -> None:
    assert set(answered(handler(intensityVals=[-1.0, 0.5])).intensities) <= {-1.0, 0.5}
    assert all(0 <= level <= 2 for level in answered(handler(minVal=0.0, maxVal=2)).intensities)
    assert answered(handler(startIntensity=4.5)).intensities[0] == 4.5
    with pytest.raises(InputError, match="not both"):
        handler(intensityVals=[0.0], minVal=0.0)
    with pytest.raises(InputError, match="must lie in"):
        handler(startIntensity=9.0)


def test_finished_may_be_set_to_stop() -> None:
    one = handler()
    for _ in one:
        one.addResponse(1)
        one.finished = True
    assert len(one.responses) == 1


def test_the_target_may_change() -> None:
    one = handler(target=["threshold", "slope"])
    next(one)
    one.addResponse(1)
    one.target = ["guess", "lapse"]
    assert one.target == ["guess", "lapse"]
    assert len(answered(one).responses) == 4


def test_earlier_data_counts_but_not_as_trials() -> None:
    one = handler()
    before = one.paramEstimate
    one.importData([0.5, 1.0], [0, 1])
    assert one.paramEstimate != before
    assert len(answered(one).responses) == 4


def test_answers_are_on_disk(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/lab.db"
    one = answered(AlineHandler("psychometric", nTrials=3, storage=storage))
    resumed = aline.Experiment.resume(storage)
    assert resumed.posterior().mean == one.paramEstimate


def test_only_one_axis() -> None:
    with pytest.raises(InputError, match="one level a trial"):
        AlineHandler(small_model("location"))


# Files


def test_json(tmp_path: Path) -> None:
    one = answered(handler(extraInfo={"observer": "ab"}, name="left eye"))
    one.addOtherData("seconds", 0.3)
    text = one.saveAsJson(tmp_path / "ab")
    assert (tmp_path / "ab.json").read_text() == text
    data = json.loads(one.saveAsJson())
    assert data["intensities"] == one.intensities
    assert data["responses"] == one.responses
    assert data["otherData"] == {"seconds": [None, None, None, 0.3]}
    assert data["paramEstimate"] == one.paramEstimate
    assert data["extraInfo"] == {"observer": "ab"}


def test_text(tmp_path: Path) -> None:
    one = answered(handler(extraInfo={"observer": "ab"}))
    one.addOtherData("key", "y")
    path = one.saveAsText(tmp_path / "ab", matrixOnly=True)
    assert path.name == "ab.tsv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [float(row["intensity"]) for row in rows] == one.intensities
    assert [row["key"] for row in rows] == ["", "", "", "y"]
    assert "# observer: ab" in one.saveAsText(tmp_path / "whole.csv").read_text()


def test_files_that_exist_are_kept_unless_told_otherwise(tmp_path: Path) -> None:
    one = answered(handler())
    first = one.saveAsText(tmp_path / "ab")
    assert one.saveAsText(tmp_path / "ab").name == "ab_1.tsv"
    assert one.saveAsText(tmp_path / "ab", fileCollisionMethod="overwrite") == first
    with pytest.raises(StateError, match="exists already"):
        one.saveAsText(tmp_path / "ab", fileCollisionMethod="fail")


# PsychoPy


class Experiment:
    """What PsychoPy's ExperimentHandler does with a loop."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, Any]] = []
        self.ended: list[Any] = []

    def addLoop(self, loop: Any) -> None:  # noqa: N802
        loop.setExp(self)

    def addData(self, name: str, value: Any) -> None:  # noqa: N802
        self.entries.append((name, value))

    def loopEnded(self, loop: Any) -> None:  # noqa: N802
        self.ended.append(loop)


def test_it_is_a_loop_of_an_experiment_handler() -> None:
    one, experiment = handler(name="stairs", nTrials=1), Experiment()
    experiment.addLoop(one)
    assert one.getExp() is experiment
    next(one)
    one.addResponse(1)
    one.addOtherData("rt", 0.5)
    assert list(one) == []
    assert experiment.entries == [("stairs.response", 1), ("stairs.rt", 0.5)]
    assert experiment.ended == [one]


class Observer:
    """PsychoPy's screen and keyboard, with a simulated observer in front of them."""

    def __init__(self) -> None:
        self.contrast = 0.0
        self.shown: list[float] = []
        task = get("psychometric")
        truth = {"threshold": 0.5, "slope": 0.4, "guess": 0.5, "lapse": 0.1}
        self.task, self.world = task, task.world(truth)
        self.generator = torch.Generator().manual_seed(0)

    def draw(self) -> None:
        pass

    def wait_keys(self, keyList: list[str]) -> list[str]:
        assert keyList == ["y", "n", "escape"]
        level = 4 * (torch.tensor(self.contrast).log10() + 1.5)
        self.shown.append(float(level))
        x = self.task.spec.design.read({"stimulus": level.clamp(-5, 5)})[None]
        return ["y" if self.world.answer(x, self.generator).item() > 0 else "n"]


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    observer = Observer()
    nothing = SimpleNamespace(draw=lambda: None, flip=lambda: None, close=lambda: None)
    psychopy = ModuleType("psychopy")
    psychopy.visual = SimpleNamespace(  # type: ignore[attr-defined]
        Window=lambda **options: nothing,
        GratingStim=lambda *arguments, **options: observer,
        TextStim=lambda *arguments: nothing,
    )
    psychopy.event = SimpleNamespace(waitKeys=observer.wait_keys)  # type: ignore[attr-defined]
    clock = SimpleNamespace(reset=lambda: None, getTime=lambda: 0.4)
    psychopy.core = SimpleNamespace(wait=lambda s: None, Clock=lambda: clock)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "psychopy", psychopy)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["psychopy_detection.py", "ab"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert len(observer.shown) == 30
    saved = json.loads((tmp_path / "data" / "ab.json").read_text())
    assert saved["intensities"] == pytest.approx(observer.shown, abs=1e-3)
    assert saved["otherData"]["seconds"] == [0.4] * 30
    low, high = saved["interval95"]["threshold"]
    assert low < 0.5 < high
    assert (tmp_path / "data" / "ab.tsv").is_file()
    assert "threshold" in capsys.readouterr().out


def test_a_handler_goes_on_after_a_crash(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'lab.db'}"
    model = small_model()
    first = AlineHandler(model, nTrials=4, storage=storage, name="left")
    for _ in range(2):
        next(first)
        first.addResponse(1)
    next(first)  # shown, and never answered
    again = AlineHandler.resume(storage, "left", model=model)
    assert (again.intensities, again.responses) == (first.intensities[:2], [1.0, 1.0])
    assert again.paramEstimate == first.paramEstimate
    shown = [again.addResponse(0) for _ in again]
    assert len(shown) == 2
    assert again.finished


@pytest.mark.parametrize("method", ["random", "sequential", "fullRandom"])
def test_handlers_interleave_until_all_are_finished(method: Any, tmp_path: Path) -> None:
    conditions = [{"label": "left"}, {"label": "right", "nTrials": 2}]
    stairs = MultiAline(conditions, model=small_model(), nTrials=3, method=method)
    order = []
    for level, condition in stairs:
        order.append(condition["label"])
        stairs.addOtherData("rt", 0.4)
        stairs.addResponse(level > 0)
    assert sorted(order) == ["left"] * 3 + ["right"] * 2
    assert method == "fullRandom" or set(order[:2]) == {"left", "right"}
    assert not stairs.running
    left, right = stairs.saveAsText(tmp_path / "observer")
    assert left.stem.endswith("_left")
    assert "rt" in right.read_text()


def test_interleaved_handlers_go_on_after_a_crash(tmp_path: Path) -> None:
    storage, conditions = f"sqlite:///{tmp_path / 'lab.db'}", [{"label": "a"}, {"label": "b"}]
    model = small_model()
    model.save(tmp_path / "model")
    folder = tmp_path / "model"
    first = MultiAline(conditions, model=folder, nTrials=2, storage=storage)
    next(first)
    first.addResponse(1)
    again = MultiAline.resume(storage, conditions)
    left = [again.addResponse(0) for _ in again]
    assert len(left) == 3


def test_conditions_need_labels_of_their_own() -> None:
    with pytest.raises(InputError, match="label of its own"):
        MultiAline([{"label": "a"}, {"label": "a"}], model=small_model())
    with pytest.raises(InputError, match="random, sequential or fullRandom"):
        MultiAline([{"label": "a"}], model=small_model(), method="turns")  # type: ignore[arg-type]


@pytest.fixture
def _detection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where "detection" is not shipped, a folder of that name is found."""
    monkeypatch.chdir(tmp_path)
    save_detection(tmp_path / "detection")


@pytest.mark.usefixtures("_detection")
def test_alternatives_and_a_range_take_the_model_of_detection() -> None:
    one = AlineHandler(nTrials=3, nAFC=4, range=(-40.0, 0.0), target="threshold")
    for level in one:
        assert -40 <= level <= 0
        one.addResponse(level > -20)
    assert one.experiment.known == {"guess": 0.25}
    assert one.paramEstimate["guess"] == pytest.approx(0.25, abs=0.01)
    low, high = one.posterior.interval("threshold")
    assert -40 <= low < high <= 0
    yes_no = AlineHandler(nTrials=3, range=(-3.0, 0.0), known={"lapse": 0.02})
    assert yes_no.target == ["threshold", "slope", "guess"]


@pytest.mark.usefixtures("_detection")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nAFC": 1}, "nAFC is the number of alternatives, at least 2, got 1: leave it out"),
        ({"nAFC": 2, "target": "guess"}, "guess is known, so there is nothing to learn of it"),
        ({"range": (0.0, -40.0)}, r"a range goes from low to high, got \(0, -40\) for stimulus"),
        ({"model": "psychometric", "nAFC": 2}, "trained with the task's own priors alone"),
        ({"model": "psychometric", "range": (0, 1)}, "in_units is for a task whose axis may have"),
    ],
)
def test_mistakes_about_alternatives_and_ranges(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        AlineHandler(**options)
