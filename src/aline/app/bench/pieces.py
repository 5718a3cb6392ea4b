"""Pieces of a long benchmark, each kept as soon as it is measured: a run can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from aline.app.bench.bench import Settings
from aline.evaluation.results import commit
from aline.files import read_tensors, write_tensors

FOLDER = Path("runs") / "bench"


@dataclass(frozen=True)
class Piece:
    """What was measured of one method on one task."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)  # what JSON can hold
    notes: tuple[str, ...] = ()


def piece(settings: Settings, *name: str, measure: Callable[[], Piece]) -> Piece:
    """Measure a piece and keep it; with `resume`, take the one that an earlier run kept.

    One that was measured at another commit carries a note of it.
    """
    path = FOLDER / f"{'-'.join([*name, *_told_apart(settings)])}.safetensors"
    if settings.resume and path.is_file():
        tensors, card = read_tensors(path)
        notes, then = tuple(card["notes"]), card["commit"]
        if then != commit():
            notes += (f"{', '.join(name)}: measured earlier, at commit {then}",)
        return Piece(tensors, card["values"], notes)
    found = measure()
    card = {"values": found.values, "notes": found.notes, "commit": commit()}
    write_tensors(path, found.tensors, card)
    return found


def _told_apart(settings: Settings) -> list[str]:
    """What else makes a piece another one."""
    episodes = [f"{settings.episodes}"] if settings.episodes else []
    budget = [settings.budget] if settings.budget else []
    return [f"seed{settings.seed}", *episodes, *budget, *["quick"] * settings.quick]
