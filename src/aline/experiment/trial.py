"""One measurement of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from aline.errors import InputError
from aline.spaces import Design
from aline.spaces.axes import Value


@dataclass(frozen=True)
class Trial:
    """A design that was asked for or measured, and what came of it, in the user's units.

    >>> Trial(3, {"stimulus": 0.25}, 1.0, "told", note={"rt": 0.41})
    <Trial 3: stimulus 0.25 -> 1.0; told; note {'rt': 0.41}>
    """

    number: int  # its place in experiment.trials
    design: dict[str, Value]  # where it was measured, or is to be: numbers, or names of levels
    outcome: Any = None  # plain data of the outcome's kind, 0.0 or 1.0 if binary; None until told
    state: Literal["asked", "told", "abandoned"] = "asked"
    proposed: dict[str, Value] | None = None  # what was asked for, if another design was told
    source: Literal["asked", "attached"] = "asked"
    note: dict[str, Any] | None = None  # what was measured beside the outcome

    def __repr__(self) -> str:
        design = _in_words(self.design)
        parts = [design if self.outcome is None else f"{design} -> {self.outcome!r}", self.state]
        if self.source != "asked":
            parts.append(self.source)
        if self.proposed is not None:
            parts.append(f"proposed {_in_words(self.proposed)}")
        if self.note is not None:
            parts.append(f"note {self.note!r}")
        return f"<Trial {self.number}: {'; '.join(parts)}>"


def _in_words(design: Mapping[str, Value]) -> str:
    shown = (v if isinstance(v, str) else f"{v:g}" for v in design.values())
    return ", ".join(f"{name} {value}" for name, value in zip(design, shown, strict=True))


def copied(trial: Trial) -> Trial:
    """A trial that a user may change without changing the experiment's."""
    proposed = None if trial.proposed is None else dict(trial.proposed)
    outcome = dict(trial.outcome) if isinstance(trial.outcome, dict) else trial.outcome
    note = deepcopy(trial.note)
    return replace(trial, design=dict(trial.design), proposed=proposed, outcome=outcome, note=note)


def number_of(trial: Trial | int) -> int:
    """The number of a trial, which may not exist."""
    number = trial.number if isinstance(trial, Trial) else trial
    if not isinstance(number, int) or isinstance(number, bool):
        raise InputError(f"a trial is what ask() returned or its number, got {trial!r}")
    return number


def proposal(trial: Trial) -> dict[str, Value]:
    """Where a trial was to be measured."""
    return trial.proposed or trial.design


def read_design(design: Design, values: Mapping[str, Value]) -> Tensor:
    """A design from a journal [design] on the network's scale; it was checked on its way in.

    In plain Python: for a few axes a tensor's way there takes longer than all of them.
    """
    numbers = [axis.number_of(values[name]) for name, axis in design.axes.items()]
    if not design.is_linear:
        return design.to_network(torch.tensor(numbers))
    ends = zip(numbers, design.low.tolist(), design.high.tolist(), strict=True)
    scaled = [2 * (value - low) / (high - low) - 1 for value, low, high in ends]
    return torch.tensor(scaled, dtype=torch.float32)


def plain_designs(design: Design, values: Mapping[str, Any]) -> dict[str, list[Value]]:
    """A user's designs as JSON data: checked, then kept as the user gave them."""
    design.read(values)
    return {name: axis.plain(values[name]) for name, axis in design.axes.items()}


def plain_design(design: Design, values: Mapping[str, Any]) -> dict[str, Value]:
    """Likewise for a single design."""
    columns = plain_designs(design, values)
    count = len(columns[design.names[0]])
    if count != 1:
        raise InputError(f"a trial has one design, got {count}: give one number an axis")
    return {name: column[0] for name, column in columns.items()}
