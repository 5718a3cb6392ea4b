"""An experiment, or a demonstration of one, as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from aline import __version__
from aline.app.card import facts_of
from aline.app.demo import Demo
from aline.app.pages import page
from aline.app.plots import Plate, plates
from aline.app.plots.canvas import to_svg
from aline.app.record import Record, Step
from aline.app.tables import design_cell, short, typeset
from aline.app.words import REFINED, explanation, heading, kicker, ordinal
from aline.experiment import Experiment
from aline.experiment.frames import note_names
from aline.files import write_atomically


def write_report(record: Record, path: Path, command: str) -> Path:
    """Write a report; `command` is what made it."""
    write_atomically(path, render(record, command).encode())
    return path


def render(demo: Record, command: str) -> str:
    """The page as text."""
    return page(
        "report.html",
        title=f"aline: {demo.spec.name}, {demo.last.number} trials",
        kicker=escape(kicker(demo)),
        heading=escape(heading(demo)),
        explanation="\n".join(f"<p>{escape(text)}</p>" for text in _said(demo)),
        cards="\n".join(_card(demo, name) for name in demo.shown),
        figures="\n".join(figure_block(plate) for plate in plates(demo)),
        summary=_summary_table(demo, demo.last),
        refined="" if demo.refined is None else _refined(demo, demo.refined),
        which=escape(_which(demo)),
        trials=_trial_table(demo),
        facts=definitions(_facts(demo, command)),
        version=escape(__version__),
    )


def _said(demo: Record) -> list[str]:
    """What was found, and why not to believe it where there is a reason."""
    return [*explanation(demo), *(f"Warning: {text}" for text in demo.experiment.warnings)]


def _card(demo: Record, name: str) -> str:
    """The final belief about one parameter, in large type."""
    if shares := demo.last.probabilities.get(name):
        label, p = max(shares.items(), key=lambda one: one[1])
        truth = f"<span>truth {_true_value(demo, name)}</span>" if name in demo.truth else ""
        return (
            f'<div class="card"><span>{escape(name)}</span><b>{escape(label)}</b>'
            f"<span>probability {p:.3g}</span>{truth}</div>"
        )
    span = _span(demo, name)
    low, high = (typeset(edge, span) for edge in demo.last.interval[name])
    return (
        f'<div class="card"><span>{escape(demo.spec.label(name))}</span>'
        f"<b>{typeset(demo.last.mean[name], span)}</b>"
        f"<span>95 % interval {low} to {high}</span>{_against_truth(demo, name)}</div>"
    )


def _true_value(demo: Record, name: str) -> str:
    """The label of a discrete parameter's true value."""
    return escape(demo.spec.parameters.values_of(name)[round(demo.truth[name])])


def _words(shares: Mapping[str, float]) -> str:
    """The probabilities of a discrete parameter's values."""
    return ", ".join(f"{label} {p:.3g}" for label, p in shares.items())


def _against_truth(demo: Record, name: str) -> str:
    """Whether the interval holds the truth, where someone knows it."""
    if name not in demo.truth:
        return ""
    holds, truth = demo.holds_truth(name), typeset(demo.truth[name], _span(demo, name))
    verdict = "inside the interval" if holds else "outside the interval"
    return f'<span class="{"hit" if holds else "miss"}">truth {truth}, {verdict}</span>'


def figure_block(plate: Plate) -> str:
    """A figure with its words."""
    kind = ' class="wide"' if plate.is_wide else ""
    svg = to_svg(plate.figure).replace(
        "<svg", f'<svg role="img" aria-label="{escape(plate.title)}"', 1
    )
    return (
        f'<figure id="{plate.name}"{kind}>\n<h2>{escape(plate.title)}</h2>\n'
        f"<figcaption>{escape(plate.caption)}</figcaption>\n"
        f'<div class="canvas">{svg}</div>\n</figure>'
    )


def _refined(demo: Record, step: Step) -> str:
    return f"<p>{escape(REFINED)}</p>\n{_summary_table(demo, step)}"


def _summary_table(demo: Record, step: Step) -> str:
    header = ["parameter", "prior sd", "posterior sd", "mean", "95 % interval"]
    rows = []
    for name in demo.spec.parameters.labels:
        target = " (target)" if name in demo.shown else ""
        if shares := step.probabilities.get(name):
            row = [name + target, "", "", "", _words(shares)]
            rows.append(row + ([_true_value(demo, name), ""] if demo.truth else []))
            continue
        span = _span(demo, name)
        values = [demo.prior[name].std, step.std[name], step.mean[name]]
        row = [
            demo.spec.label(name) + target,
            *(typeset(value, span) for value in values),
            _interval(step.interval[name], span),
        ]
        if demo.truth:
            held = "inside" if demo.holds_truth(name, step) else "outside"
            row += [typeset(demo.truth[name], span), held]
        rows.append(row)
    return html_table([*header, "truth", "truth is"] if demo.truth else header, rows)


def _which(demo: Record) -> str:
    """Which trials the table has."""
    every = -(-demo.last.number // max(1, len(demo.steps) - 1))
    return "Every trial" if every <= 1 else f"Every {ordinal(every)} trial"


def _trial_table(demo: Record) -> str:
    spec = demo.spec
    header = ["trial", *map(spec.label, spec.design.names), "outcome"]
    for name in demo.shown:
        header += [f"{name}", "95 % interval"]
    notes = note_names(demo.told)
    header += notes
    rows = []
    for step in demo.steps[1:]:
        assert step.outcome is not None
        row = [str(step.number)]
        row += [design_cell(axis, step.design[name]) for name, axis in spec.design.axes.items()]
        row.append(spec.outcome.text(step.outcome).replace("-", "−"))
        for name in demo.shown:
            if name in step.probabilities:
                row += [max(step.probabilities[name].items(), key=lambda one: one[1])[0],
                        _words(step.probabilities[name])]  # fmt: skip
                continue
            span = _span(demo, name)
            row += [typeset(step.mean[name], span), _interval(step.interval[name], span)]
        beside = demo.told[step.number - 1].note or {}
        row += [_cell(beside.get(name)) for name in notes]
        rows.append(row)
    return html_table(header, rows)


def _cell(value: Any) -> str:
    """Something from a note."""
    if isinstance(value, float):
        return short(value)
    return "" if value is None else str(value)


def _facts(demo: Record, command: str) -> dict[str, str]:
    return {
        "made by": command,
        "aimed at": ", ".join(demo.target),
        **(_of_demo(demo) if isinstance(demo, Demo) else _of_experiment(demo.experiment)),
        **facts_of(demo.experiment.model),
    }


def _of_demo(demo: Demo) -> dict[str, str]:
    milliseconds = 1000 * demo.seconds_per_trial
    return {
        "seed": str(demo.seed),
        "a trial took": f"{milliseconds:.1f} ms to choose the design and update the posterior",
    }


def _of_experiment(experiment: Experiment) -> dict[str, str]:
    trials = experiment.trials
    count = {state: sum(t.state == state for t in trials) for state in ("asked", "abandoned")}
    attached = sum(trial.source == "attached" for trial in trials)
    counted = {"still open": count["asked"], "abandoned": count["abandoned"], "attached": attached}
    return {
        "experiment": experiment.name,
        "begun": f"{experiment.created[:16].replace('T', ' ')} UTC",
        "planned": f"{experiment.horizon} trials",
        "model": experiment.source or "not on disk",
        **{name: f"{number} trials" for name, number in counted.items() if number},
        **{name: str(value) for name, value in experiment.metadata.items()},
    }


def _span(demo: Record, name: str) -> float:
    low, high = demo.prior[name].interval
    return high - low


def _interval(interval: Sequence[float], span: float) -> str:
    return " to ".join(typeset(edge, span) for edge in interval)


def html_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of plain text."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def definitions(facts: dict[str, str]) -> str:
    """Facts by name, for a <dl>."""
    return "\n".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
