"""Pieces of a long benchmark, each kept as soon as it is measured: a run can be resumed.

They may be measured in several processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial, reduce
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aline.app.bench.bench import BenchSettings, Measured, Progress, joined
from aline.evaluation.results import code_version, commit
from aline.files import read_tensors, write_tensors

FOLDER = Path("runs") / "bench"

MeasureOne = Callable[[str, str, BenchSettings, Progress], Measured]
"""Measures a method on a task. A function of a module, so that another process can import it."""


@dataclass(frozen=True)
class Piece:
    """What was measured of one method on one task."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)  # what JSON can hold
    notes: tuple[str, ...] = ()


def piece(settings: BenchSettings, *name: str, measure: Callable[[], Piece]) -> Piece:
    """Measure a piece and keep it; with `resume`, take the one that an earlier run kept.

    One that was measured at another commit carries a note of it, or is measured anew.
    """
    path = FOLDER / f"{'-'.join([*name, *told_apart(settings)])}.safetensors"
    if settings.resume and path.is_file():
        tensors, card = read_tensors(path)
        notes, then = tuple(card["notes"]), card["commit"]
        if then != commit():
            notes += (f"{', '.join(name)}: measured earlier, at commit {then}",)
        if not settings.same_code or card.get("code") == code_version():
            return Piece(tensors, card["values"], notes)
    found = measure()
    card = {"values": found.values, "notes": found.notes, "commit": commit()}
    card["code"] = code_version()
    write_tensors(path, found.tensors, card)
    return found


def measure_each(
    bench: str,
    chosen: Sequence[tuple[str, str]],
    measure: MeasureOne,
    settings: BenchSettings,
    progress: Progress,
) -> Measured:
    """Every task and method, one piece each, in as many processes as the settings say."""
    if settings.jobs == 1:
        return together([_kept(bench, *one, measure, settings, progress) for one in chosen])
    # Processes of their own: a forked torch may hang on the parent's threads.
    with ProcessPoolExecutor(settings.jobs, mp_context=get_context("spawn")) as pool:
        work = [pool.submit(_kept_alone, bench, *one, measure, settings) for one in chosen]
        found = []
        for number, one in enumerate(work, 1):
            found.append(one.result())
            progress("methods", number, len(work))
    return together(found)


def together(found: Sequence[Measured]) -> Measured:
    """All rows, data and notes."""
    return Measured(
        [row for one in found for row in one.rows],
        reduce(joined, [one.data for one in found], {}),
        [note for one in found for note in one.notes],
    )


def _kept_alone(
    bench: str, task: str, method: str, measure: MeasureOne, settings: BenchSettings
) -> Measured:
    torch.set_num_threads(1)
    return _kept(bench, task, method, measure, settings, lambda what, done, total: None)


def _kept(
    bench: str,
    task: str,
    method: str,
    measure: MeasureOne,
    settings: BenchSettings,
    progress: Progress,
) -> Measured:
    def anew() -> Piece:
        found = measure(task, method, settings, partial(_prefixed, progress, f"{task}, {method}"))
        return Piece(values={"rows": found.rows, "data": found.data}, notes=tuple(found.notes))

    one = piece(settings, bench, task, method, measure=anew)
    return Measured(one.values["rows"], one.values["data"], one.notes)


def _prefixed(progress: Progress, prefix: str, what: str, done: int, total: int) -> None:
    progress(f"{prefix}: {what}", done, total)


def told_apart(settings: BenchSettings) -> list[str]:
    """What else makes a piece, or a part, another one."""
    tasks = ["+".join(settings.tasks)] if settings.same_code and settings.tasks else []
    episodes = [f"{settings.episodes}"] if settings.episodes else []
    budget = [settings.budget] if settings.budget else []
    return [f"seed{settings.seed}", *tasks, *episodes, *budget, *["quick"] * settings.quick]
