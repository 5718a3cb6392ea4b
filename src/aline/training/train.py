"""Algorithm 1: warm up q on random designs, then train q and the policy together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from aline.errors import InputError, nearest
from aline.model import Model, ModelConfig, fresh
from aline.tasks import Task, is_differentiable
from aline.training import lattice_teacher, particle_teacher
from aline.training.budget import Budget, parse_duration
from aline.training.claim import claimed
from aline.training.config import TrainingConfig
from aline.training.losses import (
    paired_box_loss,
    paired_pool_loss,
    pathwise_loss,
    sampled_pool_loss,
)
from aline.training.memory import keep_freed_memory
from aline.training.objective import PolicyLoss
from aline.training.run import Run, seeded
from aline.training.teacher import Teacher
from aline.training.workers import Workers, joined, was_restarted

Config = TypeVar("Config", ModelConfig, TrainingConfig)

SEARCH_STAGES = 4  # up to so many parameters; beyond, twice as many as there are
PLACES = 4  # that a search looks at; each costs a step
NEWTON_STEPS = 2  # where there is no search
FINE = 0.01  # a resolution from which on zoom layers pay


def train(
    task: Task,
    budget: str | None = None,
    *,
    rounds: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    checkpoint: str = "1min",
    initial: Model | None = None,
    progress: bool = True,
    model: ModelConfig | Mapping[str, Any] | None = None,
    config: TrainingConfig | Mapping[str, Any] | None = None,
    verdict: bool | None = None,
) -> Model:
    """Train a model for a task.

    The budget is a time ("5min"; the task's own if none is given), or a number of rounds, which
    with a seed repeats a run exactly. With `out`, metrics and, every `checkpoint`, all that
    `resume=True` needs to continue are written there, and once more on Ctrl-C. `initial` is a model
    of the same task whose weights to start from, to train it further: by default without a warm-up,
    and with half the learning rate. Started by torchrun, the processes share the batch.

    At its end it measures how well it did, beside random designs, the best fixed schedule and,
    where there is a likelihood, exact greedy play: `verdict` says whether; None is yes where the
    budget is a minute or more. It is kept in `model.measurements["verdict"]`.

    `model` and `config` are settings of the network and of the training; a dict such as
    {"width": 64} changes these of what suits the task.

    >>> import aline
    >>> task = aline.tasks.get("linear", horizon=3)
    >>> aline.train(task, rounds=2, progress=False).spec.name
    'linear'
    """
    task = task.checked().fitted()
    differentiable = is_differentiable(task)
    if initial is None:
        config = adjusted(default_config(task), config)
        model = adjusted(default_model(task, differentiable), model)
    else:
        config = adjusted(further(task), config)
        usual = replace(initial.network.config, **_policy_layers(task))
        model = adjusted(usual, model)
    if model.priors and task.latent:
        raise InputError(
            "priors=True is for tasks whose worlds are drawn by their parameters alone, and this "
            "one has latent: leave it out"
        )
    keep_freed_memory()
    with joined() as workers, _folder_of(workers, out):
        limit = Budget.of(task.budget if budget is None else budget, rounds)
        run = Run(
            task=task,
            config=config,
            budget=limit,
            seed=seed,
            network=fresh(task.spec, model, seeded(seed, -1)),
            policy_loss=choose_policy_loss(task, model, config, differentiable),
            folder=None if out is None else Path(out),
            checkpoint_seconds=parse_duration(checkpoint),
            workers=workers,
        )
        if initial is not None:
            run.start_from(initial)
        if resume or (out is not None and was_restarted()):
            run.restore()
        trained = run.finish(progress)
    if workers.is_first and (limit.is_long if verdict is None else verdict):
        return _judged(trained, task, limit, progress)
    return trained


def _judged(model: Model, task: Task, budget: Budget, progress: bool) -> Model:
    judge = import_module("aline.evaluation.judge")  # which is above this package
    judged: Model = judge.after_training(model, task, budget.seconds, progress)
    return judged


def _folder_of(workers: Workers, out: str | Path | None) -> AbstractContextManager[None]:
    """The folder for this training alone; only the first worker writes to it."""
    return claimed(Path(out)) if out is not None and workers.is_first else nullcontext()


def adjusted(usual: Config, wanted: Config | Mapping[str, Any] | None) -> Config:
    """The settings wanted: all of them, or some that differ from the usual ones."""
    if wanted is None or isinstance(wanted, type(usual)):
        return wanted or usual
    kind = type(usual).__name__
    if not isinstance(wanted, Mapping):
        raise InputError(f'settings are a {kind} or a dict, {{"name": value}}, got {wanted!r}')
    names = [field.name for field in fields(usual)]
    for name in wanted:
        if name not in names:
            remedy = nearest(name, names)
            raise InputError(f"settings of {kind} are {', '.join(names)}, got {name!r}: {remedy}")
    return replace(usual, **wanted)


def default_model(task: Task, differentiable: bool) -> ModelConfig:
    """What the task asks for, else the paper's sizes. The policy scores candidates where a teacher
    knows what they are worth; without one it proposes a point if that can be learned by gradient.

    Zoom layers pay where small changes of a design matter. A learned likelihood passes no gradient
    to a proposed point, and needs outcomes that depend on the parameters alone.
    """
    proposes = task.model.get("policy") == "box" or _is_to_propose(task, differentiable)
    usual = ModelConfig(
        octaves=max(1, round(-math.log2(task.spec.resolution))),
        zoom_layers=2 if task.spec.resolution <= FINE else 0,
    )
    if not (proposes or task.latent):
        usual = adjusted(usual, _usual_search(task))
    chosen = adjusted(usual, task.model)
    in_box = task.spec.design.is_plain and differentiable and "policy" not in task.model
    if in_box and teacher_for(task, chosen) is None:
        return replace(chosen, policy="box")
    return chosen


def _usual_search(task: Task) -> dict[str, int]:
    """In several places: one for each value of a discrete parameter, along which nothing slopes.

    Where such parameters are several, or have many values, a learned likelihood pays only as the
    one that a teacher needs.
    """
    parameters, places = task.spec.parameters, PLACES
    if parameters.cells is not None:
        values = parameters.sole_values
        places = len(values.centres) if values else PLACES + 1
    if places <= PLACES:
        count = len(parameters)
        stages = SEARCH_STAGES if count <= SEARCH_STAGES else 2 * count
        return {"search_stages": stages, "guesses": places, "newton_steps": 1}
    return {} if task.log_likelihood is not None else {"newton_steps": NEWTON_STEPS}


def _is_to_propose(task: Task, differentiable: bool) -> bool:
    """Whether a point can be learned by gradient, and nobody knows what designs are worth."""
    is_free = task.spec.design.is_plain and "policy" not in task.model
    return is_free and differentiable and task.log_likelihood is None


def default_config(task: Task) -> TrainingConfig:
    """What the task asks for; else, short episodes have few prefixes to learn from."""
    usual = TrainingConfig(prefixes=min(6, 2 + task.spec.horizon // 4))
    return adjusted(usual, task.training)


def further(task: Task) -> TrainingConfig:
    """How a model that is trained already is trained on."""
    config = default_config(task)
    return replace(config, warmup=0.0, learning_rate=0.5 * config.learning_rate)


def _policy_layers(task: Task) -> dict[str, Any]:
    """How many a task wants, if it says so."""
    return {name: value for name, value in task.model.items() if name == "policy_layers"}


def choose_policy_loss(
    task: Task, model: ModelConfig, config: TrainingConfig, differentiable: bool
) -> PolicyLoss | None:
    """The policy's loss for a kind of policy and of credit; none where a plug-in chooses."""
    credit = config.credit
    if model.policy == "plugin":
        return None
    if model.policy == "box":
        if task.spec.design.points is None and not task.spec.design.is_plain:
            raise InputError(
                "policy 'box' proposes any point between bounds, and these designs have sets of "
                "values or a condition: use policy='pool', which chooses among what is possible"
            )
        if credit in ("immediate", "return", "information"):
            raise InputError(f"credit {credit!r} is for a pool policy: use paired or pathwise")
        if credit == "pathwise" and not differentiable:
            raise InputError(
                "pathwise credit needs outcomes that carry a gradient to the design: use paired"
            )
        return paired_box_loss if credit == "paired" or not differentiable else pathwise_loss
    if credit == "pathwise":
        raise InputError("pathwise credit is for a box policy: use ModelConfig(policy='box')")
    teacher = teacher_for(task, model) if credit in (None, "information") else None
    if teacher is not None:
        return teacher.loss
    if credit == "information":
        raise InputError(
            f"credit 'information' needs {particle_teacher.requirement(task, model)}, which task "
            f"{task.spec.name} has not: use paired"
        )
    return sampled_pool_loss if credit in ("immediate", "return") else paired_pool_loss


def teacher_for(
    task: Task, model: ModelConfig
) -> Teacher | particle_teacher.ParticleTeacher | None:
    """Who knows what this task's designs are worth, if anyone does."""
    if lattice_teacher.requirement(task) is None and not model.priors:  # it knows only the task's
        return lattice_teacher.LatticeTeacher(task)
    if particle_teacher.requirement(task, model) is None:
        return particle_teacher.ParticleTeacher(task)
    return None
