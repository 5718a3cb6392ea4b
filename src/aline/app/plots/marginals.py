"""Every parameter's posterior against its prior, the truth marked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import MaxNLocator

from aline.app.expectation import Array
from aline.app.plots.canvas import (
    FAINT,
    INK,
    MUTED,
    POSTERIOR,
    WIDE,
    draw_truth,
    figure,
    styled,
)
from aline.app.record import Interval, Record, prior_of
from aline.app.tables import typeset
from aline.experiment import Posterior

COLUMNS = 4


def plot_marginals(demo: Record) -> Figure:
    """One panel a parameter; those the experiment did not aim at are grey."""
    labels, posterior = demo.spec.parameters.labels, demo.experiment.posterior()
    with styled():
        drawn = figure(*size_of(labels), gap=0.06)
        draw_marginals(drawn, posterior, labels, demo.shown, demo.spec.label, demo.truth)
    return drawn


def size_of(names: Sequence[str]) -> tuple[float, float]:
    """Inches."""
    rows = math.ceil(len(names) / COLUMNS)
    return WIDE * min(1.0, max(2, len(names)) / COLUMNS), 0.35 + 2.0 * rows


def draw_marginals(
    drawn: FigureBase,
    posterior: Posterior,
    names: Sequence[str],
    aimed: Sequence[str],
    label: Callable[[str], str],
    truth: Mapping[str, float],
) -> None:
    """A panel for each name, up to four in a row."""
    columns = min(COLUMNS, len(names))
    rows = math.ceil(len(names) / columns)
    grid = list(drawn.subplots(rows, columns, squeeze=False).flat)
    for axes, name in zip(grid, names, strict=False):
        draw_marginal(axes, posterior, name, name in aimed, truth.get(name))
        title = name if posterior[name].probabilities else label(name)
        axes.set_title(title, color=INK if name in aimed else MUTED)
    for axes in grid[len(names) :]:
        axes.remove()
    first = next(i for i, name in enumerate(names) if name in aimed)
    handles, titles = grid[first].get_legend_handles_labels()
    drawn.legend(handles, titles, loc="outside upper left", ncols=3, columnspacing=1.4)


def draw_marginal(
    axes: Axes, posterior: Posterior, name: str, is_aimed_at: bool, truth: float | None
) -> None:
    """One parameter: its prior, its posterior, and the truth if it is known."""
    if posterior[name].probabilities:
        _draw_bars(axes, posterior, name, POSTERIOR if is_aimed_at else MUTED, truth)
        return
    grid, colour = _grid(posterior, name, truth), POSTERIOR if is_aimed_at else MUTED
    before = _density(prior_of(posterior.parameters), name, grid)
    after = _density(posterior, name, grid)
    axes.fill_between(grid, before, color=FAINT, linewidth=0, label="prior")
    axes.fill_between(grid, after, color=colour, alpha=0.15, linewidth=0)
    axes.plot(grid, after, color=colour, linewidth=1.8, label="posterior")
    draw_truth(axes, truth)
    axes.set_ylim(0, 1.08 * max(after.max(), before.max()))
    axes.set_xlim(grid[0], grid[-1])
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    if truth is not None:
        text = f"truth {typeset(truth, grid[-1] - grid[0])}"
        axes.set_xlabel(text, fontsize=8.5, color=MUTED)


def _draw_bars(
    axes: Axes, posterior: Posterior, name: str, colour: str, truth: float | None
) -> None:
    """A discrete parameter: the probability of each value."""
    before = prior_of(posterior.parameters)[name].probabilities
    after = posterior[name].probabilities
    place = np.arange(len(after))
    axes.bar(place, list(before.values()), 0.8, color=FAINT, label="prior")
    axes.bar(place, list(after.values()), 0.5, color=colour, alpha=0.75, label="posterior")
    for at, p in zip(place, after.values(), strict=True):
        axes.text(float(at), p + 0.02, f"{p:.2f}", ha="center", fontsize=8.5, color=INK)
    axes.set_xticks(place, list(after))
    axes.set_ylim(0, 1.15)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    if truth is not None:
        axes.set_xlabel(f"truth {list(after)[round(truth)]}", fontsize=8.5, color=MUTED)


def _density(posterior: Posterior, name: str, grid: Array) -> Array:
    return np.asarray(posterior.pdf(name, grid), dtype=np.float64)


def _grid(posterior: Posterior, name: str, truth: float | None) -> Array:
    """Over the prior's range, denser where the posterior is."""
    low, high = plotted_range(posterior, name, truth)
    a, b = posterior.interval(name)
    a, b = max(low, a - (b - a)), min(high, b + (b - a))
    return np.union1d(np.linspace(low, high, 240), np.linspace(a, b, 240))


def plotted_range(posterior: Posterior, name: str, truth: float | None = None) -> Interval:
    """The prior's bounds; where it has none, what holds 95 % of it, the posterior and the truth."""
    low, high = _support(posterior, name)
    ends = [*prior_of(posterior.parameters).interval(name), *posterior.interval(name)]
    ends += [] if truth is None else [truth]
    width = max(ends) - min(ends)
    inset, margin = 0.004 * width, 0.15 * width  # a density may be infinite at a bound
    return (
        low + inset if math.isfinite(low) else min(ends) - margin,
        high - inset if math.isfinite(high) else max(ends) + margin,
    )


def _support(posterior: Posterior, name: str) -> Interval:
    parameters = posterior.parameters
    if not parameters.is_direct(name):
        return 0.0, 1.0  # a weight of a simplex
    return parameters.scales[parameters.index(name)[0]].support
