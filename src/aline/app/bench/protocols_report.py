"""The table and the figures of the protocols, made from their file alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from aline.app.bench.bed_report import NAMES, measured_cell, published_cell
from aline.app.bench.bench import Result, Row
from aline.app.bench.published import PROTOCOLS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEADINGS = (
    "",
    "sPCE",
    "published",
    "sNMC",
    "published",
    "bounds with draws from q",
    "J of all parameters",
    "exact",
    "gap of q, joint / largest marginal",
    "coverage of 50 / 90 / 95 %",
    "training, hours",
    "episodes",
)
OURS = {"aline": "aline, on offer", "aline-box": "aline, any design"}
RANDOM = {"random": "random", "random-normal": "random, N(0, I)"}
OTHERS = {
    **NAMES,
    "badapted": "Badapted",
    "frye": "Frye",
    "idad": "iDAD",
    "kirby": "Kirby",
    "polar": "POLAR",
    "smc": "SMC",
}
LEVELS = (50, 90, 95)
TOLERANCE = 3  # points of coverage
Found = Mapping[str, Row]
"""The rows of one method on one task, by metric."""


def markdown(result: Result) -> str:
    """A table a task with what is to be known of it, and the notes."""
    lines: list[str] = []
    for task in _tasks(result):
        known, about = PROTOCOLS[task], result["data"].get(task, {}).get("methods", {})
        lines += [f"### {known.title}", "", *_table(_methods(result, task)), ""]
        lines += [f"- {line}" for line in _facts(about)]
        lines += [f"- published: {known.note}"] * bool(known.note) + [""]
    lines += [
        "Nats, with 95 % intervals over episodes. Coverage is the mean over parameters, with the "
        "parameter farthest off in brackets. J is by q alone. Every method on a task meets the "
        "same truths and luck. Others' figures are as published.",
        "",
        *(f"- {note}" for note in result.get("notes", [])),
    ]
    return "\n".join(lines) + "\n"


def _tasks(result: Result) -> list[str]:
    """In the order of the protocols, whenever each was measured."""
    present = {row["task"] for row in result["rows"]}
    return [task for task in PROTOCOLS if task in present]


def _methods(result: Result, task: str) -> dict[str, Found]:
    """Ours, random designs, and others by what they reached."""
    rows = [row for row in result["rows"] if row["task"] == task]
    found = {
        method: {row["metric"]: row for row in rows if row["method"] == method}
        for method in {row["method"] for row in rows}
    }
    return dict(sorted(found.items(), key=lambda one: _rank(*one)))


def _rank(method: str, found: Found) -> tuple[int, float, str]:
    group = 0 if method in OURS else 1 if method in RANDOM else 2
    lower = [found[metric]["published"] for metric in ("spce", "j") if metric in found]
    best = max((value for value in lower if value is not None), default=0.0)
    return group, -best if group == 2 else 0.0, method


def _table(methods: Mapping[str, Found]) -> Iterator[str]:
    yield "| " + " | ".join(HEADINGS) + " |"
    yield "|" + "---|" * len(HEADINGS)
    for method, found in methods.items():
        yield "| " + " | ".join(_cells(method, found)) + " |"


def _cells(method: str, found: Found) -> Iterator[str]:
    yield name_of(method)
    yield measured_cell(found, "spce")
    yield published_cell(found, "spce")
    yield measured_cell(found, "snmc")
    yield published_cell(found, "snmc")
    pair = [measured_cell(found, metric) for metric in ("ace", "vnmc")]
    yield " to ".join(pair) if all(pair) else ""
    yield _j_cell(found)
    yield measured_cell(found, "exact")
    yield _gap_cell(found)
    yield _coverage_cell(found)
    yield measured_cell(found, "training_hours")
    yield str(found["j"]["n"]) if "j" in found and found["j"]["n"] else ""


def name_of(method: str) -> str:
    """A method as a reader knows it."""
    return OURS.get(method) or RANDOM.get(method) or OTHERS.get(method, method)


def _j_cell(found: Found) -> str:
    reported = published_cell(found, "j")
    return measured_cell(found, "j") or (f"({reported} published)" if reported else "")


def _gap_cell(found: Found) -> str:
    if "gap:joint" not in found:
        return ""
    single = [
        row["value"]
        for metric, row in found.items()
        if metric.startswith("gap:") and metric != "gap:joint"
    ]
    return f"{measured_cell(found, 'gap:joint')} / {max(single):.2f}"


def _coverage_cell(found: Found) -> str:
    parts = []
    for level in LEVELS:
        points = [100 * value for value in _coverages(found, level).values()]
        if not points:
            return ""
        worst = max(points, key=lambda value: abs(value - level))
        parts.append(f"{sum(points) / len(points):.0f} ({worst:.0f})")
    return " / ".join(parts)


def _coverages(found: Found, level: int) -> dict[str, float]:
    """By parameter."""
    prefix = f"coverage{level}:"
    return {
        metric.removeprefix(prefix): row["value"]
        for metric, row in found.items()
        if metric.startswith(prefix)
    }


def _facts(about: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """How each method was measured."""
    for method, fact in about.items():
        draws = ""
        if fact["contrastive"] is not None:
            draws = f"; L = {fact['contrastive']:,}, {fact['adaptive']:,} draws from q"
        yield f"{name_of(method)}: {fact['chosen_from']}{draws}; commit {fact['commit']}"
        if method in OURS and fact["trained"]:
            yield f"{name_of(method)} was trained by `{fact['trained']}`"


# Figures.


def figures(result: Result) -> Mapping[str, Figure]:
    """One a task: information, designs and coverage."""
    data = result["data"]
    return {
        task: _draw(_methods(result, task), data.get(task, {}).get("methods", {}))
        for task in _tasks(result)
    }


def _draw(methods: Mapping[str, Found], about: Mapping[str, Mapping[str, Any]]) -> Figure:
    from aline.app.plots.canvas import WIDE, figure, styled

    with styled():
        drawn = figure(WIDE, 3.0, gap=0.05)
        information, designs, coverage = drawn.subplots(1, 3)
        _draw_information(information, methods)
        ours = [method for method in methods if method in OURS]
        if ours:
            _draw_designs(designs, about[ours[-1]])
            _draw_coverage(coverage, methods[ours[-1]])
    return drawn


def _draw_information(axes: Axes, methods: Mapping[str, Found]) -> None:
    """What was measured here, and diamonds for what was published."""
    from aline.app.plots.canvas import INK, MUTED, POSTERIOR

    for place, found in enumerate(methods.values()):
        height = -place
        if "ace" in found:
            pair = [found[metric]["value"] for metric in ("ace", "vnmc")]
            axes.plot(pair, [height] * 2, color=POSTERIOR, linewidth=9, alpha=0.3)
        for metric, style in {"spce": "o", "j": "|"}.items():
            row = found.get(metric)
            if row is not None and row["value"] is not None:
                axes.plot(row["value"], height, style, color=POSTERIOR, markersize=6)
            if row is not None and row["published"] is not None:
                axes.plot(row["published"], height, "D", color=MUTED, markersize=4)
    axes.set_yticks([-i for i in range(len(methods))], [name_of(method) for method in methods])
    axes.tick_params(axis="y", colors=INK)
    axes.margins(y=0.1 if len(methods) > 2 else 0.3)
    axes.set_title("nats: ● sPCE, | J, ▬ bounds by q, ◆ published", fontsize=8, x=-0.3)


def _draw_designs(axes: Axes, about: Mapping[str, Any]) -> None:
    """By trial where there is one axis, else in two of the axes."""
    from aline.app.plots.canvas import SHADES

    points = [
        (trial, *x) for one in about["designs"] for trial, x in enumerate(one, 1)
    ]  # (trial, first axis[, second axis])
    trials = [point[0] for point in points]
    columns = list(zip(*points, strict=True))
    across, along = columns[-2:]
    axes.scatter(across, along, c=trials, cmap=SHADES, s=7, alpha=0.6, linewidths=0)
    names = ["trial", *about["axes"]]
    axes.set_xlabel(names[-2])
    axes.set_ylabel(names[-1])
    axes.set_title(f"designs of {len(about['designs'])} experiments")


def _draw_coverage(axes: Axes, found: Found) -> None:
    """Of each parameter, in points beside the nominal level."""
    from aline.app.plots.canvas import FAINT, MUTED

    axes.axhspan(-TOLERANCE, TOLERANCE, color=FAINT)
    axes.axhline(0, color=MUTED, linewidth=0.7)
    for name in _coverages(found, LEVELS[0]):
        beside = [100 * _coverages(found, level)[name] - level for level in LEVELS]
        axes.plot(range(len(LEVELS)), beside, marker="o", markersize=4, linewidth=1, label=name)
    axes.set_xticks(range(len(LEVELS)), [f"{level} %" for level in LEVELS])
    axes.set_title("coverage, points beside nominal")
    axes.legend()
