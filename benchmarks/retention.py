"""Which model is it: power or exponential forgetting, beside exact greedy design.

    aline train retention --out retention
    python benchmarks/retention.py retention [--experiments 2000] [--out results/retention.json]

The same simulated people for every method. `greedy` asks at the delay that is expected to tell most
about the model, by the exact posterior on a grid. `probability` is what the true model is given
after each stage: by the network for `aline`, and by the exact posterior for `greedy`, `random` and
`aline-exact`, the last of these given the data that aline's own policy has gathered. `gap` is the
mean of log p - log q of the true model, with p exact, on these data.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from aline import load
from aline.engine import BatchEngine
from aline.episodes import Context, Goal, Offer, Policy, RandomPolicy
from aline.evaluation.estimates import mean
from aline.evaluation.results import result, row
from aline.evaluation.simulated import Protocol, play_protocol, posteriors_after
from aline.files import write_atomically
from aline.policies import LearnedPolicy
from aline.spaces.outcomes.cut import CutMixture
from aline.tasks import Task, get
from aline.tasks.retention import ITEMS, MODELS

NODES = 40  # of the grid over a, and over b
STAGES = (1, 5, 10)


@dataclass(frozen=True)
class Greedy:
    """Asks what is expected to tell most about the model, by the exact posterior on a grid."""

    task: Task
    points: Tensor  # [design, 1]: all delays
    table: Tensor  # [model, node, design, outcome]: probabilities

    @classmethod
    def of(cls, task: Task) -> Greedy:
        """Nodes are the middles of equal masses of the prior."""
        middles = torch.special.ndtri((torch.arange(NODES) + 0.5) / NODES)
        a, b = torch.cartesian_prod(middles, middles).unbind(-1)
        points = task.spec.design.points
        assert points is not None
        x = task.spec.design.to_network(points)
        outcomes = torch.arange(ITEMS + 1.0)
        rows = []
        for place in range(len(MODELS)):
            model = task.spec.parameters.coordinate("model", torch.tensor(place))
            z = torch.stack([model.expand(len(a)), a, b, b], -1)
            designs = x.repeat_interleave(len(outcomes), 0)
            log_prob = task.log_prob(z, designs[None], outcomes.repeat(len(x))[None])
            rows.append(log_prob.exp().view(len(z), len(x), len(outcomes)))
        return cls(task, x, torch.stack(rows))

    def begin(self, goal: Goal) -> Tensor:
        """Log weights [batch, model, node]."""
        return torch.zeros(len(goal.parameters), *self.table.shape[:2])

    def choose(self, state: Tensor, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The delay with the largest mutual information of the model and the answer."""
        weight = state.flatten(1).softmax(-1).view(state.shape)
        model = weight.sum(-1)
        within = weight / model[..., None].clamp_min(1e-30)
        answers = torch.einsum("bmn,mndy->bmdy", within, self.table)
        average = (model[..., None, None] * answers).sum(1)
        told = torch.special.entr(average).sum(-1)
        told = told - (model[..., None] * torch.special.entr(answers).sum(-1)).sum(1)
        return self.points[told.argmax(-1)]

    def observe(self, state: Tensor, design: Tensor, outcome: Tensor) -> Tensor:
        """Weigh the nodes."""
        place = (design[:, None, 0] - self.points[:, 0]).abs().argmin(-1)
        return state + self.table[:, :, place, outcome.long()].movedim(-1, 0).log()

    def after(self, context: Context, stages: int) -> Tensor:
        """Probabilities [batch, model] by the exact posterior after so many stages."""
        state = torch.zeros(len(context.designs), *self.table.shape[:2])
        for i in range(stages):
            state = self.observe(state, context.designs[:, i], context.outcomes[:, i])
        return state.flatten(1).softmax(-1).view(state.shape).sum(-1)


def main(
    model: Path,
    experiments: Annotated[int, typer.Option(help="Simulated people.")] = 2000,
    seed: int = 0,
    out: Annotated[Path | None, typer.Option(help="Where to write the rows.")] = None,
) -> None:
    """Measure a trained model of retention."""
    trained = load(model)
    task = get("retention").described_by(trained.spec)
    greedy, steps = Greedy.of(task), max(STAGES)
    own = LearnedPolicy(BatchEngine(trained.network), task=task)
    policies: dict[str, Policy] = {
        "greedy": greedy, "random": RandomPolicy(task.spec.design), "aline-exact": own
    }  # fmt: skip
    rows, began = [], time.monotonic()
    protocol = Protocol(experiments, steps, seed=seed)
    found: dict[str, Tensor] = {}
    for method, policy in policies.items():
        theta, context = play_protocol(policy, task, ["model"], protocol)
        truth = task.spec.parameters.to_user(theta)["model"]
        for stage in STAGES:
            exact = greedy.after(context, stage)[torch.arange(experiments), truth]
            found[f"{method} {stage}"] = exact.double()
        if policy is own:
            q = posteriors_after(trained.network, context, STAGES)
            assert isinstance(q, CutMixture)
            given = q.probabilities()[:, :, 0].gather(2, truth[:, None, None].expand(-1, 3, 1))
            for i, stage in enumerate(STAGES):
                found[f"aline {stage}"] = given[:, i, 0].double()
                gap = (found[f"aline-exact {stage}"] / found[f"aline {stage}"]).log()
                rows.append(row("retention", "aline", "model", "gap", stage, mean(gap)))
    for key, value in found.items():
        method, stage = key.split(" ")
        rows.append(row("retention", method, "model", "probability", int(stage), mean(value)))
        if method != "greedy":
            apart = mean(value - found[f"greedy {stage}"])
            rows.append(row("retention", method, "model", "minus_greedy", int(stage), apart))
    for one in rows:
        name = f"{one['method']:<12} {one['metric']:<13} after {one['step']:>2}"
        print(f"{name}  {one['value']:.4f} ± {one['ci95']:.4f}")
    if out is not None:
        spent = time.monotonic() - began
        found_ = result("retention", rows, spent, seed=seed, training=trained.training)
        write_atomically(out, (json.dumps(found_, indent=1) + "\n").encode())


if __name__ == "__main__":
    typer.run(main)
