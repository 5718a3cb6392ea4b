"""What may be done to an experiment now, and to which of its trials."""

from __future__ import annotations

from collections.abc import Iterable

from aline.errors import NotFoundError, StateError
from aline.experiment.state import State
from aline.experiment.trial import Trial, number_of, proposal


def check_unfinished(name: str, state: State, *, replacing: bool = False) -> None:
    """Whether another trial may be asked; `replacing` if an open one makes room for it."""
    if state.is_narrow:
        raise StateError(
            f"experiment {name!r} is finished, its stopping rule holds: "
            "set experiment.stop = None to go on"
        )
    if state.told >= state.horizon:
        raise StateError(
            f"experiment {name!r} is finished, {state.told} of {state.horizon} trials "
            "are told: raise experiment.horizon to go on"
        )
    if state.told + len(state.open) - replacing >= state.horizon:
        raise StateError(
            f"the last of {state.horizon} trials are open ({_listing(state.open)}): "
            "tell or abandon them, or raise experiment.horizon"
        )


def existing_number(state: State, trial: Trial | int) -> int:
    """The number of a trial that exists."""
    number = number_of(trial)
    if not 0 <= number < len(state.trials):
        raise NotFoundError(
            f"trials are numbered from 0 to {len(state.trials) - 1}, got {number}"
            if state.trials
            else f"there are no trials yet, got {number}: ask() first"
        )
    if isinstance(trial, Trial) and proposal(trial) != proposal(state.trials[number]):
        raise StateError(
            f"trial {number} of this experiment has another design: pass one of its own trials, "
            "and design= if it was measured elsewhere"
        )
    return number


def last_told(state: State) -> int:
    """The number of the trial told last."""
    told = [n for n in state.rows if state.trials[n].source == "asked"]
    if not told:
        raise StateError("no trial was told yet: there is nothing to take back")
    return told[-1]


def check_state(state: State, number: int, verb: str, allowed: set[str]) -> None:
    """Whether a trial is in a state that allows it."""
    now = state.trials[number].state
    if now not in allowed:
        raise StateError(
            f"trial {number} cannot be {verb}, it is {now} already; open trials: "
            f"{_listing(state.open) or 'none'}"
        )


def _listing(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
