"""How cost grows: a training step and an ask, with horizon, candidates, targets and parameters.

    python benchmarks/scaling.py --output results/scaling.json --figure docs/images/scaling.png

Location finding with a pool policy; one thing grows at a time, the others stay as they are below. A
training step is a round of 50 episodes with one gradient step; an ask is what a participant waits
for between two answers, on a context of a whole experiment. Parameters grow by adding sources,
targets by asking for predictions at more points. On one thread, as cost is to be seen and not how
threads share it. What the weights are does not matter to the time, so they are untrained. Measure
on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

import aline
from aline import tasks
from aline.evaluation.estimates import Estimate
from aline.evaluation.results import Row, result, row
from aline.experiment import Experiment
from aline.model import Model, fresh
from aline.training import TrainingConfig
from aline.training.budget import Budget
from aline.training.run import Run, seeded
from aline.training.train import choose_policy_loss, default_model


@dataclass(frozen=True)
class Size:
    """What is measured at."""

    horizon: int = 30
    candidates: int = 200
    targets: int = 10
    parameters: int = 2


GROWN = {
    "horizon": (10, 20, 40, 80, 160),
    "candidates": (50, 100, 200, 400, 800, 1600),
    "targets": (10, 20, 40, 80, 160, 320),
    "parameters": (2, 4, 8, 16, 32),
}


def training_step(size: Size) -> Callable[[], None]:
    """A round of training."""
    task = tasks.get("location", sources=size.parameters // 2, horizon=size.horizon).fitted()
    model = replace(default_model(task, differentiable=False), policy="pool")
    config = TrainingConfig(
        batch=50, updates=1, policy_updates=1, warmup=0.0, random_share=0.0, greedy_share=0.0,
        candidates=size.candidates, points=size.targets, **task.training,
    )  # fmt: skip
    run = Run(
        task=task,
        config=config,
        budget=Budget(rounds=100_000),
        seed=0,
        network=fresh(task.spec, model, seeded(0, -1)),
        policy_loss=choose_policy_loss(task, model, config, differentiable=False),
        folder=None,
    )
    return run.step


def ask(size: Size) -> Callable[[], None]:
    """An ask in an experiment that has all but its last observation."""
    task = tasks.get("location", sources=size.parameters // 2, horizon=size.horizon).fitted()
    model = replace(default_model(task, differentiable=False), policy="pool")
    network = fresh(task.spec, model, seeded(0, -1)).eval().requires_grad_(False)
    places = torch.rand(2, size.targets, generator=seeded(0, 0)).tolist()
    target = [
        *task.spec.parameters.names,
        aline.predictions(at=dict(zip("xy", places, strict=True))),
    ]
    experiment = Experiment(
        Model(network), target, horizon=10_000, candidates=size.candidates, seed=0
    )
    for _ in range(size.horizon - 1):
        experiment.tell(experiment.ask(), 1.0)

    def once() -> None:
        experiment.abandon(experiment.ask())

    return once


def median_seconds(action: Callable[[], None], least: float) -> tuple[float, int]:
    """Over at least this many seconds, after an untimed call."""
    action()
    seconds: list[float] = []
    while sum(seconds) < least or len(seconds) < 5:
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), len(seconds)


def measure(least: float) -> Iterator[Row]:
    """Every size, a row each."""
    for what, sizes in GROWN.items():
        for number in sizes:
            size = replace(Size(), **{what: number})
            for kind, make in (("training step", training_step), ("ask", ask)):
                seconds, count = median_seconds(make(size), least)
                estimate = Estimate(seconds, 0.0, count)
                found = row("location", "aline", kind, "seconds_per_step", size.horizon, estimate)
                yield {**found, "ci95": None, "grows": what, "size": number}
            print(f"{what} {number}", file=sys.stderr, flush=True)


def curves(rows: list[Row]) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """(what grows, of what) -> (size, seconds)."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for each in rows:
        found.setdefault((each["grows"], each["target"]), []).append((each["size"], each["value"]))
    return found


def draw(rows: list[Row], path: Path) -> None:
    """A panel for each thing that grows, against a line that grows in proportion."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(GROWN), figsize=(12, 3), layout="constrained", sharey=True
    )
    for axis, what in zip(axes, GROWN, strict=True):
        for kind, marker in (("training step", "o"), ("ask", "s")):
            sizes, seconds = zip(*curves(rows)[what, kind], strict=True)
            axis.loglog(sizes, [1e3 * s for s in seconds], marker=marker, label=kind)
            end = 1e3 * seconds[-1]
            axis.loglog(
                sizes, [end * n / sizes[-1] for n in sizes], color="0.7", linestyle=":", zorder=0
            )
        axis.set_xlabel(what)
        axis.set_xticks(sizes, map(str, sizes))
        axis.minorticks_off()
    axes[0].set_ylabel("ms")
    axes[0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    parser.add_argument("--figure", type=Path, help="draw it")
    parser.add_argument("--seconds", type=float, default=1.0, help="at least, a size")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    rows = list(measure(arguments.seconds))
    for (what, kind), points in curves(rows).items():
        times = "  ".join(f"{size}: {1e3 * seconds:.1f}" for size, seconds in points)
        growth = (points[-1][1] / points[-2][1]) / (points[-1][0] / points[-2][0])
        print(f"{kind:14} ms by {what:11} {times}   last doubling: {growth:.2f} of linear")
    if arguments.figure:
        draw(rows, arguments.figure)
    if arguments.output:
        whole = result("scaling", rows, time.perf_counter() - start)
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(whole, indent=2) + "\n")


if __name__ == "__main__":
    main()
