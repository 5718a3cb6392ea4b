"""One parameter's posterior by its draws, in the user's units."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from aline.experiment.marginals import Coordinate, Shape, axes_of
from aline.experiment.refine import smoothed
from aline.spaces.priors import Scale, UniformScale

_SHARE = UniformScale(0.0, 1.0)
_EDGE = 1e-12


class Drawn(Coordinate):
    """A parameter of which there are draws: only its density is smoothed."""

    def __init__(self, name: str, z: Tensor, scale: Scale):
        mixture = smoothed(z[:, None])
        parts = mixture.log_weight.exp(), mixture.mean, mixture.std
        weights, means, stds = (part[0].numpy() for part in parts)
        super().__init__(name, (weights, means, stds), scale)
        self._values = scale.to_user(z).numpy()

    @cached_property
    def _moments(self) -> tuple[float, float]:
        return float(self._values.mean()), float(self._values.var())

    def _quantiles(self, *probabilities: float) -> list[float]:
        found: list[float] = np.quantile(self._values, probabilities).tolist()
        return found

    def draw(self, shape: Shape, generator: torch.Generator) -> Tensor:
        """Of the draws, with repeats."""
        which = torch.randint(len(self._values), axes_of(shape), generator=generator)
        return torch.from_numpy(self._values)[which]


def drawn_share(name: str, values: Tensor) -> Drawn:
    """A share of a simplex, by draws of it."""
    return Drawn(name, _SHARE.to_network(values.clamp(_EDGE, 1 - _EDGE)), _SHARE)
