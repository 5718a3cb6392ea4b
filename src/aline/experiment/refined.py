"""The posterior by the likelihood itself, as draws (experiment/refine.py), in the user's units."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from aline.episodes import Context
from aline.errors import InputError
from aline.experiment.drawn import Drawn, drawn_share
from aline.experiment.long import Around, draw_posterior
from aline.experiment.marginals import Array, Marginal
from aline.experiment.posterior import Posterior, find_label
from aline.experiment.refine import Draws, Refiner, can_refine, smoothed
from aline.experiment.state import State, posterior_of
from aline.experiment.values import Values
from aline.spaces import Parameters
from aline.tasks import Task, simulator_of

FEWEST = 20  # draws that tell of a parameter which exists only under a value


class RefinedPosterior(Posterior):
    """A posterior of equally likely draws, which know what parameters have to do with each other.

    `effective` says how good q was: the share of its own draws that count under this posterior;
    `how`, how the draws were found.
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

    def _draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Of the draws, with repeats."""
        return self._draws[torch.randint(len(self._draws), (count,), generator=generator)]

    def _make(self, name: str) -> Marginal:
        find_label(self._parameters, name)
        draws, exists = self._draws, self._parameters.exists(name, self._draws)
        if exists is not None and int(exists.sum()) >= FEWEST:
            draws = draws[exists]
        if labels := self._parameters.values_of(name):
            return Values(name, labels, self._shares(name, len(labels)))
        if self._parameters.is_direct(name):
            column = self._parameters.names.index(name)
            return Drawn(name, draws[:, column], self._parameters.scales[column])
        # A later share of a simplex hangs on several coordinates: its own draws tell of it.
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


def refine_posterior(state: State, task: Task | None) -> RefinedPosterior:
    """The refined posterior of an experiment, by its task's likelihood."""
    spec = state.spec
    if state.is_standardised:
        raise InputError(
            "a refined posterior needs outcomes in the task's own units, and this experiment has "
            "standardise=True: use posterior()"
        )
    known = simulator_of(spec) if task is None else task.described_by(spec)
    if known is None:
        raise InputError(
            f"a refined posterior needs the task's likelihood, and {spec.name} is not built in: "
            "pass the task, experiment.refined(task)"
        )
    if not can_refine(known):
        raise InputError(
            f"a refined posterior needs the likelihood of the parameters alone, which task "
            f"{spec.name} does not have: use posterior()"
        )

    def refiner_of(seen: Context) -> Refiner:
        engine = state.engine
        belief = (
            state.posterior if seen is state.context else posterior_of(engine, engine.read(seen))
        )
        return Refiner(known, belief.mixture, seen, belief.joint)

    draws = draw_posterior(refiner_of, state.context, torch.Generator())
    # Data that do not fit the model are a reason for doubt here too; too long ones are not.
    return RefinedPosterior(draws, spec.parameters, lambda: state.misfit)
