"""Experiments with planted faults, and what the check of typical outcomes makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from scipy import stats
from torch import Tensor

from aline.engine import BatchEngine
from aline.episodes import Context, goal_of, play
from aline.experiment.typical import LEVEL, Evidence, evidence_of, observe
from aline.model import Model
from aline.policies import LearnedPolicy
from aline.tasks import Task, World, simulator_of

EPISODES = 200
SURE = 0.95  # that a limit gives no more false alarms than it may
LEAST = 2.0  # capital that raises a flag, however little good experiments reach
AT_ONCE = 50

Change = Callable[[World, Tensor, Tensor, torch.Generator], Tensor]
"""An outcome as a fault makes it: of a world, designs, the right outcome, and luck."""


class Fault(NamedTuple):
    """What goes wrong, and from which trial on."""

    change: Change
    trial: int

    @property
    def name(self) -> str:
        """As a row has it."""
        words = self.change.__name__.replace("_", "-")
        return words if self.trial == 1 else f"{words}-from-{self.trial}"


class Faulty:
    """A world whose outcomes go wrong from a trial on."""

    def __init__(self, world: World, fault: Fault | None):
        self.world, self.theta, self.fault, self.trial = world, world.theta, fault, 0

    def answer(self, designs: Tensor, generator: torch.Generator) -> Tensor:
        """As the world does, or as the fault makes of it."""
        outcome, self.trial = self.world.answer(designs, generator), self.trial + 1
        if self.fault is None or self.trial < self.fault.trial:
            return outcome
        return self.fault.change(self.world, designs, outcome, generator)

    @property
    def is_recorded(self) -> bool:
        """As the world is."""
        return self.world.is_recorded

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """As the world does."""
        return self.world.sample(count, generator)

    def branches(self, designs: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """One draw."""
        outcomes = self.answer(designs, generator)[:, :, None]
        return outcomes, torch.ones(outcomes.shape[:3])


def faulty_experiments(
    model: Model, task: Task, target: Sequence[str], fault: Fault | None, episodes: int, seed: int
) -> Context:
    """What a model's policy measures where a fault is planted; the same seed, the same truths."""
    parts, steps = [], task.spec.horizon
    policy = LearnedPolicy(BatchEngine(model.network), task=task)
    for number, first in enumerate(range(0, episodes, AT_ONCE)):
        size = min(AT_ONCE, episodes - first)
        seeds = (3 * (1009 * seed + number) + i for i in range(3))
        worlds, choices, luck = (torch.Generator().manual_seed(one) for one in seeds)
        goal = goal_of(task.spec, target).repeat(size)
        world = Faulty(task.draw(size, worlds), fault)
        with torch.no_grad():
            parts.append(play(policy, world, goal, steps=steps, generator=choices, luck=luck))
    return Context(*(torch.cat([getattr(p, n) for p in parts]) for n in ("designs", "outcomes")))


def check_experiments(model: Model, context: Context) -> list[Evidence]:
    """What the check makes of experiments, as if they had been live."""
    found, engine, task = [], BatchEngine(model.network), simulator_of(model.spec)
    for first in range(0, len(context.designs), AT_ONCE):
        rows = slice(first, first + AT_ONCE)
        designs, outcomes = context.designs[rows], context.outcomes[rows]
        evidence, data = [evidence_of(model)] * len(designs), engine.begin(len(designs))
        for x, y in zip(designs.unbind(1), outcomes.unbind(1), strict=True):
            evidence = observe(evidence, engine, data, x, y, task)
            with torch.no_grad():
                data = engine.extend(data, x, y)
        found += evidence
    return found


def check_limit(
    model: Model, task: Task, episodes: int = EPISODES, seed: int = 0
) -> dict[str, float]:
    """The capital that at most one in twenty good experiments reaches, for a model's card.

    Each of the model's goals has its share of the experiments.
    """
    goals = [names for names, _ in model.spec.targets]
    each = max(2, episodes // len(goals))
    most = [
        evidence.most
        for number, names in enumerate(goals)
        for evidence in check_experiments(
            model, faulty_experiments(model, task, names, None, each, seed + number)
        )
    ]
    return {"limit": limit_of(most), "n": len(most)}


def limit_of(most: Sequence[float]) -> float:
    """A capital that, with 95 % confidence, at most `LEVEL` of good experiments ever reach.

    By the largest capital of each of some of them. Ville's inequality allows 20 for any fair bet;
    what a model's own bets reach is often far less, and a lower limit finds faults sooner.
    """
    allowed = max(0, int(stats.binom(len(most), LEVEL).ppf(1 - SURE)) - 1)
    highest = sorted(most, reverse=True)[allowed]
    return max(LEAST, math.ceil(1000 * highest + 1) / 1000)
