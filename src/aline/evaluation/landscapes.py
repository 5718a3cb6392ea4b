"""Landscapes of data sets never seen, on the protocol of appendix D.1: what each method knows.

A run is a data set, five random configurations to start with, and queries among all recorded ones
but a hundred, at which errors are measured. Methods are paired: they meet the same runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from aline.baselines import GPPolicy
from aline.baselines.gp import Fits
from aline.engine import BatchEngine
from aline.episodes import FixedPool, Goal, Policy, play
from aline.errors import InputError
from aline.evaluation.active import Watched, network_policy
from aline.model import Mixture, Model
from aline.tasks import Spec
from aline.tasks.table_task import TableTask, TableWorld

TARGETS = 100
LEVEL = 0.9
METHODS = ("aline", "ace-us", "gp-rs", "gp-us", "gp-vr", "gp-epig")
RESTARTS = 2


@dataclass(frozen=True)
class Runs:
    """A batch of runs on recorded data sets; designs on the network's scale."""

    world: TableWorld
    start: Tensor  # [run, 5, design]
    pool: Tensor  # [run, candidate, design]
    targets: Tensor  # [run, target, design]

    @property
    def spec(self) -> Spec:
        """Of their task."""
        return self.world.task.spec

    @property
    def goal(self) -> Goal:
        """Predictions at each run's own targets."""
        nothing = torch.zeros(len(self.targets), 0, dtype=torch.bool)
        return Goal(nothing, self.targets, torch.ones(self.targets.shape[:2], dtype=torch.bool))

    @classmethod
    def on(cls, task: TableTask, data_set: int, count: int, seed: int) -> Runs:
        """So many runs on one data set of the task's part, by number."""
        generator = torch.Generator().manual_seed(seed * 1_000_003 + data_set)
        world = TableWorld(task, torch.full((count,), data_set))
        rows, start = int(task.recorded.count[data_set]), task.spec.start
        if rows < TARGETS + task.spec.horizon:
            raise InputError(
                f"a table must have at least {TARGETS + task.spec.horizon} rows to be tested on, "
                f"got {rows}"
            )
        drawn = world.sample(rows, generator)
        parts = drawn.split([TARGETS, start, rows - TARGETS - start], 1)
        return cls(world, parts[1], parts[2], parts[0])


def method_named(name: str, model: Model, restarts: int = RESTARTS) -> Policy:
    """A method by its name in the results. GPs fit their noise, and standardise outcomes."""
    kind, _, acquisition = name.partition("-")
    if kind == "gp":
        return GPPolicy(
            model.spec,
            acquisition,  # type: ignore[arg-type]
            normalise=True,
            noise=None,
            restarts=restarts,
        )
    return network_policy(name, BatchEngine(model.network), METHODS)


@dataclass(frozen=True)
class Errors:
    """What was known after each configuration, the random ones at the start included."""

    rmse: Tensor  # [run, step], in the outcome's units
    covered: Tensor  # [run, step], the share of outcomes within the central 90 % interval
    designs: Tensor  # [run, query, design], in the user's units


@torch.inference_mode()
def explore(runs: Runs, policy: Policy, seed: int) -> Errors:
    """Play runs to the horizon, and look at what is known after each query."""
    generator = torch.Generator().manual_seed(seed)
    truth = runs.world.answer(runs.targets, generator)
    errors: list[tuple[Tensor, Tensor]] = []

    def look(state: Any) -> None:
        expected, rank = _expected(policy, state, runs, truth)
        to_user = runs.spec.outcome.to_user
        error = (to_user(expected) - to_user(truth)).square().mean(1).sqrt()
        errors.append((error, ((rank - 0.5).abs() <= LEVEL / 2).float().mean(1)))

    context = play(
        Watched(policy, look),
        runs.world,
        runs.goal,
        steps=runs.spec.horizon,
        generator=generator,
        offers=FixedPool(runs.pool),
        given=runs.start,
    )
    rmse, covered = (torch.stack(part, 1) for part in zip(*errors, strict=True))
    return Errors(rmse, covered, runs.spec.design.to_user(context.designs))


def _expected(policy: Any, state: Any, runs: Runs, truth: Tensor) -> tuple[Tensor, Tensor]:
    """What a state expects at the targets, and where in its belief the truth lies."""
    if isinstance(state, Fits):
        mean, std = state.predict(runs.targets, runs.spec)
        return mean, torch.special.ndtr((truth - mean) / std)
    belief = cast(Mixture, policy.engine.predictive(state.state, runs.targets))
    return belief.moments()[0], belief.cdf(truth)
