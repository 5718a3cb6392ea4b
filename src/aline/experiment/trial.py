"""One measurement of an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from aline.errors import InputError
from aline.spaces import Design


@dataclass(frozen=True)
class Trial:
    """A design that was asked for or measured, and what came of it, in the user's units."""

    number: int  # its place in experiment.trials
    design: dict[str, float]  # where it was measured, or is to be
    outcome: Any = None  # plain data of the outcome's kind, 0.0 or 1.0 if binary; None until told
    state: Literal["asked", "told", "abandoned"] = "asked"
    proposed: dict[str, float] | None = None  # what was asked for, if another design was told
    source: Literal["asked", "attached"] = "asked"
    note: dict[str, Any] | None = None  # what was measured beside the outcome

    def __repr__(self) -> str:
        design = ", ".join(f"{name} {value:g}" for name, value in self.design.items())
        parts = [design if self.outcome is None else f"{design} -> {self.outcome!r}", self.state]
        if self.source != "asked":
            parts.append(self.source)
        if self.proposed is not None:
            other = ", ".join(f"{name} {value:g}" for name, value in self.proposed.items())
            parts.append(f"proposed {other}")
        if self.note is not None:
            parts.append(f"note {self.note!r}")
        return f"<Trial {self.number}: {'; '.join(parts)}>"


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


def proposal(trial: Trial) -> dict[str, float]:
    """Where a trial was to be measured."""
    return trial.proposed or trial.design


def name_values(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """A design that was computed in float32, as few digits as tell it apart from its neighbours.

    0.1, as the pool's author wrote it, not 0.10000000149011612. The journal keeps these numbers,
    so a replay reads exactly the design that was asked for.
    """
    short = (float(str(np.float32(value))) for value in values)
    return dict(zip(names, short, strict=True))


def read_design(design: Design, values: Mapping[str, float]) -> Tensor:
    """A design from a journal [design] on the network's scale; it was checked on its way in.

    In plain Python: for a few axes a tensor's way there takes longer than all of them.
    """
    if design.relative:
        return design.to_network(torch.tensor([values[name] for name in design.names]))
    axes = zip(design.names, design.low.tolist(), design.high.tolist(), strict=True)
    scaled = [2 * (values[name] - low) / (high - low) - 1 for name, low, high in axes]
    return torch.tensor(scaled, dtype=torch.float32)


def plain_designs(design: Design, values: Mapping[str, Any]) -> dict[str, list[float]]:
    """A user's designs as JSON data: checked, then kept as the user gave them."""
    design.read(values)
    return {
        name: torch.as_tensor(values[name], dtype=torch.float64).reshape(-1).tolist()
        for name in design.names
    }


def plain_design(design: Design, values: Mapping[str, Any]) -> dict[str, float]:
    """Likewise for a single design."""
    columns = plain_designs(design, values)
    count = len(columns[design.names[0]])
    if count != 1:
        raise InputError(f"a trial has one design, got {count}: give one number an axis")
    return {name: column[0] for name, column in columns.items()}
