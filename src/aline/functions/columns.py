"""Tables with columns of numbers and of words, and how a Gaussian process sees them.

A table is kept as numbers [row, column]: a word is its place among the words seen in its column,
a missing number NaN. A process sees numbers from 0 to 1, a word as one column for each that was
seen, and beside a number that can be missing whether it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aline.errors import InputError

Array = np.ndarray[Any, np.dtype[np.float64]]
HALF = 0.5**0.5  # two words differ in two columns: this makes their distance one
MIDDLE = 0.5  # where a process sees a number that is missing


@dataclass
class Columns:
    """What is known of a table's columns; it learns words as they come."""

    width: int | None = None  # how many there must be, if that is known
    names: tuple[str, ...] | None = None  # of a DataFrame's
    words: list[dict[str, int] | None] = field(default_factory=list)  # None of numbers
    can_miss: list[bool] = field(default_factory=list)  # of numbers, whether one was missing

    def __len__(self) -> int:
        return len(self.words)

    @property
    def are_numbers(self) -> bool:
        """Whether there are no words and nothing is missing."""
        return not any(self.can_miss) and all(words is None for words in self.words)

    def read(self, X: Any, row: bool = False) -> Array:
        """A table as numbers [row, column]; `row` says that a list may be one row."""
        columns = self._frame_columns(X) if hasattr(X, "columns") else self._columns(X, row)
        if not columns or not len(columns[0]):
            raise InputError("X must have at least one row and one column")
        wanted = len(self) or self.width or len(columns)
        if len(columns) != wanted:
            raise InputError(f"X must have {wanted} columns, got {len(columns)}")
        if not self.words:
            self.words = [None if _is_numeric(column) else {} for column in columns]
            self.can_miss = [False] * len(columns)
        return np.stack([self._numbers(i, column) for i, column in enumerate(columns)], 1)

    def _frame_columns(self, X: Any) -> list[Any]:
        """Of a DataFrame, in the order of the first one."""
        if self.names is None:
            self.names = tuple(X.columns)
        missing = [name for name in self.names if name not in X]
        if missing:
            raise InputError(f"X must have the columns taught before, got none named {missing[0]}")
        return [_of_series(X[name]) for name in self.names]

    def _columns(self, X: Any, row: bool) -> list[Any]:
        """Of an array or of lists."""
        table = X if isinstance(X, np.ndarray) else np.array(X, dtype=_dtype(X))
        width = len(self) or self.width
        if table.ndim == 0 or (table.ndim == 1 and (width == 1 or (width is None and not row))):
            table = table.reshape(-1, 1)
        elif table.ndim == 1:
            table = table.reshape(1, -1)
        if table.ndim != 2:
            raise InputError(f"X must be a table of rows and columns, got shape {table.shape}")
        return [_plain(column) for column in table.T]

    def _numbers(self, place: int, column: Any) -> Array:
        words = self.words[place]
        if words is not None:
            known = (words.setdefault(str(word), len(words)) for word in column.tolist())
            return np.fromiter(known, dtype=np.float64, count=len(column))
        if not _is_numeric(column):
            raise InputError(f"column {self.label(place)} has had numbers so far, got words")
        numbers: Array = column.astype(np.float64)
        if np.isinf(numbers).any():
            raise InputError(f"column {self.label(place)} must have finite numbers, got infinity")
        self.can_miss[place] |= bool(np.isnan(numbers).any())
        return numbers

    def label(self, place: int) -> str:
        """A column's name, or its number."""
        return str(place + 1 if self.names is None else self.names[place])

    @property
    def layout(self) -> tuple[int, ...]:
        """How many columns a process sees of each: while it stays, so does what they mean."""
        return tuple(
            len(words) if words is not None else 1 + can_miss
            for words, can_miss in zip(self.words, self.can_miss, strict=True)
        )

    @property
    def owner(self) -> Tensor:
        """For each column that a process sees, the number of the input it belongs to.

        Whether a number is missing is an input of its own.
        """
        owners, inputs = [], 0
        for words, can_miss in zip(self.words, self.can_miss, strict=True):
            owners += (
                [inputs] * len(words) if words is not None else [inputs, inputs + 1][: 1 + can_miss]
            )
            inputs = owners[-1] + 1
        return torch.tensor(owners)

    def encoded(self, rows: Array, low: Array, high: Array) -> Tensor:
        """Rows as a process sees them, with numbers from `low` to `high` [column] as 0 to 1."""
        parts = []
        for place, column in enumerate(rows.T):
            words = self.words[place]
            if words is not None:
                parts.append(HALF * (column[:, None] == np.arange(len(words))))
                continue
            scaled = (column - low[place]) / (high[place] - low[place])
            parts.append(np.where(np.isnan(scaled), MIDDLE, scaled)[:, None])
            if self.can_miss[place]:
                parts.append(np.isnan(column)[:, None])
        return torch.tensor(np.concatenate(parts, 1), dtype=torch.float64)


def _is_numeric(column: Any) -> bool:
    return bool(np.issubdtype(column.dtype, np.number) or column.dtype == bool)


def _of_series(series: Any) -> Any:
    """A column of a DataFrame; numbers of its own kinds, too, may be missing."""
    if series.dtype.kind in "iufb":
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if series.dtype.kind in "mM":
        raise InputError(f"column {series.name} must have numbers or words, got times")
    return _plain(series.to_numpy(dtype=object))


def _dtype(X: Any) -> Any:
    """Rows that mix numbers and words keep both."""
    try:
        return np.asarray(X, dtype=np.float64).dtype
    except (TypeError, ValueError):
        return object


def _plain(column: Any) -> Any:
    """A column of objects as numbers, where all are numbers or None."""
    if column.dtype != object:
        return column
    if all(
        value is None or isinstance(value, int | float | np.number | np.bool_) for value in column
    ):
        return column.astype(np.float64)
    return column
