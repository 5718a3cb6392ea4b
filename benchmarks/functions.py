"""What each part of the plug-in for functions adds (src/aline/functions, docs/notes/functions.md).

    python benchmarks/functions.py --output results/functions.json
    python benchmarks/functions.py --runs 40 --tasks gp1d branin --output results/functions.json

A method is who asks / who answers. All methods of a task meet the same functions, noise, candidates
and first points, so that their differences are paired. Of gp1d and gp2d there are `--runs`, in the
task's units; of each of the seven functions half as many, in a user's units with known noise.

Predictions: the ensemble of kernels asks, and answers by one normal a point; the network starts
from that normal. "lattice" averages either with smoother functions. Parameters: asked by hypotheses
or where the network is least sure of an outcome; its posterior is told of hypotheses with or
without draws near the data. A task that is measured again replaces its rows.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import torch
from torch import Tensor

from aline import zoo
from aline.baselines import UncertaintyPolicy
from aline.engine import BatchEngine, Engine
from aline.episodes import FixedPool, Goal, Policy, play
from aline.evaluation.active import LEVEL, Problem, Watched, make_problem, ratio
from aline.evaluation.estimates import mean
from aline.evaluation.problems import FUNCTIONS
from aline.evaluation.results import Row, result, row
from aline.functions.ensemble_engine import EnsembleEngine
from aline.functions.hypotheses import Hypotheses
from aline.functions.standardised import Known
from aline.functions.task import NOISE
from aline.model import Mixture, Model
from aline.policies import LearnedPolicy, Memory
from aline.tasks import get

TASKS = ("gp1d", "gp2d", *FUNCTIONS)
STEPS, PARAMETER_STEPS = {1: 30, 2: 50}, 30
LOOKS = (10, 15)  # and the last
HYPERPARAMETERS = ("lengthscale", "output_scale")
CHUNK = 10  # runs played together
BASE = "ensemble/ensemble"
PAIRS = {  # what each method is held against, beside BASE
    "lattice/network+lattice": ("ensemble/network", "lattice/ensemble+lattice"),
    "hypotheses/network": ("uncertainty/network", "hypotheses/network without draws"),
}
Found = dict[tuple[str, str, int], Tensor]  # method, metric, step -> [run]


@dataclass
class Looks:
    """Takes down, after some steps, what is measured of each who answers."""

    asker: str
    engine: Engine  # the asker's
    steps: tuple[int, ...]
    measure: dict[str, Callable[[Any], dict[str, Tensor]]]  # of an engine's state
    found: Found = field(default_factory=dict)

    def __call__(self, memory: Memory) -> None:
        """One more step."""
        step = self.engine.context(memory.state).length
        for name, measured in self.measure.items() if step in self.steps else ():
            for metric, value in measured(memory.state).items():
                self.found[f"{self.asker}/{name}", metric, step] = value.double()


def prediction_errors(problem: Problem, engine: Engine, seed: int) -> Callable[[Any], Any]:
    """Measures predictions at the targets, in the user's units."""
    luck = torch.Generator().manual_seed(seed)
    truth, outcomes = (w.answer(problem.targets, luck) for w in (problem.exact, problem.world))
    unit = float(problem.spec.outcome.log_volume(torch.zeros(())).exp())

    def measured(state: Any) -> dict[str, Tensor]:
        belief = cast(Mixture, engine.predictive(state, problem.targets))
        rank = belief.cdf(outcomes)
        return {
            "rmse": unit * (belief.moments()[0] - truth).square().mean(1).sqrt(),
            "log_density": belief.log_prob(outcomes).mean(1) - math.log(unit),
            "coverage": ((rank - 0.5).abs() <= LEVEL / 2).double().mean(1),
        }

    return measured


def posterior_densities(problem: Problem, asker: Engine, engine: Engine) -> Callable[[Any], Any]:
    """Measures log q of the true parameters in the user's units, averaged over these."""

    def measured(state: Any) -> dict[str, Tensor]:
        theta, parameters = problem.world.theta, problem.spec.parameters
        q = engine.posterior(state if engine is asker else engine.read(asker.context(state)))
        return {"log_q": (q.log_prob(theta) - parameters.log_volume(theta)).mean(1)}

    return measured


def play_predictions(model: Model, problem: Problem, seed: int) -> Found:
    """Some runs whose goal is predictions, with and without the lattice where it has a place."""
    engines = {"ensemble": EnsembleEngine(model.network), "network": BatchEngine(model.network)}
    found: Found = {}
    for asker in ("ensemble", "lattice") if problem.standardise else ("ensemble",):
        wrapped, suffix = cast(dict[str, Any], engines), ""
        if problem.standardise:
            advisor = model.network.advisor
            wrapped = {name: advisor.in_units(engine, NOISE) for name, engine in engines.items()}
            suffix = "+lattice" if asker == "lattice" else ""
        measure = {n + suffix: prediction_errors(problem, e, seed) for n, e in wrapped.items()}
        steps = STEPS[len(problem.spec.design)]
        looks = Looks(asker, wrapped["network"], (*LOOKS, steps), measure)
        has_lattice = not problem.standardise or asker == "lattice"
        with nullcontext() if has_lattice else patch.object(Known, "smooth", lambda *_: None):
            play_runs(LearnedPolicy(wrapped["network"]), looks, problem, problem.aimed(), seed)
        found |= looks.found
    return found


def play_parameters(model: Model, problem: Problem, seed: int) -> Found:
    """Some runs whose goal is the parameters."""
    engine, bare = BatchEngine(model.network), BatchEngine(zoo.load(model.spec.name).network)
    cast(Hypotheses, bare.network.advisor.hypotheses).draws = False
    measure = {
        "network": posterior_densities(problem, engine, engine),
        "network without draws": posterior_densities(problem, engine, bare),
    }
    askers: dict[str, Policy] = {
        "hypotheses": LearnedPolicy(engine),
        "uncertainty": UncertaintyPolicy(engine),
    }
    found: Found = {}
    for asker, policy in askers.items():
        looks = Looks(asker, engine, (*LOOKS, PARAMETER_STEPS), measure)
        play_runs(policy, looks, problem, problem.aimed(HYPERPARAMETERS), seed)
        found |= looks.found
    return found


@torch.inference_mode()
def play_runs(policy: Policy, looks: Looks, problem: Problem, goal: Goal, seed: int) -> None:
    """To the last look; the noise is the same for all who ask."""
    chance, luck = (torch.Generator().manual_seed(seed + i) for i in (0, 1))
    pool, steps = FixedPool(problem.pool), looks.steps[-1]
    play(Watched(policy, looks), problem.world, goal, steps=steps, generator=chance, luck=luck,
         offers=pool, given=problem.start)  # fmt: skip


def measure_task(name: str, runs: int, seed: int) -> Iterator[Row]:
    """All methods of a task."""
    dimensions = FUNCTIONS[name].dimensions if name in FUNCTIONS else int(name[2])
    model = zoo.load(f"gp{dimensions}d")
    task = get(model.spec.name, **model.spec.config).described_by(model.spec)
    plays = {"predictions": play_predictions}
    if name not in FUNCTIONS:
        plays["parameters"] = play_parameters
    for target, played in plays.items():
        problem = make_problem(name, task, runs, seed)
        firsts = range(0, runs, CHUNK)
        parts = [played(model, problem.runs(i, i + CHUNK), seed + i) for i in firsts]
        whole = {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
        yield from rows_of(name, target, whole)


def rows_of(name: str, target: str, found: Found) -> Iterator[Row]:
    """Of every method, and of each beside what it is held against: ratios of errors, or gains."""
    for (method, metric, step), value in found.items():
        yield row(name, method, target, metric, step, mean(value))
        for against in (BASE, *PAIRS.get(method, ())):
            other = found.get((against, metric, step))
            if other is None or against == method:
                continue
            is_error = metric == "rmse"
            gain = ratio(value, other) if is_error else mean(value - other)
            label = f"{metric}_ratio" if is_error else f"{metric}_gain"
            yield {**row(name, method, target, label, step, gain), "against": against}


def main() -> None:
    """Measure tasks, and write after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    began, path = time.process_time(), given.output
    rows: list[Row] = json.loads(path.read_text())["rows"] if path.is_file() else []
    for name in given.tasks:
        runs = max(2, given.runs // 2) if name in FUNCTIONS else given.runs
        rows = [old for old in rows if old["task"] != name]
        rows += measure_task(name, runs, given.seed)
        seconds = time.process_time() - began
        print(f"{name}: {runs} runs, {seconds:.0f} s of CPU so far", flush=True)
        whole = result("functions", rows, seconds, seed=given.seed)
        path.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
