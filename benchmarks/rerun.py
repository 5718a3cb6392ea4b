"""Do the figures in the docs come again? Reruns the commands of rows picked at random.

    python benchmarks/rerun.py --minutes 10

Of the rows of docs/results.md ten are picked; the command in each one's file is run again, into a
folder of its own, and the new value is held against the old one with its interval. The same seed on
the same kind of machine gives the same numbers but for times; with `--seed` the experiments are
others, and the interval is that of the difference. Rows whose command takes longer than the limit,
or needs a model that is not at hand, are not among those picked; how many these are is said. Nor
are those of a run that went on from an earlier one, whose time is not that of all of it.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aline.evaluation.results import result
from aline.files import write_atomically

ROOT = Path(__file__).parents[1]
PATTERN = re.compile(r"^\| (.*?) \| `(results/[\w.-]+\.json)` `(.*?)` \| (-?[\d.]+)", re.MULTILINE)
OUTPUTS = ("--output", "--out")
LEFT_OUT = ("--record",)  # it writes to a card
Found = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A row of the docs."""

    words: str
    file: str
    key: str
    shown: str

    @property
    def result(self) -> Found:
        """The file that it is from."""
        found: Found = json.loads((ROOT / self.file).read_text(encoding="utf-8"))
        return found

    @property
    def command(self) -> str:
        """What made the file; of a run of all benchmarks, what makes this one alone."""
        made = self.result
        words: str = made["command"]
        return f"aline bench {made['bench']}" if words.startswith("aline bench all") else words

    def row_of(self, rows: Sequence[Found]) -> Found | None:
        """The row of a file with this key."""
        wanted = [part.split("=") for part in self.key.split(" ")]
        found = [row for row in rows if all(str(row.get(key)) == value for key, value in wanted)]
        return found[0] if len(found) == 1 else None


def figures(page: Path) -> list[Figure]:
    """All rows of a page, each once."""
    found = [Figure(*parts) for parts in PATTERN.findall(page.read_text(encoding="utf-8"))]
    return list({(one.file, one.key): one for one in found}.values())


def why_not(figure: Figure, seconds: float) -> str | None:
    """Why a row cannot be had again within a time, if it cannot."""
    taken, words = figure.result.get("seconds"), shlex.split(figure.command)
    if not taken or "--resume" in words:
        return "its file does not say how long all of it took"
    if taken > seconds:
        return f"it takes {taken:.0f} s"
    missing = [w for w in words if w.startswith("runs/") and not (ROOT / w).exists()]
    return f"{missing[0]} is not at hand" if missing else None


def again(command: str, folder: Path, seed: int | None) -> list[str]:
    """A file's command, as words that write into a folder instead."""
    words = [word for word in shlex.split(command) if word not in LEFT_OUT]
    if words[0] == "python":
        words = words[1:]
    if words[0] == "aline":
        words = ["-m", *words]
    else:
        words[0] = str(ROOT / "benchmarks" / Path(words[0]).name)
    is_bench = words[1:3] == ["aline", "bench"]
    places = [i + 1 for i, word in enumerate(words) if word in OUTPUTS]
    for place in places:
        words[place] = str(folder if is_bench else folder / Path(words[place]).name)
    if not places:
        words += ["--out", str(folder)] if is_bench else ["--out", str(folder / "found.json")]
    return [sys.executable, *words, *(["--seed", str(seed)] if seed is not None else [])]


def rerun(command: str, seconds: float, seed: int | None) -> tuple[list[Found], str]:
    """The rows that a command writes now; or none, and why."""
    with tempfile.TemporaryDirectory() as name:
        words = again(command, Path(name), seed)
        try:
            done = subprocess.run(
                words, cwd=ROOT, timeout=2 * seconds, capture_output=True, text=True, check=False
            )
        except subprocess.TimeoutExpired:
            return [], f"it was stopped after {2 * seconds:.0f} s"
        written = list(Path(name).glob("*.json"))
        if done.returncode or len(written) != 1:
            return [], f"the command failed: {done.stderr.strip()[-200:]}"
        rows: list[Found] = json.loads(written[0].read_text(encoding="utf-8"))["rows"]
        return rows, ""


def judge(old: Found, new: Found, is_other: bool) -> tuple[float, bool | None]:
    """How far apart two values may be, and whether they are not; None where nobody knows."""
    spreads = [row["ci95"] for row in (old, new) if row["ci95"] is not None]
    if len(spreads) < 2 or not all(map(math.isfinite, spreads)):
        return math.nan, None
    allowed = math.hypot(*spreads) if is_other else max(float(old["ci95"]), 1e-6)
    return allowed, abs(new["value"] - old["value"]) <= allowed


def checked(figure: Figure, rows: Sequence[Found], why: str, is_other: bool) -> Found:
    """A picked row as the result has it."""
    old, new = figure.row_of(figure.result["rows"]), figure.row_of(rows)
    about = {"file": figure.file, "key": figure.key, "what": figure.words}
    if old is None or new is None:
        return {**about, "value": None, "before": None, "within": None,
                "why": why or "the command writes no such row"}  # fmt: skip
    allowed, within = judge(old, new, is_other)
    why = "" if within is not None else "it has no interval"
    return {**about, "value": new["value"], "before": old["value"], "ci95": allowed,
            "within": within, "why": why}  # fmt: skip


def line(found: Found) -> str:
    """A picked row in words."""
    verdict = {True: "within", False: "OUTSIDE", None: found["why"]}[found["within"]]
    values = "" if found["value"] is None else f" {found['before']:.4g} -> {found['value']:.4g}"
    return f"{verdict}:{values}  {found['what']} ({found['file']} {found['key']})"


def picked(count: int, seconds: float, seed: int) -> tuple[list[Figure], dict[str, int]]:
    """Rows to run again, and of the others how many there are for each reason."""
    every = figures(ROOT / "docs" / "results.md")
    reasons = {figure: why_not(figure, seconds) for figure in every}
    ready = [figure for figure, why in reasons.items() if why is None]
    left = [why for why in reasons.values() if why is not None]
    chosen = random.Random(seed).sample(ready, min(count, len(ready)))
    return chosen, {why: left.count(why) for why in sorted(set(left))}


def run_all(chosen: Sequence[Figure], seconds: float, seed: int | None) -> Iterator[Found]:
    """Each command once, whatever rows are of its file."""
    for command in dict.fromkeys(figure.command for figure in chosen):
        print(f"# {command}", flush=True)
        rows, why = rerun(command, seconds, seed)
        for figure in chosen:
            if figure.command == command:
                yield checked(figure, rows, why, seed is not None)


def main() -> None:
    """Pick, run, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=10.0, help="the longest command")
    parser.add_argument("--pick", type=int, default=None, help="seed of the choice of rows")
    parser.add_argument("--seed", type=int, default=None, help="seed of the experiments")
    parser.add_argument("--out", type=Path, default=Path("results/rerun.json"))
    options = parser.parse_args()
    pick = random.SystemRandom().randrange(10**6) if options.pick is None else options.pick
    chosen, left = picked(options.rows, 60 * options.minutes, pick)
    for why, count in left.items():
        print(f"{count} rows are not among those to pick from: {why}")
    began, rows = time.monotonic(), []
    for found in run_all(chosen, 60 * options.minutes, options.seed):
        rows.append(found)
        print(line(found), flush=True)
        seconds = time.monotonic() - began
        made = result("rerun", rows, seconds, pick=pick, seed=options.seed, left_out=left)
        write_atomically(options.out, f"{json.dumps(made, indent=1)}\n".encode())


if __name__ == "__main__":
    main()
