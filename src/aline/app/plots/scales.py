"""Design axes as they are drawn: between bounds, on a log scale, or level by level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from aline.app.expectation import Array
from aline.spaces import Axis, Log
from aline.spaces.axes import Value

MOST_TICKS = 12  # names that an axis has room for
MARGIN = 0.03  # of the range, on both sides


def places(axis: Axis, values: Sequence[Value]) -> Array:
    """Where values are drawn: those of a set by their rank, so that close ones stay apart."""
    if axis.values is None:
        return np.array([float(value) for value in values])
    return np.array([float(axis.values.index(value)) for value in values])


def ends(axis: Axis) -> tuple[float, float]:
    """Where an axis is drawn from and to."""
    if axis.values is not None:
        return -0.5, len(axis.values) - 0.5
    return axis.low, axis.high


def ticks(axis: Axis) -> tuple[list[int], list[str]]:
    """The levels that are named on an axis: all, or evenly some of many."""
    assert axis.values is not None
    every = -(-len(axis.values) // MOST_TICKS)
    shown = list(range(0, len(axis.values), every))
    return shown, [axis.text(axis.values[i]) for i in shown]


def set_scale(axes: Axes, which: Literal["x", "y"], axis: Axis, margin: float = MARGIN) -> None:
    """Limits, scale and ticks of one side of a panel."""
    side: Any = axes.xaxis if which == "x" else axes.yaxis
    low, high = ends(axis)
    if isinstance(axis, Log):
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        apart = (high / low) ** margin
        low, high = low / apart, high * apart
    elif axis.values is not None:
        at, names = ticks(axis)
        side.set_ticks(at, names)
    else:
        side.set_major_locator(MaxNLocator(5))
        low, high = low - margin * (high - low), high + margin * (high - low)
    (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
