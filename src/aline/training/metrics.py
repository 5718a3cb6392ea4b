"""What a training shows and writes while it runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from aline.files import naming

if TYPE_CHECKING:
    from rich.progress import Progress

METRICS = "metrics.jsonl"
ROUNDS_A_LINE = 20


class Metrics:
    """Averages over some rounds, a line of JSON each time, and a progress bar."""

    def __init__(self, folder: Path | None):
        self.path = None if folder is None else folder / METRICS
        self.rows: list[dict[str, float | None]] = []
        self.since = 0.0
        self._bar: Progress | None = None

    @contextmanager
    def shown(self, show: bool, name: str) -> Iterator[None]:
        """A progress bar while the training runs."""
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
        with Progress(*columns, disable=not show) as bar:
            bar.add_task("train", total=1.0, name=name, status="")
            self._bar = bar
            yield
        self._bar = None

    def add(self, **row: float | None) -> None:
        """The numbers of one round."""
        self.rows.append(row)

    def write(self, round_: int, elapsed: float, progress: float) -> None:
        """Report the rounds since the last report, when there are enough of them."""
        if self._bar is None or (len(self.rows) < ROUNDS_A_LINE and progress < 1):
            return
        line: dict[str, float | None] = {"round": round_, "seconds": round(elapsed, 2)}
        for key in ("loss", "policy", "J"):
            values = [row[key] for row in self.rows]
            known = [value for value in values if value is not None]
            line[key] = round(sum(known) / len(known), 5) if known else None
        episodes = sum(row["episodes"] or 0 for row in self.rows)
        line["episodes_per_second"] = round(episodes / max(elapsed - self.since, 1e-9), 1)
        self.rows, self.since = [], elapsed
        self._bar.update(self._bar.task_ids[0], completed=progress, status=_status(line))
        if self.path is not None:
            _append(self.path, json.dumps(line))


def last_line(path: Path) -> dict[str, float | None] | None:
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


def _status(line: dict[str, float | None]) -> str:
    loss, gain, speed = line["loss"], line["J"], line["episodes_per_second"]
    return f"loss {loss:.3f}  J {gain:.2f} nats  {speed:.0f} episodes/s"
