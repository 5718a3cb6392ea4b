"""A demonstration: an experiment whose participant is simulated, so that the truth is known."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from statistics import median
from typing import Any

import torch

from aline.app.subject import Subject
from aline.experiment import Experiment, Posterior
from aline.experiment.refine import can_refine
from aline.spaces import Parameters
from aline.spaces.axes import Value
from aline.tasks import PREDICTIONS, Spec, Task, World

LEVEL = 0.95
DECADES = 1000.0  # a prior whose 95 % interval spans so much is shown by its logarithm
LEVELS = 100  # quantiles that make the mean of a logarithm
FUNCTION_POINTS = 200  # at which predictions are compared with the truth
REPEATS = 100  # simulations that make a mean there; of answers that are no number, more
ROUGH = 0.1  # below this share of draws that count, the network's posterior is not the last word
# Truths and answers have a stream of their own: what an experiment asks must not depend on them.
# This one begins, at seed 0, with an observer who is nowhere near the edges of the prior.
STREAM = 2**32 + 239_000
Interval = tuple[float, float]


@dataclass(frozen=True)
class Step:
    """What is known after a trial; number 0 is before the first."""

    number: int
    design: Mapping[str, Value]
    outcome: Any  # plain data; None before the first
    mean: Mapping[str, float]
    std: Mapping[str, float]
    interval: Mapping[str, Interval]
    seconds: float  # that ask, tell and posterior took, without the participant
    # Mean and sd of log10 of the parameters whose prior spans orders of magnitude.
    log10: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    error: float | None = None  # RMSE of predictions, where the aim is at these


@dataclass(frozen=True)
class Observer:
    """The simulated participant: one world drawn from the prior."""

    task: Task
    world: World  # a batch of one
    generator: torch.Generator

    @classmethod
    def drawn(cls, task: Task, seed: int) -> Observer:
        """The observer of a seed."""
        # torch takes seeds of 64 bits, and a user may give any.
        generator = torch.Generator().manual_seed((seed + STREAM) % 2**63)
        return cls(task, task.draw(1, generator), generator)

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
class PriorBelief:
    """A parameter before any data: its standard deviation and central 95 % interval."""

    std: float
    interval: Interval
    log10_std: float | None = None  # of its logarithm, where it spans orders of magnitude


@dataclass(frozen=True)
class Demo:
    """A finished demonstration."""

    subject: Subject
    experiment: Experiment
    observer: Observer
    target: tuple[str, ...]
    steps: tuple[Step, ...]
    seed: int

    @property
    def spec(self) -> Spec:
        """The task as the model knows it."""
        return self.subject.model.spec

    @property
    def shown(self) -> tuple[str, ...]:
        """The parameters aimed at, or all where the aim is a prediction."""
        return targeted(self.spec, self.target)

    @property
    def aimed(self) -> tuple[str, ...]:
        """The parameters aimed at; none where the aim is a prediction alone."""
        return aimed_at(self.spec, self.target)

    @cached_property
    def function(self) -> Function | None:
        """What predictions are compared with, where they are aimed at and are numbers."""
        return function_of(self.subject.task, self.observer.world, self.target)

    @cached_property
    def prior(self) -> dict[str, PriorBelief]:
        """Every parameter before any data."""
        return prior_beliefs(self.spec.parameters)

    @cached_property
    def truth(self) -> dict[str, float]:
        """The hidden parameters, in the user's units."""
        return self.observer.truth

    @property
    def last(self) -> Step:
        """What is known at the end."""
        return self.steps[-1]

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

    def holds_truth(self, name: str, step: Step | None = None) -> bool:
        """Whether the interval of a parameter, at the end or else, contains the true value."""
        low, high = (step or self.last).interval[name]
        return low <= self.truth[name] <= high

    @cached_property
    def refined(self) -> Step | None:
        """What the task's own likelihood says at the end, where the network is only rough."""
        if not can_refine(self.subject.task):
            return None
        started = time.perf_counter()
        posterior = self.experiment.refined(self.subject.task)
        if posterior.effective >= ROUGH:
            return None
        last, wide = self.last, [*self.last.log10]
        return _belief(posterior, last.number, last.design, last.outcome, started, wide)


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


def aimed_at(spec: Spec, target: Sequence[str]) -> tuple[str, ...]:
    """The labels of the parameters that a target names."""
    if not set(spec.parameters.priors) & {*target} and not {*spec.parameters.labels} & {*target}:
        return ()
    return targeted(spec, target)


def targeted(spec: Spec, target: Sequence[str]) -> tuple[str, ...]:
    """The labels of the parameters that a target names; all of them if it names none."""
    chosen: list[str] = []
    for name in target:
        size = spec.parameters.priors[name].size if name in spec.parameters.priors else 0
        chosen += [f"{name}_{i + 1}" for i in range(size)] if size else [name]
    labels = spec.parameters.labels
    return tuple(label for label in labels if label in chosen) or labels


def prior_beliefs(parameters: Parameters) -> dict[str, PriorBelief]:
    """Standard deviation and 95 % interval of every parameter under the prior."""
    draws = parameters.to_labels(parameters.sample(40_000, torch.Generator().manual_seed(0)))
    tails = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    beliefs = {}
    for name, values in draws.items():
        low, high = values.quantile(tails).tolist()
        is_wide = low > 0 and high / low > DECADES
        spread = float(values.log10().std()) if is_wide else None
        beliefs[name] = PriorBelief(float(values.std()), (low, high), spread)
    return beliefs


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
        [n for n, prior in prior_beliefs(spec.parameters).items() if prior.log10_std is not None],
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
    return Demo(subject, experiment, observer, aims, tuple(steps), seed)


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
    step = _belief(experiment.posterior(), number, design, outcome, started, wide)
    return step if function is None else replace(step, error=function.error(experiment))


def _belief(
    posterior: Posterior,
    number: int,
    design: Mapping[str, Value],
    outcome: Any,
    started: float,
    wide: Sequence[str] = (),
) -> Step:
    mean, std = dict(posterior.mean), dict(posterior.std)
    seconds = time.perf_counter() - started
    interval = {name: posterior.interval(name, LEVEL) for name in mean}
    log10 = {name: _log10(posterior, name) for name in wide}
    return Step(number, dict(design), outcome, mean, std, interval, seconds, log10)


def _log10(posterior: Posterior, name: str) -> tuple[float, float]:
    """Mean and standard deviation of the logarithm, by quantiles that are even in probability."""
    levels = [(i + 0.5) / LEVELS for i in range(LEVELS)]
    values = torch.tensor([posterior.quantile(name, p) for p in levels]).double().log10()
    return float(values.mean()), float(values.std())
