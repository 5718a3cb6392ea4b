"""Univariate priors and the scale on which each is a standard normal.

The network never sees a parameter in the user's units: it sees z = Phi^-1(F(theta)), with F the
prior's distribution function. There the prior is N(0, 1) whatever it was, a Gaussian mixture can
not leak mass outside the prior's support, and a posterior that piles up at a bound has the
Gaussian tail that a mixture represents well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor
from torch import distributions as td

from aline.errors import InputError
from aline.spaces.outcomes.categorical import Categorical

# Float32 distinguishes probabilities from 1 down to 6e-8: beyond this the probit is not invertible.
_TAIL = 1e-7
_TINY = 1e-30  # a LogNormal's 0, which has no logarithm
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class Scale(Protocol):
    """A univariate prior and its map to the standard normal and back."""

    @property
    def support(self) -> tuple[float, float]:
        """Where the prior has mass."""
        ...

    def to_network(self, theta: Tensor) -> Tensor:
        """Map values in the user's units to the scale on which the prior is N(0, 1)."""
        ...

    def to_user(self, z: Tensor) -> Tensor:
        """Map network values back to the user's units, always inside the support."""
        ...

    def log_prior(self, theta: Tensor) -> Tensor:
        """The prior's log density in the user's units."""
        ...


def log_volume(scale: Scale, z: Tensor) -> Tensor:
    """Log |d theta / d z|: subtract it from a log density in z to get one in the user's units."""
    # In float64: near a bound float32 rounds theta to it, where a density can be 0 or infinite.
    exact = z.double()
    volume = -0.5 * exact * exact - _LOG_SQRT_2PI - scale.log_prior(scale.to_user(exact))
    return volume.to(z.dtype)


@dataclass(frozen=True)
class UniformScale:
    """Uniform(low, high), through the probit."""

    low: float
    high: float

    @property
    def support(self) -> tuple[float, float]:
        """Where the prior has mass."""
        return self.low, self.high

    def to_network(self, theta: Tensor) -> Tensor:
        """The probit of the position between the bounds."""
        share = (theta - self.low) / (self.high - self.low)
        z: Tensor = torch.special.ndtri(share.clamp(_TAIL, 1 - _TAIL))
        return z

    def to_user(self, z: Tensor) -> Tensor:
        """The position between the bounds that z stands for."""
        share: Tensor = torch.special.ndtr(z)
        # Rounding may step over a bound.
        return (self.low + (self.high - self.low) * share).clamp(self.low, self.high)

    def log_prior(self, theta: Tensor) -> Tensor:
        """A constant."""
        return torch.full_like(theta, -math.log(self.high - self.low))


@dataclass(frozen=True)
class NormalScale:
    """Normal(loc, scale), or LogNormal when `log` is set."""

    loc: float
    scale: float
    log: bool = False

    @property
    def support(self) -> tuple[float, float]:
        """Where the prior has mass."""
        return (0.0 if self.log else -math.inf), math.inf

    def to_network(self, theta: Tensor) -> Tensor:
        """Standardise, after the logarithm for a LogNormal."""
        value = theta.clamp_min(_TINY).log() if self.log else theta
        return (value - self.loc) / self.scale

    def to_user(self, z: Tensor) -> Tensor:
        """Undo the standardisation."""
        value = self.loc + self.scale * z
        return value.exp() if self.log else value

    def log_prior(self, theta: Tensor) -> Tensor:
        """The normal density, with the logarithm's Jacobian for a LogNormal."""
        z = self.to_network(theta)
        density = -0.5 * z * z - _LOG_SQRT_2PI - math.log(self.scale)
        return density - theta.log() if self.log else density


class CategoricalScale:
    """One of several values: the standard normal is cut so that each has its probability.

    A value is its place, counting from 0; on the network's scale it is the median of its cell.
    """

    def __init__(self, labels: Sequence[str], probs: Sequence[float]):
        self.labels, self.probs = tuple(labels), tuple(probs)
        share = torch.tensor(probs, dtype=torch.float64)
        self._cuts = torch.special.ndtri(share.cumsum(0)[:-1])
        self._centres = torch.special.ndtri(share.cumsum(0) - 0.5 * share)
        self._log_share = share.log()
        self.support = (0.0, len(probs) - 1.0)

    def to_network(self, theta: Tensor) -> Tensor:
        """The median of the value's cell."""
        if bool((theta != theta.round()).any()):
            raise InputError(
                f"a value must be one of {', '.join(self.labels)} or its place, counting from 0, "
                f"got {theta[theta != theta.round()][0].item():g}"
            )
        dtype = theta.dtype if theta.is_floating_point() else torch.float32
        centre: Tensor = self._centres[theta.long()].to(dtype)
        return centre

    def to_user(self, z: Tensor) -> Tensor:
        """The place of the value whose cell holds z."""
        place: Tensor = torch.bucketize(z.detach().contiguous(), self._cuts.to(z.dtype))
        return place

    def log_prior(self, theta: Tensor) -> Tensor:
        """The value's log probability."""
        log_share: Tensor = self._log_share[theta.long()]
        return log_share


class TableScale:
    """Any other univariate prior, through a table of its quantiles.

    The table is linear in z between 4001 knots on an axis (`warp`) on which the quantile function
    is nearly straight, so its error stays near 1e-6 of a prior standard deviation.
    """

    def __init__(
        self,
        frozen: Any,
        log_prior: Callable[[Tensor], Tensor],
        warp: Callable[[Tensor], Tensor],
        unwarp: Callable[[Tensor], Tensor],
        support: tuple[float, float],
    ):
        knots = np.linspace(-6.0, 6.0, 4001)
        with np.errstate(invalid="ignore"):  # of extreme numbers, which are refused below
            lower = frozen.ppf(ndtr(knots[knots <= 0]))
            # The survival function keeps the upper tail's digits.
            upper = frozen.isf(ndtr(-knots[knots > 0]))
        quantiles = warp(torch.tensor(np.concatenate([lower, upper]), dtype=torch.float64))
        usable = torch.isfinite(quantiles)
        self._z = torch.tensor(knots, dtype=torch.float64)[usable]
        self._q = quantiles[usable]
        if not len(self._q) or self._q[0] == self._q[-1]:
            raise InputError(
                f"a prior must have quantiles that numbers can tell apart, got those of "
                f"{frozen.dist.name}{frozen.args} with {frozen.kwds}: choose less extreme numbers"
            )
        self._log_prior, self._warp, self._unwarp = log_prior, warp, unwarp
        self.support = support

    @property
    def knots(self) -> tuple[Tensor, Tensor]:
        """The table: z, and the quantiles there on the axis where they are nearly straight."""
        return self._z, self._q

    def to_network(self, theta: Tensor) -> Tensor:
        """Look the value up among the quantiles."""
        return _interpolate(self._warp(theta.double()), self._q, self._z).to(theta.dtype)

    def to_user(self, z: Tensor) -> Tensor:
        """The quantile that z stands for."""
        return self._unwarp(_interpolate(z.double(), self._z, self._q)).to(z.dtype)

    def log_prior(self, theta: Tensor) -> Tensor:
        """The prior's own density."""
        return self._log_prior(theta)


def _interpolate(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    right = torch.searchsorted(knots, x.detach().contiguous()).clamp(1, len(knots) - 1)
    x0, x1, y0, y1 = knots[right - 1], knots[right], values[right - 1], values[right]
    return y0 + (x.clamp(knots[0], knots[-1]) - x0) * (y1 - y0) / (x1 - x0)


def _frozen(family: str, *shape: float, scale: float = 1.0) -> Any:
    from scipy import stats  # takes half a second, and few priors need it

    return getattr(stats, family)(*shape, scale=scale)


def beta_scale(a: float, b: float) -> Scale:
    """Beta(a, b) on (0, 1); the flat one is a Uniform."""
    if a == b == 1.0:
        return UniformScale(0.0, 1.0)
    return TableScale(
        _frozen("beta", a, b), td.Beta(a, b).log_prob, torch.logit, torch.sigmoid, (0.0, 1.0)
    )


def _gamma_scale(concentration: float, rate: float) -> Scale:
    return TableScale(
        _frozen("gamma", concentration, scale=1 / rate),
        td.Gamma(concentration, rate).log_prob,
        torch.log,
        torch.exp,
        (0.0, math.inf),
    )


def _half_normal_scale(scale: float) -> Scale:
    return TableScale(
        _frozen("halfnorm", scale=scale),
        td.HalfNormal(scale).log_prob,
        torch.log,
        torch.exp,
        (0.0, math.inf),
    )


# The priors a task may declare: their torch.distributions arguments, and the scale they become.
_FAMILIES: dict[str, tuple[tuple[str, ...], Callable[..., Scale]]] = {
    "Uniform": (("low", "high"), UniformScale),
    "Normal": (("loc", "scale"), NormalScale),
    "LogNormal": (("loc", "scale"), lambda loc, scale: NormalScale(loc, scale, log=True)),
    "Beta": (("concentration1", "concentration0"), beta_scale),
    "Gamma": (("concentration", "rate"), _gamma_scale),
    "Exponential": (("rate",), lambda rate: _gamma_scale(1.0, rate)),
    "HalfNormal": (("scale",), _half_normal_scale),
    "Dirichlet": (("concentration",), None),  # type: ignore[dict-item]  # through its sticks
    "Categorical": (("labels", "probs"), CategoricalScale),
}

_OF_A_NUMBER = [one for one in _FAMILIES if one not in ("Dirichlet", "Categorical")]


class Only:
    """The prior of a parameter that exists only where a discrete one has a certain value.

    A simulator is given it always, and where it does not exist leaves it aside.

    >>> Only(td.Beta(1.0, 4.0), model="power").given
    {'model': 'power'}
    """

    def __init__(self, prior: td.Distribution, **given: str):
        if len(given) != 1:
            raise InputError(
                'Only takes a prior and one value, Only(Beta(1.0, 4.0), model="power"), got '
                f"{given or 'none'}"
            )
        self.prior, self.given = prior, given


Declared = td.Distribution | Categorical | Only
"""The priors that a task may declare."""


@dataclass(frozen=True)
class Prior:
    """A declared prior as plain data: its family and its arguments, each a number or a list."""

    family: str
    arguments: Mapping[str, Any]
    given: Mapping[str, str] = field(default_factory=dict)  # where it exists, if not everywhere

    @classmethod
    def of(cls, name: str, distribution: Declared) -> Prior:
        """Read a torch distribution; `name` is the parameter it was declared for."""
        if isinstance(distribution, Only):
            return replace(cls.of(name, distribution.prior), given=distribution.given)
        if isinstance(distribution, Categorical):
            labels = list(distribution.labels)
            return cls("Categorical", {"labels": labels, "probs": list(distribution.shares)})
        while isinstance(distribution, td.Independent):
            distribution = distribution.base_dist
        family = type(distribution).__name__
        if isinstance(distribution, td.Categorical):
            raise InputError(
                f"the values of {name} need labels: write "
                'aline.Categorical(["power", "exponential"], probs=[0.5, 0.5])'
            )
        if family not in _FAMILIES:
            raise InputError(
                f"the prior of {name} must be one of {', '.join(_FAMILIES)}, got {family}: "
                "write the parameter as a transform of one of these inside the simulator"
            )
        fields = _FAMILIES[family][0]
        return cls(family, {f: getattr(distribution, f).tolist() for f in fields})

    @property
    def size(self) -> int:
        """How many numbers the parameter holds; 0 for a scalar."""
        if self.family == "Categorical":
            return 0
        lengths = {len(v) for v in self.arguments.values() if isinstance(v, list)}
        return lengths.pop() if lengths else 0

    def scales(self) -> list[Scale]:
        """One scale a free coordinate; a Dirichlet of K has the K - 1 sticks of its breaking."""
        if self.family == "Dirichlet":
            weights = self.arguments["concentration"]
            assert isinstance(weights, list)
            return [beta_scale(w, sum(weights[i + 1 :])) for i, w in enumerate(weights[:-1])]
        if self.family == "Categorical":
            return [CategoricalScale(**self.arguments)]
        make = _FAMILIES[self.family][1]
        rows = [
            [v[i] if isinstance(v, list) else v for v in self.arguments.values()]
            for i in range(max(self.size, 1))
        ]
        return [make(*row) for row in rows]

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        given = {"given": dict(self.given)} if self.given else {}
        return {"family": self.family, **self.arguments, **given}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Prior:
        """Read what `to_json` wrote."""
        arguments = {k: v for k, v in data.items() if k not in ("family", "given")}
        return cls(data["family"], arguments, data.get("given", {}))


def read_distribution(name: str, plain: Mapping[str, Any]) -> td.Distribution:
    """The prior of a parameter that is one number, of plain data as `Prior.to_json` has it.

    >>> read_distribution("slope", {"family": "Exponential", "rate": 2.0})
    Exponential(rate: 2.0)
    """
    numbers, family = {k: v for k, v in plain.items() if k != "family"}, plain.get("family")
    if family not in _OF_A_NUMBER:
        raise InputError(
            f"the prior of {name} must be one of {', '.join(_OF_A_NUMBER)}, got {family!r}: use "
            "one of these"
        )
    fields = _FAMILIES[family][0]
    if {*numbers} != {*fields} or any(isinstance(v, str) for v in numbers.values()):
        raise InputError(
            f"the prior of {name} needs the numbers {', '.join(fields)} of a {family}, got "
            f"{numbers}"
        )
    try:
        found: td.Distribution = getattr(td, family)(**numbers)
    except ValueError:
        raise InputError(
            f"the prior of {name} is no distribution, got {numbers}: check the signs and the "
            "order of its numbers"
        ) from None
    return found
