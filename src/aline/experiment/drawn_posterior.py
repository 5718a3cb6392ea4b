"""A posterior as equally likely draws, in the user's units."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from aline.experiment.drawn import Drawn, drawn_share
from aline.experiment.given_values import find_label
from aline.experiment.long import Around
from aline.experiment.marginals import Array, Marginal
from aline.experiment.posterior import Posterior
from aline.experiment.refine import Draws, chosen, effective, smoothed
from aline.experiment.values import Values
from aline.spaces import Parameters

WEIGHED = 4096  # draws of a network's posterior that are weighed
FEWEST = 100  # of them that must count
ENOUGH = 20  # draws to describe a parameter which exists only under a value


class RefinedPosterior(Posterior):
    """A posterior of equally likely draws, which know what parameters have to do with each other.

    `effective` says how good q was: the share of its own draws that count under this posterior;
    `how`, how the draws were found.

    >>> import aline
    >>> experiment = aline.Experiment(aline.load("psychometric"))
    >>> data = experiment.attach({"stimulus": [-1.0, 0.5, 2.0]}, [0, 1, 1])
    >>> refined = experiment.refined()
    >>> 0 < refined.effective <= 1
    True
    >>> refined.is_joint, refined.sample(10)["slope"].shape
    (True, torch.Size([10]))
    >>> import torch
    >>> refined.draw(10, torch.Generator()).shape
    torch.Size([10, 4])
    """

    def __init__(
        self, draws: Draws, parameters: Parameters, warnings: Callable[[], tuple[str, ...]] = tuple
    ):
        # Of a discrete parameter all draws of a value lie at one place: it smooths them by itself.
        super().__init__(smoothed(parameters.settled(draws.z)), parameters, warnings=warnings)
        self.effective, self.how = draws.effective, draws.how
        self._draws = draws.z

    @property
    def is_joint(self) -> bool:
        """Its draws know."""
        return True

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Of the draws, with repeats."""
        return self._draws[torch.randint(len(self._draws), (count,), generator=generator)]

    def _make(self, name: str) -> Marginal:
        find_label(self._parameters, name)
        draws, exists = self._draws, self._parameters.exists(name, self._draws)
        if exists is not None and int(exists.sum()) >= ENOUGH:
            draws = draws[exists]
        if labels := self._parameters.values_of(name):
            return Values(name, labels, self._shares(name, len(labels)))
        if self._parameters.is_direct(name):
            column = self._parameters.names.index(name)
            return Drawn(name, draws[:, column], self._parameters.scales[column])
        # A later share of a simplex depends on several coordinates: its own draws describe it.
        return drawn_share(name, self._parameters.to_labels(self._draws)[name])

    def _shares(self, name: str, count: int) -> Array:
        """How many of the draws have each value."""
        places = self._parameters.to_labels(self._draws)[name]
        return np.bincount(places.numpy(), minlength=count).astype(np.float64)

    def _log_density(self, z: Tensor, columns: list[int]) -> Tensor:
        """Of all these coordinates together, smoothed along the axes of the cloud of draws.

        The more coordinates, the rougher.
        """
        if len(columns) == 1:
            return self._mixture.log_prob(z)[..., columns[0]]
        around = Around.of(self._draws[:, columns])
        # Drawn together first, so that smoothing does not widen the whole.
        middle = around.centre.mean(0)
        shrunk = middle + math.sqrt(1 - around.width**2) * (around.centre - middle)
        density = around._replace(centre=shrunk).log_prob(z[..., columns].reshape(-1, len(columns)))
        return density.reshape(z.shape[:-1])


def weighed(posterior: Posterior, log_weight: Callable[[Tensor], Tensor]) -> RefinedPosterior:
    """Draws of a posterior, chosen by weights [n] of draws [n, parameter], network scale."""
    generator = torch.Generator()
    z = posterior.draw(WEIGHED, generator)
    weights = log_weight(z).clamp_min(-1e30)  # where nothing is possible, all are alike
    counted = effective(weights)
    how = f"{WEIGHED} draws of the network's posterior, weighed by the prior"
    kept = Draws(z[chosen(weights.softmax(0), WEIGHED, generator)], counted / WEIGHED, how)
    poor = () if counted >= FEWEST else (
        f"Only {counted:.0f} of {WEIGHED} draws fit the prior that was chosen: the data, or the "
        "model, hardly allow it.",
    )  # fmt: skip
    return RefinedPosterior(kept, posterior.parameters, lambda: (*posterior.warnings, *poor))
