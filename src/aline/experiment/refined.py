"""The posterior by the likelihood itself, as draws (model/refine.py), in the user's units."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from aline.errors import InputError
from aline.experiment.marginals import Coordinate, Marginal
from aline.experiment.posterior import Posterior
from aline.experiment.state import State
from aline.model.refine import Draws, Refiner, can_refine, smoothed
from aline.spaces import Parameters
from aline.spaces.priors import UniformScale
from aline.tasks import Task, simulator_of

_SHARE = UniformScale(0.0, 1.0)
_EDGE = 1e-12


class RefinedPosterior(Posterior):
    """A posterior of equally likely draws, which know what parameters have to do with each other.

    `effective` says how good q was: the share of its own draws that count under this posterior.
    """

    def __init__(self, draws: Draws, parameters: Parameters):
        super().__init__(smoothed(draws.z), parameters)
        self.effective = draws.effective
        self._draws = draws.z

    def sample(
        self, shape: Sequence[int] = (), generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Draws of all parameters together: name -> [*shape] or [*shape, n].

        Without a generator the same draws come every time.
        """
        count = math.prod(shape)
        which = torch.randint(len(self._draws), (count,), generator=generator or torch.Generator())
        z = self._draws[which].reshape(*shape, len(self._parameters))
        return {name: value.float() for name, value in self._parameters.to_user(z).items()}

    def _make(self, name: str) -> Marginal:
        if name not in self.names or self._parameters.is_direct(name):
            return super()._make(name)
        # A later share of a simplex hangs on several coordinates: its own draws tell of it.
        value = self._parameters.to_labels(self._draws)[name].clamp(_EDGE, 1 - _EDGE)
        share = smoothed(_SHARE.to_network(value)[:, None])
        weights, means, stds = (
            part[0].numpy() for part in (share.log_weight.exp(), share.mean, share.std)
        )
        return Coordinate(name, (weights, means, stds), _SHARE)

    def _log_density(self, z: Tensor, columns: list[int]) -> Tensor:
        """Of all these coordinates together, which a draw has in common."""
        mean, std = self.mixture.mean[columns], self.mixture.std[columns]
        apart = (z[..., columns, None] - mean) / std
        each = (-0.5 * apart.square() - (std * math.sqrt(2 * math.pi)).log()).sum(-2)
        return each.logsumexp(-1) - math.log(len(self._draws))


def refine_posterior(state: State, task: Task | None) -> RefinedPosterior:
    """The refined posterior of an experiment, by its task's likelihood."""
    spec = state.spec
    if state.policy.standardise:
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
    refiner = Refiner(known, state.posterior.mixture, state.view.context)
    return RefinedPosterior(refiner.draw(torch.Generator()), spec.parameters)
