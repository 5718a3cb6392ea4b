"""How good a model is: an evaluation's result as tables to read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from aline.app.subject import Subject
from aline.app.tables import aligned, duration
from aline.errors import StateError
from aline.evaluation import Protocol, evaluate, evaluate_information
from aline.evaluation.gap import steps_of
from aline.evaluation.judge import LONGEST, SHORTEST, judge, with_verdict

Row = dict[str, Any]

MANY = 500  # simulated experiments that a figure to be quoted takes
FEWEST, FEW = 2, 8  # those that show how long one takes
QUICK = 2.0  # seconds below which the first pilot shows mostly how long a start takes
PILOT_FROM = 50  # episodes from which on a first estimate of the time pays
SECONDS = 45.0  # that an evaluation takes where nobody says how many; the rest of a minute is room
GROWTH = 2.2  # how much longer one of many may take than one of few
LINE_SECONDS = 10.0  # between lines where there is no terminal

# A kind of metric: its heading, and how many decimals show its values.
_KINDS = {
    "gap": ("gap to the exact posterior, nats: the mean of log p_exact − log q of the truth", 3),
    "coverage": ("coverage of the 90 % interval: how often it holds the truth", 2),
    "rmse": ("RMSE: of the targets' posterior means, and of the posterior (mean over targets)", 3),
    "posterior_rmse": ("", 3),
    "refined_coverage": ("coverage of the refined posterior (experiment.refined())", 2),
    "refined_rmse": ("RMSE of the refined posterior", 3),
    "refined_posterior_rmse": ("", 3),
    "j": ("nats gained about the targets: J, and the bounds that need a likelihood", 2),
    "refined_j": ("", 2),
    "spce": ("", 2),
    "snmc": ("", 2),
    "ace": ("", 2),
    "vnmc": ("", 2),
}
_NAMES = {
    "rmse": "mean",
    "posterior_rmse": "posterior",
    "refined_rmse": "mean",
    "refined_posterior_rmse": "posterior",
    "j": "J",
    "refined_j": "J of the refined posterior",
    "spce": "sPCE, from below",
    "snmc": "sNMC, from above",
    "ace": "the same with draws from q, from below",
    "vnmc": "the same with draws from q, from above",
}


class Pace(NamedTuple):
    """How long evaluations take, by the largest that was run."""

    result: dict[str, Any]
    experiments: int
    seconds: float
    each: float  # seconds that one more experiment takes

    def expected(self, count: int) -> float:
        """The seconds that so many take; of what starts before the first, much is there once."""
        return self.seconds + self.each * (count - self.experiments)

    def within(self, seconds: float) -> int:
        """How many fit into so many seconds, with room to be wrong."""
        more = (seconds / GROWTH - self.seconds) / max(self.each, 1e-6)
        return max(self.experiments, min(MANY, self.experiments + int(more)))


def measure(subject: Subject, episodes: int | None, seed: int, refined: bool) -> Pace:
    """Evaluate on so many simulated experiments, or on as many as fit into a minute.

    Pilots tell how long it takes, which is said before it begins.
    """

    def run(count: int, told: Callable[[int, int], None] | None = None) -> dict[str, Any]:
        return evaluate(subject.model, subject.task, count, seed, told, refined=refined)

    began, pace = time.monotonic(), None
    if episodes is None or episodes >= PILOT_FROM:
        pace = _piloted(run)
        episodes = episodes or pace.within(SECONDS - (time.monotonic() - began))
        if episodes <= pace.experiments:
            return pace
    expected = None if pace is None else pace.expected(episodes)
    with _Eta(f"evaluating {subject.name}", episodes, expected) as eta:
        started = time.monotonic()
        result = run(episodes, eta.tell)
        seconds = time.monotonic() - started
    return Pace(result, episodes, seconds, _each(pace, episodes, seconds))


def _piloted(run: Callable[[int], dict[str, Any]]) -> Pace:
    """A small evaluation, and a larger one if that is quick enough."""
    first = _timed(run, FEWEST)
    if first.seconds < QUICK:  # mostly how long a start takes, the first time
        first = _timed(run, FEWEST)
    if first.seconds * FEW / FEWEST > SECONDS / 2:
        return first
    second = _timed(run, FEW)
    return second._replace(each=_each(first, FEW, second.seconds))


def _timed(run: Callable[[int], dict[str, Any]], count: int) -> Pace:
    began = time.monotonic()
    result = run(count)
    seconds = time.monotonic() - began
    return Pace(result, count, seconds, seconds / count)


def _each(before: Pace | None, count: int, seconds: float) -> float:
    """What one more takes, by a smaller and a larger evaluation."""
    if before is None or count <= before.experiments:
        return seconds / count
    return max((seconds - before.seconds) / (count - before.experiments), 0.1 * seconds / count)


def more_lines(pace: Pace, command: str) -> list[str]:
    """How to get narrower intervals, and how long that takes; nothing if there are many already."""
    if pace.experiments >= MANY:
        return []
    return [
        "",
        f"{pace.experiments} simulated experiments took {duration(pace.seconds)}. For narrower "
        f"intervals: {command} --episodes {MANY} (about {duration(pace.expected(MANY))})",
    ]


def bound(
    subject: Subject, contrastive: int, episodes: int, pool: int | None, seed: int
) -> dict[str, Any]:
    """Bound what the model's experiments tell, on the task's protocol.

    The adaptive pair of bounds takes a hundredth of the draws.
    """
    spec = subject.model.spec
    protocol = Protocol(episodes, spec.horizon, spec.start, pool, seed)
    with _bar(f"evaluating {subject.name}") as tell:
        return evaluate_information(
            subject.model, subject.task, protocol, contrastive, contrastive // 100, tell
        )


def compare(subject: Subject, episodes: int, seed: int, record: bool) -> dict[str, Any]:
    """The learned policy beside others, as a verdict; kept in the model's card if wanted."""
    if record and subject.model.source is None:
        raise StateError("the model has no folder yet: save it before its verdict is kept")
    with _bar(f"judging {subject.name}") as tell:
        verdict = judge(
            subject.model,
            subject.task,
            seconds=LONGEST,
            episodes=episodes,
            seed=seed,
            progress=tell,
        )
    if record and subject.model.source is not None:
        with_verdict(subject.model, verdict).save(subject.model.source)
    return verdict.to_json()


def compare_by_step(subject: Subject, seconds: float, seed: int) -> dict[str, Any]:
    """The same after several numbers of trials, in about so many seconds: for a report."""
    with _bar(f"judging {subject.name}") as tell:
        verdict = judge(
            subject.model,
            subject.task,
            seconds=min(LONGEST, max(SHORTEST, seconds)),
            seed=seed,
            progress=tell,
            steps=steps_of(subject.model.spec),
        )
    return verdict.to_json()


class _Eta:
    """Says how long an evaluation takes: a bar, or lines where there is no terminal."""

    def __init__(self, name: str, episodes: int, expected: float | None):
        self.name, self.episodes, self.expected = name, episodes, expected
        self.is_terminal = sys.stderr.isatty()
        self.began = self.said = time.monotonic()

    def __enter__(self) -> _Eta:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        if self.expected is not None and not self.is_terminal:
            about = f"about {duration(self.expected)}"
            print(f"{self.name}: {self.episodes} simulated experiments, {about}", file=sys.stderr)
        columns = [TextColumn("{task.description}"), BarColumn(), _left_column(self)]
        self.bar = Progress(
            *columns, console=Console(stderr=True), transient=True, disable=not self.is_terminal
        )
        self.bar.start()
        self.task = self.bar.add_task(f"{self.name}, {self.episodes} experiments", total=None)
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def tell(self, done: int, total: int) -> None:
        """So many of so many are done."""
        self.bar.update(self.task, completed=done, total=total)
        elapsed = time.monotonic() - self.began
        if self.expected is None and done:
            self.expected = elapsed * total / done
        if not self.is_terminal and time.monotonic() - self.said > LINE_SECONDS:
            self.said = time.monotonic()
            print(f"{self.name}: {done / total:.0%}, {self.left()}", file=sys.stderr)

    def left(self) -> str:
        """How long it still takes, in words."""
        elapsed = time.monotonic() - self.began
        if self.expected is None:
            return f"{duration(elapsed)} so far"
        return f"about {duration(max(self.expected - elapsed, 1.0))} left"


def _left_column(eta: _Eta) -> Any:
    """A column of the bar that counts down by itself."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Left(ProgressColumn):
        def render(self, task: object) -> Text:
            return Text(eta.left())

    return Left()


@contextmanager
def _bar(name: str) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar where someone is looking."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        work = bar.add_task(name, total=None)
        yield lambda what, done, total: bar.update(
            work, description=f"{name}: {what}", completed=done, total=total
        )


def score_lines(result: dict[str, Any]) -> list[str]:
    """A table a target: a line a metric and parameter, a column a number of trials."""
    rows: list[Row] = result["rows"]
    lines: list[str] = []
    for target in dict.fromkeys(row["target"] for row in rows):
        mine = [row for row in rows if row["target"] == target]
        count = max(row["n"] for row in mine)
        lines.append(f"Aimed at {target.replace(',', ', ')}: {count} simulated experiments")
        lines += [*_table(mine), ""]
    return [*lines, *_largest_gap(rows), *calibration_lines(result), *result.get("notes", [])]


def calibration_lines(result: dict[str, Any]) -> Iterator[str]:
    """The verdict on each goal's calibration, a line a test."""
    for one in result.get("calibration", []):
        goal = one["target"].replace(",", ", ")
        yield f"Calibration aimed at {goal}, after {one['step']} trials:"
        yield from (f"  {line}" for line in one["verdict"])


def _table(rows: list[Row]) -> list[str]:
    """Headings between aligned lines: they may be longer than the columns."""
    steps = sorted({row["step"] for row in rows})
    cells: list[list[str]] = []
    headings: dict[int, str] = {}
    for kind, (heading, digits) in _KINDS.items():
        names = [name for name in _metrics(rows) if name.partition(":")[0] == kind]
        if names and heading:
            headings[len(cells)] = heading
        cells += [_line(rows, name, steps, digits) for name in names]
    if any(line[-1] for line in cells):
        table = aligned(["trials", *map(str, steps), "paper"], cells)
    else:
        table = aligned(["trials", *map(str, steps)], [line[:-1] for line in cells])
    lines = table[:2]
    for i, line in enumerate(table[2:]):
        lines += [headings[i]] if i in headings else []
        lines.append(line)
    return lines


def _metrics(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["metric"] for row in rows))


def _line(rows: list[Row], metric: str, steps: list[int], digits: int) -> list[str]:
    found = {row["step"]: row for row in rows if row["metric"] == metric}
    values = [_value(found[step], digits) if step in found else "" for step in steps]
    published = [row["published"] for row in found.values() if row["published"] is not None]
    paper = f"{published[-1]:g}" if published else ""
    name = metric.partition(":")[2] or _NAMES.get(metric, metric)
    return [f"  {name}", *values, paper]


def _value(row: Row, digits: int) -> str:
    """A value with the half width of its interval, unless it is exact."""
    text = f"{row['value']:z.{digits}f}"  # z: no minus sign before a zero
    return f"{text}±{row['ci95']:.{digits}f}" if row["n"] else text


def _largest_gap(rows: list[Row]) -> Iterator[str]:
    gaps = [row for row in rows if row["metric"].startswith("gap:")]
    if gaps:
        worst = max(gaps, key=lambda row: row["value"])
        name = worst["metric"].partition(":")[2]
        yield (
            f"The largest gap is {_value(worst, 3)} nats, of {name} after {worst['step']} trials "
            f"aimed at {worst['target'].replace(',', ', ')}."
        )
