"""An experiment told from its beginning: what was known after each observation."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from aline.episodes.goals import InTurn, Target
from aline.experiment import Experiment, Posterior, Trial
from aline.experiment.refine import can_refine
from aline.model import Mixture
from aline.spaces import Parameters
from aline.spaces.axes import Value
from aline.tasks import PREDICTIONS, Spec, Task, World, simulator_of

LEVEL = 0.95
DECADES = 1000.0  # a prior whose 95 % interval spans so much is shown by its logarithm
LEVELS = 100  # quantiles that make the mean of a logarithm
ROUGH = 0.1  # below this share of draws that count, the network's posterior is not the last word
MOST = 200  # beliefs in a report: a longer experiment shows every second, every third and so on
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
    # Of the values of discrete parameters.
    probabilities: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    error: float | None = None  # RMSE of predictions, where the aim is at these


@dataclass(frozen=True)
class PriorBelief:
    """A parameter before any data: its standard deviation and central 95 % interval."""

    std: float
    interval: Interval
    log10_std: float | None = None  # of its logarithm, where it spans orders of magnitude


@dataclass(frozen=True)
class Record:
    """An experiment and how its beliefs came about."""

    experiment: Experiment
    task: Task | None  # with its simulator, where that is at hand
    target: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def spec(self) -> Spec:
        """The task as the model knows it."""
        return self.experiment.spec

    @property
    def shown(self) -> tuple[str, ...]:
        """The parameters aimed at, or all where the aim is a prediction."""
        return targeted(self.spec, self.target)

    @property
    def aimed(self) -> tuple[str, ...]:
        """The parameters aimed at; none where the aim is a prediction alone."""
        return aimed_at(self.spec, self.target)

    @cached_property
    def prior(self) -> dict[str, PriorBelief]:
        """Every parameter before any data."""
        return prior_beliefs(self.spec.parameters)

    @cached_property
    def told(self) -> tuple[Trial, ...]:
        """The trials whose outcomes are known, in the order in which they came."""
        return self.experiment.told

    @property
    def truth(self) -> Mapping[str, float]:
        """The true parameters, where someone knows them."""
        return {}

    @property
    def world(self) -> World | None:
        """What really answers, where it is simulated: a batch of one."""
        return None

    @property
    def last(self) -> Step:
        """What is known at the end."""
        return self.steps[-1]

    def holds_truth(self, name: str, step: Step | None = None) -> bool:
        """Whether the interval of a parameter, at the end or else, contains the true value."""
        low, high = (step or self.last).interval[name]
        return low <= self.truth[name] <= high

    @cached_property
    def refined(self) -> Step | None:
        """What the task's own likelihood says at the end, where the network is only rough."""
        if self.task is None or not can_refine(self.task) or self.experiment.is_standardised:
            return None
        started = time.perf_counter()
        posterior = self.experiment.refined(self.task)
        if posterior.effective >= ROUGH:
            return None
        last, wide = self.last, [*self.last.log10]
        return belief(posterior, last.number, last.design, last.outcome, started, wide)


def record_of(experiment: Experiment, task: Task | None = None) -> Record:
    """An experiment that was run, as far as it is."""
    known = simulator_of(experiment.spec) if task is None else task.described_by(experiment.spec)
    told, wide = experiment.told, shown_by_logarithm(experiment.spec.parameters)
    numbers = evenly(len(told))
    steps = []
    for number, posterior in zip(numbers, experiment.history(numbers), strict=True):
        trial = told[number - 1] if number else None
        design, outcome = (trial.design, trial.outcome) if trial else ({}, None)
        steps.append(belief(posterior, number, design, outcome, time.perf_counter(), wide))
    return Record(experiment, known, target_names(experiment.target), tuple(steps))


def evenly(last: int) -> list[int]:
    """Numbers from 0 to the last, both included, `MOST` at most between them."""
    return [*range(0, last, -(-last // MOST)), last] if last else [0]


def target_names(targets: Iterable[Target]) -> tuple[str, ...]:
    """Parameters by name and "predictions", each once."""
    names: list[str] = []
    for one in targets:
        if isinstance(one, InTurn):
            names += [name for part in one.parts for name in target_names(part)]
        else:
            names.append(one if isinstance(one, str) else PREDICTIONS)
    return tuple(dict.fromkeys(names))


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
        values = values.float()
        low, high = values.quantile(tails).tolist()
        is_wide = low > 0 and high / low > DECADES
        spread = float(values.log10().std()) if is_wide else None
        beliefs[name] = PriorBelief(float(values.std()), (low, high), spread)
    return beliefs


def prior_of(parameters: Parameters) -> Posterior:
    """The prior as a posterior: standard normal in every coordinate of the network."""
    zeros = torch.zeros(len(parameters), 1)
    return Posterior(Mixture(zeros, zeros, torch.ones_like(zeros)), parameters)


def shown_by_logarithm(parameters: Parameters) -> list[str]:
    """The parameters whose prior spans orders of magnitude."""
    return [name for name, prior in prior_beliefs(parameters).items() if prior.log10_std]


def belief(
    posterior: Posterior,
    number: int,
    design: Mapping[str, Value],
    outcome: Any,
    started: float,
    wide: Sequence[str] = (),
) -> Step:
    """A step from its posterior; `wide` are the parameters to be shown by their logarithm."""
    mean, std = dict(posterior.mean), dict(posterior.std)
    seconds = time.perf_counter() - started
    interval = {name: posterior.interval(name, LEVEL) for name in mean}
    log10 = {name: _log10(posterior, name) for name in wide}
    labels = {name: dict(posterior[name].probabilities) for name in mean}
    shares = {name: found for name, found in labels.items() if found}
    return Step(number, dict(design), outcome, mean, std, interval, seconds, log10, shares)


def _log10(posterior: Posterior, name: str) -> tuple[float, float]:
    """Mean and standard deviation of the logarithm, by quantiles that are even in probability."""
    levels = [(i + 0.5) / LEVELS for i in range(LEVELS)]
    values = torch.tensor([posterior.quantile(name, p) for p in levels]).double().log10()
    return float(values.mean()), float(values.std())
