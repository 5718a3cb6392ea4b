"""Measure how well a training did: its policy and others on the same simulated experiments."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from aline.baselines.particles import ParticlePolicy
from aline.engine import BatchEngine
from aline.episodes import Context, Policy, RandomPolicy
from aline.errors import InputError
from aline.evaluation.bounds import episode_bounds
from aline.evaluation.estimates import Estimate, mean
from aline.evaluation.faults import EPISODES as GOOD
from aline.evaluation.faults import check_limit
from aline.evaluation.information import gains
from aline.evaluation.schedule import find_schedule
from aline.evaluation.simulated import Protocol, play_protocol
from aline.evaluation.verdict import ABOVE, FIXED, GREEDY, LEARNED, POSTERIOR, RANDOM, Verdict
from aline.model import Model, Network
from aline.policies import FixedPolicy, LearnedPolicy
from aline.spaces.axes import Value
from aline.tasks import Task
from aline.training.possible_truths import has_parameter_likelihood

CHUNK = 64  # episodes that all policies play before the clock is looked at
EPISODES = 512
SHORTEST, LONGEST = 5.0, 120.0  # seconds that a verdict may take
LONG = 60.0  # seconds of training from which on good experiments are played for the check
SEARCH = 0.25  # of the time for the fixed schedule
GREEDY_SHARE = 0.4  # of the time for greedy play, which then plays fewer of the episodes
LEAST = 16  # of a chunk, without which greedy play is left out
DRAWS = 10_000  # contrastive ones, to begin with
SEARCH_DRAWS = 3000
MOST_DRAWS = 1_000_000
ROOM = 2.0  # nats between what is gained and the cap of sPCE

Progress = Callable[[str, int, int], None]
"""Told what is being done, and how much of how much of it is done."""


@dataclass(frozen=True)
class Clock:
    """A time limit."""

    seconds: float
    began: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self.began

    def is_past(self, share: float) -> bool:
        """Whether so much of the time is over."""
        return self.spent > share * self.seconds


@dataclass(frozen=True)
class Measurement:
    """The information about all parameters in episodes: by sPCE, or by the network's posterior."""

    task: Task
    network: Network
    contrastive: int | None  # None: by the posterior

    @classmethod
    def of(cls, task: Task, network: Network) -> Measurement:
        """By the likelihood where there is one."""
        return cls(task, network, DRAWS if has_parameter_likelihood(task) else None)

    def __call__(self, theta: Tensor, context: Context, seed: int) -> Tensor:
        """Nats [batch]; the same seed compares with the same draws."""
        if self.contrastive is None:
            return self.by_posterior(theta, context)
        return self.bounds(theta, context, seed)[0]

    def bounds(self, theta: Tensor, context: Context, seed: int) -> tuple[Tensor, Tensor]:
        """From below (sPCE) and from above (sNMC), nats [batch] each."""
        assert self.contrastive is not None
        generator = torch.Generator().manual_seed(seed)
        return episode_bounds(self.task, context, theta, self.contrastive, generator)

    @torch.no_grad()
    def by_posterior(self, theta: Tensor, context: Context) -> Tensor:
        """What the network's own posterior gains, in nats [batch]."""
        return gains(self.network, theta, context).double()

    @property
    def quick(self) -> Measurement:
        """With fewer draws, for a search."""
        return self if self.contrastive is None else replace(self, contrastive=SEARCH_DRAWS)

    @property
    def cap(self) -> float:
        """What it cannot exceed."""
        return math.inf if self.contrastive is None else math.log(self.contrastive + 1)


def after_training(model: Model, task: Task, budget: float | None, progress: bool) -> Model:
    """The model with its verdict in its card; the model as it was where there is nothing to judge.

    It takes a tenth of the budget [seconds], or of the training where that had rounds, and two
    minutes at most. A simulator or a likelihood
    that fails here must not cost a training: then the card says why there is no verdict.
    """
    if not can_be_judged(model):
        return model
    spent = budget or model.training["seconds"]
    seconds = min(LONGEST, max(SHORTEST, 0.1 * spent))
    try:
        verdict = judge(model, task, seconds=seconds)
    except Exception as error:
        verdict = Verdict.of_failure(f"{type(error).__name__}: {error}")
    if progress:
        print("", *verdict.lines(), sep="\n")
    model = with_verdict(model, verdict)
    return with_check(model, task) if spent >= LONG and verdict.failed is None else model


def with_check(model: Model, task: Task, episodes: int = GOOD) -> Model:
    """The model with the capital that raises a flag of untypical outcomes in its card."""
    found = check_limit(model, task.described_by(model.spec), max(GOOD, episodes))
    return replace(model, measurements={**model.measurements, "check": found})


def with_verdict(model: Model, verdict: Verdict) -> Model:
    """The model with a verdict in its card."""
    return replace(model, measurements={**model.measurements, "verdict": verdict.to_json()})


def verdict_of(model: Model) -> Verdict | None:
    """What its card says of it, if anything."""
    plain = model.measurements.get("verdict")
    return None if plain is None else Verdict.from_json(plain)


def can_be_judged(model: Model) -> bool:
    """Whether it is about parameters: what a plug-in learns about functions is judged elsewhere."""
    return bool(len(model.spec.parameters)) and model.network.config.plugin is None


def judge(
    model: Model,
    task: Task,
    *,
    seconds: float = 60.0,
    episodes: int = EPISODES,
    seed: int = 0,
    progress: Progress | None = None,
    steps: Sequence[int] = (),
) -> Verdict:
    """Play the learned policy and others on the same truths with the same luck.

    Within about `seconds`: where that is short, fewer of the `episodes` are played. What is known
    after each number of trials in `steps` is measured too.
    """
    if not can_be_judged(model):
        raise InputError(
            f"task {model.spec.name} is about functions, or has no parameters: a verdict is about "
            "parameters; use aline evaluate or aline bench"
        )
    clock, task = Clock(seconds), task.described_by(model.spec)
    measure = Measurement.of(task, model.network)
    generator = torch.Generator().manual_seed(seed)
    _tell(progress, "searching a fixed schedule", 0, episodes)
    schedule = find_schedule(
        task, model.network, measure.quick, generator, lambda: clock.is_past(SEARCH)
    )
    policies: dict[str, Policy] = {
        LEARNED: learned(model, task),
        RANDOM: RandomPolicy(task.spec.design),
        FIXED: FixedPolicy(schedule),
    }
    comparison = Comparison(task, measure, policies, clock, episodes, seed)
    comparison.steps = [step for step in steps if step]
    gains = comparison.run(progress)
    own, missed = comparison.of_posterior()
    return Verdict(
        gained={name: mean(values) for name, values in gains.items()},
        ours_minus={n: apart(gains[LEARNED], v) for n, v in gains.items() if n != LEARNED},
        over_random={
            n: apart(v, gains[RANDOM]) for n, v in gains.items() if n not in (LEARNED, RANDOM)
        },
        contrastive=comparison.measure.contrastive,
        schedule=in_units(task, schedule),
        seconds=clock.spent,
        trained=model.spent("seconds") or 0.0,
        parameters=len(task.spec.parameters),
        posterior=own,
        missed=missed,
        by_step={
            name: {str(step): mean(torch.cat(values)) for step, values in found.items()}
            for name, found in comparison.by_step.items()
        },
    )


def learned(model: Model, task: Task) -> LearnedPolicy:
    """The learned policy as an experiment plays it."""
    refine = 0 if len(task.spec.design) == 1 else 2  # as State.start of an experiment
    return LearnedPolicy(BatchEngine(model.network), refine=refine, task=task)


def in_units(task: Task, schedule: Tensor) -> dict[str, list[Value]]:
    """A schedule [step, design] by name, in the user's units."""
    space = task.spec.design
    rows = [space.name_values(row) for row in space.to_user(schedule).tolist()]
    return {name: [row[name] for row in rows] for name in space.names}


def apart(one: Tensor, other: Tensor) -> Estimate:
    """The paired difference, over the episodes that both have played."""
    both = min(len(one), len(other))
    return mean(one[:both] - other[:both])


@dataclass
class Comparison:
    """Policies that play the same episodes, a chunk at a time, until time or episodes are over."""

    task: Task
    measure: Measurement
    policies: Mapping[str, Policy]
    clock: Clock
    episodes: int
    seed: int
    chunk: int = CHUNK
    greedy: ParticlePolicy | None = None
    gains: dict[str, list[Tensor]] = field(default_factory=dict)
    by_posterior: list[Tensor] = field(default_factory=list)  # of the learned policy's data
    steps: Sequence[int] = ()  # numbers of trials after which gains are looked at too
    by_step: dict[str, dict[int, list[Tensor]]] = field(default_factory=dict)

    def run(self, progress: Progress | None) -> dict[str, Tensor]:
        """What each policy's episodes gained, [episode] each; greedy play's may be fewer."""
        self.chunk = min(self.chunk, self.episodes)
        self._plan_greedy()
        played = self._chunk(0)
        self._widen(played)
        spent_on_greedy = 0.0
        for number in range(math.ceil(self.episodes / self.chunk)):
            if number and self.clock.is_past(1.0):
                break
            played = self._chunk(number) if number else played
            self._keep(number, played)
            began = self.clock.spent
            if self.greedy and spent_on_greedy <= GREEDY_SHARE * self.clock.seconds:
                self._keep(number, {GREEDY: self._played(self.greedy, number)})
                spent_on_greedy += self.clock.spent - began
            else:
                self.greedy = None  # what it has played is the first of the episodes
            _tell(progress, "playing", (number + 1) * self.chunk, self.episodes)
        return {name: torch.cat(values) for name, values in self.gains.items()}

    def _plan_greedy(self) -> None:
        """Play a little greedily, to see how many episodes of it the time allows."""
        if not has_parameter_likelihood(self.task):
            return
        policy, horizon = ParticlePolicy(self.task), self.task.spec.horizon
        steps, began = min(2, horizon), self.clock.spent
        few = Protocol(8, steps, seed=self.seed)
        play_protocol(policy, self.task, self._names, few)
        each = (self.clock.spent - began) / 8 / steps * horizon
        affordable = int(GREEDY_SHARE * self.clock.seconds / max(each, 1e-6))
        if affordable >= min(LEAST, self.episodes):
            self.chunk, self.greedy = min(self.chunk, affordable), policy

    @property
    def _names(self) -> list[str]:
        return list(self.task.spec.parameters.priors)

    def _played(self, policy: Policy, number: int) -> tuple[Tensor, Context]:
        # The search for a schedule has met other seeds.
        protocol = Protocol(
            self.chunk, self.task.spec.horizon, seed=1000 * (self.seed + 1) + number
        )
        return play_protocol(policy, self.task, self._names, protocol)

    def _chunk(self, number: int) -> dict[str, tuple[Tensor, Context]]:
        return {name: self._played(policy, number) for name, policy in self.policies.items()}

    def _keep(self, number: int, played: Mapping[str, tuple[Tensor, Context]]) -> None:
        for name, (theta, context) in played.items():
            values = self.measure(theta, context, self.seed + number)
            self.gains.setdefault(name, []).append(values)
            if name == LEARNED and self.measure.contrastive is not None:
                self.by_posterior.append(self.measure.by_posterior(theta, context))
            for step in self.steps:
                self._look(name, step, theta, context.first(step), self.seed + number)

    def _look(self, name: str, step: int, theta: Tensor, seen: Context, seed: int) -> None:
        """Keep what a policy's episodes have gained by then; of ours also from above, and J."""
        found = {name: self.measure(theta, seen, seed)}
        if name == LEARNED and self.measure.contrastive is not None:
            found[ABOVE] = self.measure.bounds(theta, seen, seed)[1]
            found[POSTERIOR] = self.measure.by_posterior(theta, seen)
        for key, values in found.items():
            self.by_step.setdefault(key, {}).setdefault(step, []).append(values)

    def of_posterior(self) -> tuple[Estimate, Estimate] | tuple[None, None]:
        """What the model's own posterior gains from the learned policy's data, and misses."""
        if not self.by_posterior:
            return None, None
        own = torch.cat(self.by_posterior)
        return mean(own), mean(torch.cat(self.gains[LEARNED]) - own)

    def _widen(self, played: Mapping[str, tuple[Tensor, Context]]) -> None:
        """Take more contrastive draws while the cap is near and there is time."""
        while self.measure.contrastive is not None and self.measure.contrastive < MOST_DRAWS:
            began = self.clock.spent
            gained = max(float(self.measure(*one, self.seed).mean()) for one in played.values())
            took = (self.clock.spent - began) * 10  # a chunk with ten times the draws
            left = self.clock.seconds - self.clock.spent
            if gained < self.measure.cap - ROOM or 3 * took > left:
                return
            self.measure = replace(self.measure, contrastive=10 * self.measure.contrastive)


def _tell(progress: Progress | None, what: str, done: int, total: int) -> None:
    if progress is not None:
        progress(what, min(done, total), total)
