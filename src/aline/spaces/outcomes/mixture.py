"""Gaussian mixtures: what is believed of a number, an outcome's or a parameter's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import mul
from statistics import NormalDist
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from aline.spaces.outcomes.base import Belief

STD_FLOOR = 1e-4
STEPS = 200  # of the search for a quantile, of which it needs ten; far from zero it never ends
LOG_SCALES = (-7.0, 1.0)  # of a mixture; the prior's is about 0
LIKE_NORMAL = 1.702  # a logistic distribution with this scale is within 0.01 of the normal
FAR = -12.0  # below, a series gives the normal's tail to a float's precision
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_NORMAL, _SQRT_HALF = NormalDist(), math.sqrt(0.5)
_NODES, _WEIGHTS = (torch.from_numpy(part) for part in np.polynomial.hermite_e.hermegauss(24))
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class Mixture(Belief):
    """A Gaussian mixture for each target, on the network's scale."""

    log_weight: Tensor  # [..., component]
    mean: Tensor  # [..., component]
    std: Tensor  # [..., component]

    @property
    def shape(self) -> torch.Size:
        """The target axes."""
        return self.mean.shape[:-1]

    def plain(self) -> Mixture:
        """The Gaussian mixtures alone."""
        return Mixture(self.log_weight, self.mean, self.std)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density of value [...]."""
        z = (value[..., None] - self.mean) / self.std
        return (self.log_weight - self.std.log() - 0.5 * z * z).logsumexp(-1) - LOG_SQRT_2PI

    def moved(self, mean: Tensor, std: Tensor) -> Self:
        """The same in units of `std` [...] from `mean` [...]."""
        mean, std = mean[..., None], std[..., None]
        return replace(self, mean=mean + std * self.mean, std=std * self.std)

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of at most value [...]."""
        z = (value[..., None] - self.mean) / self.std
        below: Tensor = (self.log_weight.exp() * torch.special.ndtr(z)).sum(-1)
        return below

    def position(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The same number twice: no value has a probability of its own."""
        below = self.cdf(value)
        return below, below

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [count, ...], independent across targets."""
        return self._draws(count, generator)

    def _draws(self, count: int, generator: torch.Generator) -> Tensor:
        weight = self.log_weight.exp().reshape(-1, self.mean.shape[-1])
        pick = torch.multinomial(weight, count, replacement=True, generator=generator)
        mean = self.mean.reshape(weight.shape).gather(1, pick)
        std = self.std.reshape(weight.shape).gather(1, pick)
        draws = mean + std * torch.randn(mean.shape, generator=generator)
        return draws.T.reshape(count, *self.shape)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [...]."""
        return self.kept_moments

    @cached_property
    def kept_moments(self) -> tuple[Tensor, Tensor]:
        """As `moments`; code that has computed them already may set them."""
        weight = self.log_weight.exp()
        mean = (weight * self.mean).sum(-1)
        # Around the mean: far from zero the difference of squares would lose all digits.
        square = self.std**2 + (self.mean - mean[..., None]) ** 2
        return mean, (weight * square).sum(-1).sqrt()

    def quantile(self, p: float) -> Tensor:
        """The value [...] below which each outcome lies with probability p."""
        return self._quantiles(p)

    def _quantiles(self, p: float) -> Tensor:
        if p in (0, 1):
            return self.mean.new_full(self.shape, math.inf if p else -math.inf)
        parts = (self.log_weight.exp(), self.mean, self.std)
        rows = zip(*(part.reshape(-1, part.shape[-1]).tolist() for part in parts), strict=True)
        found = [mixture_quantiles(*row, p)[0] for row in rows]
        return torch.tensor(found, dtype=self.mean.dtype).reshape(self.shape)

    def probabilities(self) -> Tensor:
        """Of each value of a discrete target, [..., value]; numbers have none."""
        return self.mean.new_zeros(*self.shape, 0)

    def outcomes(self) -> tuple[Tensor, Tensor]:
        """Gauss-Hermite nodes of every component."""
        nodes, weights = _NODES.to(self.mean.dtype), _WEIGHTS.to(self.mean.dtype)
        values = self.mean[..., None] + self.std[..., None] * nodes
        return values.flatten(-2), (self.log_weight.exp()[..., None] * weights).flatten(-2)

    def expected(self) -> Tensor:
        """The mean."""
        return self.moments()[0]

    def averaged(self, log_weight: Tensor) -> Self:
        """The mixture of mixtures."""
        joined = replace(self, log_weight=self.log_weight + log_weight[..., None])
        return joined.each(lambda tensor: tensor.flatten(-2))

    def double(self) -> Self:
        """In double precision, with weights that sum to one there."""
        wide = super().double()
        return replace(wide, log_weight=wide.log_weight.log_softmax(-1))


@dataclass(frozen=True)
class Censored(Mixture):
    """A mixture whose values beyond two limits are all reported as the limit."""

    limits: tuple[float, float] = (-math.inf, math.inf)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density of value [...] between the limits, log probability at a limit."""
        low, high = self.limits
        below = self._log_tail((low - self.mean) / self.std)
        above = self._log_tail((self.mean - high) / self.std)
        at_limit = torch.where(value < 0.5 * (low + high), below, above)
        return torch.where(is_inside(value, self.limits), super().log_prob(value), at_limit)

    def position(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """A limit has the probability of all that lies beyond it."""
        low, high = self.limits
        below, inside = self.cdf(value), is_inside(value, self.limits)
        lowest = ~inside & (value < 0.5 * (low + high))
        below = torch.where(inside, below, self.cdf(torch.full_like(value, high)))
        reached = torch.where(inside, below, torch.ones_like(below))
        lower = self.cdf(torch.full_like(value, low))
        return below.masked_fill(lowest, 0.0), torch.where(lowest, lower, reached)

    def _log_tail(self, z: Tensor) -> Tensor:
        tail: Tensor = (self.log_weight + log_ndtr(z)).logsumexp(-1)
        return tail

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [count, ...], independent across targets."""
        return self._draws(count, generator).clamp(*self.limits)

    def quantile(self, p: float) -> Tensor:
        """Within the limits."""
        return self._quantiles(p).clamp(*self.limits)

    def outcomes(self) -> tuple[Tensor, Tensor]:
        """The nodes of what was there to measure, as they are reported."""
        values, weights = super().outcomes()
        return values.clamp(*self.limits), weights

    def expected(self) -> Tensor:
        """The mean of what was there to measure, as it would be reported."""
        return self.moments()[0].clamp(*self.limits)


def is_inside(value: Tensor, limits: tuple[float, float]) -> Tensor:
    """Whether value [...] lies between the limits, but for rounding."""
    low, high = limits
    slack = 1e-5 * (high - low)
    return (value > low + slack) & (value < high - slack)


def log_ndtr(z: Tensor) -> Tensor:
    """Log of the standard normal's distribution function, with gradients that are right far out.

    In float32 torch's own gradient is 6 times too large at -10,000 and 0.4 at -100,000.
    """
    tail = z.clamp(max=FAR)
    square = (1 / tail) ** 2
    series = -square * (1 - square * (3 - square * (15 - 105 * square)))
    far = -0.5 * tail * tail - (-tail).log() - LOG_SQRT_2PI + torch.log1p(series)
    return torch.where(z < FAR, far, torch.special.log_ndtr(z.clamp(min=FAR)))


def log_logistic(z: Tensor) -> Tensor:
    """Log of a logistic distribution function that is close to the standard normal's.

    An eighth of the time of `log_ndtr`, in graphs too.
    """
    return F.logsigmoid(LIKE_NORMAL * z)


def mixture_start(components: int, read: int) -> Tensor:
    """The numbers from which a head starts near N(0, 1), the prior."""
    shape = torch.zeros(3, components)
    shape[1] = torch.linspace(-1, 1, components)
    shape[2] = 0.4  # softplus(0.4) = 0.91
    layout = torch.zeros(read + 2 if read else 0)
    if read:
        layout[read] = 3.0  # at first the base is zero
    return torch.cat([shape.flatten(), layout])


def read_mixture(numbers: Tensor, read: Tensor, zoom: Tensor | None = None) -> Mixture:
    """What a head's numbers [..., 3 * component + layout] mean; zoom [..., 1] is a log scale.

    Where the head saw averages of observations, the mixture is laid out around a base, on a scale
    of its own: the base is an average of them and of zero, the prior's mean, by weights that the
    head chooses. Averages of nearly equal numbers hardly feel the noise of their weights, so a
    posterior that is a thousand times narrower than the prior can be centred without a thousand
    times more exact weights.
    """
    seen = read.shape[-1]
    components = (numbers.shape[-1] - (seen + 2 if seen else 0)) // 3
    logit, mean, spread = numbers[..., : 3 * components].chunk(3, -1)
    std = F.softplus(spread) + STD_FLOOR
    if seen:
        layout = numbers[..., 3 * components :]
        share = layout[..., :-1].softmax(-1)[..., :-1]
        base = (share * read).sum(-1, keepdim=True)
        scale = layout[..., -1:] if zoom is None else layout[..., -1:] + zoom
        scale = scale.clamp(*LOG_SCALES).exp()
        mean, std = base + scale * mean, scale * std + STD_FLOOR
    return Mixture(logit.log_softmax(-1), mean, std)


def mixture_quantiles(
    weights: Sequence[float], means: Sequence[float], stds: Sequence[float], *levels: float
) -> list[float]:
    """The quantiles of a Gaussian mixture at levels 0 < p < 1.

    Newton's method on the probit of its distribution function, which for one component is a
    straight line, with bisection wherever a step would leave the bracket. In plain Python: for ten
    components one tensor operation costs more than the whole sum.
    """
    parts = list(zip(means, [_SQRT_HALF / std for std in stds], strict=True))
    peaks = [w / s for w, s in zip(weights, stds, strict=True)]
    least, most = min(means) - 9 * max(stds), max(means) + 9 * max(stds)
    enough = 1e-3 * min(stds)
    mean: float = sum(map(mul, weights, means))
    squares = [(m - mean) ** 2 + s * s for m, s in zip(means, stds, strict=True)]
    spread = math.sqrt(sum(map(mul, weights, squares)))

    def solve(goal: float) -> float:
        low, high, z = least, most, mean + goal * spread
        for _ in range(STEPS):
            if high - low <= 1e-6 * enough:
                break
            if not low < z < high:
                z = (low + high) / 2
            away = [(m - z) * r for m, r in parts]
            reached = _probit(sum(map(mul, weights, map(math.erfc, away))) / 2)
            low, high = (low, z) if reached > goal else (z, high)
            density = sum(map(mul, peaks, [math.exp(-a * a) for a in away]))
            step = (reached - goal) * math.exp(-0.5 * reached**2) / max(density, 1e-300)
            z -= step
            if abs(step) < enough:  # what is left is of the order of the step squared
                break
        return min(max(z, low), high)

    return [solve(_probit(p)) for p in levels]


def _probit(p: float) -> float:
    # Nine standard deviations stand for all that lies beyond.
    return _NORMAL.inv_cdf(min(max(p, 1e-18), 1 - 1e-16))
