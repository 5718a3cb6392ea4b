"""What a measurement returns: a real number or a yes/no."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from aline.errors import InputError

# How far from its location an outcome may lie, in scales. Simulations reach 5; the shipped models
# stay finite at 100, with up to 5000 such outcomes, and not at 200.
FARTHEST = 50.0
BENT = 40.0  # likewise in e-folds beyond a knee: predictions reach farther, and so must numbers
LARGEST = 1e30  # of an outcome in any units: single precision bears it


@dataclass(frozen=True)
class Real:
    """A real outcome. Without `loc` and `scale`, training measures them on prior simulations.

    With a `knee` the network sees outcomes linearly up to the knee and logarithmically beyond, on
    both sides of zero, for outcomes that spread over many orders of magnitude; `loc` and `scale`
    are then those of asinh(outcome / knee). `limits` are where an instrument saturates: what would
    lie beyond is reported as the limit.

    >>> Real(limits=(0.0, 5.0)).limits
    (0.0, 5.0)
    """

    loc: float | None = None
    scale: float | None = None
    knee: float | None = None
    limits: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.knee is not None and not 0 < self.knee < math.inf:
            raise InputError(f"knee must be a positive outcome, got {self.knee!r}")
        if self.limits is not None and not self.limits[0] < self.limits[1]:
            raise InputError(f"limits must be (low, high) with low < high, got {self.limits!r}")

    def fitted(self, samples: Tensor) -> Real:
        """This outcome with location and scale taken from simulated outcomes where not given."""
        values = self._bend(samples.double())
        loc = float(values.mean()) if self.loc is None else self.loc
        scale = float(values.std()) if self.scale is None else self.scale
        return replace(self, loc=loc, scale=max(scale, 1e-12))

    @property
    def is_fitted(self) -> bool:
        """Whether location and scale are known."""
        return self.loc is not None and self.scale is not None

    def to_network(self, y: Tensor) -> Tensor:
        """Bend, if there is a knee, and standardise."""
        return (self._bend(y) - self._number(self.loc)) / self._number(self.scale)

    def to_user(self, x: Tensor) -> Tensor:
        """Undo what `to_network` does."""
        bent = self._number(self.loc) + self._number(self.scale) * x
        return bent if self.knee is None else self.knee * torch.sinh(bent)

    def _bend(self, y: Tensor) -> Tensor:
        return y if self.knee is None else torch.asinh(y / self.knee)

    def log_volume(self, x: Tensor) -> Tensor:
        """Log |d user / d network|, to subtract from a log density on the network's scale."""
        scale = self._number(self.scale)
        volume = torch.full_like(x, math.log(scale))
        if self.knee is not None:
            bent = (self._number(self.loc) + scale * x).abs()
            # log cosh, which does not overflow.
            volume = volume + math.log(self.knee / 2) + bent + torch.log1p(torch.exp(-2 * bent))
        return volume

    def saturated(self) -> tuple[float, float] | None:
        """The limits on the network's scale."""
        if self.limits is None:
            return None
        low, high = self.to_network(torch.tensor(self.limits, dtype=torch.float64)).tolist()
        return low, high

    def read(self, value: Any) -> float:
        """A user's outcome in the user's units, checked."""
        number = _as_float(value)
        if not math.isfinite(number):
            raise InputError(
                f"an outcome must be a finite number, got {value!r}: "
                "abandon the trial if it was not measured"
            )
        low, high = self.possible()
        if not low <= number <= high:
            raise InputError(
                f"an outcome of this task must lie in [{low:.6g}, {high:.6g}], got {value!r}: "
                "check its units, or abandon the trial"
            )
        return number

    def possible(self) -> tuple[float, float]:
        """Between what outcomes a network's posterior stays finite, in the user's units."""
        if self.limits is not None:
            slack = 1e-6 * (self.limits[1] - self.limits[0])  # of single precision
            return self.limits[0] - slack, self.limits[1] + slack
        if self.loc is None or self.scale is None:
            return -LARGEST, LARGEST
        low, high = self.loc - FARTHEST * self.scale, self.loc + FARTHEST * self.scale
        if self.knee is not None:
            low, high = (self.knee * math.sinh(min(max(z, -BENT), BENT)) for z in (low, high))
        return max(low, -LARGEST), min(high, LARGEST)

    @staticmethod
    def _number(value: float | None) -> float:
        if value is None:
            raise InputError(
                "this outcome has no scale yet: use task.fitted(), or give Real(loc=…, scale=…)"
            )
        return value

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        plain: dict[str, Any] = {"kind": "real", "loc": self.loc, "scale": self.scale}
        if self.knee is not None:
            plain["knee"] = self.knee
        if self.limits is not None:
            plain["limits"] = list(self.limits)
        return plain


@dataclass(frozen=True)
class Binary:
    """A yes/no outcome: True/1 or False/0; the network sees +1 and -1."""

    @property
    def is_fitted(self) -> bool:
        """Always."""
        return True

    def fitted(self, samples: Tensor) -> Binary:
        """Nothing to measure."""
        return self

    def to_network(self, y: Tensor) -> Tensor:
        """0 and 1 to -1 and +1."""
        return 2 * y.float() - 1

    def to_user(self, y: Tensor) -> Tensor:
        """-1 and +1 to 0 and 1."""
        return (y > 0).float()

    def log_volume(self, x: Tensor) -> Tensor:
        """Probabilities have no units."""
        return torch.zeros_like(x)

    def read(self, value: Any) -> float:
        """A user's outcome as 0.0 or 1.0, checked."""
        number = _as_float(value)
        if number not in (0.0, 1.0):
            raise InputError(f"a binary outcome must be 0 or 1 (or False or True), got {value!r}")
        return number

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        return {"kind": "binary"}


Outcome = Real | Binary


def _as_float(value: Any) -> float:
    if isinstance(value, int | float):
        return float(value)
    try:
        tensor = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"an outcome must be a number, got {value!r}") from None
    if tensor.numel() != 1:
        raise InputError(f"an outcome must be one number, got shape {tuple(tensor.shape)}")
    return float(tensor.reshape(()))


def outcome_from_json(data: Mapping[str, Any]) -> Outcome:
    """Read what `to_json` wrote."""
    if data["kind"] == "binary":
        return Binary()
    limits = data.get("limits")
    return Real(
        data["loc"], data["scale"], data.get("knee"), None if limits is None else tuple(limits)
    )
