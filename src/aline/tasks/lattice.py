"""A grid over the prior of a few parameters, and what a yes/no answer is expected to tell on it.

The probability of a yes at every stimulus and every point of the grid is a table, computed once;
after that beliefs are weights on the points, and a trial is a few matrix products with the table.
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
from functools import cache

import numpy as np
import torch
from torch import Tensor

from aline.errors import InputError
from aline.spaces import Design, Parameters
from aline.tasks.task import Task

STIMULI = 200
_AT_ONCE = 2**22  # numbers in a temporary array
_MANY = 10  # nodes a parameter from which even ones are closer than Gauss-Legendre's

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
    def of_prior(cls, nodes: Sequence[int]) -> Lattice:
        """With so many nodes a parameter to integrate over the prior.

        Few nodes are Gauss-Legendre's in the prior's quantile, exact where the likelihood is a
        polynomial, as in rates; many are the middles of equal masses, closer where it has edges.
        """
        return cls.of_axes([_gauss(n) if n < _MANY else _middles(n) for n in nodes])

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


def _gauss(count: int) -> tuple[Tensor, Tensor]:
    x, weight = gauss_legendre(count)
    return torch.special.ndtri((x + 1) / 2).float(), (weight / 2).float()


def _middles(count: int) -> tuple[Tensor, Tensor]:
    u = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    return torch.special.ndtri(u).float(), torch.full((count,), 1 / count)


@cache
def gauss_legendre(count: int) -> tuple[Tensor, Tensor]:
    """Nodes in [-1, 1] and their weights, which sum to 2."""
    x, weight = np.polynomial.legendre.leggauss(count)
    return torch.tensor(x), torch.tensor(weight)


def _axis(parameters: Parameters, i: int, points: int | Sequence[float]) -> tuple[Tensor, Tensor]:
    """Values and the prior's mass around each; a count takes the middles of equal masses."""
    name, scale = parameters.names[i], parameters.scales[i]
    if isinstance(points, int):
        if points < 1:
            raise InputError(f"the grid of {name} needs at least one point, got {points}")
        return _middles(points)
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


def log_table(task: Task, lattice: Lattice, designs: Tensor, outcome: float) -> Tensor:
    """Log probability [stimulus, point] of an outcome, 1 or -1, at designs [stimulus, design]."""
    outcomes = torch.full((1, len(designs)), outcome)
    parts = lattice.z.split(max(1, _AT_ONCE // max(1, len(designs))))
    return torch.cat([task.log_prob(z, designs[None], outcomes).T for z in parts], 1)


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


def same_goals(goals: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Each of the goals [batch, parameter], with the rows of the episodes that have it."""
    kinds, which = goals.unique(dim=0, return_inverse=True)
    for i, kind in enumerate(kinds):
        yield kind, (which == i).nonzero()[:, 0]


def evenly_spaced(design: Design, count: int = STIMULI) -> Tensor:
    """A pool's points, or a box filled evenly, [stimulus, design] on the network's scale."""
    if design.points is not None:
        return design.to_network(design.points)
    if len(design) == 1:
        x = torch.linspace(-1, 1, count)[:, None]
        return x[design.allows(x)]
    return design.spread_evenly(count)
