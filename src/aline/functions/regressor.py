"""Active learning from a table, without a simulator, with scikit-learn's interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from aline import zoo
from aline.errors import InputError, StateError
from aline.experiment.origin import check_model
from aline.experiment.settings import check_noise
from aline.functions.columns import Array, Columns
from aline.functions.learners import Learner, NetworkLearner, ProcessLearner, Taught, reaching
from aline.model import Model

OPEN = (np.inf, -np.inf)  # the bounds of a column that has none


class ActiveRegressor:
    """Learns a function of some inputs from few labels, and says which to ask for next.

    A row's inputs are numbers, words or both; a number may be missing (NaN). One or two columns of
    numbers are learned by the shipped network for as many, or by a `model` of yours; all else by a
    Gaussian process that averages over its hyperparameters. Inputs and labels may have any units:
    inputs are scaled by `bounds`, a (low, high) for each column or None for one of words, or else
    by the smallest and largest seen so far; labels as they arrive. The `noise`, a label's standard
    deviation about the truth in its units, helps where you know it.

    >>> import numpy as np
    >>> pool = np.random.default_rng(0).uniform(0.0, 50.0, (40, 3))
    >>> learner = ActiveRegressor()
    >>> for _ in range(6):
    ...     row = learner.query(pool)
    ...     _ = learner.teach(pool[row], 20 * np.sin(pool[row, 0] / 10))
    >>> mean, std = learner.predict(pool, return_std=True)
    >>> mean.shape
    (40,)
    """

    def __init__(
        self,
        model: Model | str | None = None,
        *,
        bounds: Any = None,
        noise: float | None = None,
        seed: int = 0,
    ):
        self._model = zoo.load(model) if isinstance(model, str) else model
        if self._model is not None:
            _check_suits(self._model)
        self._bounds = None if bounds is None else _read_bounds(bounds)
        self._noise, self._seed = check_noise(noise), seed
        self._columns = Columns(width=self._width())
        self._learner: Learner | None = None  # chosen by the first table
        self._x: Array = np.zeros((0, 0))  # what was taught
        self._y: Array = np.zeros(0)
        self._seen: Array = np.zeros((0, 0))  # the smallest and largest of what was seen

    def query(self, X: Any, count: int | None = None) -> Any:
        """The row of a pool X [row, column] whose label would be most informative about all rows.

        With a `count`, a list of so many rows to be labelled together. Rows that were taught
        already are not asked for again while there are others. Rows are counted from 0, in a
        DataFrame too: X.iloc[row].

        >>> 0 <= learner.query(pool) < 40
        True
        """
        pool = self._read(X)
        if count is not None and not 1 <= count <= len(pool):
            raise InputError(f"count must be from 1 to the {len(pool)} rows of X, got {count}")
        self._see(pool)
        allowed = torch.tensor(~self._taught_among(pool))
        rows = self._known_learner.choose(self._taught, pool, allowed, count or 1)
        return rows[0] if count is None else rows

    def teach(self, X: Any, y: Any) -> ActiveRegressor:
        """Add labels y [row] of rows X [row, column]; one row may come alone.

        >>> _ = learner.teach([[10.0, 2.0, 5.0], [20.0, 3.0, 5.0]], [3.1, 4.2])
        """
        x, labels = self._read(X, row=True), np.asarray(y, dtype=np.float64).reshape(-1)
        if len(x) != len(labels):
            raise InputError(f"teach takes a label a row, got {len(x)} rows, {len(labels)} labels")
        if not np.isfinite(labels).all():
            raise InputError("labels must be finite numbers: leave out rows without one")
        self._see(x)
        self._x = np.vstack([self._x.reshape(-1, x.shape[1]), x])
        self._y = np.append(self._y, labels)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected labels [row] of rows X, and with `return_std` their standard deviations.

        Arrays; of a DataFrame, Series with its index.

        >>> learner.predict([[12.5, 2.0, 5.0]]).shape
        (1,)
        """
        if not len(self._y):
            raise StateError("nothing was taught yet: teach(X, y) first")
        rows = self._read(X)
        self._check_within(rows)
        mean, std = (_like(X, part) for part in self._known_learner.predict(self._taught, rows))
        return (mean, std) if return_std else mean

    @property
    def _known_learner(self) -> Learner:
        assert self._learner is not None  # every public method has read its rows by now
        return self._learner

    @property
    def _taught(self) -> Taught:
        return Taught(self._x.reshape(len(self._y), len(self._columns)), self._y, self._domain())

    def _read(self, X: Any, row: bool = False) -> Array:
        """Rows as [row, column], checked; `row` allows a single one without its own axis."""
        rows = self._columns.read(X, row)
        if self._learner is None:
            self._learner = self._suited()
        if isinstance(self._learner, NetworkLearner) and not self._columns.are_numbers:
            raise InputError(
                "X must be a table of finite numbers, as the first one was: words and missing "
                "numbers need a new ActiveRegressor() that meets them first"
            )
        return rows

    def _suited(self) -> Learner:
        """The shipped network for a few columns of numbers, else a process."""
        width, model = len(self._columns), self._model
        name = f"gp{width}d"
        if model is None and self._columns.are_numbers and name in zoo.shipped():
            model = zoo.load(name)
        if model is None:
            return ProcessLearner(self._columns, self._noise, self._seed)
        return NetworkLearner(model, self._noise, self._seed)

    def _width(self) -> int | None:
        """How many columns there will be, if that is known."""
        if self._model is not None:
            return len(self._model.spec.design)
        return None if self._bounds is None else self._bounds.shape[1]

    def _see(self, rows: Array) -> None:
        """Remember how far the inputs reach."""
        self._check_within(rows)
        seen = self._seen if self._seen.size else np.full((2, rows.shape[1]), np.nan)
        self._seen = reaching(seen, rows)

    def _check_within(self, rows: Array) -> None:
        if self._bounds is None:
            return
        low, high = self._bounds
        slack = 1e-6 * np.where(low < high, high - low, 0.0)
        if bool((((rows < low - slack) | (rows > high + slack)) & (low < high)).any()):
            raise InputError(
                f"X must lie within the bounds {low.tolist()} to {high.tolist()}: pass wider "
                "bounds, or none"
            )

    def _domain(self) -> Array:
        """The smallest and largest inputs [2, column]: the bounds, or what was seen."""
        low, high = np.nan_to_num(self._seen)
        # A column that has not varied yet is in the middle of a range of one.
        flat = high <= low
        low, high = np.where(flat, low - 0.5, low), np.where(flat, high + 0.5, high)
        if self._bounds is None:
            return np.stack([low, high])
        is_open = self._bounds[0] > self._bounds[1]
        return np.where(is_open, [low, high], self._bounds)

    def _taught_among(self, pool: Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which rows were taught; numbers that are missing are the same."""
        known, rows = (np.nan_to_num(part, nan=np.inf) for part in (self._taught.x, pool))
        taught: np.ndarray[Any, np.dtype[np.bool_]] = (rows[:, None] == known).all(2).any(1)
        return taught


def _check_suits(model: Model) -> None:
    spec = check_model(model).spec
    if model.network.config.plugin != "functions" or spec.design.points is not None:
        raise InputError(
            f"ActiveRegressor takes a model of functions such as gp1d, got one of {spec.name}"
        )


def _read_bounds(bounds: Any) -> Array:
    """As [2, column]."""
    listed = list(bounds)
    if listed and not any(pair is None or np.ndim(pair) for pair in listed):
        listed = [listed]  # of a single column
    try:
        pairs = np.array([OPEN if pair is None else pair for pair in listed], dtype=np.float64)
    except (TypeError, ValueError):
        pairs = np.zeros(0)
    closed = [pair is not None for pair in listed]
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not (pairs[:, 0] < pairs[:, 1])[closed].all():
        raise InputError(f"bounds must be a (low, high) for each column, got {bounds!r}")
    return pairs.T


def _like(X: Any, values: Array) -> Any:
    """Values as the rows came: with a DataFrame's index."""
    if not hasattr(X, "columns"):
        return values
    import pandas

    return pandas.Series(values, index=X.index)
