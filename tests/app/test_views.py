"""What is drawn and written of an experiment that was really run: nobody knows its truth."""

from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from lab_tasks import choice_task
from matplotlib import pyplot
from small import small_network

import aline
from aline.app.record import MOST, evenly, record_of, target_names
from aline.app.subject import Subject
from aline.errors import InputError, StateError
from aline.experiment import Experiment
from aline.model import Model

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    pyplot.close("all")


def run(subject: Subject, outcomes: list[float], **settings: object) -> Experiment:
    experiment = Experiment(subject.model, **settings)
    for outcome in outcomes:
        experiment.tell(experiment.ask(), outcome, note={"rt": 0.25, "side": "left"})
    return experiment


def test_a_record_follows_the_beliefs_of_the_experiment(subjects: dict[str, Subject]) -> None:
    experiment = run(subjects["psychometric"], [1, 0, 1], target="slope")
    experiment.abandon(experiment.trials[0])
    record = record_of(experiment)
    assert [step.number for step in record.steps] == [0, 1, 2]
    assert [step.outcome for step in record.steps] == [None, 0.0, 1.0]
    assert record.steps[1].design == experiment.trials[1].design
    assert record.last.mean == experiment.posterior().mean
    assert record.shown == ("slope",)
    assert record.truth == {}


def test_a_long_experiment_is_told_in_steps() -> None:
    assert evenly(0) == [0]
    assert evenly(3) == [0, 1, 2, 3]
    long = evenly(1234)
    assert (long[0], long[-1]) == (0, 1234)
    assert len(long) <= MOST + 1
    assert {b - a for a, b in pairwise(long[:-1])} == {7}


def test_targets_by_name() -> None:
    in_turn = aline.in_turn(["a"], ["b", aline.predictions(at={"x": [1]})])
    assert target_names([in_turn, "a"]) == ("a", "b", "predictions")


@pytest.mark.parametrize(
    ("name", "outcomes", "panels"),
    [("psychometric", [1, 0], 3), ("linear", [0.5], 4), ("location", [0.5, 1.0], 6)],
)
def test_an_experiment_is_drawn(
    subjects: dict[str, Subject], name: str, outcomes: list[float], panels: int
) -> None:
    experiment = run(subjects[name], outcomes)
    axes = experiment.plot()
    assert len(axes) == panels
    assert axes[0].figure.get_axes() == list(axes)
    asked = [trial.design[experiment.spec.design.names[0]] for trial in experiment.trials]
    drawn = [c.get_offsets() for one in axes for c in one.collections if len(c.get_offsets())]
    assert any(np.isin(asked, np.asarray(points)).any() for points in drawn)


def test_designs_as_labs_have_them_are_drawn_by_name_unit_and_scale(tmp_path: Path) -> None:
    """Sets of values level by level, a log axis on a log scale, units beside names."""
    task = choice_task()
    experiment = Experiment(Model(small_network(task)))
    for outcome in (1, 0):
        experiment.tell(experiment.ask(), outcome)
    axes = {one.get_ylabel(): one for one in experiment.plot(task)}
    assert {"amount ($)", "delay (days)", "frame", "cost"} <= set(axes)
    assert [one.get_text() for one in axes["frame"].get_yticklabels()] == ["gain", "loss", "none"]
    assert axes["delay (days)"].get_yticklabels()[3].get_text() == "180"
    assert (axes["cost"].get_yscale(), axes["amount ($)"].get_yscale()) == ("log", "linear")
    text = experiment.report(tmp_path / "choice.html", task).read_text(encoding="utf-8")
    assert experiment.trials[0].design["frame"] in text
    assert "amount ($)" in text


@pytest.mark.parametrize("name", ["psychometric", "linear", "location"])
def test_an_experiment_without_data_is_drawn_too(subjects: dict[str, Subject], name: str) -> None:
    axes = run(subjects[name], []).plot()
    axes[0].figure.canvas.draw()


def test_a_posterior_is_drawn_two_by_two_or_one_by_one(subjects: dict[str, Subject]) -> None:
    posterior = run(subjects["psychometric"], [1, 0]).posterior()
    assert posterior.plot().shape == (4, 4)
    assert posterior.plot(["slope", "threshold"], truth={"slope": 1.0}).shape == (2, 2)
    (alone,) = posterior.plot("slope")
    assert alone.get_title("left") == "slope"
    shipped = aline.Experiment(aline.load("psychometric")).posterior()
    assert [one.get_title("left") for one in shipped.plot()] == list(shipped.names)
    with pytest.raises(InputError, match="did you mean slope"):
        posterior.plot(["slop"])


def test_the_report_of_an_experiment(subjects: dict[str, Subject], tmp_path: Path) -> None:
    experiment = run(
        subjects["psychometric"], [1, 0], name="P7", metadata={"room": "<b>2</b>"}, target="slope"
    )
    path = experiment.report(tmp_path / "P7.html")
    text = path.read_text(encoding="utf-8")
    for part in (
        "2 trials of 5 so far to learn slope",
        "aline · psychometric · P7",
        "5 trials",
        "&lt;b&gt;2&lt;/b&gt;",
        "<th>rt</th><th>side</th>",
        "<td>0.25</td><td>left</td>",
    ):
        assert part in text
    assert "truth" not in text
    with pytest.raises(StateError, match="overwrite=True"):
        experiment.report(path)
    experiment.report(path, overwrite=True)


def test_the_report_of_a_task_of_ones_own_and_of_nothing_yet(
    subjects: dict[str, Subject], tmp_path: Path
) -> None:
    subject = subjects["linear"]
    empty = Experiment(subject.model).report(tmp_path / "empty.html", subject.task)
    assert "0 trials of 4 so far" in empty.read_text(encoding="utf-8")
