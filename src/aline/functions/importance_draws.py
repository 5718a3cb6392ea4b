"""Hypotheses drawn near the data: importance sampling around the likely ones of a grid.

A grid of hypotheses over the prior is coarse where the data say much. So new ones are drawn around
those of the grid that explain the data, as wide as these say that the posterior is. Each point,
wherever it came from, is weighted by its posterior density over the density with which points of
all origins lie there (the balance heuristic of multiple importance sampling).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from aline.episodes import Context
from aline.functions import ensemble
from aline.functions.kernels import KINDS, Kernels
from aline.policies.importance import tempering_power

ROUNDS = (64, 64)  # draws, each round around all points so far
EFFECTIVE = 8.0  # hypotheses that count at least
PARENTS = 32  # points that new ones are drawn around, at most
INFLATION = 1.5  # variance of a new one around its parent, over that of the posterior
LEAST_VARIANCE = 1e-4
FURTHEST = 2.8  # on the normal scale, which holds all but half a percent of a prior
AT_ONCE = 2**20  # numbers of covariances that are computed at a time, so that they stay in cache
_LOG_2PI = math.log(2 * math.pi)


class Processes(Protocol):
    """What makes Gaussian processes of parameters."""

    lengthscale_columns: list[int]

    def processes(self, z: Tensor, kind: Tensor) -> tuple[Kernels, Tensor]:
        """Kernels with parameters z [..., hypothesis, parameter], and the logs of their scales."""
        ...


class Cloud(NamedTuple):
    """Hypotheses of each row, a group of an episode."""

    z: Tensor  # [row, hypothesis, parameter], on the network's scale
    kind: Tensor  # [row, hypothesis]
    tied: Tensor  # bool [row, hypothesis], whether all axes have one lengthscale

    def take(self, index: Tensor) -> Cloud:
        """Those at index [row, n]."""
        z = self.z.gather(1, index[..., None].expand(-1, -1, self.z.shape[2]))
        return Cloud(z, self.kind.gather(1, index), self.tied.gather(1, index))

    def with_more(self, more: Cloud) -> Cloud:
        """These, then those."""
        return Cloud(*(torch.cat(pair, 1) for pair in zip(self, more, strict=True)))

    def log_prior(self, lengthscales: list[int]) -> Tensor:
        """Its density [row, hypothesis], given the kind; one lengthscale for all counts once."""
        each = -0.5 * (self.z.square() + _LOG_2PI)
        tied = each.sum(-1) - each[..., lengthscales[1:]].sum(-1)
        return torch.where(self.tied, tied, each.sum(-1))


class Data(NamedTuple):
    """What each row has seen."""

    designs: Tensor  # [row, n, design]
    outcomes: Tensor  # [row, n]
    seen: Tensor  # bool [row, n]

    @classmethod
    def of(cls, state: ensemble.Posterior) -> Data:
        """All groups of a posterior."""
        batch, groups, count = len(state.designs), state.groups, state.count
        outcomes = state.outcomes
        if state.units is not None:
            outcomes = state.units.standardise(outcomes).to(state.designs.dtype)
        designs = state.designs[:, None].expand(-1, groups, -1, -1)
        outcomes = outcomes[:, None].expand(-1, groups, -1)
        seen = torch.ones(batch, groups, count, dtype=torch.bool)
        if state.visible is not None:
            seen = state.visible.bool()
        return cls(*(part.flatten(0, 1) for part in (designs, outcomes, seen)))

    def read(self, kernels: Kernels) -> ensemble.Posterior:
        """By kernels [row, hypothesis] of each row's own."""
        visible = None if bool(self.seen.all()) else self.seen[:, None]
        return ensemble.read(kernels, Context(self.designs, self.outcomes), visible)

    def parts(self, hypotheses: int) -> Iterator[tuple[Tensor, Data]]:
        """Rows of about the same length, as many at a time as stay in the cache."""
        places = torch.arange(1, self.seen.shape[1] + 1)
        first = torch.zeros(len(self.seen), 1, dtype=torch.long)
        lengths = torch.cat([first, self.seen * places], 1).amax(1)
        order = lengths.argsort()
        while len(order):
            longest = int(lengths[order[-1]])
            count = max(1, AT_ONCE // (hypotheses * max(1, longest) ** 2))
            rows, order = order[-count:], order[:-count]
            yield rows, Data(*(part[rows, :longest] for part in self))


class Proposal(NamedTuple):
    """Normals around some hypotheses, from which more are drawn."""

    parents: Cloud  # [row, parent]
    weight: Tensor  # [row, parent]
    root: Tensor  # [row, parameter, parameter], of the covariance around each
    lengthscales: list[int]  # their columns

    @classmethod
    def around(cls, cloud: Cloud, log_weight: Tensor, lengthscales: list[int]) -> Proposal:
        """The likeliest hypotheses, by weights [row, hypothesis].

        Tempered, enough of them count; the posterior is about as wide as these, times the power.
        """
        power = tempering_power(log_weight, EFFECTIVE)
        tempered = (power * log_weight).softmax(-1)[..., None]
        apart = cloud.z - (tempered * cloud.z).sum(1, keepdim=True)
        covariance = INFLATION * power[..., None] * ((tempered * apart).mT @ apart)
        covariance.diagonal(dim1=-2, dim2=-1).add_(LEAST_VARIANCE)
        # Between that power and one: the proposal should reach a little further than the posterior.
        best, index = (power.sqrt() * log_weight).topk(min(PARENTS, log_weight.shape[1]), dim=1)
        root = torch.linalg.cholesky(covariance)
        return cls(cloud.take(index), best.softmax(-1), root, lengthscales)

    def draw(self, count: int) -> Cloud:
        """As many a row, the same for the same data: evenly spread, not by chance."""
        place = (torch.arange(count) + 0.5) / count
        cumulated = self.weight.cumsum(-1)
        index = torch.searchsorted(cumulated, place.expand(len(cumulated), -1).contiguous())
        parents = self.parents.take(index.clamp(max=self.weight.shape[1] - 1))
        z = parents.z + _normals(count, self.parents.z.shape[2]) @ self.root.mT
        z = z.clamp(-FURTHEST, FURTHEST)
        columns = self.lengthscales
        one = z[..., columns[:1]]
        z[..., columns] = torch.where(parents.tied[..., None], one, z[..., columns])
        return parents._replace(z=z)

    def log_density(self, at: Cloud) -> Tensor:
        """With which hypotheses [row, n] are drawn; of tied ones, in the coordinates left."""
        every = list(range(at.z.shape[2]))
        fewer = [column for column in every if column not in self.lengthscales[1:]]
        free, tied = (self._log_normals(at.z, columns) for columns in (every, fewer))
        density = torch.where(at.tied[..., None], tied, free)
        alike = at.kind[..., None] == self.parents.kind[:, None]
        alike &= at.tied[..., None] == self.parents.tied[:, None]
        density = density.masked_fill(~alike, -torch.inf)
        return torch.logsumexp(density + self.weight.log()[:, None], -1)

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


def draw_near_data(
    grid: Processes, cloud: Cloud, log_likelihood: Tensor, state: ensemble.Posterior, size: int
) -> tuple[Tensor, Tensor]:
    """Draw near the likely ones of a cloud [row, hypothesis], in rounds.

    The cloud are those of `size` hypotheses of the grid that weigh anything.

    Returns the grid's hypotheses and the drawn ones [row, hypothesis, parameter], and the logs of
    their weights [row, hypothesis].
    """
    columns, data = grid.lengthscale_columns, Data.of(state)
    # Kinds are drawn in equal shares and, of several axes, half of all hypotheses are tied.
    log_sorts = math.log(len(KINDS) * (2 if len(columns) > 1 else 1))
    proposals: list[Proposal] = []
    log_weight = log_likelihood
    for count in ROUNDS:
        proposals.append(Proposal.around(cloud, log_weight, columns))
        more = proposals[-1].draw(count)
        cloud = cloud.with_more(more)
        fit = _log_likelihood(*grid.processes(more.z, more.kind), data)
        log_likelihood = torch.cat([log_likelihood, fit], 1)
        log_prior = cloud.log_prior(columns) - log_sorts
        origins = [log_prior + math.log(size)]
        for drawn, one in zip(ROUNDS, proposals, strict=False):
            origins.append(one.log_density(cloud) + math.log(drawn))
        log_weight = log_likelihood + log_prior - torch.logsumexp(torch.stack(origins), 0)
    return cloud.z, log_weight


def _log_likelihood(kernels: Kernels, log_scale: Tensor, data: Data) -> Tensor:
    """Of the data [row, hypothesis], but for a constant; some rows and hypotheses at a time."""
    found = torch.empty(log_scale.shape)
    for rows, part in data.parts(log_scale.shape[1]):
        step = max(1, AT_ONCE // (len(rows) * max(1, part.seen.shape[1]) ** 2))
        for first in range(0, log_scale.shape[1], step):
            some = slice(first, first + step)
            squares, log_root, count = part.read(kernels.episodes(rows).part(some)).sums
            own = log_scale[rows, some]
            fit = -0.5 * squares[:, 0] * (-2 * own).exp() - count[:, 0] * own
            found[rows, some] = fit - log_root[:, 0]
    return found


@cache
def _normals(count: int, size: int) -> Tensor:
    """Points [count, size] spread like a standard normal, in no order."""
    engine = torch.quasirandom.SobolEngine(size, scramble=True, seed=0)
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    points: Tensor = torch.special.ndtri(engine.draw(count)[shuffled].clamp(1e-4, 1 - 1e-4))
    return points
