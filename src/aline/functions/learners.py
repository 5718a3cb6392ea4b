"""How a regressor learns a table: by a trained network, or by a process of many inputs.

Both keep what they computed for rows that they are asked about again: it grows with every label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from aline.engine import engine_for
from aline.episodes import Context, Goal, Offer
from aline.episodes.goals import SPREAD_POINTS
from aline.functions.columns import Array, Columns
from aline.functions.process import Measured, Process
from aline.functions.standardised import Standardised, StandardisedEngine
from aline.model import Model
from aline.policies import LearnedPolicy, Memory

TABLES = 2  # that are kept as tensors: a pool, and rows to predict
SLACK = 0.25  # share of its range by which rows may leave a domain before all is read anew
MANY = 16  # labels at once from which on all is read anew
Layout = tuple[int, ...]


@dataclass(frozen=True)
class Taught:
    """Labels, and the range that columns are scaled by."""

    x: Array  # [row, column]
    y: Array  # [row]
    domain: Array  # [2, column], smallest and largest


@dataclass(frozen=True)
class Table:
    """Rows as tensors."""

    rows: Array  # [row, column]
    domain: Array  # [2, column] that scaled them
    layout: Layout
    points: Tensor  # [1, row, column]

    @cached_property
    def targets(self) -> Tensor:
        """Some of the points, all over the rows, [1, target, column]."""
        count = self.points.shape[1]
        picked = torch.linspace(0, count - 1, min(SPREAD_POINTS, count)).long()
        return self.points[:, picked]


class Tables:
    """The last few tables: what was computed for a tensor is found by identity."""

    def __init__(self) -> None:
        self.kept: list[Table] = []  # the latest last

    def of(
        self, rows: Array, domain: Array, layout: Layout, scaled: Callable[[Array, Array], Tensor]
    ) -> Table:
        """One made before, if the rows and the domain are the same."""
        for table in self.kept:
            same = table.layout == layout and np.array_equal(table.domain, domain)
            if same and np.array_equal(table.rows, rows, equal_nan=True):
                return table
        table = Table(rows.copy(), domain, layout, scaled(rows, domain)[None])
        self.kept = [*self.kept[1 - TABLES :], table]
        return table


State = TypeVar("State")


class Learner(Protocol):
    """What a regressor asks."""

    def choose(self, taught: Taught, pool: Array, allowed: Tensor, count: int) -> list[int]:
        """So many rows of a pool, of those `allowed` [row] while there are any."""
        ...

    def predict(self, taught: Taught, rows: Array) -> tuple[Array, Array]:
        """Means and standard deviations of labels, [row]."""
        ...


class BatchLearner(Generic[State]):
    """Chooses rows one by one, each as if those before had the labels that are expected."""

    def choose(self, taught: Taught, pool: Array, allowed: Tensor, count: int) -> list[int]:
        """As `Learner`."""
        with torch.inference_mode():
            state, table = self.state(taught), self.table(pool, taught)
            rows: list[int] = []
            while len(rows) < count:
                if rows:
                    state = self.supposing(state, table.points[:, rows[-1]])
                    allowed = allowed.index_fill(0, torch.tensor(rows[-1]), False)
                every = allowed if bool(allowed.any()) else torch.ones_like(allowed)
                rows.append(self.best(state, table, every))
            return rows

    def state(self, taught: Taught) -> State:
        """What was taught, as far as it was taken in before."""
        raise NotImplementedError

    def table(self, rows: Array, taught: Taught) -> Table:
        """Rows as tensors."""
        raise NotImplementedError

    def best(self, state: State, table: Table, allowed: Tensor) -> int:
        """The row that would tell most."""
        raise NotImplementedError

    def supposing(self, state: State, point: Tensor) -> State:
        """As if a point [1, column] had the label that is expected."""
        raise NotImplementedError


class NetworkLearner(BatchLearner[Standardised]):
    """By a network of functions."""

    def __init__(self, model: Model, noise: float | None, seed: int):
        self.spec = model.spec
        self.engine = StandardisedEngine(engine_for(model), noise)
        self.generator = torch.Generator().manual_seed(seed)
        self.tables = Tables()
        self.held: dict[bool, tuple[Array, Standardised]] = {}  # in what was seen, and elsewhere

    def predict(self, taught: Taught, rows: Array) -> tuple[Array, Array]:
        """As `Learner`; beyond what was seen, in a wider domain of its own."""
        wider = Taught(taught.x, taught.y, reaching(taught.domain, rows))
        is_own = np.array_equal(wider.domain, taught.domain)
        with torch.inference_mode():
            points = self.table(rows, wider).points
            belief = self.engine.predictive(self.state(wider, is_own), points)
            mean, std = (part[0].double() for part in belief.moments())
            ends = [self.spec.outcome.to_user(value).numpy() for value in (mean, mean + std)]
        return ends[0], ends[1] - ends[0]

    def state(self, taught: Taught, is_own: bool = True) -> Standardised:
        """It grows until the domain changes."""
        domain, state = self.held.get(is_own, (None, None))
        if state is None or domain is None or not np.array_equal(domain, taught.domain):
            state = self.engine.read(self._observations(taught, slice(None)))
        for row in range(state.context.length, len(taught.y)):
            one = self._observations(taught, slice(row, row + 1))
            state = self.engine.extend(state, one.designs[:, 0], one.outcomes[:, 0])
        self.held[is_own] = taught.domain, state
        return state

    def _observations(self, taught: Taught, rows: slice) -> Context:
        outcomes = self.spec.outcome.to_network(torch.tensor(taught.y[rows]))
        return Context(self._scaled(taught.x[rows], taught.domain)[None], outcomes[None])

    def table(self, rows: Array, taught: Taught) -> Table:
        """Likewise, on the network's scale."""
        return self.tables.of(rows, taught.domain, (), self._scaled)

    def _scaled(self, rows: Array, domain: Array) -> Tensor:
        low, high = domain
        return torch.tensor(2 * (rows - low) / (high - low) - 1, dtype=torch.float32)

    def best(self, state: Standardised, table: Table, allowed: Tensor) -> int:
        """By the network's policy."""
        wanted = torch.ones(table.targets.shape[:2], dtype=torch.bool)
        nothing = torch.zeros(1, len(self.spec.parameters), dtype=torch.bool)
        memory = Memory(state, Goal(nothing, table.targets, wanted))
        offer = Offer(table.points, allowed[None])
        chosen = LearnedPolicy(self.engine).choose(memory, offer, self.generator)
        distance = (table.points - chosen).abs().amax(2).masked_fill(~allowed, torch.inf)
        return int(distance.argmin())

    def supposing(self, state: Standardised, point: Tensor) -> Standardised:
        """By its mean."""
        mean, _ = self.engine.predictive(state, point[:, None]).moments()
        return self.engine.extend(state, point, mean[:, 0])


class ProcessLearner(BatchLearner[Process]):
    """By a process of many inputs."""

    def __init__(self, columns: Columns, noise: float | None, seed: int):
        self.columns, self.noise, self.seed = columns, noise, seed
        self.tables = Tables()
        self.domain: Array | None = None  # in which the process is
        self.layout: Layout = ()
        self.held: Process | None = None

    def predict(self, taught: Taught, rows: Array) -> tuple[Array, Array]:
        """As `Learner`."""
        with torch.inference_mode():
            state = self.state(taught)
            mean, std = state.moments(self.table(rows, taught).points)
        return mean.numpy(), std.numpy()

    def state(self, taught: Taught) -> Process:
        """It grows until rows come that are far from those before, or new words."""
        layout, known = self.columns.layout, 0 if self.held is None else len(self.held.data.y)
        is_far = self.domain is None or _leaves(self.domain, taught.domain)
        if self.held is None or layout != self.layout or is_far or len(taught.y) > known + MANY:
            self.domain, self.layout = taught.domain, layout
            generator = torch.Generator().manual_seed(self.seed)
            self.held = Process.read(self._data(taught), generator)
        for row in range(len(self.held.data.y), len(taught.y)):
            one = self._data(taught, slice(row, row + 1))
            self.held = self.held.extend(one.x[0], one.y[0])
        return self.held

    def _data(self, taught: Taught, rows: slice = slice(None)) -> Measured:
        x = self._scaled(taught.x[rows], self._domain)
        return Measured(x, torch.tensor(taught.y[rows]), self.columns.owner, self.noise)

    @property
    def _domain(self) -> Array:
        assert self.domain is not None  # a state comes first
        return self.domain

    def table(self, rows: Array, taught: Taught) -> Table:
        """Scaled as the process is."""
        return self.tables.of(rows, self._domain, self.columns.layout, self._scaled)

    def _scaled(self, rows: Array, domain: Array) -> Tensor:
        return self.columns.encoded(rows, *domain)

    def best(self, state: Process, table: Table, allowed: Tensor) -> int:
        """By what an outcome takes of the variance all over the rows."""
        fall = state.variance_reduction(table.points, table.targets)
        return int(fall.masked_fill(~allowed, -torch.inf).argmax())

    def supposing(self, state: Process, point: Tensor) -> Process:
        """By its mean."""
        mean, _ = state.moments(point[:, None])
        return state.supposing(point[0], mean[0])


def reaching(domain: Array, rows: Array) -> Array:
    """A domain with rows in it; a missing number reaches nowhere."""
    low, high = (reach.reduce(rows, 0) for reach in (np.fmin, np.fmax))
    return np.stack([np.fmin(domain[0], low), np.fmax(domain[1], high)])


def _leaves(old: Array, new: Array) -> Any:
    """Whether a range grew by a good part, or fell far short of what it was."""
    slack = SLACK * (old[1] - old[0])
    return (np.abs(new - old) > slack).any()
