"""The shipped discounting model on DAD's protocol, whose prior it is told when it begins.

    python benchmarks/discounting.py --experiments 2000 --out results/discounting.json

The model knows two laws and a wide prior of the rate. Here people discount as a hyperbola, which is
given as known, and log k has DAD's prior N(-4.25, 1.5), both by `Experiment(known=..., prior=...)`.
Rows: the information gained in 20 choices, sPCE and sNMC with L = 5000 as published, and J, what
the model's own posterior holds.
"""

from __future__ import annotations

import json
import math
import runpy
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor
from torch.distributions import Normal

from aline import load
from aline.engine import BatchEngine
from aline.episodes import Context, goal_of, offers_of, play
from aline.evaluation.bounds import episode_bounds
from aline.evaluation.estimates import mean
from aline.evaluation.results import provenance, row
from aline.experiment.knowledge import network_prior, plain_knowledge
from aline.files import write_atomically
from aline.model import Model
from aline.policies import LearnedPolicy
from aline.tasks import Task

PROTOCOL = Path(__file__).parent / "protocols" / "discounting.py"
KNOWN, PRIOR = {"model": "hyperbolic"}, {"log_k": Normal(-4.25, 1.5)}
GOAL = ("log_k", "alpha")
CONTRASTS, BATCH, PUBLISHED = 5000, 250, 5.02


def prior_of(model: Model) -> Tensor:
    """What the model is told, [1, parameter, 2] on the network's scale."""
    prior = network_prior(model.spec.parameters, plain_knowledge(model, KNOWN, PRIOR))
    assert prior is not None
    return prior.view(1, -1, 2)


def played(model: Model, task: Task, theta: Tensor, prior: Tensor, seed: int) -> Context:
    """People of the protocol, asked by the model; both have the same axes on their scales."""
    generators = (torch.Generator().manual_seed(3 * seed + i) for i in range(3))
    worlds, luck, choices = generators
    policy = LearnedPolicy(BatchEngine(model.network), prior=prior.expand(len(theta), -1, -1))
    goal = goal_of(model.spec, list(GOAL)).repeat(len(theta))
    with torch.no_grad():
        return play(
            policy, task.worlds(theta, worlds), goal, steps=task.spec.horizon, generator=choices,
            offers=offers_of(task.spec.design, len(theta)), luck=luck,
        )  # fmt: skip


@torch.no_grad()
def held(model: Model, people: dict[str, Tensor], seen: Context, prior: Tensor) -> Tensor:
    """Of each person, log q of the truth over the prior, in nats."""
    parameters, network = model.spec.parameters, model.network
    truth = parameters.to_network(
        {"model": torch.zeros(len(people["k"])), "log_k": people["k"].log(),
         "alpha": people["alpha"]}
    )  # fmt: skip
    columns = [parameters.index(name)[0] for name in GOAL]
    priors = prior.expand(len(truth), -1, -1)
    encoded = network.encode(Context(seen.designs, seen.outcomes, prior=priors))
    found = network.joint(encoded).log_prob(truth[:, None, None], columns)[:, 0, 0]
    before = Normal(*prior[..., columns, :].unbind(-1)).log_prob(truth[:, columns]).sum(-1)
    return found - before


def main(
    model: str = "discounting",
    experiments: Annotated[int, typer.Option(help="People.")] = 2000,
    seed: int = 0,
    out: Path = Path("results/discounting.json"),
) -> None:
    """Measure the model."""
    trained = load(model)
    task = runpy.run_path(str(PROTOCOL))["task"].checked().fitted()
    prior, parts = prior_of(trained), []
    for number in range(math.ceil(experiments / BATCH)):
        theta = task.draw(BATCH, torch.Generator().manual_seed(1000 * seed + number)).theta
        seen = played(trained, task, theta, prior, 1000 * seed + number)
        generator = torch.Generator().manual_seed(number)
        bounds = episode_bounds(task, seen, theta, CONTRASTS, generator)
        parts.append([*bounds, held(trained, task.spec.parameters.to_user(theta), seen, prior)])
    rows = []
    for metric, each in zip(("spce", "snmc", "j"), zip(*parts, strict=True), strict=True):
        published = PUBLISHED if metric == "spce" else None
        estimate = mean(torch.cat(each).double())
        one = row("discounting", "aline", ",".join(GOAL), metric, task.spec.horizon, estimate)
        rows.append({**one, "published": published})
        print(f"{metric:<6}{estimate.value:8.3f} ± {estimate.ci95:.3f}")
    plain = {"bench": "discounting", **provenance(), "rows": rows}
    write_atomically(out, json.dumps(plain, indent=1).encode())


if __name__ == "__main__":
    typer.run(main)
