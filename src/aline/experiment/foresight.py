"""Computes ahead of time what the next call will need."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from aline.errors import AlineError
from aline.experiment.choosing import choose_ahead
from aline.experiment.experiment import Experiment
from aline.spaces.axes import Value

Foreseen = tuple[bool, dict[str, Value] | None]
"""Whether the stopping rule holds, and the next design if it was chosen."""


def prepare(experiments: Iterable[Experiment]) -> None:
    """Choose the next designs of several experiments in one pass of the network, ahead of `ask`.

    It changes none of them. Where one has no design to choose it does nothing: `ask` raises the
    error.

    >>> import aline
    >>> both = [aline.Experiment(aline.load("psychometric"), name=name) for name in ("a", "b")]
    >>> prepare(both)
    >>> [experiment.ask().number for experiment in both]
    [0, 0]
    """
    with suppress(AlineError):
        choose_ahead([one._state for one in experiments if not one.finished])


def foresee(experiment: Experiment, choose: bool) -> Foreseen:
    """Compute what the next change needs to know, with `choose` the next design as well.

    For a caller that computes in another process: `recall` takes it into an experiment at the
    same place of its journal. It changes nothing.
    """
    is_finished = experiment.finished
    design = experiment._state.choice if choose and not is_finished else None
    return experiment._state.is_narrow, design


def recall(experiment: Experiment, foreseen: Foreseen) -> None:
    """Take what `foresee` computed, in place of computing it."""
    is_narrow, design = foreseen
    vars(experiment._state)["is_narrow"] = is_narrow  # where a cached property keeps its value
    if design is not None and not experiment._state.chosen:
        experiment._state.chosen.append(design)
