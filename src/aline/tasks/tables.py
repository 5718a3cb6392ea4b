"""Recorded tables: how configurations did on data sets, the same columns in each.

A table is one data set's. Tables are split by data set, so that none is both learned from and
tested on; two names for the same data count as one data set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from aline.errors import InputError, nearest

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")
LEAST_ROWS = 2
SAME = 1e-6  # how near outcomes of one configuration must be for that
LEAST_SHARED = 5  # configurations that two tables must share before they can count as one


@dataclass(frozen=True)
class Table:
    """What was recorded of one data set."""

    name: str
    X: Tensor  # [row, column]
    y: Tensor  # [row]

    def __post_init__(self) -> None:
        if self.X.dim() != 2 or self.y.shape != self.X.shape[:1]:
            raise InputError(
                f"table {self.name}: X must be [row, column] and y [row], got shapes "
                f"{tuple(self.X.shape)} and {tuple(self.y.shape)}"
            )
        if len(self.y) < LEAST_ROWS:
            raise InputError(
                f"table {self.name}: at least {LEAST_ROWS} rows are needed, got {len(self.y)}"
            )
        bad = ~(torch.isfinite(self.X).all(1) & torch.isfinite(self.y))
        if bool(bad.any()):
            raise InputError(
                f"table {self.name}: row {int(bad.nonzero()[0, 0])} has a value that is no finite "
                "number: drop the row, or write a missing setting as 0 with an indicator column"
            )

    def __len__(self) -> int:
        return len(self.y)

    def averaged(self) -> Table:
        """With one row a configuration: the mean of its outcomes."""
        rows, which = torch.unique(self.X, dim=0, return_inverse=True)
        if len(rows) == len(self):
            return self
        total = torch.zeros(len(rows), dtype=torch.float64).index_add(0, which, self.y.double())
        count = torch.bincount(which, minlength=len(rows))
        return Table(self.name, rows, (total / count).to(self.y.dtype))

    def check_rows_differ(self) -> None:
        """A configuration may be there once."""
        _, which, count = torch.unique(self.X, dim=0, return_inverse=True, return_counts=True)
        again = (count[which] > 1).nonzero()[:, 0]
        if len(again):
            raise InputError(
                f"table {self.name}: {len(again)} rows have a configuration that is there more "
                f"than once, the first is row {int(again[0])}: drop them, or read with "
                "repeated='average'"
            )

    @cached_property
    def recorded(self) -> dict[bytes, float]:
        """Outcomes by configuration, exact to the last bit."""
        rows = self.X.float().contiguous().numpy()
        return {row.tobytes(): y for row, y in zip(rows, self.y.tolist(), strict=True)}

    def is_same_data(self, other: Table) -> bool:
        """Whether the other shares configurations, with the same outcome at each."""
        shared = self.recorded.keys() & other.recorded.keys()
        return len(shared) >= LEAST_SHARED and all(
            abs(self.recorded[row] - other.recorded[row]) <= SAME for row in shared
        )


@dataclass(frozen=True)
class Tables:
    """The tables of one search space, each in a part of the split."""

    space: str
    columns: tuple[str, ...]
    tables: tuple[Table, ...]
    parts: Mapping[str, Part]  # by the table's name

    def __post_init__(self) -> None:
        if not self.tables:
            raise InputError(f"{self.space} has no tables")
        for table in self.tables:
            if table.X.shape[1] != len(self.columns):
                raise InputError(
                    f"table {table.name} must have the {len(self.columns)} columns of "
                    f"{self.space}, got {table.X.shape[1]}"
                )
        names = [table.name for table in self.tables]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"data sets must have different names, got {twice[0]} twice")

    @classmethod
    def of(
        cls,
        space: str,
        columns: Sequence[str],
        tables: Iterable[Table],
        *,
        parts: Mapping[str, Part] | None = None,
        aliases: Mapping[str, str] | None = None,
        validation: float = 0.1,
        test: float = 0.2,
        seed: int = 0,
    ) -> Tables:
        """Split by data set; `parts` keeps a split that is given, but for what it leaks.

        `aliases` are names of data that go by another name too: {"car-v2": "car"}.
        """
        listed = tuple(tables)
        groups = data_sets(listed, aliases or {})
        if parts is None:
            parts = _drawn_parts(groups, validation, test, seed)
        return cls(space, tuple(columns), listed, _without_leaks(groups, parts))

    def part(self, name: Part) -> tuple[Table, ...]:
        """The tables of one part."""
        if name not in PARTS:
            raise InputError(f"parts are {', '.join(PARTS)}, got {name!r}: {nearest(name, PARTS)}")
        return tuple(table for table in self.tables if self.parts.get(table.name) == name)

    def only(self, name: Part) -> Tables:
        """These with no other part than one."""
        kept = self.part(name)
        if not kept:
            raise InputError(f"{self.space} has no table in its part {name}: give it more")
        return replace(self, tables=kept)


def data_sets(tables: Sequence[Table], aliases: Mapping[str, str]) -> list[list[str]]:
    """Names of tables, those of the same data together."""
    groups: list[list[Table]] = []
    for table in tables:
        same = [group for group in groups if any(_is_same(table, one, aliases) for one in group)]
        joined = [one for group in same for one in group] + [table]
        groups = [group for group in groups if not any(group is other for other in same)]
        groups.append(joined)
    return [[table.name for table in group] for group in groups]


def _is_same(one: Table, other: Table, aliases: Mapping[str, str]) -> bool:
    names = [aliases.get(table.name, table.name) for table in (one, other)]
    return names[0] == names[1] or one.is_same_data(other)


def _drawn_parts(
    groups: Sequence[Sequence[str]], validation: float, test: float, seed: int
) -> dict[str, Part]:
    """A random split of data sets, by shares of them."""
    if not (0 <= validation < 1 and 0 <= test < 1 and validation + test < 1):
        raise InputError(
            f"validation and test must be shares that leave some to train on, got {validation} "
            f"and {test}"
        )
    groups = sorted(groups, key=lambda group: sorted(group))
    order = torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed)).tolist()
    tested, validated = (round(share * len(groups)) for share in (test, validation))
    parts: dict[str, Part] = {}
    for place, number in enumerate(order):
        part: Part = "train"
        if place < tested + validated:
            part = "test" if place < tested else "validation"
        parts |= dict.fromkeys(groups[number], part)
    return parts


def _without_leaks(groups: Sequence[Sequence[str]], parts: Mapping[str, Part]) -> dict[str, Part]:
    """A data set with names in several parts keeps those in the last of them only."""
    kept: dict[str, Part] = {}
    for group in groups:
        last = max((PARTS.index(parts[name]) for name in group), default=0)
        kept |= {name: parts[name] for name in group if PARTS.index(parts[name]) == last}
    return kept
