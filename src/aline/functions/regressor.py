"""Active learning from a table, without a simulator, with scikit-learn's interface."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from aline import zoo
from aline.engine import engine_for
from aline.episodes import Context, Goal, Offer
from aline.episodes.goals import SPREAD_POINTS
from aline.errors import InputError, StateError
from aline.experiment.origin import check_model
from aline.experiment.settings import check_noise
from aline.functions.standardised import Standardised, StandardisedEngine
from aline.model import Model
from aline.policies import LearnedPolicy, Memory

Array = np.ndarray[Any, np.dtype[np.float64]]
TABLES = 2  # that are kept as tensors: a pool, and rows to predict


class ActiveRegressor:
    """Learns a function of one or two inputs from few labels, and says which to ask for next.

    The model is one of the GP tasks', by default the shipped one for as many inputs as the table
    has columns. Inputs and labels may have any units: inputs are scaled by `bounds`, a (low, high)
    for each column, or else by the smallest and largest seen so far; labels as they arrive. The
    `noise`, a label's standard deviation about the truth in its units, helps where you know it.

    >>> import numpy as np
    >>> pool = np.linspace(0.0, 50.0, 40)[:, None]
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
        self._noise = check_noise(noise)
        self._generator = torch.Generator().manual_seed(seed)
        self._x: Array = np.zeros((0, 0))  # what was taught
        self._y: Array = np.zeros(0)
        self._seen: Array = np.zeros((0, 0))  # the corners of what was seen
        self._taught: dict[bool, Taught] = {}  # in the domain of what was seen, and in another
        self._tables: list[Table] = []  # the latest last

    def query(self, X: Any) -> int:
        """The row of a pool X [row, column] whose label would be most informative about all rows.

        Rows that were taught already are not asked for again while there are others.

        >>> 0 <= learner.query(pool) < 40
        True
        """
        pool = self._read(X)
        self._see(pool)
        domain = self._domain()
        table, taught = self._table(pool, domain), self._taught_among(pool)
        allowed = torch.tensor(~taught if not taught.all() else taught)[None]
        with torch.inference_mode():
            memory = Memory(self._state(domain), table.goal)
            policy, offer = LearnedPolicy(self._engine), Offer(table.points, allowed)
            chosen = policy.choose(memory, offer, self._generator)
        distance = (table.points - chosen).abs().amax(2).masked_fill(~allowed, torch.inf)
        return int(distance.argmin())

    def teach(self, X: Any, y: Any) -> ActiveRegressor:
        """Add labels y [row] of rows X [row, column]; one row may come alone.

        >>> _ = learner.teach([[10.0], [20.0]], [3.1, 4.2])
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

    @overload
    def predict(self, X: Any) -> Array: ...

    @overload
    def predict(self, X: Any, return_std: bool) -> Array | tuple[Array, Array]: ...

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Expected labels [row] of rows X, and with `return_std` their standard deviations.

        >>> learner.predict([[12.5]]).shape
        (1,)
        """
        if not len(self._y):
            raise StateError("nothing was taught yet: teach(X, y) first")
        x = self._read(X)
        domain = self._domain(x)
        with torch.inference_mode():
            belief = self._engine.predictive(self._state(domain), self._table(x, domain).points)
            outcome = self._known_model.spec.outcome
            mean, std = (part[0].double() for part in belief.moments())
            ends = [outcome.to_user(value).numpy() for value in (mean, mean + std)]
        return (ends[0], ends[1] - ends[0]) if return_std else ends[0]

    @property
    def _known_model(self) -> Model:
        assert self._model is not None  # every public method has read its rows by now
        return self._model

    @cached_property
    def _engine(self) -> StandardisedEngine:
        return StandardisedEngine(engine_for(self._known_model), self._noise)

    def _state(self, domain: Array) -> Standardised:
        """What was taught, as the engine holds it: it grows until the domain changes.

        A prediction beyond what was seen has a wider domain of its own.
        """
        is_own = np.array_equal(self._domain(), domain)
        held = self._taught.get(is_own)
        if held is None or not np.array_equal(held.domain, domain):
            state = self._engine.read(self._observations(slice(None), domain))
        else:
            state = held.state
            for row in range(state.context.length, len(self._y)):
                one = self._observations(slice(row, row + 1), domain)
                state = self._engine.extend(state, one.designs[:, 0], one.outcomes[:, 0])
        self._taught[is_own] = Taught(domain, state)
        return state

    def _observations(self, rows: slice, domain: Array) -> Context:
        """Some of what was taught, on the network's scale."""
        x = self._x[rows].reshape(-1, domain.shape[1])
        outcomes = self._known_model.spec.outcome.to_network(torch.tensor(self._y[rows]))
        return Context(self._scaled(x, domain)[None], outcomes[None])

    def _table(self, rows: Array, domain: Array) -> Table:
        """Rows as tensors: those made before, if the rows and the domain are the same.

        What an ensemble computed for a tensor grows with the data, and is found by identity.
        """
        for table in self._tables:
            if np.array_equal(table.domain, domain) and np.array_equal(table.rows, rows):
                return table
        points = self._scaled(rows, domain)[None]
        table = Table(rows.copy(), domain, points, len(self._known_model.spec.parameters))
        self._tables = [*self._tables[1 - TABLES :], table]
        return table

    def _read(self, X: Any, row: bool = False) -> Array:
        """Rows as [row, column], checked; `row` allows a single one without its own axis."""
        x = np.asarray(X, dtype=np.float64)
        columns = self._columns()
        if x.ndim == 0 or (x.ndim == 1 and (columns == 1 or (columns is None and not row))):
            x = x.reshape(-1, 1)
        elif x.ndim == 1:
            x = x.reshape(1, -1)
        if x.ndim != 2 or not len(x) or not np.isfinite(x).all():
            raise InputError(
                f"X must be a table of finite numbers with at least one row, got shape {x.shape}"
            )
        if self._model is None:
            self._model = _shipped_for(x.shape[1])
        if x.shape[1] != self._columns():
            raise InputError(f"X must have {self._columns()} columns, got {x.shape[1]}")
        return x

    def _columns(self) -> int | None:
        if self._model is not None:
            return len(self._model.spec.design)
        return None if self._bounds is None else self._bounds.shape[1]

    def _see(self, x: Array) -> None:
        """Remember how far the inputs reach."""
        every = np.vstack([self._seen.reshape(-1, x.shape[1]), x])
        self._seen = np.stack([every.min(0), every.max(0)])

    def _domain(self, more: Array | None = None) -> Array:
        """The smallest and largest inputs [2, column]: the bounds, or what was seen."""
        if self._bounds is not None:
            return self._bounds
        every = self._seen if more is None else np.vstack([self._seen, more])
        low, high = every.min(0), every.max(0)
        # A column that has not varied yet is in the middle of a range of one.
        flat = high <= low
        return np.stack([np.where(flat, low - 0.5, low), np.where(flat, high + 0.5, high)])

    def _scaled(self, x: Array, domain: Array) -> Tensor:
        """Rows [row, column] on the network's scale."""
        low, high = domain
        scaled = 2 * (x - low) / (high - low) - 1
        if np.abs(scaled).max(initial=0.0) > 1 + 1e-6:
            raise InputError(
                f"X must lie within the bounds {low.tolist()} to {high.tolist()}: pass wider "
                "bounds, or none"
            )
        return torch.tensor(scaled, dtype=torch.float32)

    def _taught_among(self, pool: Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if not len(self._x):
            return np.zeros(len(pool), dtype=bool)
        taught: np.ndarray[Any, np.dtype[np.bool_]] = (pool[:, None] == self._x).all(2).any(1)
        return taught


@dataclass(frozen=True)
class Taught:
    """What was taught, scaled by a domain."""

    domain: Array  # [2, column]
    state: Standardised


@dataclass(frozen=True)
class Table:
    """Rows on the network's scale, scaled by a domain."""

    rows: Array  # [row, column]
    domain: Array  # [2, column]
    points: Tensor  # [1, row, column]
    parameters: int  # how many the model's task has

    @cached_property
    def goal(self) -> Goal:
        """Predictions all over the rows."""
        count = self.points.shape[1]
        picked = torch.linspace(0, count - 1, min(SPREAD_POINTS, count)).long()
        return Goal(
            torch.zeros(1, self.parameters, dtype=torch.bool),
            self.points[:, picked],
            torch.ones(1, len(picked), dtype=torch.bool),
        )


def _check_suits(model: Model) -> None:
    spec = check_model(model).spec
    if model.network.config.plugin != "functions" or spec.design.points is not None:
        raise InputError(
            f"ActiveRegressor takes a model of functions such as gp1d, got one of {spec.name}"
        )


def _shipped_for(columns: int) -> Model:
    name = f"gp{columns}d"
    if name not in zoo.shipped():
        raise InputError(
            f"no model is shipped for tables of {columns} columns: train one, "
            f"train(gp(dimensions={columns})), and pass it, ActiveRegressor(model)"
        )
    return zoo.load(name)


def _read_bounds(bounds: Any) -> Array:
    pairs = np.asarray(bounds, dtype=np.float64)
    if pairs.ndim == 1:
        pairs = pairs[None]
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not (pairs[:, 0] < pairs[:, 1]).all():
        raise InputError(f"bounds must be a (low, high) for each column, got {bounds!r}")
    return pairs.T
