"""Runs a benchmark and writes its file, its table and its figures."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aline.app.bench.bench import Bench, BenchSettings, Measured, Progress, Result, Row, joined
from aline.evaluation import result
from aline.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run_bench(
    bench: Bench,
    settings: BenchSettings,
    parts: Sequence[str] | None = None,
    progress: Progress = lambda what, done, total: None,
) -> dict[str, Any]:
    """Measure all or some parts; the result holds all that the table and the figures need."""
    began = time.monotonic()
    found = [part(settings, progress) for part in bench.chosen(parts).values()]
    return assembled(bench, found, time.monotonic() - began, settings)


def assembled(
    bench: Bench, found: Sequence[Measured], seconds: float, settings: BenchSettings
) -> dict[str, Any]:
    """What its parts measured, as the file has it."""
    return result(
        bench.name,
        [row for measured in found for row in measured.rows],
        seconds,
        seed=settings.seed,
        notes=[note for measured in found for note in measured.notes],
        data={name: value for measured in found for name, value in measured.data.items()},
    )


def stem(bench: Bench, settings: BenchSettings, parts: Sequence[str] | None) -> str:
    """The name of the files: no quick or partial run, nor one for a budget, replaces another."""
    budget = [settings.budget] if settings.budget else []
    return "-".join([bench.name, *(parts or ()), *budget, *["quick"] * settings.quick])


def completed(
    measured: dict[str, Any], path: Path, settings: BenchSettings, by_task: bool = False
) -> dict[str, Any]:
    """With what the file of an earlier run has of methods and tasks that were left out now.

    With `by_task`, also of tasks that were not left out but of which there is nothing now.
    """
    if not path.is_file():
        return measured
    earlier = json.loads(path.read_text())
    known = {_key(row) for row in measured["rows"]}
    tasks = {row["task"] for row in measured["rows"]}
    kept = [
        row
        for row in earlier["rows"]
        if (_left_out(row, settings) or (by_task and row["task"] not in tasks))
        and _key(row) not in known
    ]
    if not kept:
        return measured
    names = ", ".join(dict.fromkeys(f"{row['task']} {row['method']}" for row in kept))
    note = f"not measured now, but kept from the run of commit {earlier['commit']}: {names}"
    return {
        **measured,
        "rows": measured["rows"] + kept,
        "notes": [*measured["notes"], note],
        "data": joined(earlier.get("data", {}), measured["data"]),
    }


def _left_out(row: Row, settings: BenchSettings) -> bool:
    chosen = ((settings.methods, row["method"]), (settings.tasks, row["task"]))
    return any(names is not None and name not in names for names, name in chosen)


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[part] for part in ("task", "method", "target", "metric", "step"))


def write_bench(bench: Bench, measured: Result, folder: Path, name: str) -> list[Path]:
    """Write NAME.json, NAME.md and NAME-FIGURE.png into a folder."""
    files = {f"{name}.json": (json.dumps(measured, indent=1) + "\n").encode()}
    drawn = bench.figures(measured)
    images = "".join(f"\n![{figure}]({name}-{figure}.png)\n" for figure in drawn)
    files[f"{name}.md"] = f"{bench.markdown(measured).rstrip()}\n{images}".encode()
    files |= {f"{name}-{figure}.png": _png(image) for figure, image in drawn.items()}
    for file, content in files.items():
        write_atomically(folder / file, content)
    return [folder / file for file in files]


def _png(figure: Figure) -> bytes:
    from aline.app.plots.canvas import PAPER, styled

    buffer = io.BytesIO()
    with styled():
        figure.savefig(buffer, format="png", dpi=130, facecolor=PAPER)
    return buffer.getvalue()


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar for each thing that is measured, where someone is looking; else a line for each."""
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    console = Console(stderr=True)
    rows: dict[str, TaskID] = {}
    with Bars(console=console, disable=not sys.stderr.isatty()) as bars:

        def show(what: str, done: int, total: int) -> None:
            if what not in rows:
                rows[what] = bars.add_task(what, total=total)
                if bars.disable:
                    print(what, file=sys.stderr, flush=True)
            bars.update(rows[what], completed=done, total=total)

        yield show
