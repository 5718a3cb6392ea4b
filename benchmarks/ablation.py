"""What a setting of the network or of its training adds over another value of it.

    python benchmarks/ablation.py first_tries/oscillation protocols/two_sources \\
        --vary guesses=1,3 --budget 10min --out results/ablation-guesses.json

Trains each task file of benchmarks/ with default settings but this one, for the same time, the
first value first, and measures all on the same simulated experiments: information (sPCE), J of q's
joint posterior, and their paired differences from the first value's. Rows of tasks that are not
named stay. Run it on an idle machine; `cpu_seconds` says what a training got.
"""

from __future__ import annotations

import argparse
import json
import runpy
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import aline
from aline.engine import BatchEngine
from aline.evaluation.bounds import episode_bounds
from aline.evaluation.estimates import Estimate, mean
from aline.evaluation.information import gains
from aline.evaluation.results import Row, provenance, result, row
from aline.evaluation.simulated import Protocol, play_protocol
from aline.files import write_atomically
from aline.model import Model, ModelConfig
from aline.policies import LearnedPolicy
from aline.tasks import Task

FOLDER = Path(__file__).parent
CONTRASTS, SEED = 5000, 5


def measured(model: Model, task: Task, episodes: int) -> dict[str, Tensor]:
    """Of each episode the sPCE, and log q of its truth over the prior's."""
    network = model.network
    task = task.described_by(network.spec)
    protocol = Protocol(episodes, task.spec.horizon, 0, seed=SEED)
    priors = tuple(task.spec.parameters.priors)
    theta, context = play_protocol(LearnedPolicy(BatchEngine(network)), task, priors, protocol)
    generator = torch.Generator().manual_seed(SEED)
    lower, _ = episode_bounds(task, context, theta, CONTRASTS, generator)
    return {"spce": lower, "J": gains(network, theta, context)}


def compared(path: str, name: str, values: list[Any], budget: str, episodes: int) -> list[Row]:
    """One task's rows."""
    task = runpy.run_path(str(FOLDER / f"{path}.py"))["task"]
    place = "model" if name in {field.name for field in fields(ModelConfig)} else "config"
    label, rows, first = path.split("/")[-1], [], None
    for value in values:
        started = time.process_time()
        model = aline.train(task, budget=budget, verdict=False, **{place: {name: value}})
        spent = Estimate(time.process_time() - started, 0.0, 1)
        found = measured(model, task, episodes)
        first = first or found
        more = {"setting": f"{name}={value}", "rounds": model.training["rounds"]}

        def add(metric: str, estimate: Estimate, more: dict[str, Any] = more) -> None:
            rows.append({**row(label, "aline", "all", metric, None, estimate), **more})

        add("cpu_seconds", spent)
        for metric, each in found.items():
            add(metric, mean(each))
            if found is not first:
                add(f"{metric}_difference", mean(each - first[metric]))
    return rows


def setting(text: str) -> tuple[str, list[Any]]:
    """A name and its values, from NAME=A,B."""
    name, _, values = text.partition("=")
    return name, [json.loads(value) for value in values.split(",")]


def main() -> None:
    """Write the rows after each task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="+", help="files of benchmarks/, without .py")
    parser.add_argument("--vary", type=setting, required=True, help="such as guesses=1,3")
    parser.add_argument("--budget", default="10min")
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    started, rows, made = time.monotonic(), [], provenance()  # of the code that is measured
    if options.out.exists():
        named = {path.split("/")[-1] for path in options.tasks}
        rows = [r for r in json.loads(options.out.read_text())["rows"] if r["task"] not in named]
    for path in options.tasks:
        new = compared(path, *options.vary, options.budget, options.episodes)
        rows += new
        taken = time.monotonic() - started
        found = result("ablation", rows, taken, budget=options.budget, seed=SEED) | made
        write_atomically(options.out, json.dumps(found, indent=1).encode())
        for one in new:
            print(one["task"], one["setting"], one["metric"], round(one["value"], 3), one["ci95"])


if __name__ == "__main__":
    main()
