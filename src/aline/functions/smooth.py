"""Functions beyond a task's prior: smoother, along one axis or all, or nearly free of noise.

People who leave the units open bring such functions. An ensemble of RBF kernels on a lattice of
lengthscales and noise ratios covers them, in double precision. It starts coarse over a wide range;
where few kernels count, the neighbours of the heaviest are added at a third of the coarse spacing,
and kernels of no weight are dropped. What the data leave open about the lattice is
averaged over, by evidence. Beside the evidence of the task's own ensemble it says how much of a
prediction and of the next choice belongs to either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from aline.episodes import Context
from aline.functions import ensemble
from aline.functions.ensemble import NOISE_RATIO, Posterior
from aline.functions.kernels import Kernels
from aline.spaces.outcomes.mixture import LOG_SQRT_2PI

ODDS = 4.0  # of a function beyond the task's prior, before any data
LENGTHSCALE = (0.5, 1.5)  # for designs in [-1, 1]: a middle, and the spread of the log
NOISE = 0.02  # its deviation over that of the outcomes is half normal with this scale
FIRST = (math.log(9.0), math.log(0.3))  # logs of the largest lengthscale and noise ratio
STEP = (0.2, 1.0)  # between neighbours, in these logs
FURTHEST = 20.0  # steps of the noise ratio: a factor would not bear a smaller one
COARSE = 3  # steps between kernels of the first lattice
LENGTHS, RATIOS = {1: 9, 2: 7}, 7  # how many it has of each; lengthscales by dimension
FEWEST = 5  # lengthscales of more dimensions
ROUNDS = 6  # of refinement where a whole context is read; after one more observation, one
EFFECTIVE = 8.0  # kernels that count at least, or else some get neighbours
LIGHT = 0.05  # share of the weight below which a kernel needs none
MOST = 200  # observations up to which kernels get neighbours: the cost is cubic in their number
HELD = 4_000_000  # numbers of factors that are held at most
DROPPED = 20.0  # nats below the likeliest
WORTH_DROPPING = 0.8  # share of the kernels that may be left: each time all are copied
SCORING = 8  # kernels at most
PREDICTING = 160  # over the number of observations: kernels for a prediction, if more than these
CAUTIOUS = 16  # kernels that say how wide an interval must be at least
ENOUGH = 0.4  # of the last scoring kernels that must count for them to be used again
NOISES = (3e-4, 1e3)  # over the outcomes' spread: beyond these a known one makes no difference


class Weighted(NamedTuple):
    """A sample of the lattice's kernels with their weights."""

    state: Posterior
    log_weight: Tensor  # [batch, kernel], normalised
    log_variance: Tensor  # [batch, kernel], the function's
    log_mass: Tensor  # [batch, kernel], when they were sampled
    which: Tensor  # [batch, kernel], their places in the lattice
    among: Tensor  # [batch, lattice, design + 1], the lattice then


@dataclass
class SmoothProcess:
    """The lattice's kernels after each episode's data; outcomes are standardised."""

    state: Posterior
    place: Tensor  # [batch, kernel, design + 1], in steps from FIRST
    log_prior: Tensor  # [batch, kernel], the log prior mass of the cell that a kernel stands for
    refined: Tensor  # bool [batch, kernel], whether its neighbours are there
    noise: float | None  # its standard deviation in the outcomes' units, where it is known
    last: list[Weighted] = field(default_factory=list)  # the scoring kernels used last

    @classmethod
    def read(cls, context: Context, noise: float | None = None) -> SmoothProcess:
        """For a whole context of at least two observations.

        Of many observations some say which kernels shall read all.
        """
        context = Context(context.designs.double(), context.outcomes.double())
        if context.length > MOST:
            few = cls.read(_thinned(context), noise)
            index = few._log_mass.topk(SCORING, 1).indices
            place = few.place.gather(1, index[..., None].expand(-1, -1, few.place.shape[-1]))
            return cls._of(context, place, 0.0, noise)
        batch, _, design = context.designs.shape
        place = _coarse_lattice(design).expand(batch, -1, -1)
        found = cls._of(context, place, (design + 1) * math.log(COARSE), noise)
        for _ in range(ROUNDS):
            found = found._refine()
        found = found._drop()
        _ = found._scoring
        return found

    @classmethod
    def _of(
        cls, context: Context, place: Tensor, log_cell: float, noise: float | None
    ) -> SmoothProcess:
        """Kernels at places of the lattice that stand for equal volumes."""
        state = ensemble.read(_kernels(place), context, standardise=True)
        refined = torch.zeros(place.shape[:2], dtype=torch.bool)
        return cls(state, place, _log_prior(place) + log_cell, refined, noise)

    def extend(self, design: Tensor, outcome: Tensor) -> SmoothProcess:
        """With one more observation: design [batch, design], outcome [batch]."""
        state = self.state.extend(design, outcome)
        last = list(self.last)
        grown = SmoothProcess(state, self.place, self.log_prior, self.refined, self.noise, last)
        grown = grown._refine()._drop()
        _ = grown._scoring  # at every step, asked or not: so a resumed experiment has the same ones
        return grown

    @cached_property
    def log_variance(self) -> Tensor:
        """The function's, [batch, kernel]: the likeliest, or as a known noise has it."""
        if self.noise is None:
            return self._likeliest.log()
        return self._log_noise - self.log_ratio

    @cached_property
    def _likeliest(self) -> Tensor:
        """As if one more outcome had been of size one."""
        return (self.state.sums[0][:, 0] + 1) / (self.state.count + 1)

    @property
    def log_ratio(self) -> Tensor:
        """Of the noise over the function's variance, [batch, kernel]."""
        return self.state.kernels.noise.log()

    @property
    def _log_noise(self) -> Tensor:
        """The log variance [batch, 1] of a known noise about standardised outcomes."""
        assert self.noise is not None
        assert self.state.units is not None
        return 2 * (self.noise / self.state.units.scale).clamp(*NOISES).log()[:, None]

    @cached_property
    def _log_mass(self) -> Tensor:
        """Of data and a kernel's cell of hyperparameters, [batch, kernel]."""
        count, log_variance = self.state.count + 1, self.log_variance
        mass = self.log_prior - self.state.sums[1][:, 0] - 0.5 * count * log_variance
        if self.noise is None:
            mass = mass + _log_half_normal(self.log_ratio + log_variance)
        else:
            mass = mass + 0.5 * count * (1 - self._likeliest / log_variance.exp())
        return mass.nan_to_num(-torch.inf, -torch.inf, -torch.inf)

    @property
    def log_evidence(self) -> Tensor:
        """Of the data, [batch]."""
        return self._log_mass.logsumexp(1)

    def share(self, other: Posterior) -> Tensor:
        """The probability [batch] that the data are of these kernels, not of another ensemble."""
        log_evidence = _log_evidence(other, self.noise is not None)
        return torch.sigmoid(math.log(ODDS) + self.log_evidence - log_evidence)

    def _refine(self) -> SmoothProcess:
        """With the neighbours of the heaviest kernel, in episodes where few kernels count."""
        rows, share = torch.arange(len(self.place)), self._log_mass.softmax(1)
        coarse = 1 / share.square().sum(1) < EFFECTIVE
        heaviest, best = share.masked_fill(self.refined, 0.0).max(1)
        coarse &= heaviest > LIGHT
        if self.state.count > MOST or not bool(coarse.any()):
            return self
        place = self.place[rows, best][:, None] + _around(self.place.shape[-1])
        context = Context(self.state.designs, self.state.outcomes)
        more = ensemble.read(_kernels(place), context, standardise=True)
        same = (place[:, :, None] == self.place[:, None]).all(-1)  # [batch, new, kernel]
        same &= coarse[:, None, None]
        idle = same.any(2) | ~coarse[:, None] | (place[..., -1] > FURTHEST)
        refined = self.refined.clone()
        refined[rows, best] |= coarse
        log_prior = torch.where(same.any(1), _log_prior(self.place), self.log_prior)
        more_prior = _log_prior(place).masked_fill(idle, -torch.inf)
        return SmoothProcess(
            self.state.joined(more),
            torch.cat([self.place, place], 1),
            torch.cat([log_prior, more_prior], 1),
            torch.cat([refined, idle & False], 1),
            self.noise,
            self.last,
        )

    def _drop(self) -> SmoothProcess:
        """Without kernels of no weight."""
        mass = self._log_mass
        lively = mass > mass.amax(1, keepdim=True) - DROPPED
        count = min(int(lively.sum(1).max()), max(SCORING, HELD // self.state.count**2))
        if count > WORTH_DROPPING * mass.shape[1]:
            return self
        index = mass.topk(count, 1).indices.sort(1).values
        place = self.place.gather(1, index[..., None].expand(-1, -1, self.place.shape[-1]))
        log_prior, refined = (part.gather(1, index) for part in (self.log_prior, self.refined))
        state = self.state.some(index)
        return SmoothProcess(state, place, log_prior, refined, self.noise, self.last)

    def _sample(self, count: int) -> Weighted:
        """Kernels that stand for all."""
        index = self._standing_for(self._log_mass, count)
        return self._at(index, self._log_mass.gather(1, index), self.state.some(index))

    def _standing_for(self, log_mass: Tensor, count: int) -> Tensor:
        """Places [batch, count] in the lattice, at even steps of the mass by smoothness."""
        share, order = log_mass.softmax(1), self.place.sum(-1).argsort(dim=1, stable=True)
        steps = (torch.arange(count).double() + 0.5) / count
        at = torch.searchsorted(
            share.gather(1, order).cumsum(1), steps.expand(len(share), -1).contiguous()
        )
        return order.gather(1, at.clamp(max=share.shape[1] - 1))

    def _at(self, index: Tensor, log_mass: Tensor, state: Posterior) -> Weighted:
        """A sample of kernels [batch, n], drawn when their mass was `log_mass`."""
        log_weight = (self._log_mass.gather(1, index) - log_mass).log_softmax(1)
        log_variance = self.log_variance.gather(1, index)
        return Weighted(state, log_weight, log_variance, log_mass, index, self.place)

    @cached_property
    def _scoring(self) -> Weighted:
        """A sample of kernels: the last one, weighted anew, while enough of it counts.

        It has rows for the points that it was asked about, which then need not be computed.
        """
        found = self._again(self.last[0]) if self.last else None
        found = self._sample(SCORING) if found is None else found
        self.last[:] = [found]
        return found

    def _again(self, last: Weighted) -> Weighted | None:
        index = last.which
        if last.among is not self.place:
            rows = torch.arange(len(index))[:, None]
            place = last.among[rows, index]
            same = (place[:, :, None] == self.place[:, None]).all(-1)  # [batch, last, kernel]
            if not bool(same.any(-1).all()):
                return None
            index = same.int().argmax(-1)
        found = self._at(index, last.log_mass, self.state.some(index, last.state.memory))
        effective = 1 / found.log_weight.exp().square().sum(1)
        return found if bool((effective > ENOUGH * SCORING).all()) else None

    def predict(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log weights, means and deviations of outcomes at points [batch, n, design].

        A component a kernel, [batch, n, component], for standardised outcomes.
        """
        count = PREDICTING // self.state.count
        few = self._sample(count) if count > SCORING else self._scoring
        mean, left = (part[:, :, 0].mT for part in few.state.moments(points))
        std = (0.5 * (left.log() + few.log_variance[:, None])).exp()
        return few.log_weight[:, None].expand_as(mean), mean, std

    def variance_about(self, middle: Tensor, points: Tensor, power: float) -> Tensor:
        """Of outcomes at points [batch, n, design] about a middle [batch, n], standardised.

        Kernels count by a power of what the data say of them (caution.py).
        """
        said = (self._log_mass - self.log_prior).nan_to_num(-torch.inf)
        index = self._standing_for(power * said + self.log_prior, CAUTIOUS)
        mean, left = (part[:, :, 0] for part in self.state.some(index).moments(points))
        own = left * self.log_variance.gather(1, index).exp()[..., None]
        variance: Tensor = (own + (mean - middle[:, None]).square()).mean(1)
        return variance

    def log_variance_reduction(self, candidates: Tensor, targets: Tensor, wanted: Tensor) -> Tensor:
        """The log of what outcomes at candidates take of the variance at targets, [batch, query].

        The variance is that of all kernels together, and the reduction as if it were a normal's: so
        an outcome also counts for saying which kernel is right.
        """
        few = self._scoring
        weight = few.log_weight.exp()[:, None]  # [batch, 1, kernel]
        size = weight * few.log_variance.exp()[:, None]
        shared = few.state.shared_covariance(candidates, targets)
        common = (size @ shared.flatten(2)).view(shared[:, 0].shape)
        mean, left = (part[:, :, 0] for part in few.state.moments(candidates))
        here, there = mean, few.state.means(targets)[:, :, 0]
        here, there = here - weight @ here, there - weight @ there
        weighted = weight.mT * here  # [batch, kernel, query]
        common = torch.baddbmm(common, weighted.mT, there).square_()
        squares = (common @ wanted.to(common.dtype)[..., None])[..., 0]
        own = (size @ left)[:, 0] + (weighted * here).sum(1)
        return (squares / own).clamp_min(1e-300).log()


def _coarse_lattice(design: int) -> Tensor:
    """Places [kernel, design + 1] of the first kernels."""
    lengths = COARSE * torch.arange(LENGTHS.get(design, FEWEST)).double()
    ratios = COARSE * torch.arange(RATIOS).double()
    return torch.cartesian_prod(*[lengths] * design, ratios)


def _thinned(context: Context) -> Context:
    """MOST of the observations, the same in whatever order they came."""
    axes = torch.arange(1.0, 1 + context.designs.shape[2], dtype=torch.float64)
    order = (context.designs @ axes.sqrt()).argsort(1)
    kept = order[:, torch.linspace(0, context.length - 1, MOST).long()]
    rows = torch.arange(len(kept))[:, None]
    return Context(context.designs[rows, kept], context.outcomes[rows, kept])


def _around(size: int) -> Tensor:
    """Steps [3^size, size] to a place's neighbours, and to itself."""
    return torch.cartesian_prod(*[torch.arange(-1.0, 2.0).double()] * size)


def _kernels(place: Tensor) -> Kernels:
    """Those at places [batch, kernel, design + 1] of the lattice."""
    lengthscale = (FIRST[0] - STEP[0] * place[..., :-1]).exp()
    noise = (FIRST[1] - STEP[1] * place[..., -1]).exp()
    return Kernels.of(torch.zeros(1, dtype=torch.long), lengthscale, noise)


def _log_prior(place: Tensor) -> Tensor:
    """The log mass [batch, kernel] of a cell one step wide; of noise ratios the prior is flat."""
    middle, spread = LENGTHSCALE
    z = (FIRST[0] - STEP[0] * place[..., :-1] - math.log(middle)) / spread
    density = -0.5 * z.square() - math.log(spread) - LOG_SQRT_2PI
    return (density + math.log(STEP[0])).sum(-1) + math.log(STEP[1])


def _log_evidence(other: Posterior, noise_known: bool) -> Tensor:
    """The log evidence [batch] of an ensemble of one group, by the same measure.

    Where the noise is not known, the one that its kernels imply is given, and so held against the
    likeliest. A known noise is not held against them: the ensemble stands for the network, whose
    noise is not the ensemble's.
    """
    log_scale, log_density, _ = other.evidence
    if noise_known:  # the variance is then averaged over there, and so here, about its likeliest
        half = (other.count + 1) / 2
        held = log_density + math.lgamma(half) + half - half * math.log(half)
    else:
        noise = _log_half_normal(2 * log_scale + math.log(NOISE_RATIO))
        held = log_density + noise - _log_half_normal(torch.tensor(2 * math.log(NOISE)))
    held = held[:, 0].double()
    return held.logsumexp(-1) - math.log(held.shape[-1])


def _log_half_normal(log_variance: Tensor) -> Tensor:
    """The density of the log of a noise's variance when the noise's deviation is half normal."""
    size = log_variance - 2 * math.log(NOISE)
    return 0.5 * (size - size.exp()) - LOG_SQRT_2PI
