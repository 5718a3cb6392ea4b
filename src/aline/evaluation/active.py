"""Active learning of functions on the paper's protocol (appendix C.1): what each method knows.

One pool of candidates a run, one random point to start with, errors at held-out inputs after
every query. Methods are paired: they meet the same functions, pools, targets and first points.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor

from aline.baselines import AcePolicy, GPPolicy
from aline.baselines.gp import Fits
from aline.engine import BatchEngine, engine_for
from aline.episodes import FixedPool, Goal, Policy, goal_of, play
from aline.errors import InputError
from aline.evaluation.estimates import Estimate, mean
from aline.evaluation.problems import FUNCTIONS, FunctionWorld, function_named
from aline.functions.ensemble_engine import EnsembleEngine
from aline.functions.task import NOISE
from aline.model import Mixture, Model
from aline.policies import LearnedPolicy
from aline.spaces import Box, parts
from aline.tasks import PREDICTIONS, Spec, Task, World
from aline.tasks.task import SimulatedWorld

POOL, TARGETS = 500, 100
LEVEL = 0.9
# A GP's fit has one start, or four; its kernel is RBF, or of three the one with the most evidence.
GPS: Mapping[str, Mapping[str, Any]] = {
    "gp-rs": {},
    "gp-us": {},
    "gp-vr": {},
    "gp-epig": {},
    "gp-vr-starts": {"restarts": 3},
    "gp-vr-kernels": {"restarts": 3, "kinds": ("rbf", "matern32", "matern52")},
}
ENSEMBLE = "ensemble"  # of kernels, which chooses and answers without a network
METHODS = ("aline", ENSEMBLE, "ace-us", "ace-rs", *GPS)


@dataclass(frozen=True)
class Problem:
    """Functions to learn, a batch of runs of them; designs on the network's scale."""

    name: str
    spec: Spec
    world: World
    exact: World  # the same without noise
    pool: Tensor  # [batch, candidate, design]
    targets: Tensor  # [batch, target, design]
    start: Tensor  # [batch, 1, design]
    standardise: bool  # whether outcomes come in other units than the model's task has

    @property
    def batch(self) -> int:
        """How many runs."""
        return len(self.pool)

    def aimed(self, names: Sequence[str] = ()) -> Goal:
        """The goal of every run: predictions at its own targets, or the parameters named."""
        parameters = self.spec.parameters.mask(names).expand(self.batch, -1)
        points = self.targets[:, :0] if names else self.targets
        return Goal(parameters, points, torch.ones(points.shape[:2], dtype=torch.bool))

    def aimed_anywhere(self) -> Goal:
        """Predictions all over the design space, whatever the targets are."""
        return goal_of(self.spec, [PREDICTIONS]).repeat(self.batch)

    def within(self, region: Box, generator: torch.Generator) -> Problem:
        """The same functions with all targets in a region."""
        space, share = self.spec.design, torch.rand(self.targets.shape, generator=generator)
        return replace(self, targets=parts.spread(space, parts.plain_part(space, region), share))

    def runs(self, first: int, last: int) -> Problem:
        """Some of the runs."""
        part = slice(first, last)
        return replace(
            self,
            world=_rows(self.world, part),
            exact=_rows(self.exact, part),
            pool=self.pool[part],
            targets=self.targets[part],
            start=self.start[part],
        )


def make_problem(name: str, task: Task, batch: int, seed: int) -> Problem:
    """`batch` functions of the task's prior, or that many runs of a benchmark function."""
    generator = torch.Generator().manual_seed(seed)
    spec = task.spec
    if name == spec.name:
        world: World = task.draw(batch, generator)

        def draw(count: int) -> Tensor:
            return spec.design.sample(batch, count, generator)
    elif name in FUNCTIONS:
        function = function_named(name)
        world = FunctionWorld(function, spec, batch)

        def draw(count: int) -> Tensor:
            return function.sample(spec, batch, count, generator)
    else:
        raise InputError(f"problems are {spec.name}, {', '.join(FUNCTIONS)}, got {name!r}")
    pool, targets = draw(POOL), draw(TARGETS)
    return Problem(
        name, spec, world, _noiseless(world), pool, targets, pool[:, :1], name in FUNCTIONS
    )


def _noiseless(world: World) -> World:
    if isinstance(world, SimulatedWorld):
        return replace(world, hidden={**world.hidden, "noise": torch.zeros(())})
    assert isinstance(world, FunctionWorld)
    return replace(world, noise=0.0)


def _rows(world: World, part: slice) -> World:
    if isinstance(world, SimulatedWorld):
        hidden = {n: v[part] if v.dim() else v for n, v in world.hidden.items()}
        return replace(world, theta=world.theta[part], hidden=hidden)
    assert isinstance(world, FunctionWorld)
    return replace(world, batch=len(range(world.batch)[part]))


def policy_of(method: str, model: Model, problem: Problem, timed: bool = False) -> Policy:
    """A method by its name in the results; a GP that is `timed` is fitted by scikit-learn alone.

    All are told the noise: GPs always, the network where the units are not those it was trained in.
    """
    unit = problem.standardise
    if method in GPS:
        acquisition: Any = method.split("-")[1]
        return GPPolicy(
            problem.spec, acquisition, unit, noise=NOISE, quick=not timed, **GPS[method]
        )
    engine = _engine(method, model, timed)
    if unit:
        engine = model.network.advisor.in_units(engine, NOISE)
    return network_policy(method, engine, METHODS)


def _engine(method: str, model: Model, timed: bool) -> Any:
    """A run that is timed is one experiment; else all runs are played together."""
    if method == ENSEMBLE:
        return EnsembleEngine(model.network)
    return engine_for(model) if timed else BatchEngine(model.network)


def network_policy(method: str, engine: Any, methods: Sequence[str]) -> Policy:
    """What a network chooses by: its own policy, or an acquisition on its predictions."""
    kind, _, acquisition = method.partition("-")
    if kind == "ace":
        return AcePolicy(engine, acquisition=acquisition)  # type: ignore[arg-type]
    if method in ("aline", ENSEMBLE):
        return LearnedPolicy(engine)
    raise InputError(f"methods are {', '.join(methods)}, got {method!r}")


@dataclass(frozen=True)
class Curves:
    """What was known after each query; the first is the random point to start with."""

    rmse: Tensor  # [batch, step], of the expected outcomes at the targets, in the user's units
    covered: Tensor  # [batch, step], the share of outcomes within the central 90 % interval
    log_q: Tensor  # [batch, step, parameter], of the truth in the user's units; NaN of a GP
    designs: Tensor  # [batch, step, design], in the user's units

    @property
    def area(self) -> Tensor:
        """The mean error over all steps, [batch]."""
        return self.rmse.mean(1)


@dataclass
class Watched:
    """A policy that is looked at after each observation."""

    policy: Policy
    look: Callable[[Any], None]

    def begin(self, goal: Goal) -> Any:
        """As the policy does."""
        return self.policy.begin(goal)

    def choose(self, state: Any, offer: Any, generator: torch.Generator) -> Tensor:
        """As the policy does."""
        return self.policy.choose(state, offer, generator)

    def observe(self, state: Any, design: Tensor, outcome: Tensor) -> Any:
        """As the policy does; then look."""
        state = self.policy.observe(state, design, outcome)
        self.look(state)
        return state


@dataclass
class Timed(Watched):
    """Likewise, and the time that all of it takes."""

    seconds: float = 0.0

    def begin(self, goal: Goal) -> Any:
        """As the policy does."""
        return self._clocked(super().begin, goal)

    def choose(self, state: Any, offer: Any, generator: torch.Generator) -> Tensor:
        """As the policy does."""
        chosen: Tensor = self._clocked(super().choose, state, offer, generator)
        return chosen

    def observe(self, state: Any, design: Tensor, outcome: Tensor) -> Any:
        """As the policy does; then look."""
        return self._clocked(super().observe, state, design, outcome)

    def _clocked(self, call: Callable[..., Any], *given: Any) -> Any:
        began = time.perf_counter()
        result = call(*given)
        self.seconds += time.perf_counter() - began
        return result


def _expect(policy: Any, state: Any, problem: Problem) -> None:
    """Have a state predict the outcomes at the targets: their means and deviations."""
    if isinstance(state, Fits):
        state.predict(problem.targets, problem.spec)
    else:
        policy.engine.predictive(state.state, problem.targets).moments()


@dataclass
class StepErrors:
    """Takes down the errors of what a state expects."""

    policy: Any
    problem: Problem
    truth: Tensor  # [batch, target] without noise, on the network's scale
    outcomes: Tensor  # [batch, target] with noise
    rmse: list[Tensor] = field(default_factory=list)
    covered: list[Tensor] = field(default_factory=list)
    log_q: list[Tensor] = field(default_factory=list)

    def __call__(self, state: Any) -> None:
        """One more step."""
        problem = self.problem
        count = len(problem.spec.parameters)
        if isinstance(state, Fits):
            expected, std = state.predict(problem.targets, problem.spec)
            rank = torch.special.ndtr((self.outcomes - expected) / std)
            log_q = torch.full((problem.batch, count), math.nan)
        else:
            engine = self.policy.engine
            belief = cast(Mixture, engine.predictive(state.state, problem.targets))
            expected, rank = belief.moments()[0], belief.cdf(self.outcomes)
            theta = problem.world.theta
            density = engine.posterior(state.state).log_prob(theta)
            log_q = density - problem.spec.parameters.log_volume(theta)
        to_user = problem.spec.outcome.to_user
        self.rmse.append((to_user(expected) - to_user(self.truth)).square().mean(1).sqrt())
        self.covered.append(((rank - 0.5).abs() <= LEVEL / 2).float().mean(1))
        self.log_q.append(log_q)


@torch.inference_mode()
def learn(problem: Problem, policy: Policy, goal: Goal, steps: int, seed: int) -> Curves:
    """Play every run of a problem, and look at what is known after each query."""
    generator = torch.Generator().manual_seed(seed)
    truth = problem.exact.answer(problem.targets, generator)
    errors = StepErrors(policy, problem, truth, problem.world.answer(problem.targets, generator))
    context = play(
        Watched(policy, errors),
        problem.world,
        goal,
        steps=steps,
        generator=generator,
        offers=FixedPool(problem.pool),
        given=problem.start,
    )
    return Curves(
        torch.stack(errors.rmse, 1),
        torch.stack(errors.covered, 1),
        torch.stack(errors.log_q, 1),
        problem.spec.design.to_user(context.designs),
    )


@torch.inference_mode()
def seconds_per_run(problem: Problem, policy: Policy, steps: int, repeats: int) -> Tensor:
    """How long a method takes over a run, [repeat]; after one more.

    One at a time, as an experiment goes, with predictions at the targets after every query. What
    the world takes to answer is not the method's time.
    """
    taken = []
    for number in range(repeats + 1):
        one = problem.runs(number, number + 1)
        timed = Timed(policy, lambda state, one=one: _expect(policy, state, one))  # type: ignore[misc]
        play(
            timed,
            one.world,
            one.aimed(),
            steps=steps,
            generator=torch.Generator().manual_seed(number),
            offers=FixedPool(one.pool),
            given=one.start,
        )
        taken.append(timed.seconds)
    return torch.tensor(taken[1:])  # the first one warms caches up


def ratio(ours: Tensor, theirs: Tensor) -> Estimate:
    """The ratio of two means of paired values [n]; its interval by the delta method."""
    value = float(ours.mean() / theirs.mean())
    spread = mean((ours - value * theirs) / theirs.mean())
    return Estimate(value, spread.ci95, len(ours))
