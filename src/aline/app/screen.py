"""A demonstration in the terminal: a line a trial, and a summary against the truth."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aline.app.demo import Demo, Function, default_target
from aline.app.record import PriorBelief, Step, aimed_at, prior_beliefs, targeted
from aline.app.scales import Seen, on_scale
from aline.app.tables import aligned, number
from aline.app.words import REFINED_FIRST, ROUGH_ONE, result, scene, title
from aline.experiment import Experiment
from aline.tasks import PREDICTIONS, Spec

GAP = "  "
SHORTEST_BAR, LONGEST_BAR = 9, 25
ERROR = "RMSE of f"  # a column: how far predictions are from the function
ROWS = 9  # designs at which a function is shown


@dataclass(frozen=True)
class Column:
    """A heading and how wide the cells under it are."""

    title: str
    width: int

    def cell(self, text: str) -> str:
        """Flush right."""
        return text.rjust(self.width)


class TrialTable:
    """The lines of a demo, for a terminal of `width` columns.

    Parameters that do not fit are left out; room to spare becomes a bar that shows the interval
    within the prior's.
    """

    def __init__(self, spec: Spec, target: Sequence[str], width: int):
        self.spec = spec
        self.prior = prior_beliefs(spec.parameters)
        self.columns = [Column("trial", 5)]
        for name, axis in spec.design.axes.items():
            longest = max(len(axis.text(value)) for value in axis.values or (axis.low, axis.high))
            self.columns.append(Column(name, max(len(name), longest)))
        heading, width_of_text = spec.outcome.heading, spec.outcome.text_width
        self.columns.append(Column(heading, max(len(heading), width_of_text)))
        self.shows_error = PREDICTIONS in target and not aimed_at(spec, target)
        if self.shows_error:
            self.columns.append(Column(ERROR, len(ERROR)))
        shown = {name: on_scale(name, prior) for name, prior in self.prior.items()}
        self.scales, self.prior = shown, {name: one.prior for name, one in shown.items()}
        self.names, self.bars = self._fit(targeted(spec, target), width)

    def _fit(self, names: Sequence[str], width: int) -> tuple[list[str], dict[str, int]]:
        """The parameters there is room for, and how wide a bar each has; the first come first."""
        left = width - sum(column.width + len(GAP) for column in self.columns)
        kept: list[str] = []
        for name in names:
            need = self._belief_width(name) + len(GAP)
            if kept and need > left:
                break
            kept.append(name)
            left -= need
        count = min(len(kept), left // (SHORTEST_BAR + 1))
        bar = min(LONGEST_BAR, left // max(1, count) - 1)
        return kept, {name: bar if i < count else 0 for i, name in enumerate(kept)}

    def _number_width(self, name: str) -> int:
        low, high = self.prior[name].interval
        return max(len(number(edge, high - low)) for edge in (low, high))

    def _belief_width(self, name: str) -> int:
        """Of "mean [low, high]"."""
        return max(3 * self._number_width(name) + 5, len(self.scales[name].label))

    def header(self) -> list[str]:
        """Names of the columns, and what the numbers under a parameter are."""
        cells = [column.cell(column.title) for column in self.columns]
        titles = ((self.scales[name].label, self._group_width(name)) for name in self.names)
        names = [*cells, *(title.ljust(width) for title, width in titles)]
        blank = [" " * column.width for column in self.columns]
        what = [self._explain(name) for name in self.names]
        return [GAP.join(names).rstrip(), GAP.join([*blank, *what]).rstrip()]

    def _group_width(self, name: str) -> int:
        return self._belief_width(name) + (self.bars[name] + 1 if self.bars[name] else 0)

    def _explain(self, name: str) -> str:
        mean = "mean".rjust(self._number_width(name))
        return f"{mean} 95 % interval".ljust(self._group_width(name))

    def line(self, step: Step) -> str:
        """One trial."""
        if step.outcome is None:
            values = ["start", *("" for _ in self.spec.design.names), ""]
        else:
            axes = self.spec.design.axes.items()
            designs = [axis.text(step.design[name]) for name, axis in axes]
            values = [str(step.number), *designs, self.spec.outcome.text(step.outcome)]
        if self.shows_error:
            values.append("" if step.error is None else f"{step.error:.4f}")
        cells = [column.cell(v) for column, v in zip(self.columns, values, strict=True)]
        return GAP.join([*cells, *(self._belief(step, name) for name in self.names)]).rstrip()

    def _belief(self, step: Step, name: str) -> str:
        prior, seen = self.prior[name], self.scales[name].belief(step)
        span, width = prior.interval[1] - prior.interval[0], self._number_width(name)
        low, high = (number(edge, span).rjust(width) for edge in seen.interval)
        text = f"{number(seen.mean, span).rjust(width)} [{low}, {high}]"
        text = text.ljust(self._belief_width(name))
        bar = self.bars[name]
        return f"{text} {interval_bar(seen, prior, bar)}" if bar else text


class DemoScreen:
    """Shows a demo as it happens."""

    def __init__(
        self, spec: Spec, target: Sequence[str] | None, say: Callable[..., None], width: int
    ):
        self.spec, self.say, self.width = spec, say, width
        self.table = TrialTable(spec, target or default_target(spec), width)

    def show(self, step: Step) -> None:
        """One trial; before the first, what is about to happen."""
        if step.number == 0:
            self._open()
        self.say(self.table.line(step), dim=True if step.outcome is None else None)

    def _open(self) -> None:
        self.say(title(self.spec), bold=True)
        self.say(textwrap.fill(scene(self.spec), self.width))
        self.say()
        for line in self.table.header():
            self.say(line, bold=True)

    def close(self, demo: Demo) -> None:
        """The result against the truth."""
        milliseconds = 1000 * demo.seconds_per_trial
        self.say("\nAgainst the truth (→ was aimed at)", bold=True)
        if demo.function is not None:
            for line in function_table(demo.function, demo.experiment):
                self.say(line)
            self.say()
        if demo.refined is not None:
            self.say(textwrap.fill(REFINED_FIRST, self.width), bold=True)
            for line in summary(demo, demo.refined):
                self.say(line)
            self.say("\n" + textwrap.fill(ROUGH_ONE, self.width), bold=True)
        for line in summary(demo, demo.last):
            self.say(line)
        self.say()
        self.say(textwrap.fill(result(demo), self.width))
        self.say(
            f"Choosing a design and updating the posterior took {milliseconds:.1f} ms a trial."
        )


def interval_bar(seen: Seen, prior: PriorBelief, width: int) -> str:
    """The interval and the mean as marks on a line that spans the prior's interval."""
    low, high = prior.interval

    def place(value: float) -> int:
        return round(min(1.0, max(0.0, (value - low) / (high - low))) * (width - 1))

    marks = ["·"] * width
    first, last = (place(edge) for edge in seen.interval)
    marks[first : last + 1] = "━" * (last + 1 - first)
    marks[place(seen.mean)] = "●"
    return "".join(marks)


def summary(demo: Demo, step: Step) -> list[str]:
    """Every parameter at a step, against the truth."""
    header = ["", "truth", "mean", "95 % interval", "prior sd", "posterior sd", "truth is"]
    rows = []
    for name in (*demo.shown, *(n for n in demo.spec.parameters.labels if n not in demo.shown)):
        scale = on_scale(name, demo.prior[name])
        prior, seen = scale.prior, scale.belief(step)
        first, last = seen.interval
        span = min(prior.interval[1] - prior.interval[0], 20 * (last - first) or math.inf)
        low, high = (number(edge, span) for edge in (first, last))
        numbers = [scale.of(demo.truth[name]), seen.mean, prior.std, seen.std]
        truth, mean, before, after = (number(value, span) for value in numbers)
        verdict = "inside" if demo.holds_truth(name, step) else "outside"
        mark = "→ " if name in demo.aimed else "  "
        rows.append(
            [
                f"{mark}{demo.spec.label(name) if scale.label == name else scale.label}",
                truth,
                mean,
                f"[{low}, {high}]",
                before,
                after,
                verdict,
            ]
        )
    return aligned(header, rows)


def function_table(function: Function, experiment: Experiment) -> list[str]:
    """The function, its prediction and the error, at designs in the order of the first axis."""
    count = len(function.truth)
    order = sorted(range(count), key=next(iter(function.designs.values())).__getitem__)
    rows = [order[round(i * (count - 1) / (ROWS - 1))] for i in range(ROWS)]
    designs = {name: [column[row] for row in rows] for name, column in function.designs.items()}
    predicted = experiment.predict(designs).parts["outcome"]
    means, sds = (list(map(float, part)) for part in (predicted.mean, predicted.std))
    span = max(max(function.truth.tolist()) - min(function.truth.tolist()), 1e-9)
    cells = []
    for i, row in enumerate(rows):
        truth = float(function.truth[row])
        values = [number(v, span) for v in (truth, means[i], means[i] - truth, sds[i])]
        shown = (column[i] for column in designs.values())
        cells.append([*(v if isinstance(v, str) else f"{v:.2f}" for v in shown), *values])
    return aligned([*designs, "→ function", "prediction", "error", "its sd"], cells, left=0)
