"""The expected outcome along the only design axis, with its band, the truth and the data."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aline.app.demo import Demo
from aline.app.expectation import Array, Expectation, expectation_of
from aline.app.plots.canvas import (
    DATA,
    NO,
    PAPER,
    POSTERIOR,
    TRUTH,
    WIDE,
    YES,
    draw_responses,
    figure,
    legend_above,
    ruled,
    styled,
)
from aline.spaces import Binary

COLUMNS = 95  # of responses that fit beside each other; closer ones are stacked


def plot_curve(demo: Demo) -> Figure:
    """What the model expects at each design, with its band, the truth and the data."""
    (axis,) = demo.spec.design.names
    expected = expectation_of(demo)
    with styled():
        drawn = figure(WIDE, 3.9)
        axes = drawn.subplots()
        ruled(axes)
        _draw_expectation(axes, expected)
        if isinstance(demo.spec.outcome, Binary):
            _draw_yes_and_no(axes, demo, expected)
        else:
            _draw_measurements(axes, demo)
        axes.set_xlabel(demo.spec.label(axis))
        axes.set_xlim(expected.x[0], expected.x[-1])
        legend_above(axes, 5)
    return drawn


def _draw_expectation(axes: Axes, expected: Expectation) -> None:
    if expected.band is not None:
        low, high = expected.band
        label = "95 % of curves" if expected.is_of_curves else "95 % of outcomes"
        axes.fill_between(
            expected.x, low, high, color=POSTERIOR, alpha=0.18, linewidth=0, label=label
        )
    axes.plot(expected.x, expected.mean, color=POSTERIOR, linewidth=2, label="expected")
    axes.plot(expected.x, expected.truth, **TRUTH, label="truth")


def _data(demo: Demo) -> tuple[Array, Array]:
    (axis,) = demo.spec.design.names
    x = np.array([step.design[axis] for step in demo.steps[1:]], dtype=np.float64)
    y = np.array([step.outcome for step in demo.steps[1:]], dtype=np.float64)
    return x, y


def _draw_measurements(axes: Axes, demo: Demo) -> None:
    x, y = _data(demo)
    axes.scatter(x, y, s=28, color=DATA, edgecolor=PAPER, linewidth=0.8, zorder=3, label="data")
    axes.set_ylabel(demo.spec.label("outcome"))


def _draw_yes_and_no(axes: Axes, demo: Demo, expected: Expectation) -> None:
    """Responses above and below the curve, stacked away from it where they would overlap."""
    x, y = _data(demo)
    near = (expected.x[-1] - expected.x[0]) / COLUMNS
    yes, no = x[y > 0.5], x[y <= 0.5]
    above, below = stacked(yes, near), stacked(no, near)
    gap = min(0.05, 0.35 / (1 + max(above.max(initial=0), below.max(initial=0))))
    draw_responses(axes, yes, 1.05 + gap * above, "yes", YES)
    draw_responses(axes, no, -0.05 - gap * below, "no", NO)
    axes.set_ylim(-0.1 - gap * below.max(initial=0), 1.1 + gap * above.max(initial=0))
    axes.set_yticks(np.linspace(0, 1, 5))
    axes.set_ylabel("probability of yes")


def stacked(x: Array, near: float) -> Array:
    """The lowest level for each point at which no earlier point is `near` it."""
    levels: list[int] = []
    for i, value in enumerate(x):
        taken = {
            level for level, other in zip(levels, x[:i], strict=True) if abs(value - other) < near
        }
        levels.append(next(level for level in range(len(x)) if level not in taken))
    return np.array(levels, dtype=np.float64)
