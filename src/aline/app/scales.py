"""How a parameter is shown: as it is, or by its logarithm."""

from __future__ import annotations

import math
from dataclasses import dataclass

from aline.app.record import PriorBelief, Step


@dataclass(frozen=True)
class Seen:
    """What is believed of one parameter, on the scale on which it is shown."""

    mean: float
    std: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Shown:
    """How a parameter is shown: as it is, or by its logarithm if it spans orders of magnitude."""

    name: str
    label: str
    prior: PriorBelief
    is_log: bool

    def of(self, value: float) -> float:
        """A value on this scale."""
        return math.log10(value) if self.is_log else value

    def belief(self, step: Step) -> Seen:
        """A step's belief on this scale."""
        low, high = step.interval[self.name]
        mean, std = step.mean[self.name], step.std[self.name]
        if self.is_log and self.name in step.log10:
            mean, std = step.log10[self.name]
        return Seen(mean, std, (self.of(low), self.of(high)))


def on_scale(name: str, prior: PriorBelief) -> Shown:
    """How a parameter with this prior is shown."""
    if prior.log10_std is None:
        return Shown(name, name, prior, is_log=False)
    low, high = prior.interval
    in_decades = PriorBelief(prior.log10_std, (math.log10(low), math.log10(high)))
    return Shown(name, f"log10 {name}", in_decades, is_log=True)
