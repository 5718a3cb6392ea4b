"""A benchmark: parts that measure, and the table and figures made of what they measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from aline.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]
"""One measured number, in the layout of `evaluation/results.py`."""

Result = Mapping[str, Any]
"""What a benchmark's file holds."""

Progress = Callable[[str, int, int], None]
"""Told what is being measured, and how many of how many steps of it are done."""


@dataclass(frozen=True)
class BenchSettings:
    """What a user can choose for any benchmark."""

    quick: bool = False  # about a minute: to see that all works, not to publish
    seed: int = 0
    episodes: int | None = None  # simulated experiments; None is the benchmark's own number
    tasks: tuple[str, ...] | None = None  # of a benchmark with several; None is all
    methods: tuple[str, ...] | None = None  # likewise
    budget: str | None = None  # of what has to be trained; None is the benchmark's own
    jobs: int = 1  # processes
    resume: bool = False  # take what an earlier run has measured already
    same_code: bool = False  # of that, only what this very code has measured
    models: Path | None = None  # the folder of models to measure; None is the benchmark's own
    data: Path | None = None  # the folder of tables that some benchmarks need

    def among(self, what: Literal["tasks", "methods"], every: Sequence[str]) -> tuple[str, ...]:
        """The tasks or methods to measure, of all that there are."""
        chosen = self.tasks if what == "tasks" else self.methods
        unknown = [name for name in chosen or () if name not in every]
        if unknown:
            raise InputError(f"the {what} are {', '.join(every)}, got {', '.join(unknown)}")
        return chosen or tuple(every)

    def count(self, full: int, quick: int) -> int:
        """How many episodes a part plays, which by default plays `full` or `quick`."""
        return self.episodes or (quick if self.quick else full)


@dataclass(frozen=True)
class Measured:
    """What one part of a benchmark found."""

    rows: list[Row]
    data: Mapping[str, Any] = field(default_factory=dict)  # what figures need beyond the rows
    notes: Sequence[str] = ()


def joined(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Nested data, the new where there is both."""
    both = {
        name: joined(old[name], value) if isinstance(old.get(name), dict) else value
        for name, value in new.items()
        if isinstance(value, dict)
    }
    return {**old, **new, **both}


Part = Callable[[BenchSettings, Progress], Measured]


@dataclass(frozen=True)
class Bench:
    """A benchmark. Its table and figures are made from its file alone, so they can be made again.

    `markdown(result)` gives the table (any Markdown), `figures(result)` the figures by name.
    """

    name: str
    parts: Mapping[str, Part]
    markdown: Callable[[Result], str]
    figures: Callable[[Result], Mapping[str, Figure]]
    by_task: bool = False  # tasks that were not measured now stay in its file

    def chosen(self, names: Sequence[str] | None) -> dict[str, Part]:
        """The parts with these names, or all."""
        unknown = [name for name in names or () if name not in self.parts]
        if unknown:
            raise InputError(
                f"the parts of {self.name} are {', '.join(self.parts)}, got {', '.join(unknown)}"
            )
        return {name: part for name, part in self.parts.items() if not names or name in names}
