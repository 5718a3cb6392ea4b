"""The candidates of a landscape and their scores, on disk after every one."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aline.errors import InputError, StateError
from aline.files import write_atomically

FILE = "scores.json"
Configuration = dict[str, Any]


@dataclass
class Journal:
    """One file, whole or not at all: a crash loses at most the score that was being measured."""

    path: Path
    candidates: list[Configuration]  # None where a setting has no meaning
    scores: dict[int, float] = field(default_factory=dict)  # by candidate, in the order measured

    @classmethod
    def at(cls, folder: Path, candidates: Sequence[Configuration]) -> Journal:
        """One that was begun there, if its candidates are the same, or a new one."""
        journal = cls(folder / FILE, [dict(one) for one in candidates])
        if journal.path.is_file():
            begun = cls.read(journal.path)
            if begun.candidates != journal.candidates:
                raise StateError(
                    f"{journal.path} is of other candidates: continue with its space and seed, or "
                    "name another folder with --out"
                )
            return begun
        journal._write()
        return journal

    @classmethod
    def read(cls, path: Path) -> Journal:
        """What is on disk."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            scores = {int(row): float(score) for row, score in found["scores"]}
            return cls(path, list(found["candidates"]), scores)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} is no journal of a landscape ({error}): name another folder with --out"
            ) from None

    def add(self, row: int, score: float) -> None:
        """Keep a score; it is on disk when this returns."""
        if not math.isfinite(score):
            raise InputError(f"a score must be a finite number, got {score}")
        self.scores[row] = score
        self._write()

    def _write(self) -> None:
        kept = {"candidates": self.candidates, "scores": list(self.scores.items())}
        write_atomically(self.path, json.dumps(kept, allow_nan=False).encode())
