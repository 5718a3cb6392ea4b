"""Stationary kernels of unit variance: RBF, Matern 3/2 and Matern 5/2."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

KINDS = ("rbf", "matern32", "matern52")
# All three are (1 + s r + c r^2) exp(-s r + b r^2), where r is the distance in lengthscales times a
# factor of its own. Columns: that factor squared, -s, b, c.
_SHAPES = ((1.0, 0.0, -0.5, 0.0), (3.0, -1.0, 0.0, 0.0), (5.0, -1.0, 0.0, 1 / 3))


def covariance(kind: Tensor, square: Tensor) -> Tensor:
    """Covariances [..., n] of kernels [...] of KINDS, at squared distances in lengthscales."""
    shapes = Shapes.of(kind, square.dtype)
    return shapes.covariance(square * shapes.factor)


class Shapes(NamedTuple):
    """The numbers of `_SHAPES` for some kernels [..., kernel, 1], ready to multiply with."""

    factor: Tensor
    minus_slope: Tensor
    bend: Tensor
    curve: Tensor

    @classmethod
    def of(cls, kind: Tensor, dtype: torch.dtype) -> Shapes:
        """For kernels [..., kernel] of KINDS."""
        return cls(*torch.tensor(_SHAPES, dtype=dtype)[kind][..., None].unbind(-2))

    def covariance(self, square: Tensor) -> Tensor:
        """At squared distances [..., kernel, n], times the factor.

        The only place where the kernels' formula stands.
        """
        r = square.sqrt().mul_(self.minus_slope)
        decay = torch.addcmul(r, self.bend, square).exp_()
        return decay.mul_(torch.addcmul(1 - r, self.curve, square))

    def slope(self, square: Tensor) -> Tensor:
        """The derivative of `covariance` by its argument, at the same."""
        r, s, b, c = square.sqrt(), -self.minus_slope, self.bend, self.curve
        polynomial = 2 * (b + c) - s * s + s * (2 * b - c) * r + 2 * b * c * square
        return 0.5 * polynomial * (b * square - s * r).exp()


class Kernels(NamedTuple):
    """Kernels with a lengthscale an axis, the same for all episodes or each episode's own."""

    rate: Tensor  # [..., kernel, design], by which squared distances are multiplied
    shapes: Shapes | None  # None where all are RBF
    noise: Tensor  # [..., kernel], the variance of the noise over the function's

    @classmethod
    def of(cls, kind: Tensor, lengthscale: Tensor, noise: Tensor) -> Kernels:
        """For kinds [..., kernel], lengthscales [..., kernel, design] and noise [..., kernel]."""
        if not bool(kind.any()):
            return cls(-0.5 / lengthscale.square(), None, noise)
        shapes = Shapes.of(kind, lengthscale.dtype)
        return cls(shapes.factor / lengthscale.square(), shapes, noise)

    @property
    def number(self) -> int:
        """How many kernels an episode has."""
        return self.noise.shape[-1]

    def covariance(self, a: Tensor, b: Tensor) -> Tensor:
        """Matrices [batch, kernel, n, m] of a [batch, n, design] and b [batch, m, design]."""
        # By axis: products of coordinates would lose small distances.
        apart = (a[:, :, None] - b[:, None]).square_().flatten(1, 2)
        square = self.rate @ apart.mT
        flat = square.exp_() if self.shapes is None else self.shapes.covariance(square)
        return flat.view(*flat.shape[:-1], a.shape[1], b.shape[1])

    def part(self, some: slice | Tensor) -> Kernels:
        """Some of them, the same for all episodes."""
        shapes = self.shapes and Shapes(*(part[..., some, :] for part in self.shapes))
        return Kernels(self.rate[..., some, :], shapes, self.noise[..., some])

    def episodes(self, rows: Tensor) -> Kernels:
        """Those of some episodes, where each has its own."""
        shapes = self.shapes and Shapes(*(part[rows] for part in self.shapes))
        return Kernels(self.rate[rows], shapes, self.noise[rows])

    def some(self, index: Tensor) -> Kernels:
        """Those at index [batch, n], where each episode has its own RBF kernels."""
        assert self.shapes is None
        rate = self.rate.gather(1, index[..., None].expand(-1, -1, self.rate.shape[-1]))
        return Kernels(rate, None, self.noise.gather(1, index))

    def joined(self, more: Kernels) -> Kernels:
        """These, then those, where each episode has its own RBF kernels."""
        assert self.shapes is None
        assert more.shapes is None
        rate = torch.cat([self.rate, more.rate], 1)
        return Kernels(rate, None, torch.cat([self.noise, more.noise], 1))


def spread_lengthscales(count: int, design: int, low: float, high: float) -> Tensor:
    """Lengthscales [count, design] that fill a range evenly in their logs."""
    share = fill_cube(count, design)
    return (math.log(low) + (math.log(high) - math.log(low)) * share).exp()


def fill_cube(count: int, dimensions: int) -> Tensor:
    """Points [count, dimensions] that fill the unit cube evenly; in one dimension, in order."""
    if dimensions == 1:
        return torch.linspace(0, 1, count)[:, None]
    engine = torch.quasirandom.SobolEngine(dimensions, scramble=False)
    return engine.draw(count + 1)[1:]
