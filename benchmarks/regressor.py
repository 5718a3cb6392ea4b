"""ActiveRegressor() on functions of 3, 5, 6 and 8 inputs, beside Gaussian processes fitted anew.

    python benchmarks/regressor.py --output results/regressor.json
    python benchmarks/regressor.py --runs 2 --tasks friedman --output results/regressor.json

A run is a function, a thousand candidates and, one at a time, 20 queries for each input; labels
have noise of a hundredth of the function's spread, which no method is told. Errors are those of
expected values at inputs that were never candidates, over the function's spread. All methods meet
the same runs. A GP is scikit-learn's model (an RBF kernel with a lengthscale an input, the noise
fitted) with its hyperparameters refitted after every label from several starts, and chooses at
random (rs), by uncertainty (us) or by variance reduction (vr) at the points that aline aims at.

Seconds of a query are those of the processor: `query` is a query as experiments go, `cold` the
first after all labels came at once. Tasks that are measured again replace their rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aline.baselines.gp import Fit, acquisition_scores
from aline.evaluation.active import LEVEL, ratio
from aline.evaluation.estimates import Estimate, mean
from aline.evaluation.results import Row, result, row
from aline.functions.columns import Array
from aline.functions.kernels import Kernels
from aline.functions.regressor import ActiveRegressor
from aline.functions.sampling import Draws, Prior

POOL, UNSEEN, AIMED = 1000, 500, 64
PER_INPUT = 20
NOISE = 0.01
BEYOND = 1.6449  # standard deviations at the ends of the central interval of LEVEL
GPS = ("gp-rs", "gp-us", "gp-vr")

_ALPHA = np.array([1.0, 1.2, 3.0, 3.2])
_A3 = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
_P3 = np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
_A6 = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
_P6 = np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)
_BOREHOLE = np.array(
    [
        [0.05, 100, 63070, 990, 63.1, 700, 1120, 9855],
        [0.15, 50000, 115600, 1110, 116, 820, 1680, 12045],
    ]
)


def _hartmann(A: Array, P: Array) -> Callable[[Array], Array]:
    def value(x: Array) -> Array:
        apart = (A * np.square(x[:, None] - P / 10_000)).sum(2)
        found: Array = -np.exp(-apart) @ _ALPHA
        return found

    return value


def _friedman(x: Array) -> Array:
    a, b, c, d, e = x.T
    found: Array = 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
    return found


def _borehole(x: Array) -> Array:
    low, high = _BOREHOLE
    radius, reach, upper, upper_head, lower, lower_head, length, conductivity = (
        low + x * (high - low)
    ).T
    logs = np.log(reach / radius)
    leak = 2 * length * upper / (logs * radius**2 * conductivity)
    found: Array = (
        2 * np.pi * upper * (upper_head - lower_head) / (logs * (1 + leak + upper / lower))
    )
    return found


FUNCTIONS: dict[str, tuple[int, Callable[[Array], Array]]] = {
    "hartmann3": (3, _hartmann(_A3, _P3)),
    "hartmann6": (6, _hartmann(_A6, _P6)),
    "friedman": (5, _friedman),
    "borehole": (8, _borehole),
}
DRAWN = {"drawn3": 3, "drawn5": 5, "drawn8": 8}
TASKS = (*FUNCTIONS, *DRAWN)


def _drawn(x: Array, seed: int) -> Array:
    """A function drawn from the regressor's own prior, at rows x."""
    inputs = x.shape[1]
    draws = Draws.from_prior(inputs + 2, 64)
    which = torch.tensor([int(np.random.default_rng(seed).integers(1, 64))])
    values = Prior.of(inputs).values(draws.z[which])
    points = torch.tensor(x)[None]
    kernels = Kernels.of(draws.kind[which], values.lengthscale, values.ratio)
    cover = kernels.covariance(points, points)[0, 0] + 1e-8 * torch.eye(len(x))
    luck = np.random.default_rng(seed + 1).standard_normal(len(x))
    found: Array = torch.linalg.cholesky(cover).numpy() @ luck
    return found


@dataclass(frozen=True)
class Problem:
    """A run."""

    pool: Array  # [candidate, input]
    labels: Array  # [candidate], with noise
    unseen: Array  # [target, input]
    truth: Array  # [target], without noise
    outcomes: Array  # [target], with noise
    spread: float  # of the function
    first: int  # the candidate to start with

    @classmethod
    def of(cls, task: str, seed: int) -> Problem:
        """One of a task."""
        rng = np.random.default_rng(seed)
        inputs = DRAWN[task] if task in DRAWN else FUNCTIONS[task][0]
        x = rng.random((POOL + UNSEEN, inputs))
        values = _drawn(x, seed) if task in DRAWN else FUNCTIONS[task][1](x)
        spread = float(values[POOL:].std())
        noisy = values + NOISE * spread * rng.standard_normal(len(values))
        return cls(
            x[:POOL], noisy[:POOL], x[POOL:], values[POOL:], noisy[POOL:], spread,
            int(rng.integers(POOL)),
        )  # fmt: skip

    @property
    def queries(self) -> int:
        """How many labels there will be."""
        return PER_INPUT * self.pool.shape[1]

    def measured(self, expected: Array, std: Array) -> dict[str, float]:
        """Of predictions at inputs never seen."""
        error = np.sqrt(np.square(expected - self.truth).mean()) / self.spread
        inside = np.abs(self.outcomes - expected) <= BEYOND * std
        return {"rmse": float(error), "coverage": float(inside.mean())}


def play_aline(problem: Problem, seed: int) -> dict[str, float]:
    """By the regressor without an argument."""
    learner, row, took = ActiveRegressor(seed=seed), problem.first, []
    for _ in range(problem.queries):
        learner.teach(problem.pool[row], problem.labels[row])
        began = time.process_time()
        row = learner.query(problem.pool)
        took.append(time.process_time() - began)
    found = problem.measured(*learner.predict(problem.unseen, return_std=True))
    return {**found, "query": float(np.median(took)), "cold": _cold(problem, learner)}


def _cold(problem: Problem, learner: ActiveRegressor) -> float:
    """Of a pool never seen, with all labels known."""
    other = problem.pool[::-1].copy()
    began = time.process_time()
    learner.query(other)
    return time.process_time() - began


def play_gp(problem: Problem, method: str, restarts: int, seed: int) -> dict[str, float]:
    """By a Gaussian process fitted after every label."""
    acquisition, luck = method.removeprefix("gp-"), np.random.default_rng(seed)
    aimed = problem.pool[:: POOL // AIMED][:AIMED]
    rows, fit = [problem.first], None
    while True:
        x, y = problem.pool[rows], problem.labels[rows]
        if acquisition != "rs" or len(rows) == problem.queries:
            fit = Fit.of(x, y, None, True, restarts=restarts)
        if len(rows) == problem.queries:
            assert fit is not None
            return problem.measured(*fit.predict(problem.unseen))
        score = luck.random(POOL)
        if acquisition != "rs" and fit is not None:
            score = acquisition_scores(fit, problem.pool, aimed, acquisition)
        score[rows] = -np.inf
        rows.append(int(score.argmax()))


def measure_task(task: str, runs: int, restarts: int, seed: int) -> list[Row]:
    """All methods of a task, and the ratio to the best GP."""
    found: dict[str, list[dict[str, float]]] = {}
    for number in range(runs):
        problem = Problem.of(task, 1000 * seed + number)
        found.setdefault("aline", []).append(play_aline(problem, number))
        for method in GPS:
            found.setdefault(method, []).append(play_gp(problem, method, restarts, number))
        print(task, number + 1, {m: round(f[-1]["rmse"], 4) for m, f in found.items()}, flush=True)
    rows = []
    errors = {method: torch.tensor([one["rmse"] for one in each]) for method, each in found.items()}
    for method, each in found.items():
        for metric in each[0]:
            values = torch.tensor([one[metric] for one in each])
            rows.append(row(task, method, "predictions", metric, problem.queries, mean(values)))
    best = min(GPS, key=lambda method: float(errors[method].mean()))
    against = ratio(errors["aline"], errors[best])
    rows.append(row(task, "aline", "predictions", "ratio", problem.queries, against))
    return [{**one, "against": best} if one["metric"] == "ratio" else one for one in rows]


def overall(rows: list[Row]) -> list[Row]:
    """The mean over tasks of ratios and of coverage."""
    found = []
    for metric in ("ratio", "coverage"):
        ours = [one for one in rows if one["method"] == "aline" and one["metric"] == metric]
        values = torch.tensor([one["value"] for one in ours if one["task"] != "all"])
        found.append(row("all", "aline", "predictions", metric, None, _mean(values)))
    return found


def _mean(values: torch.Tensor) -> Estimate:
    return mean(values) if len(values) > 1 else Estimate(float(values[0]), float("nan"), 1)


def kept(output: Path, tasks: list[str]) -> list[Row]:
    """Rows of tasks that are not measured again."""
    if not output.is_file():
        return []
    rows: list[Any] = json.loads(output.read_text())["rows"]
    return [one for one in rows if one["task"] not in (*tasks, "all")]


def main() -> None:
    """Measure some or all tasks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--restarts", type=int, default=2, help="of a GP's fits, beside one start")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    for task in chosen.tasks:
        measured = measure_task(task, chosen.runs, chosen.restarts, chosen.seed)
        rows = [*kept(chosen.output, [task]), *measured]
        rows += overall(rows)
        seconds = time.process_time() - began
        chosen.output.parent.mkdir(parents=True, exist_ok=True)
        written = result("regressor", rows, seconds, level=LEVEL)
        chosen.output.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
