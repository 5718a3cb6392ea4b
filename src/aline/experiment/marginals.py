"""One parameter's posterior, in the user's units."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

from aline.errors import InputError
from aline.spaces.outcomes.mixture import Mixture, mixture_quantiles
from aline.spaces.priors import Scale, UniformScale, log_volume

DRAWS = 8192  # for a share of a simplex: quantiles to about 2 % of a standard deviation

# Gauss-Hermite nodes and weights for N(0, 1). With 24, standard deviations under a uniform prior
# are exact to 1e-9 of its width for components as wide as the prior (1 in z), 4e-6 for 1.5.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()

Array = np.ndarray[Any, np.dtype[np.float64]]
Components = tuple[Array, Array, Array]
"""Weights, means and standard deviations of a mixture, [component] each."""

Shape = int | Sequence[int]
"""How many draws: a number, or the axes to arrange them in."""


def axes_of(shape: Shape) -> tuple[int, ...]:
    """The axes of draws."""
    return (shape,) if isinstance(shape, int) else tuple(shape)


class Marginal(ABC):
    """One parameter's posterior.

    >>> import aline
    >>> threshold = aline.Experiment(aline.load("psychometric")).posterior()["threshold"]
    >>> low, high = threshold.interval(0.9)
    >>> low < threshold.quantile(0.5) < high
    True
    >>> round(threshold.mean), threshold.std < 2.0
    (0, True)
    >>> threshold.pdf([0.0]).shape, threshold.sample(5).shape
    (torch.Size([1]), torch.Size([5]))
    >>> threshold.probabilities, threshold.in_words()  # which a discrete parameter has
    ({}, '')
    """

    name: str

    @property
    def probabilities(self) -> dict[str, float]:
        """Of each value of a discrete parameter, by its label; none of another."""
        return {}

    def in_words(self) -> str:
        """What is known of a discrete parameter, the likeliest value first."""
        likely = sorted(self.probabilities.items(), key=lambda one: -one[1])
        return ", ".join(f"{label} {p:.3g}" for label, p in likely)

    @property
    def mean(self) -> float:
        """The posterior mean."""
        return self._moments[0]

    @property
    def std(self) -> float:
        """The posterior standard deviation."""
        return math.sqrt(self._moments[1])

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The central interval that holds the parameter with probability `level`."""
        low, high = tails(level)
        return self.quantile(low), self.quantile(high)

    @cached_property
    @abstractmethod
    def _moments(self) -> tuple[float, float]:
        """Mean and variance."""

    @abstractmethod
    def quantile(self, p: float) -> float:
        """The value below which the parameter lies with probability p."""

    @abstractmethod
    def pdf(self, grid: Any) -> Tensor:
        """The density at each value of a grid; 0 outside the support."""

    @abstractmethod
    def sample(self, shape: Shape = (), generator: torch.Generator | None = None) -> Tensor:
        """Draws; without a generator the same ones every time."""

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"{self.name}: {self.mean:.4g} ± {self.std:.4g}, 95 % in [{low:.4g}, {high:.4g}]"


class Coordinate(Marginal):
    """A parameter that is a monotone map of one coordinate of the network."""

    def __init__(self, name: str, mixture: Components, scale: Scale):
        self.name = name
        self._components, self._scale = mixture, scale

    @cached_property
    def _moments(self) -> tuple[float, float]:
        # In numpy, which is quicker than torch at a few hundred numbers.
        weights, means, stds = self._components
        value = _to_user(self._scale, means[:, None] + stds[:, None] * _NODES)
        mean = float(weights @ (value @ _WEIGHTS))
        # Around the mean, as E[x^2] - E[x]^2 cancels for narrow posteriors far from zero.
        return mean, float(weights @ ((value - mean) ** 2 @ _WEIGHTS))

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
        weights, means, stds = (part.tolist() for part in self._components)
        z = mixture_quantiles(weights, means, stds, *probabilities)
        quantiles: list[float] = _to_user(self._scale, np.array(z)).tolist()
        return quantiles

    @cached_property
    def _mixture(self) -> Mixture:
        weights, means, stds = map(torch.from_numpy, self._components)
        return Mixture(weights.log(), means, stds)

    def pdf(self, grid: Any) -> Tensor:
        """The mixture's density with the map's Jacobian."""
        value = as_double(self.name, grid)
        low, high = self._scale.support
        inside = (value >= low) & (value <= high)
        middle = self._scale.to_user(torch.zeros((), dtype=torch.float64))
        z = self._scale.to_network(torch.where(inside, value, middle))
        density = (self._mixture.log_prob(z) - log_volume(self._scale, z)).exp()
        return torch.where(inside, density, 0.0)

    def sample(self, shape: Shape = (), generator: torch.Generator | None = None) -> Tensor:
        """Draws of the mixture, mapped."""
        return self.draw(shape, generator or torch.Generator()).float()

    def draw(self, shape: Shape, generator: torch.Generator) -> Tensor:
        """Likewise in double precision."""
        axes = axes_of(shape)
        z = self._mixture.sample(math.prod(axes), generator)
        return self._scale.to_user(z.reshape(*axes))


class Share(Marginal):
    """A later share of a simplex: a part of what the sticks before it left.

    Share k is stick k of what is left there; the last is the rest of the last stick. Moments are
    exact; what else a product of coordinates asks for comes from draws with a fixed seed.
    """

    def __init__(self, name: str, sticks: Sequence[Coordinate], *, is_rest: bool):
        self.name = name
        self._before, self._stick = sticks[:-1], sticks[-1]
        self._is_rest = is_rest

    @cached_property
    def _moments(self) -> tuple[float, float]:
        # Sticks are independent, so moments of products are products of moments.
        factors = [(1 - stick.mean, stick.std**2) for stick in self._before]
        mean, variance = self._stick.mean, self._stick.std**2
        factors.append((1 - mean if self._is_rest else mean, variance))
        mean = math.prod(m for m, _ in factors)
        square = math.prod(v + m * m for m, v in factors)
        return mean, max(square - mean * mean, 0.0)

    def quantile(self, p: float) -> float:
        """The draws' quantile."""
        return float(self._draws[1].quantile(check_probability(p)))

    def pdf(self, grid: Any) -> Tensor:
        """The stick's exact density, averaged over draws of what was left: smooth in the grid."""
        # Every 16th in order has the accuracy of all, at a bearable price a grid point.
        left = self._draws[0].sort().values[8::16]
        part = as_double(self.name, grid)[..., None] / left
        return (self._stick.pdf(1 - part if self._is_rest else part) / left).mean(-1)

    def sample(self, shape: Shape = (), generator: torch.Generator | None = None) -> Tensor:
        """Draws of the sticks, multiplied."""
        return self._draw(shape, generator or torch.Generator())[1].float()

    @cached_property
    def _draws(self) -> tuple[Tensor, Tensor]:
        return self._draw((DRAWS,), torch.Generator())

    def _draw(self, shape: Shape, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """What the sticks before left, and the share."""
        left = torch.ones(axes_of(shape), dtype=torch.float64)
        for stick in self._before:
            left = left * (1 - stick.draw(shape, generator))
        part = self._stick.draw(shape, generator)
        return left, left * (1 - part if self._is_rest else part)


def _to_user(scale: Scale, z: Array) -> Array:
    """The scale's map for a few hundred numbers; most priors are uniform, and scipy is quicker."""
    if isinstance(scale, UniformScale):
        return np.asarray(scale.low + (scale.high - scale.low) * ndtr(z))
    return np.asarray(scale.to_user(torch.from_numpy(z)))


def tails(level: float) -> tuple[float, float]:
    """The probabilities that a central interval of this level leaves below it and reaches."""
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, got {level!r}: 0.95 for 95 %")
    # A level next to 1 would round to certainty, which has no finite interval.
    return (1 - level) / 2, min((1 + level) / 2, math.nextafter(1.0, 0.0))


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
