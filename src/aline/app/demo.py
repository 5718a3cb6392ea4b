"""A demonstration: an experiment whose participant is simulated, so that the truth is known."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from statistics import median
from typing import Any

import torch

from aline.app.record import Record, Step, belief, shown_by_logarithm
from aline.app.subject import Subject
from aline.experiment import Experiment
from aline.spaces.axes import Value
from aline.tasks import PREDICTIONS, Spec, Task, World

FUNCTION_POINTS = 200  # at which predictions are compared with the truth
REPEATS = 100  # simulations that make a mean there; of answers that are no number, more
# Truths and answers have a stream of their own: what an experiment asks must not depend on them.
# This one begins, at seed 0, with an observer who is nowhere near the edges of the prior.
STREAM = 2**32 + 239_000


@dataclass(frozen=True)
class Observer:
    """The simulated participant: one world drawn from the prior."""

    task: Task
    world: World  # a batch of one
    generator: torch.Generator

    @classmethod
    def drawn(cls, task: Task, seed: int, known: Mapping[str, Any] | None = None) -> Observer:
        """The observer of a seed, with what is known of everybody."""
        # torch takes seeds of 64 bits, and a user may give any.
        generator = torch.Generator().manual_seed((seed + STREAM) % 2**63)
        world: World = task.draw(1, generator)
        if known:
            drawn = task.spec.parameters.to_user(world.theta[0])
            world = task.world({**drawn, **known}, generator)
        return cls(task, world, generator)

    def at_trial(self, number: int) -> Observer:
        """The same participant with a stream of its own for one trial, whatever came before."""
        key = zlib.crc32(f"{self.generator.initial_seed()}:{number}".encode())
        return replace(self, generator=torch.Generator().manual_seed(key))

    def answer(self, design: Mapping[str, Value]) -> Any:
        """One measurement, as a person would tell it."""
        spec = self.task.spec
        outcome = self.world.answer(spec.design.read(design)[None], self.generator)[0]
        return spec.outcome.to_plain(spec.outcome.to_user(outcome))[0]

    @property
    def truth(self) -> dict[str, float]:
        """The hidden parameters, in the user's units."""
        labels = self.task.spec.parameters.to_labels(self.world.theta[0])
        return {name: float(value) for name, value in labels.items()}


@dataclass(frozen=True)
class Demo(Record):
    """A finished demonstration."""

    subject: Subject
    observer: Observer
    seed: int

    @cached_property
    def function(self) -> Function | None:
        """What predictions are compared with, where they are aimed at and are numbers."""
        return function_of(self.subject.task, self.observer.world, self.target)

    @cached_property
    def truth(self) -> dict[str, float]:
        """The hidden parameters, in the user's units."""
        return self.observer.truth

    @property
    def world(self) -> World:
        """What answers."""
        return self.observer.world

    @property
    def seconds_per_trial(self) -> float:
        """The median time to choose a design and update the posterior."""
        return median(step.seconds for step in self.steps[1:])

    def to_json(self) -> dict[str, Any]:
        """Plain data: every trial, and the end against the truth."""
        return {
            "task": self.spec.name,
            "target": list(self.target),
            "seed": self.seed,
            "trials": [asdict(step) for step in self.steps[1:]],
            "truth": self.truth,
            "prior": {name: asdict(belief) for name, belief in self.prior.items()},
            "inside": {name: self.holds_truth(name) for name in self.truth},
            "refined": None if self.refined is None else asdict(self.refined),
        }


@dataclass(frozen=True)
class Function:
    """The expected outcome that a world really has at designs spread over the space."""

    designs: Mapping[str, list[Value]]  # in the user's units
    truth: torch.Tensor  # [design]

    def error(self, experiment: Experiment) -> float:
        """The RMSE of what an experiment predicts."""
        found = experiment.predict(self.designs).parts["outcome"].mean
        return float((found - self.truth).square().mean().sqrt())


def function_of(task: Task, world: World, target: Sequence[str]) -> Function | None:
    """The function that an aim at predictions is about; None without such an aim or a mean."""
    spec = task.spec
    if PREDICTIONS not in target or list(spec.outcome.parts) != ["outcome"]:
        return None
    if not spec.outcome.has_mean:
        return None
    x = spec.design.sample(1, FUNCTION_POINTS, torch.Generator().manual_seed(0))
    if len(spec.design) == 1:
        x = x.sort(dim=1).values
    repeats = REPEATS if spec.outcome.is_continuous else 20 * REPEATS
    answers = world.answer(x.repeat(1, repeats, 1), torch.Generator().manual_seed(1))
    truth = spec.outcome.to_user(answers[0]).reshape(repeats, -1).double().mean(0)
    rows = [spec.design.name_values(row) for row in spec.design.to_user(x[0]).tolist()]
    return Function({name: [row[name] for row in rows] for name in spec.design.names}, truth)


def run_demo(
    subject: Subject,
    *,
    target: Sequence[str] | None = None,
    trials: int | None = None,
    seed: int = 0,
    on_step: Callable[[Step], None] = lambda step: None,
) -> Demo:
    """Run an experiment on a simulated participant, reporting every step as it happens."""
    spec = subject.model.spec
    aims = default_target(spec) if target is None else tuple(target)
    experiment = Experiment(
        subject.model, target=list(aims), horizon=trials or spec.horizon, seed=seed
    )
    observer = Observer.drawn(subject.task, seed)
    look = partial(
        _look,
        experiment,
        shown_by_logarithm(spec.parameters),
        function_of(subject.task, observer.world, aims),
    )
    steps = [look(0, {}, None, time.perf_counter())]
    on_step(steps[0])
    while not experiment.finished:
        started = time.perf_counter()
        trial = experiment.ask()
        chosen = time.perf_counter()
        outcome = observer.answer(trial.design)
        waited = time.perf_counter() - chosen
        experiment.tell(trial, outcome)
        steps.append(look(len(steps), trial.design, outcome, started + waited))
        on_step(steps[-1])
    return Demo(experiment, subject.task, aims, tuple(steps), subject, observer, seed)


def default_target(spec: Spec) -> tuple[str, ...]:
    """The first target the task was trained for."""
    names = spec.targets[0][0]
    return names or (PREDICTIONS,)


def _look(
    experiment: Experiment,
    wide: Sequence[str],
    function: Function | None,
    number: int,
    design: Mapping[str, Value],
    outcome: Any,
    started: float,
) -> Step:
    step = belief(experiment.posterior(), number, design, outcome, started, wide)
    return step if function is None else replace(step, error=function.error(experiment))
