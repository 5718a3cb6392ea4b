"""The bank of a running experiment, compiled (model/native): as model/live_bank.py, which says why.

Points lie in blocks of LANES columns, as the processor takes them. Nothing is shared between
threads but what the banks of one experiment share, and of that only rows are written that nobody
else has claimed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from torch import Tensor

from aline.model.kernels import KernelBank, Place, up_to_date
from aline.model.live_bank import Array, Fit, Indices, LiveBank, Worth

try:
    from aline.model import _native
except ImportError:  # there was no compiler when it was installed
    _native = None  # type: ignore[assignment]

native = _native
ROOM = 16  # observations that there is room for at first


def _padded(count: int) -> int:
    """In whole blocks."""
    return -(-count // native.LANES) * native.LANES


def floats(given: Array) -> Array:
    """As what is compiled takes them."""
    return np.ascontiguousarray(given, np.float32)


def empty(*shape: int) -> Array:
    """To be filled."""
    return np.empty(shape, np.float32)


class Grown(NamedTuple):
    """The first `number` along an axis of an array that may hold more behind."""

    array: Array
    axis: int
    number: int
    used: list[int]  # how many are somebody's, for all that have this array to see

    def claim(self, total: int) -> Grown:
        """Likewise `total`, of which those behind what is here are for the caller to fill."""
        array, axis, number, used = self
        if total <= array.shape[axis] and used[0] == number:
            used[0] = total
            return Grown(array, axis, total, used)
        own = (slice(None),) * axis + (slice(number),)
        shape = list(array.shape)
        shape[axis] = max(ROOM, 2 * total)
        grown = empty(*shape)
        grown[own] = array[own]
        return Grown(grown, axis, total, [total])


class Known(NamedTuple):
    """Points that a bank was asked about, as `live_bank.Asked`."""

    points: Tensor
    known: int
    where: Array  # [design, padded]
    rows: Grown  # [kernel, block, context, LANES]
    squares: Array  # [kernel, padded]
    mean: Array  # [kernel, padded]

    @classmethod
    def nothing(cls, points: Tensor, kernels: int) -> Known:
        """Of no observation."""
        size, padded = len(points), _padded(len(points))
        where = np.zeros((points.shape[1], padded), np.float32)
        where[:, :size] = points.numpy().T
        rows = Grown(empty(kernels, padded // native.LANES, 0, native.LANES), 2, 0, [0])
        squares, mean = np.zeros((2, kernels, padded), np.float32)
        return cls(points, 0, where, rows, squares, mean)


@dataclass(frozen=True)
class NativeBank(LiveBank):
    """One episode's context as a bank holds it."""

    table: Array = field(kw_only=True)  # [kernel, 3 + design], its shapes
    fitted: Fit = field(kw_only=True)
    asked: dict[Place, Known] = field(default_factory=dict, repr=False)  # type: ignore[assignment]

    @classmethod
    def empty(cls, kernels: KernelBank) -> NativeBank:
        """Of no data yet."""
        plain = LiveBank.empty(kernels)
        stretch, *others = plain.shapes
        table = np.concatenate([*(part[:, :, 0] for part in others), stretch], 1)
        return cls(
            plain.shapes, plain.designs, plain.rows, plain.log_roots, plain.white,
            table=table, fitted=plain._fit,
        )  # fmt: skip

    @property
    def _fit(self) -> Fit:
        return self.fitted

    def extend(self, design: Tensor, outcome: Tensor) -> NativeBank:
        """With one more observation: design [1, design], outcome [1]."""
        x = floats(design.numpy())
        count, kernels = len(self.designs), len(self.table)
        known, column = self._holding(design, x)
        row, white = empty(2, kernels, count + 1)
        fits = empty(4, kernels)
        native.extend(
            kernels, count, column, known.squares.shape[1], known.rows.array.shape[2],
            known.rows.array, known.squares, known.mean, float(outcome), self.white,
            self.log_roots, row, white, fits,
        )  # fmt: skip
        log_roots, *fit = fits
        return NativeBank(
            self.shapes,
            np.concatenate([self.designs, x]),
            (*self.rows, row),
            log_roots,
            white,
            table=self.table,
            fitted=Fit(*fit),
            asked=dict(self.asked),
            past=self.shared or self.past,
        )

    def _holding(self, design: Tensor, x: Array) -> tuple[Known, int]:
        """Points of which all is known, and which of them a design is."""
        for known in reversed(self.asked.values()):
            if known.known == len(self.designs):
                size, padded = known.where.shape
                column = native.find(size, len(known.points), padded, known.where, x)
                if column >= 0:
                    return known, column
        return self._known(design, None), 0

    def ask(self, points: Tensor) -> Known:  # type: ignore[override]
        """What is known of points [point, design] now."""
        return up_to_date(self.asked, points, len(self.designs), self._known)

    def _known(self, points: Tensor, before: Known | None) -> Known:
        """Add rows for the observations that came since."""
        kernels, size = len(self.table), self.designs.shape[1]
        if before is None:
            before = Known.nothing(points, kernels)
        count, padded = len(self.designs), before.where.shape[1]
        rows = before.rows.claim(count)
        squares, mean = before.squares.copy(), before.mean.copy()
        native.learn(
            kernels, size, before.known, count, padded, rows.array.shape[2],
            self.table, self.designs, self.white, before.where, rows.array, squares, mean,
            self.rows,
        )  # fmt: skip
        return Known(points, count, before.where, rows, squares, mean)

    def expect(self, points: Tensor, among: slice | Indices) -> tuple[Array, Array, Array]:
        """Means, deviations and features [point_features, point] at some of points, and ones."""
        known, kernels = self.ask(points), len(self.table)
        chosen = len(points) if isinstance(among, slice) else len(among)
        mean, std = empty(2, chosen)
        features = empty(3 * kernels + 3, chosen)
        native.expect(
            kernels, len(points), chosen, known.squares.shape[1],
            None if isinstance(among, slice) else among,
            known.squares, known.mean, self.fitted.log_scale, self.fitted.weight,
            mean, std, features,
        )  # fmt: skip
        return mean, std, features

    def weigh_candidates(self, candidates: Tensor, targets: Tensor) -> Worth:
        """What candidates [candidate, design] would tell of targets [target, design]."""
        known, goal = self.ask(candidates), self.ask(targets)
        common = self._take(candidates, targets)
        kernels, padded = known.squares.shape
        fall, left, average = empty(kernels, padded), empty(kernels, 1), empty(padded)
        native.weigh(
            kernels, common.known, len(self.designs), len(targets),
            padded, known.rows.array.shape[2], known.rows.array, known.squares,
            goal.squares.shape[1], goal.rows.array.shape[2], goal.rows.array, goal.squares,
            self.fitted.log_scale, self.fitted.weight, common.covariance, fall, left, average,
        )  # fmt: skip
        self.shared[:] = [common._replace(known=len(self.designs))]
        count = len(candidates)
        return Worth(fall[:, :count], left, average[:count])

    def _prior(self, candidates: Tensor, targets: Tensor) -> Array:
        """Their covariance [kernel, block, target, LANES] before any observation."""
        where, other = self.ask(candidates).where, self.ask(targets).where
        (size, padded), room = where.shape, other.shape[1]
        kernels, lanes = len(self.table), native.LANES
        found = empty(kernels, padded // lanes, len(targets), lanes)
        native.prior(kernels, size, len(targets), padded, room, self.table, where, other, found)
        return found
