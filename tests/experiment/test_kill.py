"""A process killed at any moment loses no trial it acknowledged and leaves none by halves.

The children are forked from this process, which has torch loaded, and really get SIGKILL.
"""

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from experiment.small import TASKS, small

from aline.experiment import Experiment, Trial

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

KILLS = 24


def outcome_of(number: int) -> float:
    return float(number % 3 == 0)


def resume(path: Path) -> Experiment:
    return Experiment.resume(f"sqlite:///{path}", model=small())


def fork(work: Callable[[], None]) -> int:
    """Run something in a child process that never returns here."""
    child = os.fork()
    if child:
        return child
    try:
        torch.set_num_threads(1)  # the threads of the parent's pool are not in the child
        work()
    finally:
        os._exit(0)


def check_whole(trials: tuple[Trial, ...]) -> None:
    """Every trial is in one of its states, with all that belongs to it."""
    for number, trial in enumerate(trials):
        assert trial.number == number
        assert trial.state in ("asked", "told")
        TASKS["binary-box"].spec.design.read(trial.design)
        assert trial.outcome == (outcome_of(number) if trial.state == "told" else None)


def work_until_killed(path: Path, pipe: int) -> None:
    """Say that work starts, then tell trials and acknowledge each once tell has returned."""
    experiment = resume(path)
    os.write(pipe, b"start\n")
    left = [trial for trial in experiment.trials if trial.state == "asked"]
    while True:
        trial = left.pop() if left else experiment.ask()
        experiment.tell(trial, outcome_of(trial.number))
        os.write(pipe, f"{trial.number}\n".encode())


def kill_after(path: Path, trials: int, seconds: float) -> list[int]:
    """Let a child tell trials and work for a moment more, kill it; what it acknowledged."""
    reading, writing = os.pipe()
    child = fork(lambda: work_until_killed(path, writing))
    os.close(writing)
    with os.fdopen(reading) as acknowledged:
        assert acknowledged.readline() == "start\n"
        told = [int(acknowledged.readline()) for _ in range(trials)]
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        return told + [int(line) for line in acknowledged]


def test_killed_at_random_times(tmp_path: Path) -> None:
    path, chance = tmp_path / "lab.db", random.Random(0)
    Experiment(small(), storage=f"sqlite:///{path}", horizon=10**6)
    told: set[int] = set()
    for _ in range(KILLS):
        told |= set(kill_after(path, chance.randrange(3), chance.uniform(0, 0.01)))
        trials = resume(path).trials
        check_whole(trials)
        stored = {trial.number for trial in trials if trial.state == "told"}
        assert told <= stored  # each acknowledged trial is there
        assert len(stored) <= len(told) + 1  # and at most the one that was being told
        assert sum(trial.state == "asked" for trial in trials) <= 1
        told = stored
    run_on(path)


def run_on(path: Path) -> None:
    """A killed experiment continues where it was."""
    experiment = resume(path)
    before = experiment.trials
    for trial in before:
        if trial.state == "asked":
            experiment.tell(trial, outcome_of(trial.number))
    trial = experiment.ask()
    assert trial.number == len(before)
    experiment.tell(trial, outcome_of(trial.number))
    check_whole(experiment.trials)


def tell_and_die(path: Path, last: int) -> None:
    """Tell the open trial, and die before line number `last` of what tell runs of our code.

    Without dying this is the uninterrupted experiment.
    """
    experiment = resume(path)
    seen = 0

    def line(frame, event, argument):
        nonlocal seen
        if event == "line":
            seen += 1
            if seen == last:
                os.kill(os.getpid(), signal.SIGKILL)
        return line

    def call(frame, event, argument):
        ours = f"{os.sep}aline{os.sep}experiment{os.sep}" in frame.f_code.co_filename
        return line if ours else None

    sys.settrace(call)
    experiment.tell(2, outcome_of(2))


def test_killed_before_each_line_of_tell(tmp_path: Path) -> None:
    template = tmp_path / "template.db"
    experiment = Experiment(small(), storage=f"sqlite:///{template}")
    for _ in range(2):
        trial = experiment.ask()
        experiment.tell(trial, outcome_of(trial.number))
    experiment.ask()
    experiment._storage.close()
    path, was_told = tmp_path / "lab.db", []
    for last in range(1, 10_000):
        shutil.copy(template, path)
        child = fork(lambda last=last: tell_and_die(path, last))
        _, status = os.waitpid(child, 0)
        was_told.append(_check_after_tell(path))
        for file in tmp_path.glob("lab.db*"):
            file.unlink()
        if not os.WIFSIGNALED(status):
            break  # tell has no such line: it came to its end
    assert len(was_told) > 30
    assert was_told[0] is False
    assert was_told[-2:] == [True, True]  # also when killed before its last line
    assert was_told == sorted(was_told)  # there is one moment at which the trial is there


def _check_after_tell(path: Path) -> bool:
    """The trial is told or open, nothing else differs, and the experiment comes to the same."""
    experiment = resume(path)
    check_whole(experiment.trials)
    was_told = experiment.trials[2].state == "told"
    assert [trial.state for trial in experiment.trials[:2]] == ["told", "told"]
    assert len(experiment.trials) == 3
    if not was_told:
        experiment.tell(2, outcome_of(2))
    assert (experiment.posterior().mean, experiment._state.choice) == _uninterrupted()
    return was_told


@cache
def _uninterrupted() -> tuple[dict[str, float], dict[str, float]]:
    """What is known and asked next when nobody was killed."""
    experiment = Experiment(small())
    for _ in range(3):
        trial = experiment.ask()
        experiment.tell(trial, outcome_of(trial.number))
    return experiment.posterior().mean, experiment._state.choice
