"""How long an experiment keeps a participant waiting, on one thread.

    python benchmarks/latency.py --output results/latency.json

- A trial of the shipped psychometric and location models: `ask()`, `tell(...)`, then `posterior()`
  with the mean and the 95 % interval of two parameters, at 30 to 39 observations; in memory and,
  for psychometric, with every trial on disk. Sixteen experiments whose designs are chosen together.
- The longest pause of an experiment of 200 trials.
- A step of learning a function among 500 candidates, with predictions at 100 points: in the task's
  units beside the fastest Gaussian process of scikit-learn (GP-RS), in a user's units beside GP-VR,
  all in one run; `ActiveRegressor.query` alone.

Measure on an idle machine: whatever else runs is in the numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import aline
from aline import zoo
from aline.evaluation.active import make_problem, policy_of, seconds_per_run
from aline.evaluation.estimates import Estimate
from aline.evaluation.problems import FUNCTIONS
from aline.evaluation.results import Row, result, row
from aline.experiment import Experiment, open_storage, prepare
from aline.tasks import get

OBSERVATIONS, TIMED, TOGETHER, LONG = 30, 10, 16, 200
TRIALS = {"psychometric": ("threshold", "slope"), "location": ("source_x", "source_y")}
PROBLEMS = {"gp1d": 30, "gp2d": 50, "gramacy1d": 30, "branin": 50}  # steps of a run
BARS = {
    ("psychometric", "trial", "memory"): 1.0,
    ("location", "trial", "memory"): 1.2,
    ("psychometric", "shared", "memory"): 0.5,
    ("psychometric", "longest", "memory"): 30.0,
    ("location", "longest", "memory"): 30.0,
    ("gp1d", "step", "task"): 2.5,
    ("gp2d", "step", "task"): 2.5,
    ("gramacy1d", "step", "user"): 5.0,
    ("branin", "step", "user"): 5.0,
    ("gramacy1d", "query", "user"): 5.0,
    ("branin", "query", "user"): 5.0,
}
RATIOS = {"gp1d": 2.5, "gp2d": 2.5, "gramacy1d": 2.0, "branin": 2.0}


def outcome_of(name: str, number: int) -> float:
    """Something to tell."""
    return number % 2 if name == "psychometric" else 0.3 * np.sin(number)


def trial(experiment: Experiment, name: str) -> float:
    """Seconds of ask, tell and posterior."""
    start = time.perf_counter()
    asked = experiment.ask()
    experiment.tell(asked, outcome_of(name, asked.number))
    posterior = experiment.posterior()
    for parameter in TRIALS[name]:
        _ = posterior[parameter].mean, posterior[parameter].interval(0.95)
    return time.perf_counter() - start


def trials(name: str, url: str, repeats: int) -> list[float]:
    """Seconds of trials in the midst of whole experiments."""
    model, storage, found = zoo.load(name), open_storage(url), []
    for seed in range(max(1, repeats // TIMED)):
        horizon = OBSERVATIONS + TIMED
        experiment = Experiment(model, TRIALS[name], storage=storage, horizon=horizon, seed=seed)
        found += [trial(experiment, name) for _ in range(horizon)][OBSERVATIONS:]
    storage.close()
    return found


def shared(name: str, repeats: int) -> list[float]:
    """Seconds of ask and tell, of each of sixteen experiments that are chosen for in one pass."""
    model, found = zoo.load(name), []
    many = [Experiment(model, TRIALS[name], horizon=10_000, seed=i) for i in range(TOGETHER)]
    for number in range(OBSERVATIONS + repeats // TOGETHER):
        start = time.perf_counter()
        prepare(many)
        for experiment in many:
            experiment.tell(experiment.ask(), outcome_of(name, number))
        found.append((time.perf_counter() - start) / TOGETHER)
    return found[OBSERVATIONS:]


def pauses(name: str) -> list[float]:
    """Seconds of every trial of a long experiment, after a first one that warms up."""
    for _ in range(2):
        experiment = Experiment(zoo.load(name), TRIALS[name], horizon=LONG)
        found = [trial(experiment, name) for _ in range(LONG)]
    return found


def queries(name: str, steps: int) -> list[float]:
    """Seconds of `ActiveRegressor.query` among 500 rows in units of their own."""
    function, generator = FUNCTIONS[name], torch.Generator().manual_seed(0)
    x = (torch.rand(500, function.dimensions, generator=generator) * 2 - 1) * function.half
    y, pool = function(x).numpy() * 1000 + 5, x.numpy()
    learner, found = aline.ActiveRegressor(f"gp{function.dimensions}d"), []
    learner.teach(pool[:2], y[:2])
    for _ in range(steps):
        start = time.perf_counter()
        best = learner.query(pool)
        found.append(time.perf_counter() - start)
        learner.teach(pool[best], y[best])
    return found[steps // 2 :]


def runs(name: str, repeats: int) -> dict[str, torch.Tensor]:
    """Seconds of whole runs, ours and a Gaussian process's."""
    size = FUNCTIONS[name].dimensions if name in FUNCTIONS else int(name[2])
    model, task = zoo.load(f"gp{size}d"), get(f"gp{size}d")
    problem = make_problem(name, task.described_by(model.spec), repeats + 1, 3)
    rival = "gp-vr" if name in FUNCTIONS else "gp-rs"
    return {
        method: seconds_per_run(
            problem, policy_of(method, model, problem, timed=True), PROBLEMS[name], repeats
        )
        for method in ("aline", rival)
    }


def measured(repeats: int, only: list[str]) -> Iterator[Row]:
    """All rows."""
    with tempfile.TemporaryDirectory() as folder:
        for name in (one for one in TRIALS if one in only):
            urls = {"memory": "memory://", "sqlite": f"sqlite:///{folder}/{name}.db"}
            for storage, url in urls.items():
                yield from _rows(name, "trial", storage, trials(name, url, repeats))
            yield from _rows(name, "shared", "memory", shared(name, repeats))
            found = pauses(name)
            yield _row(name, "longest", "memory", max(found[1:]), len(found))
    for name in (one for one in PROBLEMS if one in only):
        units = "user" if name in FUNCTIONS else "task"
        found = runs(name, max(3, repeats // 80))
        ours, (rival, theirs) = found["aline"], list(found.items())[1]
        yield _row(name, "step", units, float(ours.mean()) / PROBLEMS[name], len(ours))
        ratio = Estimate(float(theirs.mean() / ours.mean()), float("nan"), len(ours))
        faster = row(name, "aline", "predictions", "times_faster", PROBLEMS[name], ratio)
        yield {**faster, "ci95": None, "against": rival, "part": "ratio"}
        if name in FUNCTIONS:
            yield from _rows(name, "query", units, queries(name, PROBLEMS[name]))


def _rows(name: str, part: str, where: str, seconds: list[float]) -> Iterator[Row]:
    for level in (0.5, 0.99):
        yield _row(name, part, where, float(np.quantile(seconds, level)), len(seconds), level)


def _row(
    name: str, part: str, where: str, seconds: float, count: int, quantile: float | None = None
) -> Row:
    found = row(name, "aline", part, "seconds", OBSERVATIONS, Estimate(seconds, 0.0, count))
    return {**found, "ci95": None, "storage": where, "part": part, "quantile": quantile}


def show(found: list[Row]) -> None:
    """One line a row, with its bar where it has one."""
    for one in found:
        if one["part"] == "ratio":
            value, bar = (
                f"{one['value']:.2f} times faster than {one['against']}",
                RATIOS[one["task"]],
            )
            verdict = "met" if one["value"] >= bar else "MISSED"
        else:
            which = "" if one["quantile"] is None else f" (quantile {one['quantile']})"
            value = f"{one['value'] * 1e3:.2f} ms{which}"
            bar = BARS.get((one["task"], one["part"], one["storage"]))
            if one["quantile"] == 0.99:
                bar = None
            verdict = "met" if bar is None or one["value"] * 1e3 <= bar else "MISSED"
        told = "" if bar is None else f"  bar {bar:g}: {verdict}"
        print(
            f"{one['task']:14} {one['part']:8} {one.get('storage', ''):7} {value}{told}", flush=True
        )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    parser.add_argument("--repeats", type=int, default=400, help="trials of each kind")
    parser.add_argument("--only", nargs="+", default=[*TRIALS, *PROBLEMS])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    began, found = time.perf_counter(), []
    for one in measured(arguments.repeats, arguments.only):
        found.append(one)
        show([one])
    if arguments.output:
        notes: dict[str, Any] = {"load": round(os.getloadavg()[0], 2)}
        text = json.dumps(result("latency", found, time.perf_counter() - began, **notes), indent=2)
        arguments.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
