"""The posterior by the likelihood itself, as draws (experiment/refine.py), in the user's units."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from aline.errors import InputError
from aline.experiment.drawn import Drawn, drawn_share
from aline.experiment.marginals import Marginal
from aline.experiment.posterior import Posterior, find_label
from aline.experiment.refine import Draws, Refiner, can_refine, smoothed
from aline.experiment.state import State
from aline.spaces import Parameters
from aline.tasks import Task, simulator_of


class RefinedPosterior(Posterior):
    """A posterior of equally likely draws, which know what parameters have to do with each other.

    `effective` says how good q was: the share of its own draws that count under this posterior.
    """

    def __init__(
        self, draws: Draws, parameters: Parameters, warnings: Callable[[], tuple[str, ...]] = tuple
    ):
        super().__init__(smoothed(draws.z), parameters, warnings=warnings)
        self.effective = draws.effective
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
        if self._parameters.is_direct(name):
            column = self._parameters.names.index(name)
            return Drawn(name, self._draws[:, column], self._parameters.scales[column])
        # A later share of a simplex hangs on several coordinates: its own draws tell of it.
        return drawn_share(name, self._parameters.to_labels(self._draws)[name])

    def _log_density(self, z: Tensor, columns: list[int]) -> Tensor:
        """Of all these coordinates together, smoothed along the axes of the cloud of draws.

        The more coordinates, the rougher.
        """
        if len(columns) == 1:
            return self.mixture.log_prob(z)[..., columns[0]]
        draws = self._draws[:, columns]
        root = torch.linalg.cholesky(draws.T.cov())
        known, asked = (
            torch.linalg.solve_triangular(root, (part - draws.mean(0)).mT, upper=False).mT
            for part in (draws, z[..., columns].reshape(-1, len(columns)))
        )
        count, size = known.shape
        width = (4 / (size + 2) / count) ** (1 / (size + 4))
        apart = torch.cdist(asked, math.sqrt(1 - width**2) * known) / width
        log_density_around = -0.5 * apart.square() - size * math.log(width * math.sqrt(2 * math.pi))
        density: Tensor = (
            log_density_around.logsumexp(1) - math.log(count) - root.diagonal().log().sum()
        )
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
    refiner = Refiner(known, state.posterior.mixture, state.context, state.posterior.joint)
    draws = refiner.draw(torch.Generator())
    # Data that do not fit the model stay what they are; how far the network was trained is no matter.
    return RefinedPosterior(draws, spec.parameters, lambda: state.misfit)
