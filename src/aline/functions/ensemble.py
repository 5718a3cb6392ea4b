"""An ensemble of Gaussian processes with fixed kernels, and what a context makes of it.

Each kernel gives a mean and a variance at any point and, by its marginal likelihood, how well it
explains the data. One Cholesky factor a kernel serves all prefixes of an episode: that of the first
t observations is its leading block. The same holds for all rows computed with it, so a group sums
over what it sees, and one more observation adds one row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from aline.episodes import Context
from aline.errors import InternalError
from aline.functions.kernels import KINDS, Kernels, spread_lengthscales
from aline.functions.known_points import KnownPoints, Memory, PairCovariance
from aline.functions.units import Units

NOISE_RATIO = 1e-4  # variance of the noise over the function's
LENGTHSCALES = (0.02, 1.0)  # for designs in [-1, 1], times the root of their dimension
LEAST_VARIANCE = 1e-6
LEAST_SHARE = 1e-4  # of a variance that goes
LONG = 100  # observations from which factors are computed some kernels at a time
AT_ONCE = 2**21  # numbers of their covariances: on the way a matrix takes several times its memory


def spread_kernels(design: int, count: int) -> Kernels:
    """RBF, Matern 3/2 and 5/2 in turn, with lengthscales spread over LENGTHSCALES."""
    low, high = (end * math.sqrt(design) for end in LENGTHSCALES)
    kind = torch.arange(count) % len(KINDS)
    lengthscale = spread_lengthscales(count, design, low, high)
    return Kernels.of(kind, lengthscale, torch.full((count,), NOISE_RATIO))


def read(
    kernels: Kernels,
    context: Context,
    visible: Tensor | None = None,
    standardise: bool = False,
) -> Posterior:
    """Take a context in, for groups that see prefixes of it, or for one group that sees all.

    `visible` [batch, group, context] says what each group sees. `standardise` is for outcomes in a
    user's units.
    """
    dtype = kernels.noise.dtype
    designs, outcomes = context.designs.to(dtype), context.outcomes
    kept = None if visible is None else _kept(visible).to(dtype)
    factor = _factor(kernels, designs, kept)
    if kept is not None:
        outcomes = outcomes * kept
    columns = torch.stack([outcomes, torch.ones_like(outcomes)], -1)[..., : 1 + standardise]
    white = _over(factor.to(columns.dtype), columns[:, None])
    return Posterior(
        kernels, designs, outcomes, factor, white,
        visible=None if visible is None else visible.to(dtype),
        kept=kept,
        units=Units.of(outcomes) if standardise else None,
    )  # fmt: skip


def _kept(visible: Tensor) -> Tensor:
    """Which observations [batch, context] any group sees."""
    kept = visible.any(1)
    left_out = kept[:, None] & ~visible
    if bool((visible & (left_out.cumsum(-1) > 0)).any()):
        raise InternalError("groups must see a prefix of what any of them sees")
    return kept


def _factor(kernels: Kernels, designs: Tensor, kept: Tensor | None) -> Tensor:
    """Of the outcomes' covariance [batch, kernel, n, n]; unseen ones are independent."""
    batch, count, _ = designs.shape
    if count <= LONG:
        return _factor_of_few(kernels, designs, kept)
    factor = designs.new_empty(batch, kernels.number, count, count)
    for some in _parts(kernels.number, batch * count**2):
        factor[:, some] = _factor_of_few(kernels.part(some), designs, kept)
    return factor


def _parts(kernels: int, numbers: int) -> Iterator[slice]:
    """Of kernels that have so many numbers each, those that are computed at a time."""
    step = max(1, AT_ONCE // max(1, numbers))
    return (slice(first, first + step) for first in range(0, kernels, step))


def _factor_of_few(kernels: Kernels, designs: Tensor, kept: Tensor | None) -> Tensor:
    matrix = kernels.covariance(designs, designs)
    noise = kernels.noise[..., None]
    if kept is not None:
        matrix *= kept[:, None, :, None] * kept[:, None, None, :]
        noise = noise * kept[:, None] + 1 - kept[:, None]
    matrix.diagonal(dim1=-2, dim2=-1).add_(noise)
    factor, failed = torch.linalg.cholesky_ex(matrix)
    checked: Tensor = factor.masked_fill_(failed[..., None, None] > 0, math.nan)
    return checked


def _over(factor: Tensor, columns: Tensor) -> Tensor:
    """Columns [batch, kernel or 1, n, m] over a factor [batch, kernel, n, n]."""
    if factor.shape[-1] == 1:  # the usual case of growing; a solver takes several times as long
        return columns / factor
    wide = columns.expand(*factor.shape[:2], *columns.shape[2:])
    white: Tensor = torch.linalg.solve_triangular(factor, wide, upper=False)
    return white


class Evidence(NamedTuple):
    """How each kernel explains what a group has seen."""

    log_scale: Tensor  # [batch, group, kernel], of the function's likeliest standard deviation
    log_density: Tensor  # [batch, group, kernel], log marginal likelihood at that scale
    observed: Tensor  # [batch or 1, group or 1, 1], how many outcomes

    @property
    def log_weight(self) -> Tensor:
        """Normalised over kernels."""
        return self.log_density.log_softmax(-1)


@dataclass
class Posterior:
    """An ensemble after a context, for a number of groups an episode."""

    kernels: Kernels
    designs: Tensor  # [batch, context, design]
    outcomes: Tensor  # [batch, context], as they came
    factor: Tensor  # [batch, kernel, context, context]
    white: Tensor  # [batch, kernel, context, 1 or 2]: outcomes over the factor, in open units ones
    visible: Tensor | None = None  # [batch, group, context], 1 for what a group sees; None: all
    kept: Tensor | None = None  # [batch, context], 0 for what no group sees
    units: Units | None = None
    which: Tensor | None = None  # [kernel], of those on offer; None: all
    memory: Memory = field(default_factory=Memory, repr=False)

    @property
    def count(self) -> int:
        """How many observations, padding included."""
        return self.designs.shape[1]

    @property
    def groups(self) -> int:
        """How many groups an episode has."""
        return 1 if self.visible is None else self.visible.shape[1]

    @cached_property
    def whitened(self) -> Tensor:
        """Outcomes over the factor, standardised in open units: [batch, kernel, context]."""
        if self.units is None:
            return self.white[..., 0]
        return self.units.standardise_whitened(self.white).to(self.factor.dtype)

    def extend(self, design: Tensor, outcome: Tensor) -> Posterior:
        """With one more observation of a single group: design [batch, design], outcome [batch]."""
        if self.visible is not None:
            raise InternalError("only a context that is seen as a whole can grow")
        design, outcome = design.to(self.designs.dtype), outcome.to(self.white.dtype)
        cross = self.kernels.covariance(self.designs, design[:, None])
        row = _over(self.factor, cross)[..., 0]  # [batch, kernel, context]
        root = self._unexplained(row.square().sum(-1, keepdim=True)).sqrt()
        columns = outcome.view(-1, 1, 1, 1)
        if self.units is not None:
            columns = F.pad(columns, (0, 1), value=1.0)
        value = (columns - row.to(columns.dtype)[:, :, None] @ self.white) / root[..., None]
        outcomes = torch.cat([self.outcomes, outcome[:, None]], 1)
        return Posterior(
            self.kernels,
            torch.cat([self.designs, design[:, None]], 1),
            outcomes,
            _bordered(self.factor, row, root),
            torch.cat([self.white, value], 2),
            units=None if self.units is None else Units.of(outcomes),
            which=self.which,
            memory=self.memory.inherited(),
        )

    @property
    def afresh(self) -> Posterior:
        """The same, of which what is computed for points is not kept."""
        return replace(self, memory=Memory())

    def prefixes(self, visible: Tensor) -> Posterior:
        """For groups [batch, group, context] that each see a prefix of the whole context."""
        seen = visible.to(self.designs.dtype)
        return replace(self, visible=seen, memory=Memory())

    def episodes(self, rows: slice) -> Posterior:
        """Of some episodes."""
        parts = ("designs", "outcomes", "factor", "white", "visible", "kept")
        some = {name: part[rows] for name in parts if (part := getattr(self, name)) is not None}
        units = self.units and Units(self.units.loc[rows], self.units.scale[rows])
        return replace(self, **some, units=units, memory=Memory())

    def some(self, index: Tensor, known: Memory | None = None) -> Posterior:
        """Of some kernels [batch, n], where each episode has its own.

        `known` is what the same kernels computed of points some observations ago.
        """
        rows = torch.arange(len(index))[:, None]
        return replace(
            self,
            kernels=self.kernels.some(index),
            factor=self.factor[rows, index],
            white=self.white[rows, index],
            memory=Memory() if known is None else known.inherited(),
        )

    def joined(self, more: Posterior) -> Posterior:
        """With more kernels, where each episode has its own, that have read the same context."""
        return replace(
            self,
            kernels=self.kernels.joined(more.kernels),
            factor=torch.cat([self.factor, more.factor], 1),
            white=torch.cat([self.white, more.white], 1),
            memory=Memory(),
        )

    @cached_property
    def sums(self) -> tuple[Tensor, Tensor, Tensor]:
        """Squares of the whitened outcomes and half the log determinant, [batch, group, kernel].

        And how many outcomes there are, [batch or 1, group or 1, 1].
        """
        log_root = self.factor.diagonal(dim1=-2, dim2=-1).log()
        parts = self.whitened.square(), log_root
        if self.visible is None:
            squares, roots = (part.sum(-1)[:, None] for part in parts)
            count = self.designs.new_full((1, 1, 1), self.count)
        else:
            squares, roots = ((part @ self.visible.mT).mT for part in parts)
            count = self.visible.sum(-1)[..., None]
        return squares, roots, count

    @cached_property
    def evidence(self) -> Evidence:
        """As if one more outcome had been of size one, so that the scale is defined."""
        squares, log_root, count = self.sums
        total = count + 1
        log_scale = ((squares + 1) / total).log() / 2
        return Evidence(log_scale, -total * log_scale - log_root, count)

    def describe(self) -> Tensor:
        """Features [batch, group, 2 * kernel + 1] of what each group has seen."""
        evidence = self.evidence
        weight = evidence.log_weight.exp()
        count = evidence.observed.log1p().expand(*weight.shape[:2], 1)
        return torch.cat([evidence.log_scale, weight, count], -1)

    def moments(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Means [batch, kernel, group, n] at points [batch, n, design] or a group's own.

        And what is left of each kernel's unit variance there, noise included.
        """
        return self.means(points), self._unexplained(self._explained(points))

    def means(self, points: Tensor) -> Tensor:
        """The means alone."""
        value = self.whitened[:, :, None]
        if self.visible is not None:
            value = self.visible[:, None] * value  # [batch, kernel, group, context]
        if points.dim() == 3:
            return value @ self._known(points).rows
        return torch.einsum("bkgc,bkcgn->bkgn", value, self._rows_of_groups(points))

    def _explained(self, points: Tensor) -> Tensor:
        """The share of a kernel's variance that each group explains, [batch, kernel, group, n]."""
        if points.dim() == 4:
            seen = self.designs.new_ones(()) if self.visible is None else self.visible[:, None]
            seen = seen.expand(len(points), 1, points.shape[1], self.count)
            squares = self._rows_of_groups(points).square()
            of_groups: Tensor = torch.einsum("bogc,bkcgn->bkgn", seen, squares)
            return of_groups
        known = self._known(points)
        if self.visible is None:
            return known.explained[:, :, None]
        explained: Tensor = self.visible[:, None] @ known.rows.square()
        return explained

    def _rows_of_groups(self, points: Tensor) -> Tensor:
        """Points [batch, group, n, design] over the factor, [batch, kernel, context, group, n]."""
        rows: Tensor = self._known(points.flatten(1, 2)).rows
        return rows.view(*rows.shape[:-1], *points.shape[1:3])

    def unexplained(self, points: Tensor) -> Tensor:
        """What is left of an outcome's variance at points, [batch, kernel, group, n]."""
        return self._unexplained(self._explained(points))

    def _unexplained(self, explained: Tensor) -> Tensor:
        """What is left of an outcome's variance [batch, kernel, ...], at least the noise's."""
        noise = self.kernels.noise
        noise = noise.view(*noise.shape, *[1] * (explained.dim() - 2))
        return (1 - explained).clamp_min_(0).add_(noise)

    def _known(self, points: Tensor) -> KnownPoints:
        """What was computed of points before, brought up to date."""
        known = self.memory.find(points)
        if known is None or known.observed < self.count:
            known = self._learn(points, known)
        self.memory.keep(known)
        return known

    def _learn(self, points: Tensor, before: KnownPoints | None) -> KnownPoints:
        """Add rows for the observations that came since."""
        count = 0 if before is None else before.observed
        at, new = points.to(self.designs.dtype), self.count - count
        if new <= LONG:
            return KnownPoints.of(points, before, self._new_rows(at, before, slice(None)))
        more = at.new_empty(len(at), self.kernels.number, new, at.shape[1])
        for some in _parts(self.kernels.number, len(at) * new * max(new, at.shape[1])):
            more[:, some] = self._new_rows(at, before, some)
        return KnownPoints.of(points, before, more)

    def _new_rows(self, points: Tensor, before: KnownPoints | None, some: slice) -> Tensor:
        """Points [batch, n, design] over the rows of some kernels' factors that are new to them."""
        count = 0 if before is None else before.observed
        cross = self.kernels.part(some).covariance(self.designs[:, count:], points)
        if self.kept is not None:
            cross *= self.kept[:, None, count:, None]
        if before is not None:
            cross -= self.factor[:, some, count:, :count] @ before.rows[:, some]
        return _over(self.factor[:, some, count:, count:], cross)

    def log_variance_share(self, candidates: Tensor, targets: Tensor, wanted: Tensor) -> Tensor:
        """The log share that outcomes at candidates take of the variance at a goal's targets.

        [batch, group, query], of all kernels together, for candidates [batch, query, design] and
        targets [batch, target, design], of which those `wanted` count.
        """
        own = self._unexplained(self._explained(candidates))
        left = (1 - self._explained(targets)).clamp_min(LEAST_VARIANCE)
        shared = self.shared_covariance(candidates, targets)
        if bool(wanted.all()):
            before, squares = left.sum(-1), torch.linalg.vector_norm(shared, dim=-1).square_()
        else:
            weight = wanted.to(left.dtype)[:, None]
            before = (left * weight[:, None]).sum(-1).clamp_min(LEAST_VARIANCE)
            squares = (shared.square() @ weight[..., None])[..., 0]
        reduction = squares.unflatten(-1, (self.groups, -1)) / own
        size = (self.evidence.log_density + 2 * self.evidence.log_scale).softmax(-1)
        size = size.transpose(1, 2)
        share: Tensor = (size[..., None] * reduction).sum(1) / (size * before).sum(1)[..., None]
        return share.clamp(LEAST_SHARE, 1).log()

    def shared_covariance(self, candidates: Tensor, targets: Tensor) -> Tensor:
        """Of candidates and targets given what each group has seen.

        [batch, kernel, group * query, target]; the caller must not change it.
        """
        a, b = self._known(candidates).rows, self._known(targets).rows
        if self.visible is not None:
            seen = (a[..., None, :] * self.visible.mT[:, None, :, :, None]).flatten(3)
            prior = self._prior_covariance(candidates, targets)
            return prior.repeat(1, 1, self.groups, 1) - seen.mT @ b
        pair = self.memory.take_pair(candidates, targets)
        if pair is None:
            prior = self._prior_covariance(candidates, targets)
            pair = PairCovariance(candidates, targets, prior, 0)
        pair = pair.brought_up(a[:, :, pair.observed :], b[:, :, pair.observed :])
        self.memory.pair.append(pair)
        return pair.covariance

    def _prior_covariance(self, a: Tensor, b: Tensor) -> Tensor:
        """Of points given no data, [batch, kernel, n, m]."""
        return self.kernels.covariance(a.to(self.designs.dtype), b.to(self.designs.dtype))


def _bordered(factor: Tensor, row: Tensor, root: Tensor) -> Tensor:
    """A factor [batch, kernel, n, n] with one more row, its last number being `root`."""
    last = torch.cat([row, root], -1)[..., None, :]
    return torch.cat([F.pad(factor, (0, 1)), last], -2)
