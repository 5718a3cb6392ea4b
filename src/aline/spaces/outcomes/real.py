"""A real number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from aline.errors import InputError
from aline.spaces.outcomes.base import Belief, Outcome, User
from aline.spaces.outcomes.mixture import (
    Censored,
    Mixture,
    is_inside,
    log_logistic,
    mixture_start,
    read_mixture,
)
from aline.spaces.outcomes.numbers import GIVEN, number_of, refuse, tensor_of
from aline.spaces.text import number

_ROUNDING = 1e-5  # of the limits' distance
# How far from its location an outcome may lie, in scales. Simulations reach 5; the shipped models
# stay finite at 100, with up to 5000 such outcomes, and not at 200.
FARTHEST = 50.0
BENT = 40.0  # likewise in e-folds where the scale is logarithmic
LARGEST = 1e30  # of an outcome in any units: single precision bears it


@dataclass(frozen=True)
class Real(Outcome):
    """A real outcome. Without `loc` and `scale`, training measures them on prior simulations.

    With `linear_within` the network sees outcomes linearly up to this size and logarithmically
    beyond, on both sides of zero, for outcomes that spread over many orders of magnitude; `loc` and
    `scale` are then those of asinh(outcome / linear_within). `limits` are where an instrument
    saturates: what would lie beyond is reported as the limit.

    >>> Real(limits=(0.0, 5.0)).limits
    (0.0, 5.0)
    >>> rating = Real(limits=(0.0, 5.0), loc=2.0, scale=1.0)
    >>> rating.saturated(), rating.read(4)
    ((-2.0, 3.0), 4.0)
    >>> low, high = rating.reach()
    """

    kind: ClassVar[str] = "real"
    measured: ClassVar[tuple[str, ...]] = ("loc", "scale")
    is_continuous: ClassVar[bool] = True

    loc: float | None = None
    scale: float | None = None
    linear_within: float | None = None
    limits: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.linear_within is not None and not 0 < self.linear_within < math.inf:
            raise InputError(
                f"linear_within must be a positive outcome, got {self.linear_within!r}"
            )
        if self.limits is not None and not self.limits[0] < self.limits[1]:
            raise InputError(f"limits must be (low, high) with low < high, got {self.limits!r}")

    # Scales.

    def fitted(self, samples: User) -> Self:
        """This outcome with location and scale taken from simulated outcomes where not given."""
        values = self._bend(tensor_of(samples).double())
        loc = float(values.mean()) if self.loc is None else self.loc
        scale = float(values.std()) if self.scale is None else self.scale
        return replace(self, loc=loc, scale=max(scale, 1e-12))

    @property
    def is_linear(self) -> bool:
        """Whether it has neither a logarithmic part nor limits."""
        return self.linear_within is None and self.limits is None

    def to_network(self, user: User) -> Tensor:
        """Bend, if there is a logarithmic part, and standardise."""
        return (self._bend(tensor_of(user)) - self._number(self.loc)) / self._number(self.scale)

    def to_user(self, y: Tensor) -> Tensor:
        """Undo what `to_network` does."""
        bent = self._number(self.loc) + self._number(self.scale) * y
        return bent if self.linear_within is None else self.linear_within * torch.sinh(bent)

    def _bend(self, user: Tensor) -> Tensor:
        return user if self.linear_within is None else torch.asinh(user / self.linear_within)

    def log_volume(self, y: Tensor) -> Tensor:
        """Log |d user / d network|; 0 at a limit, which has a probability, not a density."""
        scale = self._number(self.scale)
        volume = torch.full_like(y, math.log(scale))
        if self.linear_within is not None:
            bent = (self._number(self.loc) + scale * y).abs()
            # log cosh, which does not overflow.
            volume = (
                volume + math.log(self.linear_within / 2) + bent + torch.log1p(torch.exp(-2 * bent))
            )
        limits = self.saturated()
        return volume if limits is None else torch.where(is_inside(y, limits), volume, 0.0)

    def saturated(self) -> tuple[float, float] | None:
        """The limits on the network's scale."""
        return self._saturated

    @cached_property
    def _saturated(self) -> tuple[float, float] | None:
        if self.limits is None:
            return None
        low, high = self.to_network(torch.tensor(self.limits, dtype=torch.float64)).tolist()
        return low, high

    @staticmethod
    def _number(value: float | None) -> float:
        if value is None:
            raise InputError(
                "this outcome has no scale yet: use task.fitted(), or give Real(loc=…, scale=…)"
            )
        return value

    # What the network sees and says.

    @property
    def width(self) -> int:
        """The number itself."""
        return 1

    def encode(self, y: Tensor) -> Tensor:
        """The number itself."""
        return y[..., None]

    def head_start(self, components: int, read: int) -> Tensor:
        """Near N(0, 1)."""
        return mixture_start(components, read)

    def belief(self, numbers: Tensor, read: Tensor, zoom: Tensor | None = None) -> Mixture:
        """A Gaussian mixture, cut off at the limits."""
        return self._within_limits(read_mixture(numbers, read, zoom))

    def emulated(self, numbers: Tensor, y: Tensor) -> Tensor:
        """By logistic tails beyond limits."""
        mixture, limits = read_mixture(numbers, numbers[..., :0]), self.saturated()
        if limits is None:
            return mixture.log_prob(y)
        low, high = limits
        side = torch.where(y < 0.5 * (low + high), 1.0, -1.0)
        limit = torch.where(side > 0, low, high)[..., None]
        z = (limit - mixture.mean) / mixture.std * side[..., None]
        at_limit = (mixture.log_weight + log_logistic(z)).logsumexp(-1)
        return torch.where(is_inside(y, limits), mixture.log_prob(y), at_limit)

    def restore(self, tensors: Mapping[str, Tensor]) -> Mixture:
        """The same from its tensors."""
        return self._within_limits(Mixture(**tensors))

    def _within_limits(self, mixture: Mixture) -> Mixture:
        limits = self.saturated()
        if limits is None:
            return mixture
        return Censored(mixture.log_weight, mixture.mean, mixture.std, limits)

    def moments(self, belief: Belief) -> tuple[Tensor, Tensor]:
        """In closed form unless values are bent or cut off."""
        if not self.is_linear:
            return super().moments(belief)
        mean, std = belief.moments()
        return self.to_user(mean), std * self.log_volume(std).exp()

    # One outcome as plain data.

    def read(self, value: Any) -> float:
        """A number in the user's units, checked."""
        number = number_of(value)
        if not math.isfinite(number):
            raise InputError(
                f"an outcome must be a finite number, got {value!r}: "
                "abandon the trial if it was not measured"
            )
        if self.limits is None:
            return self._within_reach(number)
        self.check(torch.tensor(number, dtype=torch.float64), GIVEN)
        return min(max(number, self.limits[0]), self.limits[1])

    def _within_reach(self, number: float) -> float:
        """A number with which a posterior stays finite."""
        low, high = self.reach()
        if not low <= number <= high:
            raise InputError(
                f"an outcome of this task must lie in [{low:.6g}, {high:.6g}], got {number!r}: "
                "check its units, or abandon the trial"
            )
        return number

    def reach(self) -> tuple[float, float]:
        """Between what outcomes a network's posterior stays finite, in the user's units."""
        if self.loc is None or self.scale is None:
            return -LARGEST, LARGEST
        low, high = self.loc - FARTHEST * self.scale, self.loc + FARTHEST * self.scale
        if self.linear_within is not None:
            low, high = (
                self.linear_within * math.sinh(min(max(z, -BENT), BENT)) for z in (low, high)
            )
        return max(low, -LARGEST), min(high, LARGEST)

    def check(self, user: Tensor, what: str) -> None:
        """Nothing lies beyond the limits, but for rounding."""
        if self.limits is None:
            return
        low, high = self.limits
        slack = _ROUNDING * (high - low)
        outside = (user < low - slack) | (user > high + slack)
        cut = f"what is beyond a limit is reported as the limit, clamp({low:g}, {high:g})"
        refuse(user, outside, what, f"lie in the limits [{low:g}, {high:g}]", cut)

    # Words and plain data.

    def words(self) -> str:
        """A number."""
        return "a number"

    def text(self, plain: float) -> str:
        """As precise as its scale asks for."""
        return number(plain, 4 * (self.scale or 1.0))

    def form(self) -> dict[str, Any]:
        """A field for a number."""
        return {"kind": self.kind, "range": list(self.limits or (None, None)), "step": "any"}

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        plain: dict[str, Any] = {"kind": self.kind, "loc": self.loc, "scale": self.scale}
        if self.linear_within is not None:
            plain["linear_within"] = self.linear_within
        if self.limits is not None:
            plain["limits"] = list(self.limits)
        return plain

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        limits = data.get("limits")
        pair = None if limits is None else (limits[0], limits[1])
        return cls(data["loc"], data["scale"], data.get("linear_within"), pair)
