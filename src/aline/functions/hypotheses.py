"""What data say of the parameters of the Gaussian process behind them, by hypotheses.

Some hundred values of all parameters, spread evenly over the prior, are as many Gaussian processes;
each says how likely the data are. Where the data tell more than these are apart, few of them fit,
so more are drawn close to those that do (model/closer.py), and all are weighed together. Should
even then too few count, the likelihood is raised to a power below one, which is of the same shape,
only wider: their mean is still about that of the posterior, and their covariance about that of the
posterior over the power. The network starts from there, for its posterior as for what a candidate
would tell of the parameters.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from aline.functions.bank import KINDS, Bank, KernelBank, spread_evenly
from aline.functions.closer import Cloud, Data, Kernels, Proposal, fits, log_prior
from aline.functions.task import NOISE
from aline.policies.importance import power_of
from aline.tasks import Spec

EFFECTIVE = 8.0  # hypotheses that count at least
CLOSER = (64, 64)  # that are added close to what the data leave, and closer still
LEVELS = (-2.0, -1.0, 0.0, 1.0, 2.0)  # at which the network is told the shape of a guess
SMOOTH = 0.4
EDGE = 0.005  # shares of a prior's mass that none of them looks beyond
LEAST_STD = 0.02  # of a guess, on the normal scale
RIDGE = 1e-3  # of a variance, so that few hypotheses do not seem to know all
LEAST_TOLD = 1e-6  # nats
AT_ONCE = 2**26  # numbers over the factors of candidates that are held at a time


class Hypotheses(KernelBank):
    """Kernels with parameters spread over the prior; what varies with none of them is in turn."""

    z: Tensor  # [hypothesis, parameter], on the network's scale
    log_scale: Tensor  # [hypothesis], of the function's deviation
    tied: Tensor  # bool [hypothesis], whether all axes have one lengthscale

    def __init__(self, spec: Spec, count: int):
        self.spec = spec
        self.along = spec.parameters.index("lengthscale")
        share = spread_evenly(count, len(spec.parameters) + 1)
        z = torch.special.ndtri(EDGE + (1 - 2 * EDGE) * share[:, :-1])
        # Many functions have one lengthscale for all axes.
        tied = (share[:, -1] < 0.5) & (len(self.along) > 1)
        z[:, self.along] = torch.where(tied[:, None], z[:, self.along[:1]], z[:, self.along])
        inverse, noise, log_scale = self._of(z)
        super().__init__(1 / inverse, noise)
        self.register_buffer("z", z, persistent=False)
        self.register_buffer("log_scale", log_scale, persistent=False)
        self.register_buffer("tied", tied, persistent=False)

    def _of(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What parameters z [..., parameter] make of a kernel.

        One over the lengthscales [..., design], the noise's variance over the function's, and the
        log of the function's deviation, [...], all on the network's scales.
        """
        user = self.spec.parameters.to_user(z)
        half = (self.spec.design.high - self.spec.design.low) / 2
        scale = user["output_scale"]
        own = self.spec.outcome.to_network(torch.stack([scale, torch.zeros_like(scale)]))
        lengthscales = user["lengthscale"].reshape(*z.shape[:-1], -1)
        return half / lengthscales, (NOISE / scale).square(), (own[0] - own[1]).log()

    @property
    def guess_features(self) -> int:
        """How many numbers describe a guess."""
        return (2 + len(LEVELS)) * self.z.shape[1] + 1

    def guess(self, bank: Bank) -> Guess:
        """What the data that a bank of theirs has seen leave of the parameters."""
        return self._closer(bank).guess(*bank.seen.shape[:2])

    def _fit(self, bank: Bank) -> Tensor:
        """The log likelihood [batch, group, hypothesis] of what a bank of theirs has seen."""
        squares, logdet, count = bank.sums
        return -0.5 * squares * (-2 * self.log_scale).exp() - count * self.log_scale - logdet

    def _grid(self, rows: int) -> Cloud:
        kind = torch.arange(self.count) % len(KINDS)
        return Cloud(self.z.expand(rows, -1, -1), kind.expand(rows, -1), self.tied.expand(rows, -1))

    def _closer(self, bank: Bank) -> Closer:
        """These and closer ones."""
        fit = self._fit(bank).flatten(0, 1)
        cloud, weight, data = self._grid(len(fit)), fit, Data.of(bank)
        proposals: list[Proposal] = []
        added: list[Kernels] = []
        for count in CLOSER:
            power = power_of(weight, EFFECTIVE)
            proposals.append(Proposal.around(cloud, weight, power, self.along))
            more = proposals[-1].draw(count)
            added.append(Kernels(*self._of(more.z), more.kind))
            cloud = Cloud(*(torch.cat(pair, 1) for pair in zip(cloud, more, strict=True)))
            fit = torch.cat([fit, fits(added[-1], data)], 1)
            prior = log_prior(cloud, self.along) - self._log_kinds
            origins = [prior + math.log(self.count)]
            for drawn, one in zip(CLOSER, proposals, strict=False):
                origins.append(one.log_density(cloud) + math.log(drawn))
            weight = fit + prior - torch.logsumexp(torch.stack(origins), 0)
        kernels = Kernels(*(torch.cat(parts, 1) for parts in zip(*added, strict=True)))
        return Closer(cloud.z, weight, kernels, data)

    @property
    def _log_kinds(self) -> float:
        """Of how many sorts hypotheses are, in equal shares."""
        return math.log(len(KINDS) * (2 if len(self.along) > 1 else 1))

    def telling(self, bank: Bank, candidates: Tensor, wanted: Tensor) -> Tensor:
        """The log of the nats that an outcome at each candidate would tell of some parameters.

        [batch, group, query] for candidates [batch, group or 1, query, design] and parameters
        `wanted` [batch, parameter]. As if the posterior were normal, and the mean and the log
        variance of an outcome linear in the parameters: the outcome then tells of the first with
        the noise of its own variance, and of the second with a variance of two.

        While training, by the grid alone: a bank has rows of its own for that, which grow.
        """
        each = self.count * candidates.shape[2] * max(1, bank.designs.shape[1])
        step = max(1, AT_ONCE // each)
        if len(bank.designs) > step:
            parts = (slice(i, i + step) for i in range(0, len(bank.designs), step))
            return torch.cat([self.telling(bank.some(p), candidates[p], wanted[p]) for p in parts])
        mean, left = bank.at(candidates)
        log_variance = left.log() + 2 * self.log_scale[:, None, None]
        if self.training:
            fit = self._fit(bank)
            guess = Guess.of(self.z.expand(*fit.shape, -1), fit)
        else:
            closer = self._closer(bank)
            guess = closer.guess(*bank.seen.shape[:2])
            more = closer.at(candidates)
            mean = torch.cat([mean, more[0]], 1)
            log_variance = torch.cat([log_variance, more[1]], 1)
        of_mean = guess.spread(mean, wanted)
        of_variance = guess.spread(log_variance, wanted)
        told = _nats(of_mean, of_variance.mean.exp()) + _nats(of_variance, torch.tensor(2.0))
        return told.clamp_min(LEAST_TOLD).log().float()


class Closer(NamedTuple):
    """The grid's hypotheses and closer ones of each row, a group of an episode."""

    z: Tensor  # [row, hypothesis, parameter], the grid's first
    log_weight: Tensor  # [row, hypothesis]
    kernels: Kernels  # of the closer ones
    data: Data

    def guess(self, batch: int, groups: int) -> Guess:
        """What they say of the parameters."""
        parts = (part.unflatten(0, (batch, groups)) for part in (self.z, self.log_weight))
        return Guess.of(*parts)

    def at(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """What the closer ones say of outcomes at points [batch, group or 1, m, design].

        Means and log variances [batch, hypothesis, group, m].
        """
        batch, groups = len(points), len(self.z) // len(points)
        wide = points.expand(-1, groups, -1, -1).flatten(0, 1)
        mean, left = self.kernels.at(self.data, wide)
        log_variance = left.log() + 2 * self.kernels.log_scale[..., None]
        both = (part.unflatten(0, (batch, groups)).transpose(1, 2) for part in (mean, log_variance))
        return next(both), next(both)


class Spread(NamedTuple):
    """How much hypotheses disagree on numbers [batch, group, query]."""

    mean: Tensor
    variance: Tensor
    explained: Tensor  # part of the variance that goes with the parameters wanted


class Guess(NamedTuple):
    """The hypotheses that the data leave, for groups of observations."""

    apart: Tensor  # [batch, group, hypothesis, parameter], from the mean
    weight: Tensor  # [batch, group, hypothesis]
    power: Tensor  # [batch, group, 1] that the likelihood was raised to
    mean: Tensor  # [batch, group, parameter]

    @classmethod
    def of(cls, z: Tensor, log_weight: Tensor) -> Guess:
        """Of hypotheses z [batch, group, hypothesis, parameter] with the logs of their weights."""
        power = power_of(log_weight.flatten(0, 1), EFFECTIVE).view(*log_weight.shape[:2], 1)
        weight = (power * log_weight).softmax(-1)
        mean = (weight[..., None, :] @ z)[..., 0, :]
        return cls(z - mean[..., None, :], weight, power, mean)

    @property
    def variance(self) -> Tensor:
        """Of each parameter [batch, group, parameter], with hypotheses as they are weighed."""
        return (self.weight[..., None] * self.apart.square()).sum(-2)

    @property
    def std(self) -> Tensor:
        """Of the posterior, about, [batch, group, parameter]."""
        return (self.power * self.variance).sqrt().clamp_min(LEAST_STD)

    def describe(self) -> Tensor:
        """Features [batch, group, guess_features]: where, how wide and of what shape it is.

        The shape is how much lies below some levels, in deviations; smoothly, as there are few.
        """
        away = self.apart / self.variance.sqrt().clamp_min(LEAST_STD)[..., None, :]
        below = torch.special.ndtr((torch.tensor(LEVELS) - away[..., None]) / SMOOTH)
        shape = (self.weight[..., None, None] * below).sum(2).flatten(2)
        return torch.cat([self.mean, self.std.log(), self.power.log() / 4, shape], -1).float()

    def spread(self, values: Tensor, wanted: Tensor) -> Spread:
        """Of values [batch, hypothesis, group, query], as wide as the posterior is."""
        values, weight = values.transpose(1, 2), self.weight[..., None]
        mean = (weight * values).sum(2, keepdim=True)
        away = values - mean
        variance = (weight * away.square()).sum(2)
        apart = self.apart * wanted[:, None, None]
        weighed = (weight * apart).mT
        within = weighed @ apart  # of the parameters wanted
        size = torch.where(wanted[:, None], self.variance, torch.ones_like(self.variance))
        size = RIDGE * size + (~wanted[:, None]).to(size.dtype)
        common = weighed @ away  # [batch, group, parameter, query]
        solved = torch.linalg.solve(within + torch.diag_embed(size), common)
        explained = (common * solved).sum(2)
        return Spread(mean[:, :, 0], self.power * variance, self.power * explained)


def _nats(known: Spread, noise: Tensor) -> Tensor:
    """What a number that is known so far tells of the parameters when seen through noise."""
    total = known.variance + noise
    return -0.5 * torch.log1p(-(known.explained / total).clamp_max(0.999))
