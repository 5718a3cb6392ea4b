"""All benchmarks, one after the other: `aline bench all`.

A part of a benchmark is kept in runs/bench/all as soon as it is done, with the code that measured
it. A later run takes it, if the code is still the same; so does a part that was interrupted, piece
by piece. What cannot be measured here, as its models or tables are missing, is said and left out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from aline.app.bench import BENCHES, find, pieces
from aline.app.bench.bench import Bench, BenchSettings, Measured, Part, Progress
from aline.app.bench.paper import write_paper
from aline.app.bench.pieces import together
from aline.app.bench.run import assembled, stem, write_bench
from aline.errors import UserError
from aline.evaluation.results import code_version
from aline.files import write_atomically

# What a quick run makes smaller than a benchmark's own quick settings do, to last minutes in all.
QUICK: Mapping[str, Mapping[str, Any]] = {
    "al": {"tasks": ("gp1d", "gp2d", "higdon", "three_hump_camel"), "episodes": 4},
    "bed": {"episodes": 20},
    "psychometric": {"episodes": 16},
}


def run_everything(
    settings: BenchSettings, out: Path, progress: Progress, told: Callable[[str], None]
) -> Path:
    """Measure what is not measured yet, write every benchmark's files and the page; where it is."""
    results = {}
    for name in BENCHES:
        bench, chosen = find(name), _settings(name, settings)
        measured, seconds = _measured(bench, chosen, progress, told)
        results[name] = assembled(bench, [measured], seconds, chosen)
        for path in write_bench(bench, results[name], out, stem(bench, chosen, None)):
            told(f"written: {path}")
    page = out / f"paper{'-quick' * settings.quick}.html"
    write_paper(results, page)
    return page


def _settings(name: str, settings: BenchSettings) -> BenchSettings:
    smaller = QUICK.get(name, {}) if settings.quick else {}
    return replace(settings, resume=True, same_code=True, **smaller)


def _measured(
    bench: Bench, settings: BenchSettings, progress: Progress, told: Callable[[str], None]
) -> tuple[Measured, float]:
    """All parts of a benchmark together, and the seconds that they took when they were measured."""
    found, seconds = [], 0.0
    for name, part in bench.parts.items():
        kept = _kept(bench.name, name, part, settings, progress, told)
        found.append(Measured(kept["rows"], kept["data"], kept["notes"]))
        seconds += kept["seconds"]
    return together(found), seconds


def _kept(
    bench: str,
    name: str,
    part: Part,
    settings: BenchSettings,
    progress: Progress,
    told: Callable[[str], None],
) -> dict[str, Any]:
    """A part as it was measured before by this code, or as it is now."""
    words = [bench, name, *pieces.told_apart(settings)]
    path = pieces.FOLDER / "all" / f"{'-'.join(words)}.json"
    if path.is_file():
        kept: dict[str, Any] = json.loads(path.read_text())
        if kept["code"] == code_version():
            told(f"{bench}, {name}: measured already")
            return kept
    told(f"{bench}, {name}: measuring")
    fresh = _measure(bench, name, part, settings, progress)
    if fresh["is_done"]:
        write_atomically(path, (json.dumps(fresh) + "\n").encode())
    return fresh


def _measure(
    bench: str, name: str, part: Part, settings: BenchSettings, progress: Progress
) -> dict[str, Any]:
    """A part, or a note on why it cannot be measured here."""
    began = time.monotonic()
    try:
        found, is_done = part(settings, progress), True
    except UserError as error:
        found, is_done = Measured([], notes=[f"{bench}, {name}: left out: {error}"]), False
    return {
        "code": code_version(),
        "rows": found.rows,
        "data": dict(found.data),
        "notes": list(found.notes),
        "seconds": time.monotonic() - began,
        "is_done": is_done,
    }
