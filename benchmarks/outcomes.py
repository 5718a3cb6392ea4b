"""Every kind of outcome against the truth: a small task of each, trained, and its exact posterior.

    python benchmarks/outcomes.py --budget 10min

Writes results/outcomes.json: the gap of q to the exact posterior (a grid), in nats a parameter,
and of predictions to the exact ones, in nats an outcome, and how often 90 % of what was predicted
holds what comes. The bars: 0.05 nats, and 90 % within its interval and 3 points.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from outcome_kinds import KINDS, Kind
from torch import Tensor

from aline.episodes import Context, RandomPolicy, goal_of, play
from aline.evaluation.estimates import Estimate, mean, proportion
from aline.evaluation.gap import evaluate
from aline.evaluation.results import Row, result, row
from aline.model import Model
from aline.tasks import Task
from aline.training.train import train

NEW = ("categorical", "ordinal", "count", "few", "choice and time", "dependent")
NAMES = ("slope", "shift")
TARGETS = {NAMES: 0.7, ("predictions",): 0.3}
HORIZON = 15
LEVEL = 0.9
NODES = 201  # of the grid along each parameter: prior quantiles
DRAWS = 999  # of a prediction, among which the outcome finds its rank
BAR, SLACK = 0.05, 0.03


def main() -> None:
    """Train, measure, write."""
    options = parse()
    began, rows = time.monotonic(), []
    for name in options.kinds:
        rows += measured(name, KINDS[name], options)
        found = result("outcomes", rows, time.monotonic() - began, budget=options.budget)
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    for line in verdicts(rows):
        print(line)


def parse() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--budget", default="10min", help="of each training")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(NEW))
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/outcomes.json"))
    return parser.parse_args()


def measured(name: str, kind: Kind, options: argparse.Namespace) -> list[Row]:
    """The rows of one kind."""
    task = kind.task(name=name, horizon=HORIZON, targets=TARGETS).fitted()
    model = train(task, options.budget, seed=options.seed, progress=False, verdict=False)
    task = task.described_by(model.spec)
    rows: list[Row] = evaluate(model, task, options.episodes, seed=options.seed + 1)["rows"]
    for metric, estimate in predicted(model, task, options.episodes, options.seed + 2):
        rows.append(row(name, "aline-box", "predictions", metric, HORIZON, estimate))
    return rows


def predicted(model: Model, task: Task, episodes: int, seed: int) -> Iterator[tuple[str, Estimate]]:
    """Predictions of one outcome anywhere, after experiments with random designs."""
    spec, generator = task.spec, torch.Generator().manual_seed(seed)
    world, goal = task.draw(episodes, generator), goal_of(spec, NAMES).repeat(episodes)
    random = RandomPolicy(spec.design)
    context = play(random, world, goal, steps=HORIZON, generator=generator)
    points = spec.design.sample(episodes, 1, generator)
    outcome = world.answer(points, generator)
    with torch.inference_mode():
        belief = model.network.predictive(model.network.encode(context), points)[:, 0, 0]
        log_q = belief.log_prob(outcome[:, 0])
        draws = spec.outcome.split(belief.sample(DRAWS, generator))
    exact = exact_log_predictive(task, context, points, outcome)
    yield "prediction_gap", mean(exact - log_q)
    for part, value in spec.outcome.split(outcome[:, 0]).items():
        inside = (ranks(draws[part], value, generator) - 0.5).abs() <= LEVEL / 2
        yield f"prediction_coverage:{part}", proportion(inside)


def ranks(draws: Tensor, value: Tensor, generator: torch.Generator) -> Tensor:
    """The place of value [batch] among draws [draw, batch], ties broken by chance.

    If it comes from where they do, it is uniform, whatever the kind of outcome.
    """
    less, same = (draws < value).float().sum(0), (draws == value).float().sum(0)
    chance = torch.rand(value.shape, generator=generator)
    return (less + chance * (same + 1)) / (len(draws) + 1)


def exact_log_predictive(task: Task, context: Context, points: Tensor, outcome: Tensor) -> Tensor:
    """Log p(outcome | data) [batch] at points [batch, 1, design], by a grid over the prior.

    On the network's scale, as a belief's is: the same outcome's volume is taken off both.
    """
    share = (torch.arange(NODES) + 0.5) / NODES
    grid = torch.cartesian_prod(*[torch.special.ndtri(share)] * len(task.spec.parameters))
    found = []
    for i in range(len(outcome)):
        seen = context.designs[i : i + 1], context.outcomes[i : i + 1]
        weight = task.log_prob(grid, *seen).double().sum(-1)
        new = task.log_prob(grid, points[i : i + 1], outcome[i : i + 1]).double()[:, 0]
        found.append((weight + new).logsumexp(0) - weight.logsumexp(0))
    return torch.stack(found) + task.spec.outcome.log_volume(outcome[:, 0])


def verdicts(rows: list[Row]) -> Iterator[str]:
    """A line a bar."""
    for one in rows:
        metric, value, slack = one["metric"], one["value"], one["ci95"]
        if one["step"] != HORIZON:
            continue
        if metric.startswith(("gap:", "prediction_gap")):
            verdict = "ok" if value <= BAR else "ABOVE THE BAR"
        elif metric.startswith(("coverage:", "prediction_coverage")):
            verdict = "ok" if abs(value - LEVEL) <= slack + SLACK else "NOT CALIBRATED"
        else:
            continue
        yield f"{one['task']:>16}  {metric:<28} {value:7.3f} ± {slack:.3f}  {verdict}"


if __name__ == "__main__":
    main()
