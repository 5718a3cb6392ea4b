"""The posterior by the likelihood itself, as draws (experiment/refine.py), in the user's units."""

from __future__ import annotations

import torch

from aline.episodes import Context
from aline.errors import InputError
from aline.experiment.drawn_posterior import RefinedPosterior
from aline.experiment.long import draw_posterior
from aline.experiment.refine import Refiner, can_refine
from aline.experiment.state import State, posterior_of
from aline.tasks import Task, simulator_of


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
        data = state.data if seen is state.context else engine.read(seen)
        belief = posterior_of(engine, data)
        return Refiner(known, belief.mixture, seen, belief.joint, state.shape_correction)

    draws = draw_posterior(refiner_of, state.context, torch.Generator())
    # Data that do not fit the model are a reason for doubt here too; too long ones are not.
    return RefinedPosterior(draws, spec.parameters, lambda: state.misfit)
