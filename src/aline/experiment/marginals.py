"""One parameter's posterior, in the user's units."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from aline.errors import InputError
from aline.model import Mixture
from aline.spaces.priors import Scale, log_volume

_NORMAL, _SQRT_HALF = NormalDist(), math.sqrt(0.5)

Moments = Callable[[], tuple[float, float]]
"""Mean and standard deviation, computed when asked."""


class Marginal(ABC):
    """One parameter's posterior."""

    def __init__(self, name: str, moments: Moments):
        self.name = name
        self._moments = moments

    @property
    def mean(self) -> float:
        """The posterior mean."""
        return self._moments()[0]

    @property
    def std(self) -> float:
        """The posterior standard deviation."""
        return self._moments()[1]

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The central interval that holds the parameter with probability `level`."""
        low, high = tails(level)
        return self.quantile(low), self.quantile(high)

    @abstractmethod
    def quantile(self, p: float) -> float:
        """The value below which the parameter lies with probability p."""

    @abstractmethod
    def pdf(self, grid: Any) -> Tensor:
        """The density at each value of a grid; 0 outside the support."""

    @abstractmethod
    def sample(self, shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """Draws; without a generator the same ones every time."""

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"{self.name}: {self.mean:.4g} ± {self.std:.4g}, 95 % in [{low:.4g}, {high:.4g}]"


class Coordinate(Marginal):
    """A parameter that is a monotone map of one coordinate of the network."""

    def __init__(self, name: str, moments: Moments, mixture: Mixture, scale: Scale):
        super().__init__(name, moments)
        self._mixture, self._scale = mixture, scale

    def quantile(self, p: float) -> float:
        """The mixture's quantile, mapped."""
        if check_probability(p) in (0.0, 1.0):
            return self._scale.support[int(p)]
        return self._quantiles(p)[0]

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Both ends at once."""
        low, high = self._quantiles(*tails(level))
        return low, high

    def _quantiles(self, *probabilities: float) -> list[float]:
        z = [mixture_quantile(*self._components, p) for p in probabilities]
        quantiles: list[float] = self._scale.to_user(torch.tensor(z, dtype=torch.float64)).tolist()
        return quantiles

    @cached_property
    def _components(self) -> tuple[list[float], list[float], list[float]]:
        m = self._mixture
        return m.log_weight.exp().tolist(), m.mean.tolist(), m.std.tolist()

    def pdf(self, grid: Any) -> Tensor:
        """The mixture's density with the map's Jacobian."""
        value = as_double(self.name, grid)
        low, high = self._scale.support
        inside = (value >= low) & (value <= high)
        middle = self._scale.to_user(torch.zeros((), dtype=torch.float64))
        z = self._scale.to_network(torch.where(inside, value, middle))
        density = (self._mixture.log_prob(z) - log_volume(self._scale, z)).exp()
        return torch.where(inside, density, 0.0)

    def sample(self, shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """Draws of the mixture, mapped."""
        z = self._mixture.sample(math.prod(shape), generator or torch.Generator())
        return self._scale.to_user(z.reshape(*shape)).float()


class Share(Marginal):
    """A later share of a simplex: part of a stick of what the sticks before it left.

    Moments are exact; what else a product of coordinates asks for comes from fixed draws.
    """

    def __init__(
        self, name: str, moments: Moments, *, stick: Coordinate, left: Tensor, draws: Tensor
    ):
        super().__init__(name, moments)
        self._stick = stick
        self._left = left  # [draw], what the sticks before this one left
        self._draws = draws  # [draw], the share itself

    @cached_property
    def _is_rest(self) -> bool:
        """Whether the share is what the last stick leaves, not the stick itself."""
        return self.name != self._stick.name

    def quantile(self, p: float) -> float:
        """The draws' quantile."""
        return float(self._draws.quantile(check_probability(p)))

    def pdf(self, grid: Any) -> Tensor:
        """The stick's exact density, averaged over draws of what was left: smooth in the grid."""
        value = as_double(self.name, grid)[..., None]
        part = value / self._left
        density = self._stick.pdf(1 - part if self._is_rest else part) / self._left
        return density.mean(-1)

    def sample(self, shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """Resample the fixed draws."""
        rows = torch.randint(
            len(self._draws), tuple(shape), generator=generator or torch.Generator()
        )
        return self._draws[rows].float()


def mixture_quantile(
    weights: Sequence[float], means: Sequence[float], stds: Sequence[float], p: float
) -> float:
    """The p-quantile of a Gaussian mixture, to 1e-10 of its width; 0 < p < 1.

    Newton's method on the probit of its distribution function, which for one component is a
    straight line, with bisection wherever a step would leave the bracket. In plain Python: for ten
    components one tensor operation costs more than the whole sum.
    """
    parts = list(zip(weights, means, [1 / std for std in stds], strict=True))
    low = min([m - 9 * s for m, s in zip(means, stds, strict=True)])
    high = max([m + 9 * s for m, s in zip(means, stds, strict=True)])
    tolerance, goal = 1e-10 * (high - low), _probit(p)
    z = sum([w * (m + goal / r) for w, m, r in parts])
    while high - low > tolerance:
        if not low < z < high:
            z = (low + high) / 2
        reached = _probit(sum([w * math.erfc((m - z) * r * _SQRT_HALF) for w, m, r in parts]) / 2)
        low, high = (low, z) if reached > goal else (z, high)
        density = sum([w * r * math.exp(-0.5 * ((m - z) * r) ** 2) for w, m, r in parts])
        step = (reached - goal) * math.exp(-0.5 * reached**2) / max(density, 1e-300)
        z -= step
        if abs(step) < tolerance:
            return z
    return z


def _probit(p: float) -> float:
    # Nine standard deviations stand for all that lies beyond.
    return _NORMAL.inv_cdf(min(max(p, 1e-18), 1 - 1e-16))


def tails(level: float) -> tuple[float, float]:
    """The probabilities that a central interval of this level leaves below it and reaches."""
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, got {level!r}: 0.95 for 95 %")
    return (1 - level) / 2, (1 + level) / 2


def check_probability(p: float) -> float:
    """A probability, or a clear error."""
    if not 0 <= p <= 1:
        raise InputError(f"p must be a probability in [0, 1], got {p!r}")
    return p


def as_double(name: str, value: Any) -> Tensor:
    """A user's numbers as float64, checked."""
    try:
        tensor = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"values of {name} must be numbers, got {value!r}") from None
    if bool(tensor.isnan().any()):
        raise InputError(f"values of {name} must not be NaN, got {value!r}")
    return tensor
