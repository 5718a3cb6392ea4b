"""What Newton steps on a learned likelihood add over leaving them out.

Trains each task twice with default settings for the same time, with these steps and without, and
measures both on the same simulated experiments. Run it on an idle machine.

    python benchmarks/newton_steps.py --budget 10min --out results/newton_steps.json
"""

from __future__ import annotations

import argparse
import json
import runpy
from pathlib import Path
from typing import Any

import torch

import aline
from aline.engine import BatchEngine
from aline.evaluation.bounds import episode_bounds
from aline.evaluation.information import gains
from aline.evaluation.results import provenance
from aline.evaluation.simulated import Protocol, play_protocol
from aline.files import write_atomically
from aline.model import Model
from aline.policies import LearnedPolicy
from aline.tasks import Task

TASKS = ("discounting", "pharmacokinetics", "prey")
FOLDER = Path(__file__).parent / "protocols"
CONTRASTS, SEED = 5000, 5


def measured(model: Model, task: Task, episodes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The sPCE of each episode, and log q of its truth over the prior's."""
    network = model.network
    task = task.described_by(network.spec)
    protocol = Protocol(episodes, task.spec.horizon, 0, seed=SEED)
    priors = tuple(task.spec.parameters.priors)
    theta, context = play_protocol(LearnedPolicy(BatchEngine(network)), task, priors, protocol)
    generator = torch.Generator().manual_seed(SEED)
    lower, _ = episode_bounds(task, context, theta, CONTRASTS, generator)
    return lower, gains(network, theta, context)


def interval(values: torch.Tensor) -> list[float]:
    """Mean and half the width of a 95 % interval."""
    spread = 1.96 * float(values.std()) / len(values) ** 0.5
    return [round(float(values.mean()), 3), round(spread, 3)]


def compared(name: str, budget: str, episodes: int) -> dict[str, Any]:
    """One task's row."""
    task = runpy.run_path(str(FOLDER / f"{name}.py"))["task"]
    models = {
        steps: aline.train(task, budget=budget, model={"newton_steps": steps}, verdict=False)
        for steps in (0, 2)
    }
    without, beside = (measured(model, task, episodes) for model in models.values())
    return {
        "task": name,
        "rounds": [model.training["rounds"] for model in models.values()],
        "spce_without": interval(without[0]),
        "spce": interval(beside[0]),
        "spce_difference": interval(beside[0] - without[0]),
        "J_without": interval(without[1]),
        "J": interval(beside[1]),
        "J_difference": interval(beside[1] - without[1]),
    }


def main() -> None:
    """Write the rows after each task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--budget", default="10min")
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path("results/newton_steps.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows, made = [], provenance()
    for name in options.tasks:
        rows.append(compared(name, options.budget, options.episodes))
        settings = {"budget": options.budget, "episodes": options.episodes, "seed": SEED}
        found = {"bench": "newton_steps", **made, **settings, "rows": rows}
        write_atomically(options.out, json.dumps(found, indent=1).encode())
        print(rows[-1])


if __name__ == "__main__":
    main()
