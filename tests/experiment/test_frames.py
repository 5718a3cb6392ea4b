"""Taking data away: frames, and notes that stay with their trials."""

import builtins
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiment.small import small

from aline.errors import InputError, StateError, UserError
from aline.experiment import Experiment, Trial


def start(**settings: Any) -> Experiment:
    return Experiment(small("binary-box"), **settings)


def test_trials_as_a_frame() -> None:
    experiment = start()
    experiment.attach({"stimulus": [0.5]}, [1])
    told = experiment.tell(experiment.ask(), 0, note={"rt": 0.41, "side": "left"})
    experiment.tell(experiment.ask(), 1, {"stimulus": 1.25})
    experiment.abandon(experiment.ask())
    frame = experiment.to_frame()
    assert list(frame) == [
        "state", "source", "stimulus", "outcome", "note.rt", "note.side", "asked_at", "told_at",
    ]  # fmt: skip
    assert frame.index.name == "trial"
    assert frame["state"].tolist() == ["told", "told", "told", "abandoned"]
    assert frame["source"].tolist() == ["attached", "asked", "asked", "asked"]
    assert frame["stimulus"].tolist()[:3] == [0.5, told.design["stimulus"], 1.25]
    assert frame["outcome"].tolist()[:3] == [1.0, 0.0, 1.0]
    assert math.isnan(frame["outcome"][3])
    assert frame["note.rt"][1] == 0.41
    assert frame["note.side"].isna().tolist() == [True, False, True, True]
    assert frame["told_at"].isna().tolist() == [True, False, False, True]
    assert (frame["told_at"] >= frame["asked_at"])[1:3].all()


def test_an_experiment_without_trials_is_a_frame_without_rows() -> None:
    assert start().to_frame().shape == (0, 6)


def test_a_posterior_as_a_frame() -> None:
    posterior = start().posterior()
    frame = posterior.to_frame()
    assert frame.index.tolist() == ["threshold", "slope"]
    assert frame.loc["slope", "mean"] == posterior["slope"].mean
    assert tuple(frame.loc["slope", ["low", "high"]]) == posterior.interval("slope")


def test_draws_of_a_posterior_as_a_frame() -> None:
    posterior = start().posterior()
    frame = posterior.to_frame(draws=50)
    assert list(frame) == ["threshold", "slope"]
    assert len(frame) == 50
    same = posterior.sample(50)["slope"].numpy()
    assert np.allclose(frame["slope"].to_numpy(), same, rtol=1e-5)
    with pytest.raises(InputError, match="draws must be a whole number, at least 1, got 0"):
        posterior.to_frame(draws=0)


@pytest.mark.parametrize("what", [lambda e: e.to_frame(), lambda e: e.posterior().to_frame()])
def test_without_pandas_it_says_what_to_install(what: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest)

    experiment = start()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"to_frame needs pandas: pip install aline\[pandas\]"):
        what(experiment)


def test_a_note_stays_with_its_trial_and_is_replayed(tmp_path: Path) -> None:
    url, note = f"sqlite:///{tmp_path}/lab.db", {"rt": 0.41, "eye": {"left": [1, 2]}}
    experiment = start(storage=url)
    told = experiment.tell(experiment.ask(), 1, note=note)
    assert told.note == note
    told.note["eye"]["left"].append(3)  # a copy: the experiment's own stays
    plain = experiment.tell(experiment.ask(), 0)
    assert plain.note is None
    resumed = Experiment.resume(url, model=small("binary-box"))
    assert [trial.note for trial in resumed.trials] == [note, None]
    assert resumed.posterior().mean == experiment.posterior().mean
    resumed.abandon(0)
    assert resumed.trials[0].note == note


def test_a_note_is_part_of_what_a_key_marked() -> None:
    experiment = start()
    trial = experiment.ask()
    first, again = (experiment.tell(trial, 1, note={"rt": 0.4}, key="k") for _ in range(2))
    assert first == again
    with pytest.raises(StateError, match="has marked another call"):
        experiment.tell(trial, 1, note={"rt": 0.5}, key="k")


@pytest.mark.parametrize(
    ("note", "message"),
    [
        ([1, 2], r'a note maps names to values, {"rt": 0.41}, got \[1, 2\]'),
        ({"rt": math.nan}, "a note must be plain JSON data, got {'rt': nan}"),
        ({"image": np.zeros((30, 30))}, "a note must be plain JSON data, got .*not JSON serial"),
        ({"log": "x" * 5000}, "a note must have at most 4000 bytes as JSON, got 5011: keep large"),
    ],
)
def test_a_note_that_cannot_be_kept_is_refused(note: Any, message: str) -> None:
    experiment = start()
    trial = experiment.ask()
    with pytest.raises(InputError, match=message) as refusal:
        experiment.tell(trial, 1, note=note)
    assert "\n" not in str(refusal.value)
    assert experiment.trials[0].state == "asked"


def test_a_trial_is_shown_in_a_line() -> None:
    trial = Trial(3, {"stimulus": 0.25})
    assert repr(trial) == "<Trial 3: stimulus 0.25; asked>"
    told = Trial(4, {"x": 1.0, "y": 2.5}, 1.0, "told", proposed={"x": 1, "y": 2}, note={"rt": 0.4})
    assert repr(told) == ("<Trial 4: x 1, y 2.5 -> 1.0; told; proposed x 1, y 2; note {'rt': 0.4}>")
