"""A demonstration as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from aline import __version__
from aline.app.card import facts_of
from aline.app.demo import Demo, Step
from aline.app.plots import Plate, plates
from aline.app.plots.canvas import css_variables, to_svg
from aline.app.tables import design_cell, typeset
from aline.app.words import REFINED, explanation, heading
from aline.files import write_atomically


def write_report(demo: Demo, path: Path, command: str) -> Path:
    """Write the report of a demo; `command` is what made it."""
    write_atomically(path, render(demo, command).encode())
    return path


def render(demo: Demo, command: str) -> str:
    """The page as text."""
    template = Template(files("aline.app").joinpath("report.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(f"aline: {demo.spec.name}, {len(demo.steps) - 1} trials"),
        light=css_variables(dark=False),
        dark=css_variables(dark=True),
        kicker=escape(f"aline demo · {demo.spec.name} · seed {demo.seed}"),
        heading=escape(heading(demo)),
        explanation="\n".join(f"<p>{escape(text)}</p>" for text in explanation(demo)),
        cards="\n".join(_card(demo, name) for name in demo.shown),
        figures="\n".join(_figure(plate) for plate in plates(demo)),
        summary=_summary_table(demo, demo.last),
        refined="" if demo.refined is None else _refined(demo, demo.refined),
        trials=_trial_table(demo),
        facts=_definitions(_facts(demo, command)),
        version=escape(__version__),
    )


def _card(demo: Demo, name: str) -> str:
    """The final belief about one parameter, in large type."""
    span = _span(demo, name)
    low, high = (typeset(edge, span) for edge in demo.last.interval[name])
    holds = demo.holds_truth(name)
    verdict = "inside the interval" if holds else "outside the interval"
    return (
        f'<div class="card"><span>{escape(demo.spec.label(name))}</span>'
        f"<b>{typeset(demo.last.mean[name], span)}</b>"
        f"<span>95 % interval {low} to {high}</span>"
        f'<span class="{"hit" if holds else "miss"}">truth {typeset(demo.truth[name], span)}, '
        f"{verdict}</span></div>"
    )


def _figure(plate: Plate) -> str:
    kind = ' class="wide"' if plate.is_wide else ""
    svg = to_svg(plate.figure).replace(
        "<svg", f'<svg role="img" aria-label="{escape(plate.title)}"', 1
    )
    return (
        f'<figure id="{plate.name}"{kind}>\n<h2>{escape(plate.title)}</h2>\n'
        f"<figcaption>{escape(plate.caption)}</figcaption>\n"
        f'<div class="canvas">{svg}</div>\n</figure>'
    )


def _refined(demo: Demo, step: Step) -> str:
    return f"<p>{escape(REFINED)}</p>\n{_summary_table(demo, step)}"


def _summary_table(demo: Demo, step: Step) -> str:
    header = ["parameter", "truth", "prior sd", "posterior sd", "mean", "95 % interval", "truth is"]
    rows = []
    for name in demo.spec.parameters.labels:
        span = _span(demo, name)
        values = [demo.truth[name], demo.prior[name].std, step.std[name], step.mean[name]]
        rows.append(
            [
                demo.spec.label(name) + (" (target)" if name in demo.shown else ""),
                *(typeset(value, span) for value in values),
                _interval(step.interval[name], span),
                "inside" if demo.holds_truth(name, step) else "outside",
            ]
        )
    return _table(header, rows)


def _trial_table(demo: Demo) -> str:
    spec = demo.spec
    header = ["trial", *map(spec.label, spec.design.names), "outcome"]
    for name in demo.shown:
        header += [f"{name}", "95 % interval"]
    rows = []
    for step in demo.steps[1:]:
        assert step.outcome is not None
        row = [str(step.number)]
        row += [design_cell(axis, step.design[name]) for name, axis in spec.design.axes.items()]
        row.append(spec.outcome.text(step.outcome).replace("-", "−"))
        for name in demo.shown:
            span = _span(demo, name)
            row += [typeset(step.mean[name], span), _interval(step.interval[name], span)]
        rows.append(row)
    return _table(header, rows)


def _facts(demo: Demo, command: str) -> dict[str, str]:
    milliseconds = 1000 * demo.seconds_per_trial
    return {
        "command": command,
        "seed": str(demo.seed),
        "aimed at": ", ".join(demo.target),
        "a trial took": f"{milliseconds:.1f} ms to choose the design and update the posterior",
        **facts_of(demo.subject.model),
    }


def _span(demo: Demo, name: str) -> float:
    low, high = demo.prior[name].interval
    return high - low


def _interval(interval: Sequence[float], span: float) -> str:
    return " to ".join(typeset(edge, span) for edge in interval)


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _definitions(facts: dict[str, str]) -> str:
    return "\n".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
