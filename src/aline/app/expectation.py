"""The outcome to expect at each design, for tasks with one design axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aline.app.demo import LEVEL, Demo
from aline.spaces import Binary
from aline.tasks import Task, World

Array = NDArray[np.float64]
POINTS = 161  # along the axis
DRAWS = 400  # curves that make a band
REPEATS = 1000  # simulations that make a mean


@dataclass(frozen=True)
class Expectation:
    """Along one design axis: what the model expects, how sure it is, and what is true."""

    x: Array
    mean: Array
    truth: Array
    band: tuple[Array, Array] | None
    is_of_curves: bool  # else the band is of outcomes, their noise included


def expectation_of(demo: Demo) -> Expectation:
    """The expected outcome over the demo's only design axis, after its last trial."""
    space = demo.spec.design
    (name,) = space.names
    if space.points is None:
        x = torch.linspace(float(space.low), float(space.high), POINTS)
    else:
        x = torch.tensor(sorted(set(space.points[:, 0].tolist())))
    predictive = demo.experiment.predict({name: x.tolist()})
    mean = _array(predictive.mean)
    band, is_of_curves = None, _has_response_function(demo.subject.task)
    truth = _array(true_curve(demo.subject.task, demo.observer.world, x))
    if is_of_curves:
        band = _band_of_curves(demo, x)
    elif not isinstance(demo.spec.outcome, Binary):  # a yes/no has no interval worth drawing
        low, high = predictive.interval(LEVEL)
        band = _array(low), _array(high)
    return Expectation(_array(x), mean, truth, band, is_of_curves)


def _has_response_function(task: Task) -> bool:
    return isinstance(task.spec.outcome, Binary) and task.log_likelihood is not None


def _band_of_curves(demo: Demo, x: Tensor) -> tuple[Array, Array]:
    """Where 95 % of the curves drawn from the posterior run."""
    generator = torch.Generator().manual_seed(demo.seed)
    draws = demo.experiment.posterior().sample((DRAWS,), generator=generator)
    theta = demo.spec.parameters.to_network(draws)
    curves = _expected(demo.subject.task, theta, x)
    tails = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    low, high = curves.quantile(tails, 0)
    return _array(low), _array(high)


def true_curve(task: Task, world: World, x: Tensor) -> Tensor:
    """The mean outcome [point] that a world really gives at designs x [point] on its only axis."""
    if _has_response_function(task):
        return _expected(task, world.theta, x)
    designs = task.spec.design.to_network(x[:, None]).repeat(REPEATS, 1)[None]
    outcomes = world.answer(designs, torch.Generator().manual_seed(0))
    return task.spec.outcome.to_user(outcomes).view(REPEATS, -1).mean(0)


def _expected(task: Task, theta: Tensor, x: Tensor) -> Tensor:
    """The probability of a yes [batch, point] at x [point], for theta [batch, parameter]."""
    (name,) = task.spec.design.names
    assert task.log_likelihood is not None
    named = task.spec.parameters.to_user(theta[:, None, :])
    design = {name: x.expand(len(theta), -1)}
    return task.log_likelihood(named, design, torch.ones_like(design[name])).exp()


def _array(values: object) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(-1)
