"""The outcome to expect at each design, for tasks with one design axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aline.app.record import LEVEL, Record
from aline.spaces import Design
from aline.spaces.axes import Value
from aline.tasks import Task, World

Array = NDArray[np.float64]
Curves = dict[str, dict[str, Tensor]]
"""By the outcome's part, then by what of it is drawn: "" or a label."""

POINTS = 161  # along the axis
DRAWS = 400  # curves that make a band
REPEATS = 1000  # simulations that make a mean
MOST = 64  # outcomes up to which an expectation visits each


@dataclass(frozen=True)
class Expectation:
    """Along one design axis: what the model expects, how sure it is, and what is true."""

    part: str  # of the outcome
    name: str  # a label whose probability it is, or ""
    x: Array
    mean: Array
    truth: Array | None  # where someone knows it
    band: tuple[Array, Array] | None
    is_of_curves: bool  # else the band is of outcomes, their noise included


def expectations_of(demo: Record) -> list[Expectation]:
    """What to expect over the only design axis, after the last trial."""
    x = along(demo.spec.design, POINTS)
    (axis,) = demo.spec.design.names
    predictive = demo.experiment.predict({axis: values_along(demo.spec.design, x)})
    truth = _truth_of(demo, x)
    of_curves = _bands_of_record(demo, x)
    found, drawn = [], drawn_along(demo.spec.design, x)
    for part, own in predictive.parts.items():
        for name, mean in own.curves.items():
            band = None  # an answer that is no number has no interval to draw
            if of_curves:
                low, high = of_curves[part][name]
                band = _array(low), _array(high)
            elif demo.spec.outcome.parts[part].has_interval:
                low, high = own.interval(LEVEL)
                band = _array(low), _array(high)
            shown = _array(drawn), _array(mean), truth.get((part, name)), band
            found.append(Expectation(part, name, *shown, bool(of_curves)))
    return found


def along(space: Design, count: int) -> Tensor:
    """Numbers over the only axis, all that there are or `count` of them, in the user's units."""
    if space.points is not None:
        return torch.tensor(sorted(set(space.points[:, 0].tolist())))
    if space.is_plain and space.is_linear:
        return torch.linspace(float(space.low), float(space.high), count)
    x = torch.linspace(-1, 1, count)[:, None]
    return space.to_user(x[space.allows(x)])[:, 0]


def values_along(space: Design, x: Tensor) -> list[Value]:
    """Numbers on the only axis as users write them."""
    (axis,) = space.axes.values()
    return x.tolist() if axis.values is None else [axis.value_of(one) for one in x.tolist()]


def drawn_along(space: Design, x: Tensor) -> Tensor:
    """Where numbers on the only axis are drawn: those of a set by their rank."""
    (axis,) = space.axes.values()
    if axis.values is None:
        return x
    ranks = [axis.values.index(value) for value in values_along(space, x)]
    return torch.tensor(ranks, dtype=torch.float32)


def has_response_function(task: Task) -> bool:
    """Whether the probability of every outcome is known: where they are few, with a likelihood."""
    every = task.spec.outcome.enumerate()
    return every is not None and len(every) <= MOST and task.log_likelihood is not None


def _bands_of_record(demo: Record, x: Tensor) -> dict[str, dict[str, Tensor]]:
    """The bands of curves drawn from the posterior, where their function is known."""
    if demo.task is None or not has_response_function(demo.task):
        return {}
    draws = demo.experiment.posterior().sample(DRAWS)
    return bands_of_curves(demo.task, demo.spec.parameters.to_network(draws), x)


def bands_of_curves(task: Task, theta: Tensor, x: Tensor) -> dict[str, dict[str, Tensor]]:
    """Where 95 % of the curves of theta [draw, parameter] run, [2, point] each."""
    curves = _expected(task, theta, x)
    tails = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return {
        part: {name: curve.quantile(tails, 0) for name, curve in own.items()}
        for part, own in curves.items()
    }


def _truth_of(demo: Record, x: Tensor) -> dict[tuple[str, str], Array]:
    """The true curves by part and name, where someone knows them."""
    if demo.task is None or demo.world is None:
        return {}
    curves = true_curves(demo.task, demo.world, x)
    return {
        (part, name): _array(curve) for part, own in curves.items() for name, curve in own.items()
    }


def true_curves(task: Task, world: World, x: Tensor) -> Curves:
    """The mean outcome [point] that a world really gives at designs x [point] on its only axis."""
    if has_response_function(task):
        curves = _expected(task, world.theta, x)
        return {part: {k: v[0] for k, v in own.items()} for part, own in curves.items()}
    designs = task.spec.design.to_network(x[:, None]).repeat(REPEATS, 1)[None]
    outcomes = world.answer(designs, torch.Generator().manual_seed(0))[0]
    weights = torch.full((len(x), REPEATS), 1 / REPEATS)
    return _averages(task, outcomes.unflatten(0, (REPEATS, -1)).transpose(0, 1), weights)


def _expected(task: Task, theta: Tensor, x: Tensor) -> Curves:
    """Likewise by the likelihood, [batch, point], for theta [batch, parameter]."""
    every = task.spec.outcome.enumerate()
    assert every is not None
    designs = task.spec.design.to_network(x[:, None])[None]
    log_prob = [task.log_prob(theta, designs, y.expand(1, len(x), *y.shape)) for y in every]
    return _averages(task, every, torch.stack(log_prob, -1).exp())


def _averages(task: Task, outcomes: Tensor, weights: Tensor) -> Curves:
    """What is drawn of outcomes [..., n, *event], averaged over n."""
    parts = task.spec.outcome.parts
    return {
        part: {name: (weights * v).sum(-1) for name, v in parts[part].drawn(own).items()}
        for part, own in task.spec.outcome.split(outcomes).items()
    }


def _array(values: object) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(-1)
