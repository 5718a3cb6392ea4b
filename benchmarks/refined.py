"""How far `experiment.refined()` is from the exact posterior, and how long it takes.

    python benchmarks/refined.py

Writes results/refined.json. `metric=gap:NAME`: the divergence of the refined marginal from the
exact one, in nats, after the last trial of experiments that the model's own policy played (bar:
0.005). It is an average over 64 quantiles of the refined marginal, weighed by how much likelier the
exact posterior finds each. `metric=cpu_seconds`: of processor time on one thread for 3000 trials at
random designs (bar: 3). `metric=long_gap:NAME`: the divergence there, for tasks of two parameters:
a grid over more takes hours.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

import aline
from aline.engine import BatchEngine
from aline.episodes import Context, RandomPolicy
from aline.evaluation import Protocol, converged_nodes, play_protocol
from aline.evaluation.estimates import Estimate, mean
from aline.evaluation.exact import exact_log_densities
from aline.evaluation.results import Row, result, row
from aline.experiment.drawn_posterior import RefinedPosterior
from aline.experiment.long import draw_posterior
from aline.experiment.refine import Refiner, joint_of
from aline.files import write_atomically
from aline.model import Model
from aline.policies import LearnedPolicy
from aline.tasks import Task, simulator_of

POINTS = 64  # quantiles at which densities are compared
LONG = 3000
GAP, SECONDS = 0.005, 3.0  # the bars


def refined(model: Model, task: Task, seen: Context, seed: int = 0) -> RefinedPosterior:
    """As an experiment with these observations [1, n] has it."""

    def refiner_of(some: Context) -> Refiner:
        with torch.no_grad():
            q = model.network.posterior(model.network.encode(some))[0, 0]
        return Refiner(task, q, some, joint_of(model.network, some))

    draws = draw_posterior(refiner_of, seen, torch.Generator().manual_seed(seed))
    return RefinedPosterior(draws, task.spec.parameters)


def divergences(model: Model, task: Task, context: Context, nodes: tuple[int, ...]) -> Tensor:
    """Of each experiment and parameter, [batch, parameter]."""
    found = []
    for row_ in range(len(context.designs)):
        seen = Context(context.designs[[row_]], context.outcomes[[row_]])
        mixture = refined(model, task, seen, row_)._mixture
        quantiles = [(k + 0.5) / POINTS for k in range(POINTS)]
        z = torch.stack([mixture.quantile(p) for p in quantiles])  # [point, parameter]
        exact = exact_log_densities(task, seen, z[None], nodes)[0]
        apart = exact - mixture.log_prob(z)
        found.append((apart.softmax(0) * apart).sum(0) - apart.logsumexp(0) + _log(POINTS))
    return torch.stack(found)


def _log(count: int) -> float:
    return float(torch.tensor(float(count)).log())


def measured(name: str, episodes: int, seed: int) -> Iterator[Row]:
    """Rows of a shipped model: the gaps after its horizon, then long experiments."""
    model = aline.load(name)
    task = simulator_of(model.spec)
    assert task is not None
    for target in dict.fromkeys(tuple(names) for names, _ in model.spec.targets):
        protocol = Protocol(episodes, model.spec.horizon, model.spec.start, None, seed)
        policy = LearnedPolicy(BatchEngine(model.network))
        _, context = play_protocol(policy, task, target, protocol)
        nodes = converged_nodes(task, context)
        gaps = divergences(model, task, context, nodes)
        for i, parameter in enumerate(model.spec.parameters.names):
            yield row(name, "refined", ",".join(target), f"gap:{parameter}",
                      model.spec.horizon, mean(gaps[:, i]))  # fmt: skip
    yield from long(model, task, seed)


def long(model: Model, task: Task, seed: int, repeats: int = 3) -> Iterator[Row]:
    """Processor seconds for thousands of trials, and the gap there if a grid can tell it."""
    every = task.spec.parameters.names
    protocol = Protocol(repeats, LONG, model.spec.start, None, seed)
    _, context = play_protocol(RandomPolicy(task.spec.design), task, every, protocol)
    taken = []
    for one in range(repeats):
        seen = Context(context.designs[[one]], context.outcomes[[one]])
        began = time.process_time()
        refined(model, task, seen, one)
        taken.append(time.process_time() - began)
    name, target = model.spec.name, ",".join(every)
    yield row(name, "refined", target, "cpu_seconds", LONG, mean(torch.tensor(taken)))
    if len(every) > 2:
        return
    gaps = divergences(model, task, context, converged_nodes(task, context))
    for i, parameter in enumerate(every):
        yield row(name, "refined", target, f"long_gap:{parameter}", LONG, mean(gaps[:, i]))


def verdict(found: Row) -> str:
    """A row as a line, with its bar."""
    bar = SECONDS if found["metric"] == "cpu_seconds" else GAP
    met = "met" if found["value"] <= bar else "missed"
    about = f"{found['task']} ({found['target']}), {found['metric']}"
    return f"{about}: {Estimate(found['value'], found['ci95'], found['n'])}, bar {bar:g}: {met}"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", default=["location", "psychometric"])
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/refined.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    began, rows = time.monotonic(), []
    for name in options.models:
        for found in measured(name, options.episodes, options.seed):
            rows.append(found)
            print(verdict(found), flush=True)
    seconds = time.monotonic() - began
    text = json.dumps(result("refined", rows, seconds, seed=options.seed), indent=1)
    write_atomically(options.out, f"{text}\n".encode())


if __name__ == "__main__":
    main()
