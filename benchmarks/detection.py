"""A 2AFC study in dB as labs run it: the shipped model beside QUEST+ and psi-marginal.

    python benchmarks/detection.py --observers 1000 --out results/detection.json

Observers as in mQUESTPlus's examples: threshold -40 to 0 dB, beta (20 / slope) 2 to 5, lapse 0 to
0.04, each uniform, guess rate 1/2. Ours is told so when the experiment begins (`known`, `prior`)
and needs no training; the grid methods have fine grids of the same priors. All choose among the
same stimuli, in steps of 1 dB, and meet the same observers with the same luck. Rows: error of the
threshold's posterior mean in dB, its ratio to others', and how often intervals hold the threshold.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor
from torch.distributions import Uniform

from aline import load
from aline.baselines.grid import GridPolicy
from aline.baselines.psi_marginal import PsiMarginal
from aline.baselines.questplus import QuestPlus
from aline.engine import BatchEngine
from aline.episodes import Context, Offer, Policy, goal_of, play
from aline.evaluation.estimates import Estimate, mean
from aline.evaluation.results import provenance, row
from aline.experiment.knowledge import network_prior, plain_knowledge, shape_correction
from aline.files import write_atomically
from aline.model import Model
from aline.policies import LearnedPolicy
from aline.tasks import Task, simulator_of
from aline.tasks.lattice import Lattice

RANGE, STEPS = (-40.0, 0.0), 41
BETA, LAPSE, GUESS = (2.0, 5.0), 0.04, 0.5
NODES = {"threshold": 161, "slope": 16, "lapse": 6}  # of the grids
DRAWS, BATCH = 1000, 125
LEVELS = (0.5, 0.9, 0.95)
STIMULI = {"stimulus": torch.linspace(*RANGE, STEPS).tolist()}


@dataclass(frozen=True)
class Study:
    """Observers that every method meets."""

    task: Task
    theta: Tensor  # [observer, parameter]
    seed: int

    @property
    def stimuli(self) -> Tensor:
        """On offer at every trial, [stimulus, 1]; the very ones that grid methods know."""
        return self.task.spec.design.read(STIMULI)

    def play(self, policy: Policy, rows: slice, trials: int) -> Context:
        """Some observers."""
        theta = self.theta[rows]
        worlds, luck, choices = (
            torch.Generator().manual_seed(1000 * self.seed + 3 * rows.start + i) for i in range(3)
        )
        offer = Offer(self.stimuli.expand(len(theta), -1, -1))
        goal = goal_of(self.task.spec, ["threshold"]).repeat(len(theta))
        with torch.no_grad():
            return play(policy, self.task.worlds(theta, worlds), goal, steps=trials,
                        generator=choices, offers=lambda step: offer, luck=luck)  # fmt: skip


def even(low: float, high: float, count: int) -> Tensor:
    """The middles of equal parts."""
    return low + (high - low) * (torch.arange(count) + 0.5) / count


def drawn_observers(task: Task, count: int, seed: int) -> Tensor:
    """Truths [observer, parameter] on the network's scale."""
    generator = torch.Generator().manual_seed(seed)
    share = torch.rand(3, count, generator=generator)
    beta = BETA[0] + (BETA[1] - BETA[0]) * share[1]
    return task.spec.parameters.to_network({
        "threshold": RANGE[0] + (RANGE[1] - RANGE[0]) * share[0],
        "slope": 20 / beta,
        "guess": torch.full((count,), GUESS),
        "lapse": LAPSE * share[2],
    })  # fmt: skip


def fine_grid(task: Task) -> Lattice:
    """Of the same priors."""
    parameters = task.spec.parameters
    values = {
        "threshold": even(*RANGE, NODES["threshold"]),
        "slope": 20 / even(*BETA, NODES["slope"]),
        "guess": torch.tensor([GUESS]),
        "lapse": even(0.0, LAPSE, NODES["lapse"]),
    }
    axes = [(parameters.coordinate(name, v), torch.full((len(v),), 1 / len(v)))
            for name, v in values.items()]  # fmt: skip
    return Lattice.of_axes(axes)


Found = dict[str, Tensor]
"""Of each observer: `mean` in dB, and `rank`, the posterior mass below the truth."""


def by_grid(policy: GridPolicy, study: Study, lengths: Sequence[int]) -> dict[int, Found]:
    """What a grid method learns."""
    parts = []
    for start in range(0, len(study.theta), BATCH):
        rows = slice(start, start + BATCH)
        context = study.play(policy, rows, max(lengths))
        goal = goal_of(study.task.spec, ["threshold"]).repeat(len(study.theta[rows]))
        state, found = policy.begin(goal), {}
        for step in range(max(lengths)):
            state = policy.observe(state, context.designs[:, step], context.outcomes[:, step])
            if step + 1 in lengths:
                found[step + 1] = _of_weights(policy, state.weight, study.theta[rows, 0])
        parts.append(found)
    return _joined(parts)


def _of_weights(policy: GridPolicy, weight: Tensor, truth: Tensor) -> Found:
    z = policy.lattice.z[:, 0]
    below = (weight * (z < truth[:, None])).sum(1)
    # A node stands for a cell: half of the truth's own cell lies below it, on average.
    cell = (weight * ((z - truth[:, None]).abs() == (z - truth[:, None]).abs().amin(1, True))).sum(
        1
    )
    rank = below + cell * (torch.rand(len(truth), generator=torch.Generator().manual_seed(1)) - 0.5)
    return {"mean": weight @ policy.values["threshold"], "rank": rank}


def by_network(
    model: Model, study: Study, lengths: Sequence[int], prior: Tensor, correction: Any
) -> dict[int, Found]:
    """What the shipped model learns."""
    parts = []
    for start in range(0, len(study.theta), BATCH):
        rows = slice(start, start + BATCH)
        truth = study.theta[rows]
        priors = prior.expand(len(truth), -1, -1)
        policy = LearnedPolicy(BatchEngine(model.network), prior=priors)
        context = study.play(policy, rows, max(lengths))
        told = partial(_told, model, priors, correction, truth)
        parts.append({n: told(context.first(n)) for n in lengths})
    return _joined(parts)


@torch.no_grad()
def _told(model: Model, prior: Tensor, correction: Any, truth: Tensor, seen: Context) -> Found:
    network = model.network
    encoded = network.encode(Context(seen.designs, seen.outcomes, prior=prior))
    draws = network.joint(encoded).sample(DRAWS, torch.Generator().manual_seed(1))[:, 0]
    weight = torch.ones(draws.shape[:2]).double()
    if correction is not None:
        weight = correction(draws.flatten(0, 1)).view(draws.shape[:2]).clamp_min(-1e30).softmax(1)
    weight = weight / weight.sum(1, keepdim=True)
    values = network.spec.parameters.to_labels(draws)["threshold"].double()
    rank = (weight * (draws[..., 0] < truth[:, None, 0])).sum(1)
    return {"mean": (weight * values).sum(1), "rank": rank}


def _joined(parts: list[dict[int, Found]]) -> dict[int, Found]:
    return {
        n: {key: torch.cat([part[n][key] for part in parts]) for key in parts[0][n]}
        for n in parts[0]
    }


def main(
    model: str = "detection",
    observers: int = 1000,
    trials: Annotated[list[int] | None, typer.Option(help="32 and 128.")] = None,
    seed: int = 0,
    out: Path = Path("results/detection.json"),
) -> None:
    """Measure all methods."""
    lengths = trials or [32, 128]
    trained = load(model).in_units(stimulus=RANGE)
    task = simulator_of(trained.spec)
    assert task is not None
    study = Study(task, drawn_observers(task, observers, seed), seed)
    knowledge = plain_knowledge(
        trained,
        {"guess": GUESS},
        {"slope": Uniform(20 / BETA[1], 20 / BETA[0]), "lapse": Uniform(0.0, LAPSE)},
    )
    prior = network_prior(trained.spec.parameters, knowledge)
    assert prior is not None
    correction = shape_correction(trained.spec.parameters, knowledge)
    lattice = fine_grid(task)
    found = {
        "aline": by_network(trained, study, lengths, prior, correction),
        "questplus": by_grid(QuestPlus(task, lattice, STIMULI), study, lengths),
        "psi-marginal": by_grid(PsiMarginal(task, lattice, STIMULI), study, lengths),
    }
    truth = task.spec.parameters.to_labels(study.theta)["threshold"]
    rows = [one for n in lengths for one in rows_of(found, truth, n)]
    for one in rows:
        words = f"{one['step']:>5} {one['method']:<14}{one['metric']:<26}"
        print(f"{words}{one['value']:8.3f} ± {one['ci95']:.3f}")
    plain = {"bench": "detection", **provenance(), "rows": rows}
    write_atomically(out, json.dumps(plain, indent=1).encode())


def rows_of(found: dict[str, dict[int, Found]], truth: Tensor, n: int) -> list[dict[str, Any]]:
    """After n trials."""
    rows, squares = [], {}
    for name, told in found.items():
        squares[name] = (told[n]["mean"] - truth).square().double()
        one = mean(squares[name])
        rmse = one.value**0.5
        rows.append(_row(name, "rmse", n, Estimate(rmse, one.ci95 / (2 * rmse), one.n)))
        away = (told[n]["rank"] - 0.5).abs()
        rows += [_row(name, f"coverage_{level}", n, mean((away <= level / 2).double()))
                 for level in LEVELS]  # fmt: skip
    for name in ("questplus", "psi-marginal"):
        rows.append(_row("aline", f"rmse_over_{name}", n, ratio(squares["aline"], squares[name])))
    return rows


def ratio(ours: Tensor, theirs: Tensor) -> Estimate:
    """Of root mean squares, paired; its interval by the delta method."""
    a, b = float(ours.mean()), float(theirs.mean())
    value = (a / b) ** 0.5
    relative = mean(ours / a - theirs / b).ci95 / 2
    return Estimate(value, value * relative, len(ours))


def _row(method: str, metric: str, step: int, one: Estimate) -> dict[str, Any]:
    return row("detection", method, "threshold", metric, step, one)


if __name__ == "__main__":
    typer.run(main)
