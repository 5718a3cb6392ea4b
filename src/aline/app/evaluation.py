"""An evaluation as one HTML file that needs nothing else, and its numbers as JSON beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from aline.app.card import verdict_lines
from aline.app.pages import page
from aline.app.plots import canvas
from aline.app.scores import calibration_lines, score_lines
from aline.evaluation.results import made
from aline.evaluation.verdict import ABOVE, LEARNED, NAMES, POSTERIOR
from aline.files import write_atomically

COLUMNS = 4  # histograms in a row
SANDWICH = {LEARNED: "sPCE, from below", ABOVE: "sNMC, from above", POSTERIOR: "J"}
HEIGHT = 1.9  # inches, of a row of them


def write_evaluation(result: dict[str, Any], model: str, path: Path) -> list[Path]:
    """Write the page and the numbers; where they are."""
    beside = path.with_suffix(".json")
    write_atomically(beside, (json.dumps(result, indent=1) + "\n").encode())
    write_atomically(path, render(result, model).encode())
    return [path, beside]


def render(result: dict[str, Any], model: str) -> str:
    """The page as text."""
    verdict = result.get("verdict")
    verdicts = [*calibration_lines(result), *sandwich_lines(verdict), *result.get("notes", [])]
    with canvas.styled():
        compared = "" if verdict is None else _compared(verdict)
        sections = "\n".join(_section(result, one) for one in result.get("calibration", []))
    return page(
        "evaluation.html",
        title=f"aline: how good is {model}",
        heading=escape(f"How good is {model}"),
        verdicts="\n".join(f"<li>{escape(line.strip())}</li>" for line in verdicts),
        sections=f"{sections}\n{compared}",
        table=escape("\n".join(score_lines(result))),
        made=escape(made(result)),
    )


def _section(result: dict[str, Any], one: dict[str, Any]) -> str:
    goal = one["target"].replace(",", ", ")
    figures = [
        (
            draw_ranks(one),
            f"Where truths lie in their posteriors, {one['n']} experiments: flat if the posterior "
            "is right, within the band in 99 % of evaluations; high at the ends if it is too "
            "narrow, in the middle if too wide. The last one is of all parameters (TARP).",
        ),
        (
            draw_coverage(one),
            "How often a central interval holds the truth, by its level: on the diagonal if the "
            "posterior is right, below it if intervals are too narrow.",
        ),
    ]
    gains = [*_gains(result, one["target"])]
    if gains:
        figures.append((draw_information(gains), "Nats gained about the goal, trial by trial."))
    shown = "\n".join(_figure(figure, caption) for figure, caption in figures)
    return f"<h2>Aimed at {escape(goal)}, after {one['step']} trials</h2>\n{shown}"


def _compared(verdict: dict[str, Any]) -> str:
    figures = [
        (
            draw_steps(verdict, NAMES),
            "Nats gained about all parameters together, trial by trial, on the same simulated "
            "experiments: the learned policy beside others.",
        ),
        (
            draw_steps(verdict, SANDWICH),
            "The learned policy's experiments: what they tell lies between the bounds; J is what "
            "the model's own posterior makes of them.",
        ),
    ]
    shown = "\n".join(_figure(figure, caption) for figure, caption in figures)
    table = escape("\n".join(verdict_lines(verdict)))
    return f"<h2>Beside other policies</h2>\n{shown}\n<pre>{table}</pre>"


def sandwich_lines(verdict: dict[str, Any] | None) -> list[str]:
    """Between what bounds the information lies, and what J says, in words; none if not measured."""
    steps = {} if verdict is None else verdict.get("by_step", {})
    if not set(SANDWICH) <= set(steps):
        return []
    last = max(steps[LEARNED], key=int)
    low, high, own = (steps[name][last]["value"] for name in (LEARNED, ABOVE, POSTERIOR))
    return [
        f"Information about all parameters after {last} trials: between {low:.2f} and {high:.2f} "
        f"nats; the model's own posterior holds {own:.2f}."
    ]


def draw_steps(verdict: dict[str, Any], names: Mapping[str, str]) -> Figure:
    """Nats by trial, a curve each of those that were measured."""
    figure = canvas.figure(canvas.HALF, 0.7 * canvas.HALF)
    axes = figure.add_subplot(xlabel="trials", ylabel="nats")
    shown = {name: verdict["by_step"][name] for name in names if name in verdict["by_step"]}
    for (name, found), colour in zip(shown.items(), canvas.LINES, strict=False):
        steps = sorted(map(int, found))
        values = [found[str(step)]["value"] for step in steps]
        errors = [found[str(step)]["ci95"] for step in steps]
        axes.errorbar(steps, values, errors, color=colour, capsize=2, label=names[name])
    canvas.ruled(axes)
    canvas.legend_above(axes, 2)
    return figure


def _figure(figure: Figure, caption: str) -> str:
    return f"<figure>{canvas.to_svg(figure)}\n<figcaption>{escape(caption)}</figcaption></figure>"


def draw_ranks(one: dict[str, Any]) -> Figure:
    """A histogram a parameter, and one of all together, with the band."""
    together = {} if one["joint"] is None else {"together": one["joint"]["ranks"]}
    histograms = {**one["ranks"], **together}
    rows = -(-len(histograms) // COLUMNS)
    figure = canvas.figure(canvas.WIDE, HEIGHT * rows)
    for place, (name, counts) in enumerate(histograms.items(), 1):
        axes = figure.add_subplot(rows, COLUMNS, place, title=name)
        edges = [(k + 0.5) / len(counts) for k in range(len(counts))]
        axes.axhspan(*one["band"], color=canvas.FAINT, linewidth=0)
        axes.bar(edges, counts, width=0.9 / len(counts), color=canvas.POSTERIOR)
        axes.set_xlim(0, 1)
    return figure


def draw_coverage(one: dict[str, Any]) -> Figure:
    """A curve a parameter, beside the diagonal."""
    figure = canvas.figure(canvas.HALF, canvas.HALF)
    axes = figure.add_subplot(xlabel="level", ylabel="coverage", xlim=(0, 1), ylim=(0, 1))
    axes.plot([0, 1], [0, 1], color=canvas.MUTED, linewidth=0.8)
    for place, (name, values) in enumerate(one["coverage"].items()):
        colour = canvas.LINES[place % len(canvas.LINES)]
        axes.plot(one["levels"], values, marker="o", markersize=3, color=colour, label=name)
    canvas.legend_above(axes, 2)
    return figure


def draw_information(gains: list[tuple[Any, Any, Any]]) -> Figure:
    """J by trial, with its interval."""
    figure = canvas.figure(canvas.HALF, 0.7 * canvas.HALF)
    axes = figure.add_subplot(xlabel="trials", ylabel="nats")
    for steps, values, errors in gains:
        axes.errorbar(steps, values, errors, color=canvas.POSTERIOR, capsize=2, label="J")
    canvas.ruled(axes)
    return figure


def _gains(result: dict[str, Any], target: str) -> Iterator[tuple[Any, Any, Any]]:
    rows = [row for row in result["rows"] if (row["target"], row["metric"]) == (target, "j")]
    if rows:
        found = sorted((row["step"], row["value"], row["ci95"]) for row in rows)
        steps, values, errors = zip(*found, strict=True)
        yield steps, values, errors
