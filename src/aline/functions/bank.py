"""What a bank of Gaussian processes would say, as features for the network's tokens.

Outcomes of an unknown function depend on each other through the function, so a prediction needs
more than each observation by itself: it needs the inverse of a kernel matrix, which attention can
only approximate, layer by layer. A bank of GPs with fixed kernels has it in closed form: each gives
a mean and a variance at any point and, by its marginal likelihood, how well it explains the data.
The network sees these, and its predictions are relative to their weighted average; what is left to
learn is how to weigh them, what they say of the parameters, and where to measure.

One Cholesky factor a kernel serves all prefixes of an episode: that of the first t observations is
its leading block. The same holds for what is computed with it, so a group sums what it may see, and
a bank that is asked about the same points after every observation computes one row for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from aline.episodes import Context
from aline.errors import InternalError
from aline.functions.rows import Rows

NOISE = 1e-4  # variance of the noise over the function's, where nothing else is known
RANGE = (0.02, 1.0)  # lengthscales, for a design space of [-1, 1], times the root of its dimension
REMEMBERED = 4  # sets of points: a pool, a goal's, a few predictions
TINY = 1e-6
LEAST_SHARE = 1e-4
# RBF, Matern 3/2 and 5/2: all three are (1 + slope r + curve r^2) exp(-slope r + bend r^2), each
# with the squared distance stretched in its own way. Rows of stretch, slope, bend, curve.
KINDS = ((1.0, 0.0, -0.5, 0.0), (3.0, 1.0, 0.0, 0.0), (5.0, 1.0, 0.0, 1 / 3))


class KernelBank(nn.Module):
    """Stationary kernels of unit variance: RBF, Matern 3/2 and 5/2 in turn."""

    inverse: Tensor  # [kernel, design], one over the lengthscales
    stretch: Tensor  # [kernel, design]
    shapes: Tensor  # [3, kernel, 1, 1]
    noise: Tensor  # [kernel, 1, 1], its variance over the function's

    def __init__(self, lengthscales: Tensor, noise: Tensor):
        """For lengthscales [kernel, design], in a design space of [-1, 1], and noise [kernel]."""
        super().__init__()
        stretch, *shapes = torch.tensor(KINDS)[torch.arange(len(lengthscales)) % len(KINDS)].T
        self.register_buffer("inverse", 1 / lengthscales, persistent=False)
        self.register_buffer("stretch", stretch[:, None] * self.inverse**2, persistent=False)
        self.register_buffer("shapes", torch.stack(shapes)[..., None, None], persistent=False)
        self.register_buffer("noise", noise[:, None, None], persistent=False)
        self.hypotheses: KernelBank | None = None  # model/hypotheses.py

    @classmethod
    def spread(cls, design: int, count: int) -> KernelBank:
        """Lengthscales spread over RANGE."""
        low, high = (math.log(end * math.sqrt(design)) for end in RANGE)
        lengthscales = (low + (high - low) * spread_evenly(count, design)).exp()
        return cls(lengthscales, torch.full((count,), NOISE))

    @property
    def count(self) -> int:
        """How many kernels."""
        return len(self.inverse)

    @property
    def point_features(self) -> int:
        """How many numbers describe a point."""
        return 3 * self.count + 2

    @property
    def worth_features(self) -> int:
        """How many numbers say what a candidate is worth for predictions at a goal's points."""
        return self.count + 1

    @property
    def context_features(self) -> int:
        """How many numbers describe a context."""
        return 2 * self.count + 1

    def covariance(self, a: Tensor, b: Tensor) -> Tensor:
        """Matrices [batch, kernel, n, m] of a [batch, n, design] and b [batch, m, design]."""
        n, m = a.shape[1], b.shape[1]
        # By axis, as products of coordinates would lose small distances.
        apart = (a[:, :, None] - b[:, None]).square().flatten(1, 2)
        square = (self.stretch.to(a.dtype) @ apart.mT).unflatten(-1, (n, m))
        slope, bend, curve = self.shapes.to(a.dtype)
        r = square.sqrt().mul_(slope)
        return torch.addcmul(-r, bend, square).exp_().mul_(torch.addcmul(1 + r, curve, square))

    @torch.no_grad()
    def read(self, context: Context, visible: Tensor | None, extra: Context | None) -> Bank:
        """Take a context in, for groups that see prefixes of it or all see the same of it.

        `extra` gives each group one observation of its own.
        """
        designs, outcomes = context.designs, context.outcomes
        batch, count = outcomes.shape
        groups = 1 if extra is None else len(extra.outcomes) // batch
        if visible is None:
            visible = torch.ones(batch, groups, count, dtype=torch.bool)
        kept = visible.any(1).to(designs.dtype)  # [batch, context]
        left_out = kept[:, None].bool() & ~visible
        if bool((visible & (left_out.cumsum(-1) > 0)).any()):
            raise InternalError("a bank serves groups that see a prefix of what any of them sees")
        matrix = self.covariance(designs, designs)
        matrix *= kept[:, None, :, None] * kept[:, None, None, :]
        noise = self.noise[..., 0].to(designs.dtype)
        matrix.diagonal(dim1=-2, dim2=-1).add_(noise * kept[:, None] + 1 - kept[:, None])
        factor = torch.linalg.cholesky(matrix)
        white = _whitened(factor, outcomes * kept)
        seen = visible.to(designs.dtype)
        bank = Bank(self, designs * kept[..., None], outcomes * kept, kept, factor, white, seen)
        return bank if extra is None else bank.with_extra(extra)


class Asked(NamedTuple):
    """Points that a bank was asked about, and what it computed for them."""

    points: Tensor  # kept, so that no other points can take their place in memory
    known: int  # how many observations
    rows: Rows  # [batch, kernel, context, p * m], over the factor
    squares: Tensor  # [batch, kernel, p * m], these squared and summed

    @property
    def white(self) -> Tensor:
        """The rows of as many observations as are known."""
        return self.rows.buffer[:, :, : self.known]


class Shared(NamedTuple):
    """What two sets of points tell of each other after some observations."""

    covariance: Tensor  # [batch, kernel, target, group * query]
    known: int  # how many observations
    points: tuple[Tensor, ...] = ()  # kept, as those that a bank was asked about


Place = tuple[int, torch.Size, tuple[int, ...]]


def place_of(points: Tensor) -> Place:
    """Where points lie in memory, and how: the same for the same points, while they are kept."""
    return points.data_ptr(), points.shape, points.stride()


@dataclass
class Bank:
    """A context as a bank holds it, for a number of groups an episode."""

    kernels: KernelBank
    designs: Tensor  # [batch, context, design]
    outcomes: Tensor  # [batch, context]
    kept: Tensor  # [batch, context]: 0 for observations that no group sees
    factor: Tensor  # [batch, kernel, context, context]
    white: Tensor  # [batch, kernel, context], the outcomes over the factor
    seen: Tensor  # [batch, group, context]: 1 for what a group sees
    extra: Extra | None = None
    # The same as hypotheses about the parameters see it, once somebody asked.
    _supposed: Bank | None = None
    asked: dict[Place, Asked] = field(default_factory=dict, repr=False)
    shared: dict[tuple[Place, Place], Shared] = field(default_factory=dict, repr=False)

    @cached_property
    def sees_all(self) -> bool:
        """Whether there is one group, and what it does not see is zero over the factor."""
        return self.seen.shape[1] == 1 and bool((self.seen[:, 0] == self.kept).all())

    @property
    def supposed(self) -> Bank:
        """The same context as the hypotheses about the parameters see it."""
        hypotheses = self.kernels.hypotheses
        if hypotheses is None:
            raise InternalError("this bank has no hypotheses about parameters")
        if self._supposed is None:
            extra = None if self.extra is None else self.extra.context
            observed = Context(self.designs, self.outcomes)
            self._supposed = hypotheses.read(observed, self.seen.bool(), extra)
        return self._supposed

    def with_extra(self, context: Context) -> Bank:
        """With one observation more a group, [batch * group, 1]."""
        batch, groups, _ = self.seen.shape
        x = context.designs.view(batch, groups, 1, -1)
        y = context.outcomes.view(batch, 1, groups)
        column = self._whiten(x)  # [batch, kernel, context, group, 1]
        seen = self.seen.mT[:, None, :, :, None] * column
        root = self._left((seen * column).sum(2)).sqrt()[..., 0]
        value = (y - (seen[..., 0] * self.white[..., None]).sum(2)) / root
        self.extra = Extra(context, x, seen[..., 0], root, value)
        return self

    @torch.no_grad()
    def extend(self, design: Tensor, outcome: Tensor) -> Bank:
        """With one more observation, of a bank of one group: design [batch, design]."""
        batch, _, count = self.seen.shape
        outcome = outcome.to(self.white.dtype)  # those to be standardised come in double precision
        x = design[:, None, None]
        row = self._whiten(x)[..., 0, 0]  # [batch, kernel, context]
        root = self._left(row.square().sum(-1)[..., None, None])[..., 0, 0].sqrt()
        value = (outcome[:, None] - (row * self.white).sum(-1)) / root
        factor = self.factor.new_zeros(batch, self.kernels.count, count + 1, count + 1)
        factor[..., :count, :count] = self.factor
        factor[..., count, :count] = row
        factor[..., count, count] = root
        one = torch.ones_like(outcome)[:, None]
        return Bank(
            self.kernels,
            torch.cat([self.designs, design[:, None]], 1),
            torch.cat([self.outcomes, outcome[:, None]], 1),
            torch.cat([self.kept, one], 1),
            factor,
            torch.cat([self.white, value[..., None]], -1),
            torch.cat([self.seen, one[:, None]], -1),
            _supposed=self._supposed and self._supposed.extend(design, outcome),
            asked=dict(self.asked),
            shared=dict(list(self.shared.items())[-1:]),
        )

    def prefixes(self, visible: Tensor) -> Bank:
        """For groups [batch, group, context] that each see a prefix of a whole context."""
        has_hypotheses = self.kernels.hypotheses is not None
        return Bank(
            self.kernels,
            self.designs,
            self.outcomes,
            self.kept,
            self.factor,
            self.white,
            visible.to(self.designs.dtype),
            _supposed=self.supposed.prefixes(visible) if has_hypotheses else None,
        )

    def some(self, rows: slice) -> Bank:
        """Of some episodes, all of whose observations are shared."""
        return Bank(
            self.kernels,
            self.designs[rows],
            self.outcomes[rows],
            self.kept[rows],
            self.factor[rows],
            self.white[rows],
            self.seen[rows],
        )

    @torch.no_grad()
    def restated(self, outcomes: Tensor) -> Bank:
        """The same observations of a bank of one group with other outcomes [batch, context]."""
        outcomes = outcomes * self.kept
        white = _whitened(self.factor, outcomes)
        supposed = self._supposed and self._supposed.restated(outcomes)
        return replace(self, outcomes=outcomes, white=white, _supposed=supposed)

    def _left(self, explained: Tensor) -> Tensor:
        """What is left of the variance [batch, kernel, ...] of an outcome, at least the noise's."""
        noise = self.kernels.noise.to(explained.dtype)
        return torch.maximum(1 + noise - explained, noise)

    def _whiten(self, points: Tensor) -> Tensor:
        """Points [batch, p, m, design] over the factor, [batch, kernel, context, p, m]."""
        white = self._ask(points).white
        return white.view(*white.shape[:3], *points.shape[1:3])

    def _ask(self, points: Tensor) -> Asked:
        """What is known of points [batch, p, m, design] now."""
        return up_to_date(self.asked, points, self.designs.shape[1], self._learn)

    def _learn(self, points: Tensor, before: Asked | None) -> Asked:
        """Add rows for the observations that came since."""
        known = 0 if before is None else before.known
        cross = self.kernels.covariance(self.designs[:, known:], points.flatten(1, 2))
        cross *= self.kept[:, None, known:, None]
        if before is not None:
            cross -= self.factor[..., known:, :known] @ before.white
        corner = self.factor[..., known:, known:]
        if corner.shape[-1] == 1:  # the usual case; a solver takes several times as long
            more = cross / corner
        else:
            more = torch.linalg.solve_triangular(corner, cross, upper=False)
        squares = more.square().sum(2)
        if before is None:
            return Asked(points, self.designs.shape[1], Rows(more), squares)
        rows = before.rows.append(known, more)
        return Asked(points, self.designs.shape[1], rows, before.squares + squares)

    @torch.no_grad()
    def worth(self, candidates: Tensor, targets: Tensor, wanted: Tensor) -> Tensor:
        """What an outcome at each candidate would tell of the function at targets.

        It is the log of the share of the targets' variance that would go, by each kernel and, last,
        on average: [batch, group, query, worth_features]. For candidates [batch, group or 1,
        query, design] and targets [batch, target, design], of which only those `wanted` count.
        """
        groups, weight = self.seen.shape[1], wanted.to(self.designs.dtype)
        own = self._left(self._explained(candidates))  # [batch, kernel, group, query]
        left = (1 - self._explained(targets[:, None])).clamp_min(TINY)
        left = (left * weight[:, None, None]).sum(-1)[..., None].clamp_min(TINY)
        common = self._shared(candidates, targets[:, None])
        told = (weight[:, None, None] @ common.square())[..., 0, :]
        fall = told.view(len(told), self.kernels.count, groups, -1) / own
        scale, log_weight, _ = self.weigh()
        size = (log_weight + 2 * scale).softmax(-1).transpose(1, 2)[..., None]
        average = (size * fall).sum(1, keepdim=True) / (size * left).sum(1, keepdim=True)
        shares = torch.cat([fall / left, average], 1).clamp(LEAST_SHARE, 1).log()
        return shares.permute(0, 2, 3, 1).float()

    def _explained(self, points: Tensor) -> Tensor:
        """The share of the variance at points that each group can explain.

        For [batch, group or 1, m, design]: [batch, kernel, group, m].
        """
        if self.sees_all:
            return self._ask(points).squares[:, :, None]
        white = self._whiten(points)
        if points.shape[1] == 1:
            return self.seen[:, None] @ white[:, :, :, 0].square()
        return torch.einsum("bkngm,bgn->bkgm", white.square(), self.seen)

    def _shared(self, candidates: Tensor, targets: Tensor) -> Tensor:
        """Their covariance given what each group has seen, [batch, kernel, target, group * query].

        Of a group that sees all it is kept: one observation more changes it by a product of rows.
        """
        pair = place_of(candidates), place_of(targets)
        before = self.shared.pop(pair, None) or self._shared_before(candidates, targets)
        rows = slice(before.known, None)
        a = self._whiten(candidates)[:, :, rows] * self.seen.mT[:, None, rows, :, None]
        b = self._whiten(targets)[:, :, rows, 0]
        a = a.flatten(3)
        if a.shape[2] == 1:  # a product of two vectors: one pass instead of three
            common = torch.addcmul(before.covariance, b.mT, a, value=-1)
        else:
            common = before.covariance - b.mT @ a
        if self.sees_all:
            self.shared[pair] = Shared(common, self.designs.shape[1], (candidates, targets))
            _forget(self.shared)
        return common

    def _shared_before(self, candidates: Tensor, targets: Tensor) -> Shared:
        """Before any observation."""
        wide = candidates.expand(-1, self.seen.shape[1], -1, -1).flatten(1, 2)
        return Shared(self.kernels.covariance(targets[:, 0], wide), 0)

    def weigh(self) -> tuple[Tensor, Tensor, Tensor]:
        """Log scale and log weight [batch, group, kernel] of each kernel, and log (1 + n).

        The output scale is the most likely one, as if one more outcome had been of size one; the
        weight is the marginal likelihood at that scale.
        """
        scale, density, count = self.fit()
        return scale, density.log_softmax(-1), count

    def fit(self) -> tuple[Tensor, Tensor, Tensor]:
        """As `weigh`, but the weight is not normalised."""
        return self._fit

    @cached_property
    def _fit(self) -> tuple[Tensor, Tensor, Tensor]:
        squares, logdet, count = self.sums
        scale = ((squares + 1) / (count + 1)).log() / 2
        return scale, -(count + 1) * scale - logdet, count.log1p()

    @cached_property
    def sums(self) -> tuple[Tensor, Tensor, Tensor]:
        """Squares of the whitened outcomes and half the log determinant [batch, group, kernel].

        And how many outcomes there are, [batch, group, 1].
        """
        squares = torch.einsum("bkn,bgn->bgk", self.white.square(), self.seen)
        logdet = torch.einsum("bkn,bgn->bgk", self._log_diagonal(), self.seen)
        count = self.seen.sum(-1)[..., None]
        if self.extra is not None:
            squares = squares + self.extra.value.square().transpose(1, 2)
            logdet = logdet + self.extra.root.log().transpose(1, 2)
            count = count + 1
        return squares, logdet, count

    def _log_diagonal(self) -> Tensor:
        diagonal: Tensor = self.factor.diagonal(dim1=-2, dim2=-1)
        return diagonal.log()

    @torch.no_grad()
    def describe(self) -> Tensor:
        """Features [batch, group, context_features] of what each group has seen."""
        scale, weight, count = self.weigh()
        return torch.cat([scale, weight.exp(), count], -1).float()

    @torch.no_grad()
    def predict(self, points: Tensor) -> Expectation:
        """What the bank expects at points [batch, group or 1, target, design]."""
        mean, left = self.at(points)
        scale, weight, _ = self.weigh()
        log_std = left.log() / 2
        return Expectation.of(
            mean.permute(0, 2, 3, 1), log_std.permute(0, 2, 3, 1) + scale[:, :, None], weight
        )

    def at(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Means [batch, kernel, group, target] at points [batch, group or 1, target, design].

        And what is left of each kernel's own variance there, noise included.
        """
        points = points.to(self.designs.dtype)
        white = self._whiten(points)
        value = self.seen[:, None] * self.white[:, :, None]  # [batch, kernel, group, context]
        explained = self._explained(points)
        if points.shape[1] == 1:
            mean = value @ white[:, :, :, 0]
        else:
            mean = torch.einsum("bkngm,bkgn->bkgm", white, value)
        if self.extra is not None:
            column = self.extra.column(self, points, white)
            mean = mean + column * self.extra.value[..., None]
            explained = explained + column.square()
        return mean, self._left(explained)


@dataclass(frozen=True)
class Extra:
    """The last row of each group's factor: an observation that only this group has made."""

    context: Context  # [batch * group, 1]
    design: Tensor  # [batch, group, 1, design]
    row: Tensor  # [batch, kernel, context, group]
    root: Tensor  # [batch, kernel, group]
    value: Tensor  # [batch, kernel, group], the outcome over the factor

    def column(self, bank: Bank, points: Tensor, white: Tensor) -> Tensor:
        """Points over this row of the factor, [batch, kernel, group, target]."""
        batch, groups = self.design.shape[:2]
        wide = points.expand(batch, groups, *points.shape[2:]).flatten(0, 1)
        cross = bank.kernels.covariance(self.design.flatten(0, 1), wide)[:, :, 0]
        cross = cross.view(batch, groups, bank.kernels.count, -1).transpose(1, 2)
        explained = torch.einsum("bkngm,bkng->bkgm", white.expand(-1, -1, -1, groups, -1), self.row)
        return (cross - explained) / self.root[..., None]


@dataclass(frozen=True)
class Expectation:
    """The bank's average over kernels, and how each kernel departs from it."""

    mean: Tensor  # [batch, group, target]
    std: Tensor  # [batch, group, target]
    features: Tensor  # [batch, group, target, point_features]

    @classmethod
    def of(cls, mean: Tensor, log_std: Tensor, log_weight: Tensor) -> Expectation:
        """From [batch, group, target, kernel], and weights [batch, group, kernel]."""
        weight = log_weight.exp()[:, :, None]
        average = (weight * mean).sum(-1, keepdim=True)
        square = (2 * log_std).exp() + (mean - average).square()
        log_spread = (weight * square).sum(-1, keepdim=True).clamp_min(TINY).log() / 2
        apart = ((mean - average) * (-log_spread).exp()).clamp(-5, 5)
        relative = (log_std - log_spread).clamp(-5, 5)
        every = [apart, relative, weight.expand_as(mean), average.clamp(-5, 5), log_spread]
        features = torch.cat(every, -1).float()
        return cls(average[..., 0].float(), log_spread[..., 0].exp().float(), features)


def spread_evenly(count: int, dimensions: int) -> Tensor:
    """Points [count, dimensions] that fill the unit cube evenly; in one dimension, in order."""
    if dimensions == 1:
        return torch.linspace(0, 1, count)[:, None]
    engine = torch.quasirandom.SobolEngine(dimensions, scramble=False)
    return engine.draw(count + 1)[1:]


class Knowing(Protocol):
    """What is known of points after some observations."""

    @property
    def known(self) -> int:
        """How many observations."""
        ...


Kept = TypeVar("Kept", bound=Knowing)


def up_to_date(
    asked: dict[Place, Kept],
    points: Tensor,
    count: int,
    learn: Callable[[Tensor, Kept | None], Kept],
) -> Kept:
    """What is known of points after `count` observations; `learn` adds those that lack.

    The last few sets of points are remembered in `asked`.
    """
    place = place_of(points)
    found = asked.pop(place, None)
    if found is None or found.known < count:
        found = learn(points, found)
    asked[place] = found  # now the latest
    _forget(asked)
    return found


def _forget(kept: dict[Any, Any]) -> None:
    """All but the latest."""
    while len(kept) > REMEMBERED:
        kept.pop(next(iter(kept)), None)


def _whitened(factor: Tensor, outcomes: Tensor) -> Tensor:
    """Outcomes [batch, context] over a factor, [batch, kernel, context]."""
    y = outcomes[:, None, :, None].expand(-1, factor.shape[1], -1, 1)
    white: Tensor = torch.linalg.solve_triangular(factor, y, upper=False)[..., 0]
    return white
