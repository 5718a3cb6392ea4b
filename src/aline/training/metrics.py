"""What a training shows and writes while it runs."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from aline.files import naming

if TYPE_CHECKING:
    from rich.progress import Progress

METRICS = "metrics.jsonl"
ROUNDS_A_LINE = 20
SECONDS_A_LINE = 5.0  # on stderr
FEWEST_ROUNDS = 50  # that a training needs to warm up
NOTHING = 0.02  # nats gained: less is what an experiment has that tells nothing


Line = dict[str, float | None]


class Metrics:
    """Averages over some rounds, a line of JSON each time, and a progress bar.

    Where there is no terminal, lines on stderr stand in for the bar.
    """

    def __init__(self, folder: Path | None):
        self.path = None if folder is None else folder / METRICS
        self.rows: list[Line] = []
        self.since = 0.0
        self.gain: float | None = None  # the last J: some lines have none of their own
        self._bar: Progress | None = None
        self._lines: Lines | None = None

    @contextmanager
    def shown(self, show: bool, name: str, is_timed: bool = False) -> Iterator[None]:
        """A progress bar, or lines, while the training runs; `is_timed` if a clock ends it."""
        # Imported only here: rich draws from Python's random numbers when it is imported.
        from rich.progress import (
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = [
            TextColumn("training {task.fields[name]}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[status]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        ]
        is_terminal = sys.stdout.isatty()
        if show:
            self._lines = Lines(name, is_timed, quiet=is_terminal)
        with Progress(*columns, disable=not (show and is_terminal)) as bar:
            bar.add_task("train", total=1.0, name=name, status="")
            self._bar = bar
            yield
        self._bar = self._lines = None

    def add(self, **row: float | None) -> None:
        """The numbers of one round."""
        self.rows.append(row)

    def write(self, round_: int, elapsed: float, progress: float) -> None:
        """Report a round: show it, and write those since the last line when there are enough."""
        if self._bar is None or not self.rows:
            return
        line = self._line(round_, elapsed)
        self._bar.update(self._bar.task_ids[0], completed=progress, status=status(line))
        if self._lines is not None:
            self._lines.show(line, progress)
        if len(self.rows) < ROUNDS_A_LINE and progress < 1:
            return
        self.rows, self.since = [], elapsed
        if self.path is not None:
            _append(self.path, json.dumps(line))

    def _line(self, round_: int, elapsed: float) -> Line:
        """The averages of the rounds since the last line."""
        line: Line = {"round": round_, "seconds": round(elapsed, 2)}
        for key in ("loss", "policy", "J"):
            values = [row[key] for row in self.rows]
            known = [value for value in values if value is not None]
            line[key] = round(sum(known) / len(known), 5) if known else None
        self.gain = line["J"] = self.gain if line["J"] is None else line["J"]
        episodes = sum(row["episodes"] or 0 for row in self.rows)
        line["episodes_per_second"] = round(episodes / max(elapsed - self.since, 1e-9), 1)
        return line


@dataclass
class Lines:
    """Lines on stderr: what a training says of itself without a terminal."""

    name: str
    is_timed: bool  # whether a clock ends it
    quiet: bool = False  # whether a bar shows how it goes, and only warnings are wanted
    began: float = field(default_factory=time.monotonic)
    said: float = -math.inf  # when the last line was written
    rounds: int = 0
    has_complained: bool = False

    def show(self, line: Line, progress: float) -> None:
        """One more round is done; a line at most each few seconds."""
        self.rounds += 1
        now = time.monotonic()
        if self.rounds == 1 and self.is_timed:
            self._warn(now - self.began, line, progress)
        self._complain(line["J"], progress)
        if self.quiet or (now - self.said < SECONDS_A_LINE and progress < 1):
            return
        self.said = now
        left = (line["seconds"] or 0.0) * (1 - progress) / max(progress, 1e-9)
        _say(f"training {self.name}  {progress:4.0%}  {status(line)}  {_duration(left)} left")

    def _warn(self, round_seconds: float, line: Line, progress: float) -> None:
        """Say so if the first round shows that the budget is too small to warm up."""
        whole = (line["seconds"] or 0.0) / max(progress, 1e-9)
        fit = int(whole / max(round_seconds, 1e-9))
        if fit < FEWEST_ROUNDS:
            least = _duration(2 * FEWEST_ROUNDS * round_seconds)
            _say(
                f"A round takes {round_seconds:.1f} s, so only about {max(fit, 1)} fit into "
                f"{_duration(whole)}, too few to learn anything: give it {least} or more "
                "(--budget), or make the simulator faster"
            )

    def _complain(self, gain: float | None, progress: float) -> None:
        """Say so once if after half of the training its experiments still tell nothing."""
        if self.has_complained or progress < 0.5 or self.rounds < FEWEST_ROUNDS:
            return
        self.has_complained = True
        if gain is not None and gain < NOTHING:
            _say(
                f"J is still {gain:.2f} nats after {self.rounds} rounds, half of the training: "
                "experiments tell nothing about the targets. Check that simulate uses theta and "
                "the design, that its noise is not far larger than what they change, and that "
                "priors are no wider than the design can tell; or train longer"
            )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def last_line(path: Path) -> Line | None:
    """The last that was written whole: a full disk or a crash cuts one."""
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    for text in reversed(lines):
        with suppress(ValueError):
            line = json.loads(text)
            if isinstance(line, dict):
                return line
    return None


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path), path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a line that was cut stays one of its own
                file.write(b"\n")
        file.write(f"{line}\n".encode())


def status(line: Line) -> str:
    """A line in words."""
    loss, gain, speed = line["loss"], line["J"], line["episodes_per_second"]
    told = "" if gain is None else f"  J {gain:.2f} nats"
    return f"loss {loss:.3f}{told}  {speed:.0f} episodes/s"
