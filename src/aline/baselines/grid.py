"""Beliefs on a grid: what QUEST+ and psi-marginal share.

A parameter grid holds weights that sum to one, and `tasks/lattice.py` says what a trial is expected
to tell about the goal's parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from aline.episodes import Goal, Offer, take
from aline.errors import InputError
from aline.tasks import Task
from aline.tasks.lattice import Arranged, Lattice, Points, evenly_spaced, log_table, same_goals


@dataclass(frozen=True)
class Belief:
    """What a grid method remembers: its posterior and the goal, for a batch of episodes."""

    weight: Tensor  # [batch, point], sums to one
    goal: Goal


class GridPolicy:
    """Chooses the stimulus that is expected to tell most about the goal's parameters.

    `points` cuts the parameters, `stimuli` are the designs compared where none are on offer: all
    points of a pool, else `STIMULI` that fill the box evenly.
    """

    def __init__(
        self, task: Task, points: Points | Lattice, stimuli: Mapping[str, Any] | None = None
    ):
        if task.log_likelihood is None or not task.spec.outcome.is_yes_or_no:
            raise InputError(
                f"a grid method needs a binary outcome and a log_likelihood, and task "
                f"{task.spec.name} has not both"
            )
        spec = self.spec = task.spec
        self.task = task
        self.lattice = (
            points if isinstance(points, Lattice) else Lattice.of(spec.parameters, points)
        )
        self.stimuli = (
            evenly_spaced(spec.design) if stimuli is None else spec.design.read(stimuli)
        )  # [stimulus, design] on the network's scale
        self.values = spec.parameters.to_labels(self.lattice.z)  # label -> [point]
        values = torch.stack(list(self.values.values()), 1)
        self._powers = torch.cat([values, values**2], 1)  # [point, 2 * label]
        self._yes = self.table(self.stimuli)
        self._arranged: dict[tuple[bool, ...], Arranged] = {}

    def table(self, designs: Tensor) -> Tensor:
        """P(yes) at designs [stimulus, design] for every point of the grid, [stimulus, point]."""
        return log_table(self.task, self.lattice, designs, 1.0).exp()

    def targets(self, goal: Tensor) -> Tensor:
        """Which parameters, bool [parameter], are not nuisance for an episode's goal."""
        return goal

    def begin(self, goal: Goal) -> Belief:
        """The prior."""
        if goal.points.shape[1]:
            raise InputError("a grid method aims at parameters: predictions cannot be its goal")
        return Belief(self.lattice.weight.expand(len(goal.parameters), -1), goal)

    def observe(self, state: Belief, design: Tensor, outcome: Tensor) -> Belief:
        """Bayes' rule for one more observation."""
        yes = self._at(design)
        weight = state.weight * torch.where(outcome[:, None] > 0, yes, 1 - yes)
        return Belief(weight / weight.sum(1, keepdim=True), state.goal)

    def _at(self, design: Tensor) -> Tensor:
        """P(yes) at each episode's design [batch, design], [batch, point]."""
        distance = torch.cdist(design, self.stimuli)
        nearest = distance.argmin(1)
        if bool((self.stimuli[nearest] == design).all()):
            return self._yes[nearest]
        return self.table(design)

    def choose(self, state: Belief, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The most informative design [batch, design]."""
        points = self.stimuli.expand(len(state.weight), -1, -1) if offer is None else offer.points
        score = self.information(state, points)
        if offer is not None and offer.allowed is not None:
            score = score.masked_fill(~offer.allowed, -torch.inf)
        return take(points, score.argmax(1))

    def information(self, state: Belief, points: Tensor | None = None) -> Tensor:
        """Nats that each stimulus is expected to give about the goal, [batch, stimulus].

        At points [batch, stimulus, design], or at the method's own stimuli.
        """
        stimuli = self.stimuli.expand(len(state.weight), -1, -1)
        points = stimuli if points is None else points
        is_own = torch.equal(points, stimuli)
        score = points.new_empty(points.shape[:2])
        for targets, rows in same_goals(state.goal.parameters):
            aim = self.targets(targets)
            if is_own:
                score[rows] = self._own(aim).information(state.weight[rows])
                continue
            for row in rows.tolist():
                table = Arranged.of(self.table(points[row]), self.lattice.shape, aim)
                score[row] = table.information(state.weight[row : row + 1])[0]
        return score

    def _own(self, targets: Tensor) -> Arranged:
        key = tuple(targets.tolist())
        if key not in self._arranged:  # keep the last one: a table is large
            self._arranged = {key: Arranged.of(self._yes, self.lattice.shape, targets)}
        return self._arranged[key]

    def moments(self, state: Belief) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Posterior mean and standard deviation by label, [batch] each."""
        first, second = (state.weight @ self._powers).chunk(2, 1)
        std = (second - first**2).clamp_min(0).sqrt()
        labels = list(self.values)
        return (
            dict(zip(labels, first.unbind(1), strict=True)),
            dict(zip(labels, std.unbind(1), strict=True)),
        )
