"""How the posterior narrows, trial by trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from aline.app.plots.canvas import HALF, MUTED, POSTERIOR, figure, ruled, styled
from aline.app.plots.designs import height
from aline.app.record import Record


def plot_widths(demo: Record) -> Figure:
    """The width of each parameter's 95 % interval by trial, as a share of the prior's."""
    with styled():
        drawn = figure(HALF, height(demo))
        draw_widths(drawn.subplots(), demo)
    return drawn


def draw_widths(axes: Axes, demo: Record) -> None:
    """A line a parameter, named at its end."""
    widths = {name: relative_widths(demo, name) for name in demo.spec.parameters.labels}
    numbers = [step.number for step in demo.steps]
    ruled(axes)
    for name, shares in widths.items():
        _draw_line(axes, numbers, shares, is_aimed_at=name in demo.shown)
    _scale(axes, min(shares[-1] for shares in widths.values()))
    axes.set_xlim(0, max(1, demo.last.number))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlabel("trial")
    axes.set_title("width of the 95 % interval, prior = 100 %", color=MUTED, fontsize=8.5)
    _label_ends(axes, demo, widths)


def relative_widths(demo: Record, name: str) -> list[float]:
    """The width of a parameter's interval after each trial, over the prior's."""
    low, high = demo.prior[name].interval
    return [(b - a) / (high - low) for a, b in (step.interval[name] for step in demo.steps)]


def _draw_line(axes: Axes, at: list[int], shares: list[float], is_aimed_at: bool) -> None:
    axes.plot(
        at,
        shares,
        color=POSTERIOR if is_aimed_at else MUTED,
        linewidth=1.8 if is_aimed_at else 1.0,
        zorder=3 if is_aimed_at else 2,
    )


def _scale(axes: Axes, smallest: float) -> None:
    """Percent; on a logarithmic axis where the posterior became very narrow."""
    if smallest < 0.08:
        axes.set_yscale("log")
        axes.set_ylim(0.6 * smallest, 1.4)
        axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, 1.12)
        axes.set_yticks(np.linspace(0, 1, 5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))


def _label_ends(axes: Axes, demo: Record, widths: Mapping[str, list[float]]) -> None:
    """Name each line at its end, moved apart where names would overlap."""
    to_axes = axes.transScale + axes.transLimits
    # A posterior wider than the prior leaves the axes: a name as far off would leave them no room.
    ends = {
        name: min(float(to_axes.transform((0, shares[-1]))[1]), 1.0)
        for name, shares in widths.items()
    }
    for name, at in spread(ends, 0.08):
        axes.text(
            1.02,
            at,
            name,
            transform=axes.transAxes,
            va="center",
            fontsize=8.5,
            color=POSTERIOR if name in demo.shown else MUTED,
        )


def spread(heights: Mapping[str, float], gap: float) -> Iterator[tuple[str, float]]:
    """The heights in order, at least `gap` apart, near where they were and not below 0."""
    order = sorted(heights, key=lambda name: heights[name])
    placed = [heights[name] for name in order]
    for _ in range(100):
        for i, (a, b) in enumerate(pairwise(placed)):
            push = max(0.0, gap - (b - a)) / 2
            placed[i], placed[i + 1] = a - push, b + push
    lift = max(0.0, -min(placed, default=0.0))
    return zip(order, [height + lift for height in placed], strict=True)
