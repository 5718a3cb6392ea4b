"""What values known and priors chosen at run time are worth: q beside the exact posterior.

    python benchmarks/knowledge.py [MODEL] [--experiments 500] [--out results/knowledge.json]

Experiments are played by the model's own policy. The gap is the mean of log p - log q of the truth,
nats a parameter, with p by quadrature on a grid around the posterior.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

from aline import load
from aline.engine import BatchEngine
from aline.episodes import Context, goal_of, play
from aline.evaluation.estimates import mean
from aline.evaluation.results import result
from aline.experiment.knowledge import network_prior
from aline.files import write_atomically
from aline.model import Model
from aline.model.prior import KNOWN, own_prior
from aline.policies import LearnedPolicy
from aline.spaces.outcomes import Mixture
from aline.tasks import Task, simulator_of
from aline.training.priors import draw_priors, draw_truths, without_known

NODES = 21  # of the grid, a parameter that is not known
FAR = 6.0  # standard deviations of q that the grid reaches to each side


@dataclass(frozen=True)
class Played:
    """Experiments with their truths."""

    theta: Tensor  # [batch, parameter]
    context: Context


def priors_of(model: Model, kind: str, count: int, generator: torch.Generator) -> Tensor:
    """Priors [count, parameter, 2] of one kind."""
    size = len(model.spec.parameters)
    if kind == "own":
        return own_prior(count, size)
    if kind == "family":
        drawn = draw_priors(3 * count, size, generator)
        is_own = (drawn == own_prior(1, size)).flatten(1).all(1)
        return drawn[~is_own][:count]
    values = {"guess": 0.5} if kind == "guess" else {"guess": 0.5, "lapse": 0.02}
    found = network_prior(model.spec.parameters, {n: {"known": v} for n, v in values.items()})
    assert found is not None
    return found.expand(count, -1, -1)


def played(model: Model, task: Task, prior: Tensor, generator: torch.Generator) -> Played:
    """By the model's own policy, for all that is not known."""
    theta = draw_truths(prior, generator)
    theta = torch.where(prior[..., 1] > KNOWN, theta, prior[..., 0])
    goal = goal_of(model.spec, model.spec.parameters.labels).repeat(len(prior))
    policy = LearnedPolicy(BatchEngine(model.network), prior=prior)
    with torch.inference_mode():
        context = play(policy, task.worlds(theta, generator), without_known(goal, prior),
                       steps=model.spec.horizon, generator=generator)  # fmt: skip
    return Played(theta, Context(context.designs, context.outcomes, prior=prior))


def gaps(model: Model, task: Task, found: Played) -> Tensor:
    """Log p - log q of the truth [batch, parameter]; NaN of what is known."""
    with torch.no_grad():
        q = model.network.posterior(model.network.encode(found.context))[:, 0]
    rows = [_gap(task, found, q, row) for row in range(len(found.theta))]
    return torch.stack(rows)


def _gap(task: Task, found: Played, q: Mixture, row: int) -> Tensor:
    prior, truth = found.context.prior, found.theta[row].double()
    assert prior is not None
    centre, width = prior[row].double().unbind(-1)
    middle, spread = (part[row].double() for part in q.moments())
    axes = [_axis(*numbers) for numbers in zip(centre, width, middle, spread, truth, strict=True)]
    grid = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)
    seen = found.context
    fit = task.log_prob(grid.float(), seen.designs[row, None], seen.outcomes[row, None]).sum(-1)
    density = fit.double() - 0.5 * ((grid - centre) / width).square().sum(-1)
    shaped = density.view([len(axis) for axis in axes])
    exact = [_log_marginal(shaped, axes, i, truth[i]) for i in range(len(axes))]
    log_q = q.each(lambda part: part[row].double()).log_prob(truth)
    gap = torch.stack(exact) - log_q
    return gap.masked_fill(width <= KNOWN, math.nan)


def _axis(centre: Tensor, width: Tensor, middle: Tensor, spread: Tensor, truth: Tensor) -> Tensor:
    """Nodes of one parameter: the value itself, where it is known."""
    if width <= KNOWN:
        return centre[None]
    low = torch.minimum(middle - FAR * spread, truth - spread)
    high = torch.maximum(middle + FAR * spread, truth + spread)
    low = torch.maximum(low, centre - FAR * width)
    high = torch.minimum(high, centre + FAR * width)
    return torch.linspace(float(low), float(high), NODES).double()


def _log_marginal(density: Tensor, axes: list[Tensor], index: int, truth: Tensor) -> Tensor:
    """Log density of one parameter at the truth, between nodes by a parabola of the logarithm."""
    others = [axis for axis in range(density.dim()) if axis != index]
    along = density.logsumexp(others) if others else density
    if len(along) == 1:
        return torch.zeros((), dtype=torch.float64)
    step = axes[index][1] - axes[index][0]
    along = along - along.logsumexp(0) - step.log()
    place = ((truth - axes[index][0]) / step).clamp(1, len(along) - 2)
    near = int(place.round())
    below, here, above = along[near - 1], along[near], along[near + 1]
    away = place - near
    return here + away * (above - below) / 2 + away**2 * (above + below - 2 * here) / 2


def rows_of(model: Model, kind: str, values: Tensor) -> Iterator[dict[str, Any]]:
    """Rows of a result file."""
    for name, column in zip(model.spec.parameters.names, values.T, strict=True):
        told = column[~column.isnan()]
        if len(told):
            one = mean(told)
            yield {"task": model.spec.name, "method": f"aline, {kind}", "target": name,
                   "metric": "gap", "step": model.spec.horizon, "value": round(one.value, 4),
                   "ci95": round(one.ci95, 4), "n": one.n}  # fmt: skip


def main(
    model: Annotated[str, typer.Argument(help="A model trained with priors.")] = "detection",
    experiments: Annotated[int, typer.Option(help="A kind of knowledge.")] = 500,
    seed: int = 0,
    out: Path = Path("results/knowledge.json"),
) -> None:
    """Measure gaps with nothing, values, and priors known."""
    trained = load(model)
    task = simulator_of(trained.spec)
    assert task is not None
    rows: list[dict[str, Any]] = []
    began = time.monotonic()
    for kind in ("own", "guess", "guess and lapse", "family"):
        generator = torch.Generator().manual_seed(seed)
        prior = priors_of(trained, kind, experiments, generator)
        values = gaps(trained, task, played(trained, task, prior, generator))
        for row in rows_of(trained, kind, values):
            print(f"{row['method']:<28}{row['target']:<12}{row['value']:.4f} ± {row['ci95']:.4f}")
            rows.append(row)
    found = result("knowledge", rows, time.monotonic() - began)
    write_atomically(out, json.dumps(found, indent=1).encode())


if __name__ == "__main__":
    typer.run(main)
