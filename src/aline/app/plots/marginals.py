"""Every parameter's posterior against its prior, the truth marked."""

from __future__ import annotations

import math

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from aline.app.demo import Demo
from aline.app.expectation import Array
from aline.app.plots.canvas import FAINT, INK, MUTED, POSTERIOR, TRUTH, WIDE, figure, styled
from aline.app.tables import typeset

COLUMNS = 4


def plot_marginals(demo: Demo) -> Figure:
    """One panel a parameter; those the experiment did not aim at are grey."""
    labels = demo.spec.parameters.labels
    columns = min(COLUMNS, len(labels))
    rows = math.ceil(len(labels) / columns)
    with styled():
        drawn = figure(WIDE, 0.35 + 2.0 * rows, gap=0.06)
        grid = list(drawn.subplots(rows, columns, squeeze=False).flat)
        for axes, name in zip(grid, labels, strict=False):
            _draw_marginal(axes, demo, name)
        for axes in grid[len(labels) :]:
            axes.set_visible(False)
        first = labels.index(demo.shown[0])
        handles, names = grid[first].get_legend_handles_labels()
        drawn.legend(handles, names, loc="outside upper left", ncols=3, columnspacing=1.4)
    return drawn


def _draw_marginal(axes: Axes, demo: Demo, name: str) -> None:
    grid = _grid(demo, name)
    prior = prior_density(demo, name, grid)
    posterior = np.asarray(demo.experiment.posterior().pdf(name, grid), dtype=np.float64)
    is_aimed_at = name in demo.shown
    colour = POSTERIOR if is_aimed_at else MUTED
    axes.fill_between(grid, prior, color=FAINT, linewidth=0, label="prior")
    axes.fill_between(grid, posterior, color=colour, alpha=0.15, linewidth=0)
    axes.plot(grid, posterior, color=colour, linewidth=1.8, label="posterior")
    axes.axvline(demo.truth[name], **TRUTH, label="truth")
    axes.set_ylim(0, 1.08 * max(posterior.max(), prior.max()))
    axes.set_xlim(grid[0], grid[-1])
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_title(demo.spec.label(name), color=INK if is_aimed_at else MUTED)
    truth = typeset(demo.truth[name], grid[-1] - grid[0])
    axes.set_xlabel(f"truth {truth}", fontsize=8.5, color=MUTED)


def _grid(demo: Demo, name: str) -> Array:
    """Over the prior's range, denser where the posterior is."""
    low, high = plotted_range(demo, name)
    a, b = demo.last.interval[name]
    a, b = max(low, a - (b - a)), min(high, b + (b - a))
    return np.union1d(np.linspace(low, high, 240), np.linspace(a, b, 240))


def plotted_range(demo: Demo, name: str) -> tuple[float, float]:
    """The prior's bounds; where it has none, what holds 95 % of it, the posterior and the truth."""
    low, high = _support(demo, name)
    ends = [*demo.prior[name].interval, *demo.last.interval[name], demo.truth[name]]
    width = max(ends) - min(ends)
    inset, margin = 0.004 * width, 0.15 * width  # a density may be infinite at a bound
    return (
        low + inset if math.isfinite(low) else min(ends) - margin,
        high - inset if math.isfinite(high) else max(ends) + margin,
    )


def _support(demo: Demo, name: str) -> tuple[float, float]:
    parameters = demo.spec.parameters
    if not parameters.is_direct(name):
        return 0.0, 1.0  # a weight of a simplex
    return parameters.scales[parameters.index(name)[0]].support


def prior_density(demo: Demo, name: str, grid: Array) -> Array:
    """The prior's density of one parameter; of a simplex's later weights, from draws."""
    parameters = demo.spec.parameters
    if parameters.is_direct(name):
        scale = parameters.scales[parameters.index(name)[0]]
        density = scale.log_prior(torch.tensor(grid, dtype=torch.float32)).exp()
        return np.asarray(density, dtype=np.float64)
    draws = parameters.to_labels(parameters.sample(20_000, torch.Generator().manual_seed(1)))[name]
    heights, edges = np.histogram(draws.numpy(), bins=60, density=True)
    at: Array = np.interp(grid, (edges[1:] + edges[:-1]) / 2, heights, left=0.0, right=0.0)
    return at
