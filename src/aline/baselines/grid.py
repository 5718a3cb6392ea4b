"""Beliefs on a grid: what QUEST+ and psi-marginal share.

A parameter grid holds weights that sum to one. The probability of a yes at every stimulus and every
point of the grid is a table, computed once; after that a trial is a few matrix products with it.
For a yes/no outcome y at stimulus x, the information that the trial is expected to give about some
parameters t, the others being nuisance, is

    I(y; t) = H(y) - E_t H(y | t),    P(yes | t) = E[P(yes | t, nuisance) | t],

which is how much the entropy of the posterior of t is expected to fall: the stimulus of the
smallest expected entropy (Watson 2017, Prins 2013) is that of the largest information.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from aline.episodes import Goal, Offer, take
from aline.errors import InputError
from aline.spaces import Binary, Design, Parameters
from aline.tasks import Task

STIMULI = 200
_AT_ONCE = 2**22  # numbers in a temporary array

Points = Mapping[str, int | Sequence[float]]
"""How a grid cuts each parameter: into so many points, or at given values."""


@dataclass(frozen=True)
class Lattice:
    """A grid over the prior of all parameters, as a list of its points."""

    z: Tensor  # [point, parameter] on the network's scale
    weight: Tensor  # [point], the share of the prior's mass that each stands for
    shape: tuple[int, ...]  # points along each parameter; the last varies fastest

    @classmethod
    def of_axes(cls, axes: Sequence[tuple[Tensor, Tensor]]) -> Lattice:
        """From values [node] on the network's scale and weights [node] for each parameter."""
        shape = tuple(len(z) for z, _ in axes)
        z = torch.cartesian_prod(*[z for z, _ in axes]).view(-1, len(axes))
        weight = torch.cartesian_prod(*[weight for _, weight in axes]).view(-1, len(axes)).prod(1)
        return cls(z, weight / weight.sum(), shape)

    @classmethod
    def of(cls, parameters: Parameters, points: Points) -> Lattice:
        """A grid as experimenters write it: counts of evenly likely values, or values."""
        if set(points) != set(parameters.names):
            raise InputError(
                f"a grid must name exactly {', '.join(parameters.names)}, got "
                f"{', '.join(points) or 'nothing'}"
            )
        return cls.of_axes(
            [_axis(parameters, i, points[n]) for i, n in enumerate(parameters.names)]
        )


def _axis(parameters: Parameters, i: int, points: int | Sequence[float]) -> tuple[Tensor, Tensor]:
    """Values and the prior's mass around each; a count takes the middles of equal masses."""
    name, scale = parameters.names[i], parameters.scales[i]
    if isinstance(points, int):
        if points < 1:
            raise InputError(f"the grid of {name} needs at least one point, got {points}")
        u = (torch.arange(points, dtype=torch.float64) + 0.5) / points
        return torch.special.ndtri(u).float(), torch.full((points,), 1 / points)
    values = torch.as_tensor(points, dtype=torch.float32)
    low, high = scale.support
    if values.dim() != 1 or not len(values) or not bool((values.diff() > 0).all()):
        raise InputError(f"the grid of {name} must be a list of rising values, got {points!r}")
    if values[0] < low or values[-1] > high:
        raise InputError(
            f"the grid of {name} must lie in [{low:g}, {high:g}], got {values[0]:g} to "
            f"{values[-1]:g}"
        )
    z = scale.to_network(values)
    u = torch.special.ndtr(z.double())
    edges = torch.cat([u.new_zeros(1), (u[1:] + u[:-1]) / 2, u.new_ones(1)])
    return z, edges.diff().float()


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
        if task.log_likelihood is None or not isinstance(task.spec.outcome, Binary):
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
        yes = torch.ones(1, len(designs))
        step = max(1, _AT_ONCE // max(1, len(designs)))
        parts = self.lattice.z.split(step)
        return torch.cat([self.task.log_prob(z, designs[None], yes).T for z in parts], 1).exp()

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
        for targets, rows in _same_goals(state.goal):
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


@dataclass(frozen=True)
class Arranged:
    """A table of P(yes) with the grid split into targets and nuisance."""

    yes: Tensor  # [target, nuisance, stimulus]
    entropy: Tensor | None  # [target, stimulus], of the answer, where there is no nuisance
    order: tuple[int, ...]  # the grid's axes with the targets' first
    shape: tuple[int, ...]  # the grid's

    @classmethod
    def of(cls, yes: Tensor, shape: tuple[int, ...], targets: Tensor) -> Arranged:
        """Arrange a table [stimulus, point] for targets, bool [parameter]."""
        wanted = targets.tolist()
        order = (*_where(wanted, True), *_where(wanted, False))
        count = math.prod(size for size, is_target in zip(shape, wanted, strict=True) if is_target)
        table = yes.T.reshape(*shape, -1).permute(*order, len(shape)).reshape(count, -1, len(yes))
        entropy = _entropy(table[:, 0]) if table.shape[1] == 1 else None
        return cls(table, entropy, order, shape)

    def information(self, weight: Tensor) -> Tensor:
        """Expected information [batch, stimulus] under weights [batch, point]."""
        if self.entropy is not None:  # the noise of an answer is the same whatever is known
            return _entropy(weight @ self.yes[:, 0]) - weight @ self.entropy
        count = max(1, _AT_ONCE // (self.yes.shape[0] * self.yes.shape[2]))
        return torch.cat([self._information(part) for part in weight.split(count)])

    def _information(self, weight: Tensor) -> Tensor:
        targets, nuisance, _ = self.yes.shape
        grid = weight.view(-1, *self.shape).permute(*[i + 1 for i in self.order], 0)
        grid = grid.reshape(targets, nuisance, -1)
        mass = grid.sum(1)[..., None]  # [target, batch, 1]
        yes = grid.mT @ self.yes  # P(yes, target) as [target, batch, stimulus]
        no = (mass - yes).clamp_min(0)
        noise = (_plogp(mass) - _plogp(yes) - _plogp(no)).sum(0)
        return _entropy(yes.sum(0)) - noise


def _entropy(yes: Tensor) -> Tensor:
    return -_plogp(yes) - _plogp((1 - yes).clamp_min(0))


def _plogp(p: Tensor) -> Tensor:
    return p * p.clamp_min(1e-30).log()  # torch.xlogy is not vectorised: ten times slower


def _where(flags: Sequence[bool], value: bool) -> list[int]:
    return [i for i, flag in enumerate(flags) if flag is value]


def _same_goals(goal: Goal) -> Iterator[tuple[Tensor, Tensor]]:
    """Each goal of a batch [parameter], with the rows of the episodes that have it."""
    kinds, which = goal.parameters.unique(dim=0, return_inverse=True)
    for i, kind in enumerate(kinds):
        yield kind, (which == i).nonzero()[:, 0]


def evenly_spaced(design: Design, count: int = STIMULI) -> Tensor:
    """A pool's points, or a box filled evenly, [stimulus, design] on the network's scale."""
    if design.points is not None:
        return design.to_network(design.points)
    if len(design) == 1:
        return torch.linspace(-1, 1, count)[:, None]
    engine = torch.quasirandom.SobolEngine(len(design), scramble=False)
    return engine.draw(count) * 2 - 1
