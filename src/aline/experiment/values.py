"""The posterior of a parameter that is one of a few values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aline.experiment.marginals import (
    Array,
    Marginal,
    Shape,
    as_double,
    axes_of,
    check_probability,
)


class Values(Marginal):
    """The probability of each value. Numbers are about a value's place, counting from 0."""

    def __init__(self, name: str, labels: Sequence[str], probabilities: Array):
        self.name, self._labels = name, tuple(labels)
        self._shares = probabilities / probabilities.sum()

    @property
    def probabilities(self) -> dict[str, float]:
        """Of each value, by its label."""
        return dict(zip(self._labels, self._shares.tolist(), strict=True))

    @cached_property
    def _moments(self) -> tuple[float, float]:
        place = np.arange(len(self._shares))
        mean = float(self._shares @ place)
        return mean, float(self._shares @ (place - mean) ** 2)

    def quantile(self, p: float) -> float:
        """The first place that is reached with probability p."""
        reached = int(np.searchsorted(self._shares.cumsum(), check_probability(p) - 1e-12))
        return float(min(reached, len(self._shares) - 1))

    def pdf(self, grid: Any) -> Tensor:
        """The probability of each place; 0 between them."""
        value = as_double(self.name, grid)
        place = value.round().clamp(0, len(self._shares) - 1)
        found = torch.from_numpy(self._shares)[place.long()]
        return torch.where(place == value, found, 0.0)

    def sample(self, shape: Shape = (), generator: torch.Generator | None = None) -> Tensor:
        """Places."""
        luck = torch.rand(axes_of(shape), generator=generator or torch.Generator()).double()
        edges = torch.from_numpy(self._shares.cumsum())[:-1]
        return torch.bucketize(luck, edges)

    def __repr__(self) -> str:
        return f"{self.name}: {self.in_words()}"
