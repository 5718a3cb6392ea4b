"""What a setting of the network or of its training adds over another value of it.

    python benchmarks/ablation.py first_tries/lamps first_tries/dose --budget 5min \\
        --vary '[{"search_stages": 0, "guesses": 1, "newton_steps": 2}, {}]' \\
        --out results/ablation-search.json

Trains each task file of benchmarks/, or built-in task, with default settings but this one, for the
same time, the first value first, and measures all on the same simulated experiments: information
(sPCE), J of q's joint posterior, and their paired differences from the first value's. Rows of tasks
that are not named stay. Run it on an idle machine; `cpu_seconds` says what a training got.
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


Settings = dict[str, Any]


def compared(
    path: str, settings: list[Settings], length: dict[str, Any], episodes: int
) -> list[Row]:
    """One task's rows; trainings take a `budget`, or `rounds`."""
    is_file = "/" in path
    task = runpy.run_path(str(FOLDER / f"{path}.py"))["task"] if is_file else aline.tasks.get(path)
    of_model = {field.name for field in fields(ModelConfig)}
    label, rows, first = path.split("/")[-1], [], None
    for each in settings:
        started = time.process_time()
        parts = {
            "model": {name: value for name, value in each.items() if name in of_model},
            "config": {name: value for name, value in each.items() if name not in of_model},
        }
        model = aline.train(task, **length, verdict=False, **parts)
        spent = Estimate(time.process_time() - started, 0.0, 1)
        found = measured(model, task, episodes)
        first = first or found
        words = ", ".join(f"{name}={value}" for name, value in each.items()) or "default"
        more = {"setting": words, "rounds": model.training["rounds"]}

        def add(metric: str, estimate: Estimate, more: dict[str, Any] = more) -> None:
            rows.append({**row(label, "aline", "all", metric, None, estimate), **more})

        add("cpu_seconds", spent)
        for metric, nats in found.items():
            add(metric, mean(nats))
            if found is not first:
                add(f"{metric}_difference", mean(nats - first[metric]))
    return rows


def variations(text: str) -> list[Settings]:
    """A setting with each of its values, from NAME=A,B; or any settings, from a JSON list."""
    if text.startswith("["):
        return list(json.loads(text))
    name, _, values = text.partition("=")
    return [{name: json.loads(value)} for value in values.split(",")]


def main() -> None:
    """Write the rows after each task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="+", help="files of benchmarks/, without .py, or names")
    parser.add_argument(
        "--vary",
        type=variations,
        required=True,
        help="such as look_ahead=0,0.5, or a JSON list",
    )
    parser.add_argument("--budget", default="10min")
    parser.add_argument("--rounds", type=int, help="instead; for settings that cost the same")
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    length = {"rounds": options.rounds} if options.rounds else {"budget": options.budget}
    started, rows, made = time.monotonic(), [], provenance()  # of the code that is measured
    if options.out.exists():
        named = {path.split("/")[-1] for path in options.tasks}
        rows = [r for r in json.loads(options.out.read_text())["rows"] if r["task"] not in named]
    for path in options.tasks:
        new = compared(path, options.vary, length, options.episodes)
        rows += new
        taken = time.monotonic() - started
        found = result("ablation", rows, taken, **length, seed=SEED) | made
        write_atomically(options.out, json.dumps(found, indent=1).encode())
        for one in new:
            print(one["task"], one["setting"], one["metric"], round(one["value"], 3), one["ci95"])


if __name__ == "__main__":
    main()
