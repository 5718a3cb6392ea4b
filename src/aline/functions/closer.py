"""Hypotheses close to what the data leave: of each episode's own, around the likely of a grid.

A grid of hypotheses over the prior is coarse where the data tell much. So new ones are drawn around
those of the grid that explain the data, as wide as these say that the posterior is, and weighed
together with the grid: each point, wherever it came from, by its posterior density over the density
with which points of all origins lie there (the balance heuristic). Then a few hundred of them are
as good as thousands of the grid, and where the data tell nothing the grid itself is left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from aline.functions.bank import KINDS, Bank

PARENTS = 32  # of the grid that new hypotheses are drawn around, at most
WIDER = 1.5  # variance of a new one around its parent, over that of the posterior
LEAST_VARIANCE = 1e-4
FURTHEST = 2.8  # on the normal scale, which holds all but half a percent of a prior
AT_ONCE = 2**20  # numbers of covariances that are computed at a time, so that they stay in cache
_LOG_2PI = math.log(2 * math.pi)
_CORNER = 1e30  # more than any outcomes are worth over a factor


class Data(NamedTuple):
    """What each row, a group of an episode, has seen."""

    designs: Tensor  # [row, n, design]
    outcomes: Tensor  # [row, n], zero where nothing was seen
    seen: Tensor  # [row, n]: 1 for what counts

    @classmethod
    def of(cls, bank: Bank) -> Data:
        """All groups of a bank, each with the observation that it alone has made."""
        batch, groups, _ = bank.seen.shape
        designs = bank.designs[:, None].expand(-1, groups, -1, -1)
        outcomes, seen = bank.outcomes[:, None] * bank.seen, bank.seen
        if bank.extra is not None:
            own = bank.extra.context.outcomes.view(batch, groups, 1).to(seen.dtype)
            designs = torch.cat([designs, bank.extra.design], 2)
            outcomes = torch.cat([outcomes, own], 2)
            seen = torch.cat([seen, torch.ones_like(own)], 2)
        return cls(*(part.flatten(0, 1) for part in (designs, outcomes, seen)))

    @property
    def lengths(self) -> Tensor:
        """How far each row must be looked at, [row]."""
        places = torch.arange(1, self.seen.shape[1] + 1)
        return torch.cat([torch.zeros(len(self.seen), 1), self.seen * places], 1).amax(1).long()

    def parts(self, hypotheses: int) -> Iterator[tuple[Tensor, Data]]:
        """Rows of about the same length, as many at a time as stay in the cache."""
        lengths = self.lengths
        order = lengths.argsort()
        while len(order):
            longest = int(lengths[order[-1]])
            count = max(1, AT_ONCE // (hypotheses * max(1, longest) ** 2))
            rows, order = order[-count:], order[:-count]
            some = (part[rows, :longest] for part in self)
            yield rows, Data(*some)


class Kernels(NamedTuple):
    """Gaussian processes of each row's own."""

    inverse: Tensor  # [row, hypothesis, design], one over the lengthscales
    noise: Tensor  # [row, hypothesis], its variance over the function's
    log_scale: Tensor  # [row, hypothesis], of the function's deviation
    kind: Tensor  # [row, hypothesis], a row of KINDS

    def covariance(self, a: Tensor, b: Tensor) -> Tensor:
        """Of unit variance, [row, hypothesis, n, m], of a [row, n, design], b [row, m, design]."""
        stretch, slope, bend, curve = torch.tensor(KINDS)[self.kind][..., None].unbind(2)
        apart = (a[:, :, None] - b[:, None]).square().flatten(1, 2)
        square = (stretch * self.inverse.square()) @ apart.mT
        r = square.sqrt().mul_(slope)
        cover = torch.addcmul(-r, bend, square).exp_().mul_(torch.addcmul(1 + r, curve, square))
        matrices: Tensor = cover.unflatten(-1, (a.shape[1], b.shape[1]))
        return matrices

    def factor(self, data: Data) -> tuple[Tensor, Tensor]:
        """Of the observations' covariance [row, hypothesis, n, n], and the outcomes over it.

        The outcomes are one more row of the matrix: so both come from one decomposition.
        """
        rows, count = data.outcomes.shape
        matrix = data.designs.new_zeros(rows, self.kind.shape[1], count + 1, count + 1)
        inner = matrix[..., :count, :count]
        both = data.seen[:, None, :, None] * data.seen[:, None, None, :]
        torch.mul(self.covariance(data.designs, data.designs), both, out=inner)
        seen = data.seen[:, None]
        inner.diagonal(dim1=-2, dim2=-1).add_(self.noise[..., None] * seen + 1 - seen)
        matrix[..., count, :count] = data.outcomes[:, None]
        matrix[..., count, count] = _CORNER
        factor = torch.linalg.cholesky_ex(matrix).L
        return factor[..., :count, :count], factor[..., count, :count]

    def fit(self, data: Data) -> Tensor:
        """The data's log likelihood [row, hypothesis], but for a constant."""
        factor, white = self.factor(data)
        squares = white.square().sum(-1) * (-2 * self.log_scale).exp()
        log_root = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return -0.5 * squares - data.seen.sum(-1)[:, None] * self.log_scale - log_root

    def at(self, data: Data, points: Tensor) -> tuple[Tensor, Tensor]:
        """Means [row, hypothesis, m] at points [row, m, design].

        And what is left of each kernel's own variance there, noise included.
        """
        factor, white = self.factor(data)
        cross = self.covariance(data.designs, points) * data.seen[:, None, :, None]
        rows = torch.linalg.solve_triangular(factor, cross, upper=False)
        noise = self.noise[..., None]
        left = torch.maximum(1 + noise - rows.square().sum(2), noise)
        return (white[:, :, None] @ rows)[:, :, 0], left

    def some(self, rows: Tensor) -> Kernels:
        """Of some rows."""
        return Kernels(*(part[rows] for part in self))


def fits(kernels: Kernels, data: Data) -> Tensor:
    """As `Kernels.fit`, some rows at a time."""
    found = torch.empty(kernels.noise.shape)
    for rows, part in data.parts(kernels.noise.shape[1]):
        found[rows] = kernels.some(rows).fit(part)
    return found


class Cloud(NamedTuple):
    """Hypotheses [row, hypothesis]: the grid's are the same for all rows."""

    z: Tensor  # [row, hypothesis, parameter], on the network's scale
    kind: Tensor  # [row, hypothesis]
    tied: Tensor  # [row, hypothesis], whether all axes have one lengthscale

    def take(self, index: Tensor) -> Cloud:
        """Those at index [row, n]."""
        z = self.z.gather(1, index[..., None].expand(-1, -1, self.z.shape[2]))
        return Cloud(z, self.kind.gather(1, index), self.tied.gather(1, index))


class Proposal(NamedTuple):
    """Normals around some hypotheses, from which more are drawn."""

    parents: Cloud  # [row, parent]
    weight: Tensor  # [row, parent]
    root: Tensor  # [row, parameter, parameter], of the covariance around each
    along: list[int]  # the columns of the lengthscales

    @classmethod
    def around(cls, grid: Cloud, fit: Tensor, power: Tensor, along: list[int]) -> Proposal:
        """Those that explain the data best, `fit` [row, hypothesis] being their log likelihood.

        With the likelihood raised to `power` [row, 1] enough of the grid counts: the posterior is
        about as wide as these, times the power.
        """
        tempered = (power * fit).softmax(-1)[..., None]
        apart = grid.z - (tempered * grid.z).sum(1, keepdim=True)
        covariance = WIDER * power[..., None] * ((tempered * apart).mT @ apart)
        covariance.diagonal(dim1=-2, dim2=-1).add_(LEAST_VARIANCE)
        # Between that power and one: the proposal should reach a little further than the posterior.
        best, index = (power.sqrt() * fit).topk(min(PARENTS, fit.shape[1]), dim=1)
        root = torch.linalg.cholesky(covariance)
        return cls(grid.take(index), best.softmax(-1), root, along)

    def draw(self, count: int) -> Cloud:
        """As many an episode, the same for the same data: evenly spread, not by chance."""
        place = (torch.arange(count) + 0.5) / count
        cumulated = self.weight.cumsum(-1)
        index = torch.searchsorted(cumulated, place.expand(len(cumulated), -1).contiguous())
        parents = self.parents.take(index.clamp(max=self.weight.shape[1] - 1))
        z = parents.z + _normals(count, self.parents.z.shape[2]) @ self.root.mT
        z = z.clamp(-FURTHEST, FURTHEST)
        z[..., self.along] = torch.where(
            parents.tied[..., None], z[..., self.along[:1]], z[..., self.along]
        )
        return parents._replace(z=z)

    def log_density(self, at: Cloud) -> Tensor:
        """With which hypotheses [row, n] are drawn; of tied ones, in the coordinates left."""
        free, tied = (self._log_normals(at.z, columns) for columns in self._coordinates())
        every = torch.where(at.tied[..., None], tied, free)
        alike = at.kind[..., None] == self.parents.kind[:, None]
        alike &= at.tied[..., None] == self.parents.tied[:, None]
        every = every.masked_fill(~alike, -torch.inf)
        return torch.logsumexp(every + self.weight.log()[:, None], -1)

    def _coordinates(self) -> tuple[list[int], list[int]]:
        """The columns in which hypotheses differ: all, and with one lengthscale for all axes."""
        every = list(range(self.parents.z.shape[2]))
        return every, [column for column in every if column not in self.along[1:]]

    def _log_normals(self, z: Tensor, columns: list[int]) -> Tensor:
        """The density at z [row, n, parameter] of a normal around each parent, [row, n, parent]."""
        covariance = (self.root @ self.root.mT)[:, columns][:, :, columns]
        root = torch.linalg.cholesky(covariance)
        unit = torch.eye(len(columns)).expand_as(root)
        whiten = torch.linalg.solve_triangular(root, unit, upper=False).mT
        apart = torch.cdist(z[..., columns] @ whiten, self.parents.z[..., columns] @ whiten)
        log_root = root.diagonal(dim1=-2, dim2=-1).log().sum(-1)[:, None, None]
        density: Tensor = -0.5 * apart.square() - log_root - 0.5 * len(columns) * _LOG_2PI
        return density


def log_prior(cloud: Cloud, along: list[int]) -> Tensor:
    """The density [row, hypothesis] of the prior, given what a hypothesis is like."""
    each = -0.5 * (cloud.z.square() + _LOG_2PI)
    tied = each.sum(-1) - each[..., along[1:]].sum(-1)
    return torch.where(cloud.tied, tied, each.sum(-1))


@cache
def _normals(count: int, size: int) -> Tensor:
    """Points [count, size] spread like a standard normal, in no order."""
    engine = torch.quasirandom.SobolEngine(size, scramble=True, seed=0)
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    points: Tensor = torch.special.ndtri(engine.draw(count)[shuffled].clamp(1e-4, 1 - 1e-4))
    return points
