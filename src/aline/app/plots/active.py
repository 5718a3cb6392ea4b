"""The figures of the active learning benchmark, from the data in its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aline.app.plots.canvas import DATA, INK, MUTED, POSTERIOR, TRUTH, WIDE, figure, ruled, styled

# A GP method's curves are shades of one colour: they share a model and differ in the choice.
STYLES: dict[str, dict[str, Any]] = {
    "aline": {"color": POSTERIOR, "linewidth": 1.8, "zorder": 4},
    "aline, aimed at predictions": {"color": POSTERIOR, "linestyle": "--"},
    "ace-us": {"color": "#178a66"},
    "ace-rs": {"color": "#178a66", "linestyle": ":"},
    "gp-rs": {"color": MUTED, "linestyle": ":"},
    "gp-us": {"color": "#d05a22"},
    "gp-vr": {"color": "#a8872a"},
    "gp-vr-starts": {"color": "#a8872a", "linestyle": "--"},
    "gp-vr-kernels": {"color": "#a8872a", "linestyle": ":"},
    "gp-epig": {"color": INK},
    "ensemble": {"color": POSTERIOR, "linestyle": ":"},
}


def active_figures(data: Mapping[str, Any]) -> dict[str, Figure]:
    """Every figure that the data allow."""
    found = {}
    with styled():
        curves = {key.partition(":")[2]: data[key] for key in data if key.startswith("rmse:")}
        if curves:
            found["rmse"] = plot_curves(curves, "RMSE", columns=3, log=True)
        posteriors = {key.partition(":")[2]: data[key] for key in data if key.startswith("logq:")}
        if posteriors:
            label = "log q of the true hyperparameters"
            found["hyperparameters"] = plot_curves(posteriors, label, columns=2, log=False)
        if "queries" in data:
            found["queries"] = plot_queries(data["queries"])
        if "posteriors" in data:
            found["posteriors"] = plot_posteriors(data["posteriors"])
    return found


def plot_curves(
    problems: Mapping[str, Mapping[str, Any]], label: str, columns: int, log: bool
) -> Figure:
    """A panel a problem, a curve with its 95 % band a method."""
    rows = -(-len(problems) // columns)
    drawn = figure(WIDE, 2.4 * rows + 0.5, gap=0.04)
    panels: list[Axes] = list(drawn.subplots(rows, columns, squeeze=False).flatten())
    for axes, (name, methods) in zip(panels, problems.items(), strict=False):
        for method, band in methods.items():
            _draw_band(axes, method, band)
        axes.set_title(name.replace("_", " "))
        axes.set_xlabel("queries")
        if log:
            axes.set_yscale("log")
        ruled(axes)
    for axes in panels[len(problems) :]:
        axes.set_visible(False)
    panels[0].set_ylabel(label)
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside upper left", ncols=len(labels), columnspacing=1.4)
    return drawn


def _draw_band(axes: Axes, method: str, band: Mapping[str, list[float]]) -> None:
    style = {"linewidth": 1.2, **STYLES.get(method, {})}
    value, half = np.array(band["mean"]), np.nan_to_num(np.array(band["ci95"]))
    steps = np.arange(1, len(value) + 1)
    axes.plot(steps, value, label=method, **style)
    low = np.maximum(value - half, 0.05 * value) if (value > 0).all() else value - half
    axes.fill_between(steps, low, value + half, color=style["color"], alpha=0.12, linewidth=0)


def plot_queries(run: Mapping[str, Any]) -> Figure:
    """What was expected of a function after some of the queries, and where these were."""
    drawn = figure(WIDE, 2.6, gap=0.03)
    panels = drawn.subplots(1, len(run["steps"]), sharey=True)
    grid = np.array(run["grid"])
    for axes, (step, belief) in zip(panels, run["steps"].items(), strict=True):
        axes.plot(grid, run["truth"], label="truth", **TRUTH)
        axes.plot(grid, belief["mean"], color=POSTERIOR, linewidth=1.6, label="expected")
        axes.fill_between(
            grid, belief["low"], belief["high"], color=POSTERIOR, alpha=0.16, linewidth=0
        )
        count = int(step)
        axes.scatter(run["x"][:count], run["y"][:count], s=14, color=DATA, zorder=3, label="query")
        axes.set_title(f"{count} {'query' if count == 1 else 'queries'}")
        axes.set_xlabel("x")
        ruled(axes)
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside upper left", ncols=3)
    return drawn


def plot_posteriors(parameters: Mapping[str, Any]) -> Figure:
    """The posterior of each hyperparameter after some of the queries."""
    drawn = figure(WIDE, 2.6, gap=0.03)
    panels = drawn.subplots(1, len(parameters), squeeze=False)[0]
    for axes, (name, found) in zip(panels, parameters.items(), strict=True):
        for i, (step, density) in enumerate(found["density"].items()):
            shade = (i + 1) / len(found["density"])
            axes.plot(
                found["grid"], density, color=POSTERIOR, alpha=0.25 + 0.75 * shade,
                linewidth=0.8 + shade, label=f"t = {step}",
            )  # fmt: skip
        axes.axvline(found["truth"], label="truth", **TRUTH)
        axes.set_title(name.replace("_", " "))
        axes.set_ylim(bottom=0)
        ruled(axes)
    panels[0].set_ylabel("density")
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside upper left", ncols=len(labels))
    return drawn
