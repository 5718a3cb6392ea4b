"""The expected outcome along the only design axis, with its band, the truth and the data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aline.app.expectation import Array, Expectation, expectations_of
from aline.app.plots.canvas import (
    DATA,
    INK,
    LINES,
    PAPER,
    TRUTH,
    WIDE,
    draw_responses,
    figure,
    label_colour,
    legend_above,
    ruled,
    styled,
)
from aline.app.plots.designs import told_numbers
from aline.app.plots.scales import places, set_scale
from aline.app.record import Record
from aline.spaces import Outcome

LINE: dict[str, Any] = {"linewidth": 2}
POINT: dict[str, Any] = {"linestyle": "none", "marker": "o"}
POINT_TRUTH: dict[str, Any] = {"linestyle": "none", "marker": "x", "color": INK}
COLUMNS = 95  # of responses that fit beside each other; closer ones are stacked


def plot_curve(demo: Record) -> Figure:
    """What the model expects at each design, with its band, the truth and the data."""
    with styled():
        count = len(demo.spec.outcome.parts)
        drawn = figure(WIDE, 3.9 * count)
        draw_curve(drawn.subplots(count, 1, squeeze=False)[:, 0], demo)
    return drawn


def draw_curve(panels: Iterable[Axes], demo: Record) -> None:
    """A panel for each outcome that is measured."""
    (axis,) = demo.spec.design.names
    expected, parts = expectations_of(demo), demo.spec.outcome.parts
    for axes, (name, outcome) in zip(panels, parts.items(), strict=True):
        curves = [one for one in expected if one.part == name]
        ruled(axes)
        _draw_expectation(axes, curves, demo.spec.design.axes[axis].values is not None)
        _draw_data(axes, demo, name, outcome, curves[0])
        axes.set_xlabel(demo.spec.label(axis))
        set_scale(axes, "x", demo.spec.design.axes[axis], margin=0)
        legend_above(axes, 5)


def _draw_expectation(axes: Axes, curves: list[Expectation], is_set: bool) -> None:
    """Lines with bands; of a set of values, between which there is nothing, points with bars."""
    for place, one in enumerate(curves):
        colour = LINES[place % len(LINES)]
        if one.band is not None:
            label = "95 % of curves" if one.is_of_curves else "95 % of outcomes"
            draw = axes.vlines if is_set else axes.fill_between
            width = 8 if is_set else 0
            shown = label if place == 0 else ""
            draw(one.x, *one.band, color=colour, alpha=0.18, linewidth=width, label=shown)
        name = f"expected, {one.name}" if one.name else "expected"
        mean, truth = (POINT, POINT_TRUTH) if is_set else (LINE, TRUTH)
        axes.plot(one.x, one.mean, color=colour, **mean, label=name)
        if one.truth is not None:
            axes.plot(one.x, one.truth, **truth, label="truth" if place == 0 else "")


def _draw_data(axes: Axes, demo: Record, name: str, outcome: Outcome, about: Expectation) -> None:
    (axis,) = demo.spec.design.names
    x = places(demo.spec.design.axes[axis], [trial.design[axis] for trial in demo.told])
    y = told_numbers(demo, name)
    if not outcome.has_interval:
        _draw_responses(axes, x, y, outcome, about)
        return
    axes.scatter(x, y, s=28, color=DATA, edgecolor=PAPER, linewidth=0.8, zorder=3, label="data")
    axes.set_ylabel(demo.spec.label(name))


def _draw_responses(axes: Axes, x: Array, y: Array, outcome: Outcome, about: Expectation) -> None:
    """The first label below the curves, the others above, stacked where they would overlap."""
    near = (about.x[-1] - about.x[0]) / COLUMNS
    is_above = y > 0
    above, below = stacked(x[is_above], near), stacked(x[~is_above], near)
    gap = min(0.05, 0.35 / (1 + max(above.max(initial=0), below.max(initial=0))))
    height = np.empty_like(x)
    height[is_above], height[~is_above] = 1.05 + gap * above, -0.05 - gap * below
    for place in reversed(range(len(outcome.labels))):
        kept, label = y == place, outcome.labels[place]
        colour = label_colour(outcome.labels, place)
        draw_responses(axes, x[kept], height[kept], label, colour, place > 0)
    axes.set_ylim(-0.1 - gap * below.max(initial=0), 1.1 + gap * above.max(initial=0))
    axes.set_yticks(np.linspace(0, 1, 5))
    axes.set_ylabel(outcome.axis)


def stacked(x: Array, near: float) -> Array:
    """The lowest level for each point at which no earlier point is `near` it."""
    levels: list[int] = []
    for i, value in enumerate(x):
        taken = {
            level for level, other in zip(levels, x[:i], strict=True) if abs(value - other) < near
        }
        levels.append(next(level for level in range(len(x)) if level not in taken))
    return np.array(levels, dtype=np.float64)
