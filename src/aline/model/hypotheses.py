"""What data say of the parameters of the Gaussian process behind them, by hypotheses.

A few dozen to a hundred values of all parameters, spread evenly over the prior, are as many
Gaussian processes; each says how likely the data are. Where the data tell more than the hypotheses
are apart, none of them fits. But the likelihood raised to a power below one is of the same shape,
only wider: with the power at which enough hypotheses count, their mean is still about that of the
posterior, and their covariance about that of the posterior over the power. The network starts from
there, for its posterior as for what a candidate would tell of the parameters.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from aline.errors import InputError
from aline.model.kernels import Bank, KernelBank, spread_evenly
from aline.model.refine import power_of
from aline.tasks import Spec

EFFECTIVE = 8.0  # hypotheses that count at least
AFFORDED = 256  # while training; the network need not know how many there are
EDGE = 0.005  # shares of a prior's mass that none of them looks beyond
LEAST_STD = 0.02  # of a guess, on the normal scale
RIDGE = 1e-3  # of a variance, so that few hypotheses do not seem to know all
LEAST_TOLD = 1e-6  # nats
AT_ONCE = 2**26  # numbers over the factors of candidates that are held at a time


class Hypotheses(KernelBank):
    """Kernels with parameters spread over the prior; what varies with none of them is in turn."""

    z: Tensor  # [hypothesis, parameter], on the network's scale
    log_scale: Tensor  # [hypothesis], of the function's deviation

    def __init__(self, spec: Spec, count: int):
        names = spec.hyperparameters
        if names is None:
            raise InputError(
                "hypotheses are about a Gaussian process's lengthscale and scale: name them in "
                "Process(...), or use ModelConfig(hypotheses=0)"
            )
        share = spread_evenly(count, len(spec.parameters) + 1)
        z = torch.special.ndtri(EDGE + (1 - 2 * EDGE) * share[:, :-1])
        along = spec.parameters.index(names.lengthscale)
        # Many functions have one lengthscale for all axes.
        z[:, along] = torch.where(share[:, -1:] < 0.5, z[:, along[:1]], z[:, along])
        user = spec.parameters.to_user(z)
        half = (spec.design.high - spec.design.low) / 2
        lengthscales = user[names.lengthscale].reshape(count, -1) / half
        scale = user[names.scale]
        super().__init__(lengthscales, (names.noise / scale).square())
        self.register_buffer("z", z, persistent=False)
        own = spec.outcome.to_network(torch.stack([scale, torch.zeros_like(scale)]))
        self.register_buffer("log_scale", (own[0] - own[1]).log(), persistent=False)

    @property
    def guess_features(self) -> int:
        """How many numbers describe a guess."""
        return 2 * self.z.shape[1] + 1

    def guess(self, bank: Bank) -> Guess:
        """What the hypotheses say of the parameters after what a bank of theirs has seen."""
        squares, logdet, count = bank.sums
        fit = -0.5 * squares * (-2 * self.log_scale).exp() - count * self.log_scale - logdet
        power = power_of(fit.flatten(0, 1), EFFECTIVE).view(*fit.shape[:2], 1)
        weight = (power * fit).softmax(-1)
        mean = weight @ self.z
        return Guess(self.z - mean[..., None, :], weight, power, mean)

    def telling(self, bank: Bank, candidates: Tensor, wanted: Tensor) -> Tensor:
        """The log of the nats that an outcome at each candidate would tell of some parameters.

        [batch, group, query] for candidates [batch, group or 1, query, design] and parameters
        `wanted` [batch, parameter]. As if the posterior were normal, and the mean and the log
        variance of an outcome linear in the parameters: the outcome then tells of the first with
        the noise of its own variance, and of the second with a variance of two.
        """
        each = self.count * candidates.shape[2] * max(1, bank.designs.shape[1])
        step = max(1, AT_ONCE // each)
        if len(bank.designs) > step:
            parts = (slice(i, i + step) for i in range(0, len(bank.designs), step))
            return torch.cat([self.telling(bank.some(p), candidates[p], wanted[p]) for p in parts])
        guess, (mean, left) = self.guess(bank), bank.at(candidates)
        log_variance = left.log() + 2 * self.log_scale[:, None, None]
        of_mean = guess.spread(mean, wanted)
        of_variance = guess.spread(log_variance, wanted)
        told = _nats(of_mean, of_variance.mean.exp()) + _nats(of_variance, torch.tensor(2.0))
        return told.clamp_min(LEAST_TOLD).log().float()


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

    @property
    def variance(self) -> Tensor:
        """Of each parameter [batch, group, parameter], with hypotheses as they are weighed."""
        return (self.weight[..., None] * self.apart.square()).sum(-2)

    @property
    def std(self) -> Tensor:
        """Of the posterior, about, [batch, group, parameter]."""
        return (self.power * self.variance).sqrt().clamp_min(LEAST_STD)

    def describe(self) -> Tensor:
        """Features [batch, group, guess_features]."""
        return torch.cat([self.mean, self.std.log(), self.power.log() / 4], -1).float()

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
