"""How long an experiment keeps a participant waiting: ask + tell + posterior, on one thread.

    python benchmarks/latency.py --output results/latency.json

The shipped psychometric model, 200 candidates, trials that start with 30 to 39 observations,
answers yes and no by turns. A trial is `ask()`, `tell(...)`, then `posterior()` with the mean and
the 95 % interval of both targeted parameters. Measure on an idle machine: whatever else runs is in
the numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aline import zoo
from aline.experiment import Experiment, Storage, open_storage

OBSERVATIONS, CANDIDATES, TARGET = 30, 200, ("threshold", "slope")
TIMED = 10  # trials of each experiment that are timed, once it has its observations
BARS = {"memory": 0.002, "sqlite": 0.008}  # seconds, medians


def trial(experiment: Experiment) -> tuple[float, float, float]:
    """Seconds of ask, tell and posterior."""
    start = time.perf_counter()
    asked = experiment.ask()
    after_ask = time.perf_counter()
    experiment.tell(asked, asked.number % 2)
    after_tell = time.perf_counter()
    posterior = experiment.posterior()
    for name in TARGET:
        _ = posterior[name].mean, posterior[name].interval(0.95)
    return after_ask - start, after_tell - after_ask, time.perf_counter() - after_tell


def measure(make: Callable[[], Storage], repeats: int) -> np.ndarray[Any, Any]:
    """Seconds [trial, part], in the midst of whole experiments."""
    model, storage, runs = zoo.load("psychometric"), make(), []
    for seed in range(math.ceil(repeats / TIMED)):
        experiment = Experiment(
            model,
            TARGET,
            storage=storage,
            horizon=OBSERVATIONS + TIMED,
            seed=seed,
            candidates=CANDIDATES,
        )
        runs += [trial(experiment) for _ in range(experiment.horizon)][OBSERVATIONS:]
    storage.close()
    return np.array(runs)


def rows(name: str, seconds: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
    """Medians and 99th percentiles in the layout of every result."""
    total = seconds.sum(1)
    parts = {"trial": total, **dict(zip(("ask", "tell", "posterior"), seconds.T, strict=True))}
    return [
        {
            "task": "psychometric",
            "method": "aline",
            "target": "+".join(TARGET),
            "metric": "seconds_per_step",
            "step": OBSERVATIONS,
            "value": float(np.quantile(values, level)),
            "ci95": None,
            "n": len(values),
            "published": None,
            "storage": name,
            "part": part,
            "quantile": level,
        }
        for part, values in parts.items()
        for level in (0.5, 0.99)
    ]


def show(found: list[dict[str, Any]]) -> None:
    """Print milliseconds, one line a part."""
    print(f"{'storage':8}  {'part':10}  {'median':>9}  {'p99':>9}")
    for median, slow in zip(found[::2], found[1::2], strict=True):
        bar = BARS[median["storage"]] if median["part"] == "trial" else None
        verdict = (
            ""
            if bar is None
            else f"  bar {bar * 1e3:.0f} ms: " + ("met" if median["value"] <= bar else "MISSED")
        )
        print(
            f"{median['storage']:8}  {median['part']:10}  {median['value'] * 1e3:6.3f} ms  "
            f"{slow['value'] * 1e3:6.3f} ms{verdict}"
        )


def result(found: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """The whole result, with where it comes from."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return {
        "bench": "latency",
        "command": " ".join(["python", *sys.argv]),
        "commit": commit.stdout.strip() or "unknown",
        "machine": f"{platform.platform()}, {os.cpu_count()} cores, torch {torch.__version__}, "
        f"1 thread, load {os.getloadavg()[0]:.1f}",
        "seconds": round(seconds, 1),
        "rows": found,
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    parser.add_argument("--repeats", type=int, default=400, help="trials a storage")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        urls = {"memory": "memory://", "sqlite": f"sqlite:///{folder}/latency.db"}
        found = [
            row
            for name, url in urls.items()
            for row in rows(name, measure(lambda url=url: open_storage(url), arguments.repeats))
        ]
    show(found)
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(result(found, time.perf_counter() - start), indent=2)
        arguments.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
