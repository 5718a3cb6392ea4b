"""A learned kernel: what related landscapes have in common, and what a few outcomes say of one.

A landscape is a mean plus a weighted sum of features that are learned, plus a rest that is smooth
in a learned map of the inputs. Given outcomes, all of that is Gaussian and exact. One Cholesky
factor serves all prefixes of an episode: that of the first t observations is its leading block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from aline.episodes import Context
from aline.errors import InternalError

LEAST_NOISE = 1e-5  # variance, in units of the outcomes' over all tables
LEAST_VARIANCE = 1e-6


class Embedded(NamedTuple):
    """Points as the kernel sees them."""

    mean: Tensor  # [..., n]
    features: Tensor  # [..., n, feature]
    place: Tensor  # [..., n, axis]

    def grouped(self) -> Embedded:
        """With an axis of groups before the points."""
        return Embedded(self.mean[:, None], self.features[:, None], self.place[:, None])


class LearnedKernel(nn.Module):
    """Features of points, and the covariance and mean that they give."""

    def __init__(self, design: int, features: int = 48, hidden: int = 128, axes: int = 8):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(design, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(),
            nn.Linear(hidden, features),
        )  # fmt: skip
        self.mean = nn.Linear(features, 1)
        self.weigh = nn.Linear(features, features)
        self.place = nn.Linear(design, axes)
        self.log_rest = nn.Parameter(torch.tensor(-4.0))
        self.log_noise = nn.Parameter(torch.tensor(-7.0))

    @property
    def noise(self) -> Tensor:
        """The variance of outcomes at one point."""
        return self.log_noise.exp() + LEAST_NOISE

    def embed(self, points: Tensor) -> Embedded:
        """Points [..., n, design]; in double precision, which near-by points need from here on."""
        common = self.trunk(points)
        features = self.weigh(common) / math.sqrt(common.shape[-1])
        found = self.mean(common)[..., 0], features, self.place(points)
        return Embedded(*(part.double() for part in found))

    def covariance(self, a: Embedded, b: Embedded) -> Tensor:
        """Of landscapes, [..., n, m]."""
        apart = torch.cdist(a.place, b.place).square()
        return a.features @ b.features.mT + self.log_rest.exp() * torch.exp(-0.5 * apart)

    def variance(self, a: Embedded) -> Tensor:
        """Of landscapes at points, [..., n]."""
        return a.features.square().sum(-1) + self.log_rest.exp()

    def read(self, context: Context) -> Posterior:
        """Take a context in; what its mask hides is as if it were not there."""
        seen = self.embed(context.designs)
        matrix = self.covariance(seen, seen)
        count = matrix.shape[-1]
        apart = context.outcomes - seen.mean
        visible = torch.ones_like(apart)
        if context.mask is not None:
            visible = context.mask.to(apart.dtype)
            matrix = matrix * visible[:, :, None] * visible[:, None]
        matrix = matrix + torch.diag_embed((1 - visible) + self.noise.expand(count))
        factor = torch.linalg.cholesky(matrix)
        white = torch.linalg.solve_triangular(factor, (apart * visible)[..., None], upper=False)
        # An axis of groups, and one row for each observation.
        return Posterior(
            self, seen.grouped(), factor[:, None], white[:, None, :, 0], visible[:, None]
        )


@dataclass(frozen=True)
class Posterior:
    """What outcomes say of a landscape, for groups that each see a prefix of them."""

    kernel: LearnedKernel
    seen: Embedded  # of the context, [batch, 1, context, ...]
    factor: Tensor  # [batch, 1, context, context]
    white: Tensor  # [batch, 1, context]: outcomes less their mean, over the factor
    visible: Tensor  # [batch, group, context], 1 where a group sees an observation

    def prefixes(self, visible: Tensor) -> Posterior:
        """For groups that see `visible` [batch, group, context], a prefix each."""
        if bool((visible[..., 1:] & ~visible[..., :-1]).any()):
            raise InternalError("groups must see prefixes of a context")
        both = visible.to(self.visible.dtype) * self.visible
        return Posterior(self.kernel, self.seen, self.factor, self.white, both)

    def rows(self, at: Embedded) -> Tensor:
        """The covariance of observations with points, over the factor: [batch, group, n, m]."""
        cross = self.kernel.covariance(self.seen, at)
        shape = (*torch.broadcast_shapes(cross.shape[:2], self.factor.shape[:2]), *cross.shape[2:])
        white: Tensor = torch.linalg.solve_triangular(self.factor, cross.expand(shape), upper=False)
        return white * self.visible[..., None]

    def moments(self, at: Embedded) -> tuple[Tensor, Tensor]:
        """Mean and variance [batch, group, m] of outcomes at points."""
        rows = self.rows(at)
        mean = at.mean + (rows * self.white[..., None]).sum(-2)
        left = self.kernel.variance(at) - rows.square().sum(-2)
        return mean, left.clamp_min(LEAST_VARIANCE) + self.kernel.noise

    def surprise(self) -> Tensor:
        """How far outcomes were from expected, [batch, group], near 1 where they are as usual."""
        count = self.visible.sum(-1)
        squares = (self.white.square() * self.visible).sum(-1)
        return ((squares + 1) / (count + 1)).sqrt()

    def log_variance_share(self, candidates: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        """The log share [batch, group, n] of the targets' variance that an outcome takes away.

        Targets are [batch, m, design], those that count are in `mask` [batch, m].
        """
        here = self.kernel.embed(grouped(candidates))
        there = self.kernel.embed(targets[:, None])
        rows, theirs = self.rows(here), self.rows(there)
        shared = self.kernel.covariance(there, here) - theirs.mT @ rows
        counts = mask[:, None, :, None].to(shared.dtype)
        left = (self.kernel.variance(there) - theirs.square().sum(-2)).clamp_min(LEAST_VARIANCE)
        own = (self.kernel.variance(here) - rows.square().sum(-2)).clamp_min(0) + self.kernel.noise
        gone = (shared.square() * counts).sum(-2) / own
        return (gone / (left * counts[..., 0]).sum(-1, keepdim=True)).clamp_min(1e-9).log()


def grouped(points: Tensor) -> Tensor:
    """Points [batch, (group,) n, design] with an axis of groups."""
    return points[:, None] if points.dim() == 3 else points
