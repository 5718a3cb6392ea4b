"""The table and the figures of the design benchmark, made from its file alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from aline.app.bench.bench import Result, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {
    "aline": "ALINE, fixed pool",
    "aline-box": "ALINE, box free",
    "aline-untrained": "ALINE's search, untrained weights, box free",
    "random": "random",
    "vpce": "VPCE",
    "dad": "DAD",
    "vsoed": "vsOED",
    "rl-boed": "RL-BOED",
}
TRAINED = ("dad", "vsoed", "rl-boed")
NEAR = 0.9  # of a published figure, from which on our version of a method stands for it
UNVALIDATED = " (unvalidated at this budget)"
TITLES = {"location": "Location finding", "ces": "CES"}
HEADINGS = (
    "",
    "uses at run time",
    "sPCE",
    "published",
    "sNMC",
    "bounds with draws from q",
    "J",
    "training, hours",
    "published",
    "seconds a run",
    "published",
    "episodes",
)


def markdown(result: Result) -> str:
    """A table a task, and the notes."""
    rows: list[Row] = result["rows"]
    lines: list[str] = []
    for task in dict.fromkeys(row["task"] for row in rows):
        lines += [f"### {TITLES.get(task, task)}", "", *_table(rows, task), ""]
    lines += [
        "Nats, with 95 % intervals over episodes; every method meets the same truths, first "
        "designs and luck. Published: the paper's table 2 (GPU hours, and times on a GPU node). "
        "Baselines were trained here for the time in the table; they are our versions, written "
        "from their papers, and those further than 10 % below what was published are unvalidated "
        "at this budget: their rows say what it buys, not what the method can do.",
        "",
        *(f"- {note}" for note in result.get("notes", [])),
    ]
    return "\n".join(lines) + "\n"


def _table(rows: list[Row], task: str) -> Iterator[str]:
    yield "| " + " | ".join(HEADINGS) + " |"
    yield "|" + "---|" * len(HEADINGS)
    mine = [row for row in rows if row["task"] == task]
    for method in dict.fromkeys(row["method"] for row in mine):
        found = {row["metric"]: row for row in mine if row["method"] == method}
        yield "| " + " | ".join(_cells(method, found)) + " |"


def _cells(method: str, found: Mapping[str, Row]) -> Iterator[str]:
    yield f"{NAMES.get(method, method)}{_doubt(method, found)}"
    yield next((row["uses"] for row in found.values() if row.get("uses")), "")
    yield measured_cell(found, "spce")
    yield published_cell(found, "spce")
    yield measured_cell(found, "snmc")
    pair = [measured_cell(found, metric) for metric in ("ace", "vnmc")]
    yield " to ".join(pair) if all(pair) else ""
    yield measured_cell(found, "j")
    yield measured_cell(found, "training_hours")
    yield published_cell(found, "training_hours")
    yield measured_cell(found, "seconds_per_run", 4)
    yield published_cell(found, "seconds_per_run")
    yield str(found["spce"]["n"]) if "spce" in found else ""


def _doubt(method: str, found: Mapping[str, Row]) -> str:
    """What to say of a baseline that was trained here and is far from what was published."""
    row = found.get("spce")
    if method not in TRAINED or row is None or not row["published"]:
        return ""
    is_near = row["value"] + (row["ci95"] or 0.0) >= NEAR * row["published"]
    return "" if is_near else UNVALIDATED


def measured_cell(found: Mapping[str, Row], metric: str, digits: int = 2) -> str:
    """A value with its interval, or nothing."""
    row = found.get(metric)
    if row is None or row["value"] is None:
        return ""
    spread = row["ci95"]
    known = spread is not None and math.isfinite(spread) and spread > 0
    return f"{row['value']:.{digits}f}" + (f" ± {spread:.{digits}f}" if known else "")


def published_cell(found: Mapping[str, Row], metric: str) -> str:
    """What was published of it, or nothing."""
    row = found.get(metric)
    return "" if row is None or row["published"] is None else f"{row['published']:g}"


def figures(result: Result) -> Mapping[str, Figure]:
    """Designs over the log posterior, and marginals with the truth, where they were measured."""
    data = result["data"]
    drawn: dict[str, Figure] = {}
    if "location" in data:
        drawn["location"] = _draw_location(data["location"])
    if "ces" in data:
        drawn["ces"] = _draw_marginals(data["ces"])
    return drawn


def _draw_location(picture: Mapping[str, Any]) -> Figure:
    import numpy as np

    from aline.app.plots.canvas import HALF, INK, SHADES, figure, styled

    with styled():
        drawn = figure(HALF + 1, HALF)
        axes = drawn.subplots()
        surface = np.array(picture["log_posterior"])
        axis = np.linspace(0, 1, len(surface))
        # Nats below the peak, on a scale that shows both the peak and the far field.
        filled = axes.contourf(
            axis, axis, -np.log1p(-surface), levels=14, cmap="Greys_r", alpha=0.5
        )
        filled.set_rasterized(True)
        designs = np.array(picture["designs"])
        dots = axes.scatter(
            designs[:, 0],
            designs[:, 1],
            c=np.arange(1, len(designs) + 1),
            cmap=SHADES,
            s=22,
            edgecolors="white",
            linewidths=0.5,
            zorder=3,
        )
        truth = list(picture["truth"].values())
        axes.plot(*truth, marker="*", color=INK, markersize=11, linestyle="none", label="source")
        axes.set_xlabel("x")
        axes.set_ylabel("y")
        axes.set_aspect("equal")
        axes.legend(loc="upper right")
        drawn.colorbar(dots, ax=axes, label="trial")
    return drawn


def _draw_marginals(picture: Mapping[str, Any]) -> Figure:
    import numpy as np

    from aline.app.plots.canvas import POSTERIOR, TRUTH, WIDE, figure, styled

    truth = {
        ("log u" if name == "u" else name): (math.log(value) if name == "u" else value)
        for name, value in picture["truth"].items()
    }
    with styled():
        drawn = figure(WIDE, 2.3, gap=0.04)
        panels = drawn.subplots(1, len(picture["marginals"]))
        for axes, (name, histogram) in zip(panels, picture["marginals"].items(), strict=True):
            edges, density = np.array(histogram["edges"]), np.array(histogram["density"])
            axes.stairs(density, edges, fill=True, color=POSTERIOR, alpha=0.35)
            axes.axvline(truth[name], **TRUTH)
            axes.set_xlabel(name)
            axes.set_yticks([])
            axes.spines["left"].set_visible(False)
    return drawn
