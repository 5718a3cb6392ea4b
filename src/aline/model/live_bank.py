"""The bank of Gaussian processes for one running experiment, with the fewest operations a trial.

It says what `kernels.Bank` says (tests/model/test_live_bank.py) of one episode and all of its
observations, without axes for batches and groups: points come last, so that every operation runs
along hundreds of numbers. As in model/live.py, what is small is computed in numpy, whose operations
cost less to call, and both see the same memory.

What is known of points (a pool, a goal's) is kept from one observation to the next: each adds one
row over the factor, and changes the covariance of two sets of points by a product of two rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from aline.model.kernels import (
    LEAST_SHARE,
    NOISE,
    TINY,
    Expectation,
    KernelBank,
    Place,
    place_of,
    up_to_date,
)

Array = np.ndarray[Any, np.dtype[np.float32]]
Indices = np.ndarray[Any, np.dtype[np.intp]]

_APART = 5.0  # features are cut there


class Shapes(NamedTuple):
    """What `KernelBank.covariance` multiplies with, as arrays [kernel, ...]."""

    stretch: Array
    slope: Array
    bend: Array
    curve: Array

    def covariance(self, apart: Array) -> Array:
        """[kernel, n, m] of points that are `apart` [design, n, m]."""
        size, n, m = apart.shape
        square: Array = self.stretch.dot(apart.reshape(size, n * m))
        square = square.reshape(len(square), n, m)
        if not self.slope.any():  # as of one RBF kernel
            square *= self.bend
            return np.exp(square, out=square)
        r = np.sqrt(square)
        r *= self.slope
        top = self.curve * square
        top += r
        top += 1
        square *= self.bend
        square -= r
        np.exp(square, out=square)
        square *= top
        return square

    def table(self, apart: Array) -> Array:
        """Likewise, a kernel at a time: what is between stays in the processor's cache."""
        found = np.empty((len(self.stretch), *apart.shape[1:]), np.float32)
        for number, one in enumerate(zip(*self, strict=True)):
            found[number] = Shapes(*(part[None] for part in one)).covariance(apart)[0]
        return found


def _apart(a: Array, b: Array) -> Array:
    """Squared distances [design, n, m] by axis, of a [n, design] and b [m, design]."""
    apart: Array = a.T[:, :, None] - np.ascontiguousarray(b.T)[:, None]
    apart *= apart
    return apart


class Rows:
    """An array that grows along its second axis, without a copy for whoever comes first."""

    def __init__(self, first: Array, room: int):
        kernels, self.used, points = first.shape
        self.buffer = np.empty((kernels, self.used + room, points), np.float32)
        self.buffer[:, : self.used] = first

    def append(self, known: int, more: Array) -> Rows:
        """With more rows behind the first `known`."""
        total = known + more.shape[1]
        if self.used == known and total <= self.buffer.shape[1]:
            self.buffer[:, known:total] = more
            self.used = total
            return self
        return Rows(np.concatenate([self.buffer[:, :known], more], 1), room=total)


class Asked(NamedTuple):
    """Points that a bank was asked about, and what it computed for them."""

    points: Tensor  # kept, so that no other points can take their place in memory
    known: int  # how many observations
    rows: Rows  # [kernel, context, point], over the factor
    squares: Array  # [kernel, point], these squared and summed
    mean: Array  # [kernel, point], these with the outcomes over the factor

    @property
    def white(self) -> Array:
        """The rows of as many observations as are known."""
        return self.rows.buffer[:, : self.known]


class Shared(NamedTuple):
    """What two sets of points tell of each other after some observations."""

    points: tuple[Tensor, Tensor]  # candidates and targets, kept as in `Asked`
    known: int  # how many observations
    covariance: Array  # [kernel, candidate, target], changed in place by whoever has it


class Worth(NamedTuple):
    """What an outcome at each candidate would tell of the function at some targets."""

    fall: Array  # [kernel, candidate], of the targets' variance
    left: Array  # [kernel, 1], that variance
    average: Array  # [candidate], the share that would go, over all kernels

    def features(self, among: slice | Indices) -> Array:
        """The logs of all shares of some candidates, [worth_features, candidate], and ones."""
        average = self.average[among]
        shares = np.empty((len(self.fall) + 2, len(average)), np.float32)
        np.divide(self.fall[:, among], self.left, out=shares[:-2])
        shares[-2] = average
        shares[-1] = math.e  # of which the log is one
        torch.from_numpy(shares[:-1]).clamp_(LEAST_SHARE, 1)
        return np.log(shares, out=shares)


class Fit(NamedTuple):
    """How each kernel explains the data, [kernel]."""

    log_scale: Array
    density: Array  # log marginal likelihood, not normalised
    weight: Array  # the same, normalised


@dataclass(frozen=True)
class LiveBank:
    """One episode's context as a bank holds it.

    The covariance of candidates and targets is large, and memory that was never used before costs
    more than the product. So there is one, which the next bank takes from its past; a bank without
    it computes it anew.
    """

    shapes: Shapes
    designs: Array  # [context, design]
    rows: tuple[Array, ...]  # of the factor, each [kernel, 1 + its number]
    log_roots: Array  # [kernel], the logs of its diagonal, summed
    white: Array  # [kernel, context], the outcomes over the factor
    asked: dict[Place, Asked] = field(default_factory=dict, repr=False)
    shared: list[Shared] = field(default_factory=list, repr=False)
    past: list[Shared] = field(default_factory=list, repr=False)

    @classmethod
    def empty(cls, kernels: KernelBank) -> LiveBank:
        """Of no data yet."""
        count, size = kernels.inverse.shape
        shapes = Shapes(kernels.stretch.numpy(), *kernels.shapes.numpy())
        designs, log_roots, white = (
            np.zeros(shape, np.float32) for shape in ((0, size), count, (count, 0))
        )
        return cls(shapes, designs, (), log_roots, white)

    def extend(self, design: Tensor, outcome: Tensor) -> LiveBank:
        """With one more observation: design [1, design], outcome [1]."""
        row, squares, mean = self._known_of(design)
        root = np.sqrt(_unexplained(squares))
        value = (outcome.numpy() - mean) / root
        return LiveBank(
            self.shapes,
            np.concatenate([self.designs, design.numpy()]),
            (*self.rows, np.concatenate([row, root], 1)),
            self.log_roots + np.log(root[:, 0]),
            np.concatenate([self.white, value], 1),
            asked=dict(self.asked),
            past=self.shared or self.past,
        )

    def _known_of(self, design: Tensor) -> tuple[Array, Array, Array]:
        """A design over the factor [kernel, context], and its squares and mean [kernel, 1].

        One of a pool that was asked about has them already.
        """
        x = design.numpy()
        for asked in reversed(self.asked.values()):
            same = (asked.points.numpy() == x).all(1)
            if asked.known == len(self.designs) and same.any():
                one = slice(first := int(same.argmax()), first + 1)
                return asked.white[:, :, first], asked.squares[:, one], asked.mean[:, one]
        asked = self._learn(design, None)
        return asked.white[:, :, 0], asked.squares, asked.mean

    def ask(self, points: Tensor) -> Asked:
        """What is known of points [point, design] now."""
        return up_to_date(self.asked, points, len(self.designs), self._learn)

    def _learn(self, points: Tensor, before: Asked | None) -> Asked:
        """Add rows for the observations that came since."""
        known, count = (0 if before is None else before.known), len(self.designs)
        more = self.shapes.covariance(_apart(self.designs[known:], points.numpy()))
        factor = self._factor(known)
        if before is not None:
            more -= np.matmul(factor[:, :, :known], before.white)
        corner = factor[:, :, known:]
        more = more / corner if count - known == 1 else _over(corner, more)
        squares = np.einsum("knp,knp->kp", more, more)
        mean = np.matmul(self.white[:, None, known:], more)[:, 0]
        if before is None:
            return Asked(points, count, Rows(more, room=count + 1), squares, mean)
        rows = before.rows.append(known, more)
        return Asked(points, count, rows, before.squares + squares, before.mean + mean)

    def _factor(self, known: int) -> Array:
        """The factor's rows behind the first `known`, [kernel, n - known, n]."""
        count = len(self.rows)
        factor = np.zeros((len(self.white), count - known, count), np.float32)
        for number, row in enumerate(self.rows[known:]):
            factor[:, number, : row.shape[1]] = row
        return factor

    @cached_property
    def _fit(self) -> Fit:
        count = self.white.shape[1] + 1
        scale = np.log((np.einsum("kn,kn->k", self.white, self.white) + 1) / count) / 2
        density = -count * scale - self.log_roots
        weight = np.exp(density - density.max())
        return Fit(scale, density, weight / weight.sum())

    @property
    def _log_count(self) -> Array:
        return np.array([np.log1p(self.white.shape[1])], np.float32)

    def fit(self) -> tuple[Tensor, Tensor, Tensor]:
        """As `Bank.fit`."""
        scale, density, _ = self._fit
        every = (scale, density, self._log_count)
        return tuple(torch.from_numpy(part)[None, None] for part in every)  # type: ignore[return-value]

    @cached_property
    def description(self) -> Array:
        """Features [context_features] of all that was seen."""
        scale, _, weight = self._fit
        return np.concatenate([scale, weight, self._log_count])

    def describe(self) -> Tensor:
        """As `Bank.describe`."""
        return torch.from_numpy(self.description)[None, None]

    def expect(self, points: Tensor, among: slice | Indices) -> tuple[Array, Array, Array]:
        """Means, deviations and features [point_features, point] at some of points, and ones."""
        asked, (log_scale, _, weight) = self.ask(points), self._fit
        mean = asked.mean[:, among]
        left = _unexplained(asked.squares[:, among])
        log_scale = log_scale[:, None]
        average = weight @ mean
        away = mean - average
        log_spread = np.log(np.maximum(weight @ (np.exp(2 * log_scale) * left + away * away), TINY))
        log_spread /= 2
        spread = np.exp(log_spread)
        count, size = mean.shape
        features = np.empty((3 * count + 3, size), np.float32)
        np.divide(away, spread, out=features[:count])
        np.subtract(np.log(left) / 2 + log_scale, log_spread, out=features[count : 2 * count])
        _cut(features[: 2 * count])
        features[2 * count : 3 * count] = weight[:, None]
        features[-3] = _cut(average.copy())
        features[-2] = log_spread
        features[-1] = 1
        return average, spread, features

    def predict(self, points: Tensor) -> Expectation:
        """As `Bank.predict`, at points [1, 1, target, design]."""
        mean, std, features = map(torch.from_numpy, self.expect(points[0, 0], slice(None)))
        return Expectation(mean[None, None], std[None, None], features[:-1].T[None, None])

    def weigh_candidates(self, candidates: Tensor, targets: Tensor) -> Worth:
        """What candidates [candidate, design] would tell of targets [target, design]."""
        own = _unexplained(self.ask(candidates).squares)
        left = np.maximum(1 - self.ask(targets).squares, TINY).sum(1)
        common = self._brought_up(self._take(candidates, targets))
        rows = common.covariance[..., None, :]  # a sum of squares as a product is quickest
        fall: Array = np.matmul(rows, rows.swapaxes(2, 3))[..., 0, 0]
        self.shared[:] = [common]
        fall /= own
        log_scale, _, weight = self._fit
        size = weight * np.exp(2 * (log_scale - log_scale.max()))
        return Worth(fall, left[:, None], (size @ fall) / (size @ left))

    def worth(self, candidates: Tensor, targets: Tensor, wanted: Tensor) -> Tensor:
        """As `Bank.worth`, of candidates [1, 1, query, design]."""
        found = self.weigh_candidates(candidates[0, 0], targets[0, wanted[0]])
        return torch.from_numpy(found.features(slice(None))[:-1]).T[None, None]

    def _take(self, candidates: Tensor, targets: Tensor) -> Shared:
        """Their covariance some observations ago; nobody else has it until it is put back."""
        before = None
        for box in (self.shared, self.past):
            before = before or (box.pop() if box else None)
        pair = [place_of(candidates), place_of(targets)]
        if before is None or [place_of(points) for points in before.points] != pair:
            before = Shared((candidates, targets), 0, self._prior(candidates, targets))
        return before

    def _prior(self, candidates: Tensor, targets: Tensor) -> Array:
        """Their covariance before any observation."""
        return self.shapes.table(_apart(candidates.numpy(), targets.numpy()))

    def _brought_up(self, before: Shared) -> Shared:
        """Their covariance given all that was seen."""
        rows, common = slice(before.known, None), torch.from_numpy(before.covariance)
        candidates, targets = before.points
        a = torch.from_numpy(self.ask(candidates).white[:, rows]).mT
        b = torch.from_numpy(self.ask(targets).white[:, rows])
        if b.shape[1] == 1:  # a product of two vectors: one pass instead of three
            common.addcmul_(a, b, value=-1)
        elif b.shape[1]:
            common.baddbmm_(a, b, alpha=-1)
        return before._replace(known=len(self.designs))


def _cut(features: Array) -> Array:
    """Within _APART of zero, in place."""
    torch.from_numpy(features).clamp_(-_APART, _APART)
    return features


def _unexplained(squares: Array) -> Array:
    """The variance [kernel, point] of outcomes, of which `squares` is explained."""
    out: Array = np.maximum(1 + NOISE - squares, NOISE)
    return out


def _over(factor: Array, rows: Array) -> Array:
    """Rows [kernel, n, m] over a lower triangular factor [kernel, n, n]."""
    parts = torch.from_numpy(factor), torch.from_numpy(np.ascontiguousarray(rows))
    out: Array = torch.linalg.solve_triangular(*parts, upper=False).numpy()
    return out
