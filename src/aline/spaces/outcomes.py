"""What a measurement returns: a real number or a yes/no."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from aline.errors import InputError


@dataclass(frozen=True)
class Real:
    """A real outcome. Without `loc` and `scale`, training measures them on prior simulations."""

    loc: float | None = None
    scale: float | None = None

    def fitted(self, samples: Tensor) -> Real:
        """This outcome with location and scale taken from simulated outcomes where not given."""
        values = samples.double()
        loc = float(values.mean()) if self.loc is None else self.loc
        scale = float(values.std()) if self.scale is None else self.scale
        return replace(self, loc=loc, scale=max(scale, 1e-12))

    @property
    def is_fitted(self) -> bool:
        """Whether location and scale are known."""
        return self.loc is not None and self.scale is not None

    def to_network(self, y: Tensor) -> Tensor:
        """Standardise."""
        return (y - self._number(self.loc)) / self._number(self.scale)

    def to_user(self, y: Tensor) -> Tensor:
        """Undo the standardisation."""
        return self._number(self.loc) + self._number(self.scale) * y

    @property
    def log_volume(self) -> float:
        """Log |d user / d network|, to subtract from a log density on the network's scale."""
        return math.log(self._number(self.scale))

    def read(self, value: Any) -> float:
        """A user's outcome in the user's units, checked."""
        number = _as_float(value)
        if not math.isfinite(number):
            raise InputError(
                f"an outcome must be a finite number, got {value!r}: "
                "abandon the trial if it was not measured"
            )
        return number

    @staticmethod
    def _number(value: float | None) -> float:
        if value is None:
            raise InputError(
                "this outcome has no scale yet: use task.fitted(), or give Real(loc=…, scale=…)"
            )
        return value

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        return {"kind": "real", "loc": self.loc, "scale": self.scale}


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

    @property
    def log_volume(self) -> float:
        """Probabilities have no units."""
        return 0.0

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
    try:
        tensor = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"an outcome must be a number, got {value!r}") from None
    if tensor.numel() != 1:
        raise InputError(f"an outcome must be one number, got shape {tuple(tensor.shape)}")
    return float(tensor.reshape(()))


def outcome_from_json(data: Mapping[str, Any]) -> Outcome:
    """Read what `to_json` wrote."""
    return Binary() if data["kind"] == "binary" else Real(data["loc"], data["scale"])
