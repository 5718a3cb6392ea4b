"""Numbers with their uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from aline.errors import InputError

_Z95 = 1.959964


@dataclass(frozen=True)
class Estimate:
    """A value with the half width of its 95 % confidence interval.

    >>> print(Estimate(9.823, 0.0612, 2000))
    9.82 ± 0.061
    """

    value: float
    ci95: float
    n: int

    def __str__(self) -> str:
        return f"{self.value:.3g} ± {self.ci95:.2g}"


def enough(episodes: int) -> int:
    """As many as an interval needs, or an error."""
    if episodes < 2:
        raise InputError(f"episodes must be at least 2, got {episodes}")
    return episodes


def mean(values: Tensor) -> Estimate:
    """The mean of independent values [n]."""
    n = len(values)
    spread = float(values.double().std()) if n > 1 else math.nan
    return Estimate(float(values.double().mean()), _Z95 * spread / math.sqrt(n), n)


def proportion(hits: Tensor) -> Estimate:
    """The share of True among independent values [n], with Wilson's interval: sane near 0 and 1."""
    n, share = len(hits), float(hits.double().mean())
    z = _Z95**2 / n
    return Estimate(share, _Z95 / (1 + z) * math.sqrt(share * (1 - share) / n + z / (4 * n)), n)
