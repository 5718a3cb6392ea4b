"""What the psychometric benchmark found, as figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aline.app.bench.bench import Result, Row
from aline.app.bench.psychometric_report import ALL, GL, METHODS, NAMES, TS, Found

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figures(result: Result) -> Mapping[str, Figure]:
    """Errors by trial and stimuli by trial, as far as they were measured."""
    found, data = Found(result), result["data"]
    drawn: dict[str, Figure] = {}
    if found.has("exact_rmse"):
        drawn["rmse"] = _draw_errors(found)
    histograms = dict(data.get("stimuli", {}))
    if "switch" in data:
        histograms["switch"] = data["switch"]
    if histograms:
        drawn["stimuli"] = _draw_stimuli(histograms)
    if found.has("information_share"):
        drawn["optimum"] = _draw_optimum(found)
    return drawn


def _colours() -> dict[str, str]:
    from aline.app.plots.canvas import INK, MUTED, NO, POSTERIOR, YES

    return {
        "aline": POSTERIOR,
        "psi-marginal": YES,
        "questplus": NO,
        "random": MUTED,
        "greedy": INK,
    }


def _draw_errors(found: Found) -> Figure:
    from aline.app.plots.canvas import WIDE, figure, styled

    with styled():
        drawn = figure(WIDE, 3.4, gap=0.04)
        panels = drawn.subplots(1, 2)
        for axes, target in zip(panels, (TS, GL), strict=True):
            for method in METHODS:
                _draw_series(axes, found.series("posterior_rmse", target, method), method)
            axes.set_xlabel("trial")
            axes.set_ylabel(f"posterior RMSE, {target.replace(',', ' and ')}")
        handles, labels = panels[0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside upper left", ncols=len(METHODS))
    return drawn


def _draw_series(axes: Axes, rows: list[Row], method: str) -> None:
    if not rows:
        return
    steps, values = [row["step"] for row in rows], [row["value"] for row in rows]
    colour, style = _colours()[method], "--" if method == "greedy" else "-"
    width = 4 if method == "aline" else 1.2  # the others lie on it, and must not hide it
    axes.plot(steps, values, color=colour, linestyle=style, linewidth=width, label=NAMES[method])
    low = [row["value"] - row["ci95"] for row in rows]
    high = [row["value"] + row["ci95"] for row in rows]
    axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)


_TITLES = {TS: "goal: threshold and slope", GL: "goal: guess and lapse", ALL: "goal: all four"}


def _draw_stimuli(histograms: Mapping[str, Any]) -> Figure:
    from aline.app.plots.canvas import NO, WIDE, figure, styled

    with styled():
        drawn = figure(WIDE, 2.7, gap=0.03)
        panels = drawn.subplots(1, len(histograms), sharey=True, squeeze=False)[0]
        for axes, (name, histogram) in zip(panels, histograms.items(), strict=True):
            _draw_histogram(axes, histogram)
            axes.set_title(_TITLES.get(name, "the goal changes after trial 15"))
            axes.set_xlabel("trial")
            if name == "switch":
                axes.axvline(15.5, color=NO, linewidth=1)
        panels[0].set_ylabel("stimulus")
    return drawn


def _draw_histogram(axes: Axes, histogram: Mapping[str, Any]) -> None:
    """Shares of stimuli, darker where there are more; after the random first trial."""
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap

    from aline.app.plots.canvas import PAPER, POSTERIOR

    counts = np.array(histogram["counts"], dtype=float).T
    shares = counts / np.maximum(counts.sum(0), 1)
    shade = LinearSegmentedColormap.from_list("share", [PAPER, POSTERIOR])
    trials = np.arange(counts.shape[1] + 1) + 0.5
    axes.pcolormesh(trials, histogram["edges"], shares, cmap=shade, vmin=0, vmax=0.4)


def _draw_optimum(found: Found) -> Figure:
    from aline.app.plots.canvas import HALF, NO, POSTERIOR, figure, legend_above, ruled, styled

    with styled():
        drawn = figure(HALF, 2.8)
        axes = drawn.subplots()
        ruled(axes)
        for target, colour in ((TS, POSTERIOR), (GL, NO)):
            rows = found.series("information_share", target)
            steps, values = [row["step"] for row in rows], [row["value"] for row in rows]
            axes.plot(steps, values, color=colour, linewidth=1.5, label=target.replace(",", ", "))
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("trial")
        axes.set_ylabel("information, share of the optimum")
        legend_above(axes, 2)
    return drawn
