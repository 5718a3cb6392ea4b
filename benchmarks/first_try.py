"""What a user's first own simulator gets: training with defaults, beside exact greedy play.

    python benchmarks/first_try.py photons enzyme --budget 10min --out results/first_try.json

Each file of benchmarks/first_tries is a task as a user would write it. A task is trained by
`aline.train(task, budget)`. Then the learned policy, exact greedy play by particles and random
designs meet the same truths with the same luck. Rows: information (sPCE), J of q's joint posterior,
the share of greedy play's information, each parameter's error (root mean square of the posterior
mean in the task's units) by q on the learned policy's data and by particles on greedy play's, and
how often q's 50, 90 and 95 % intervals hold the truth. Rows of tasks not named stay as they are.
"""

from __future__ import annotations

import json
import runpy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

import aline
from aline.baselines.particles import ParticlePolicy
from aline.episodes import Context, Policy, RandomPolicy
from aline.evaluation.bounds import episode_bounds
from aline.evaluation.estimates import Estimate, mean
from aline.evaluation.information import gains
from aline.evaluation.judge import learned
from aline.evaluation.results import provenance, row
from aline.evaluation.simulated import Protocol, play_protocol
from aline.files import write_atomically
from aline.model import Model
from aline.tasks import Task

FOLDER = Path(__file__).parent / "first_tries"
KEPT = Path("runs/first_try")  # the trained models, to look into
CONTRASTS, SEED, BATCH = 100_000, 11, 50
LEVELS = (0.5, 0.9, 0.95)
Played = tuple[Tensor, Context]


def names() -> list[str]:
    """The tasks that there are."""
    return sorted(path.stem for path in FOLDER.glob("*.py"))


def played(policy: Policy, task: Task, episodes: int) -> Played:
    """Truths, and what the policy saw of them."""
    protocol = Protocol(episodes, task.spec.horizon, seed=SEED)
    return play_protocol(policy, task, list(task.spec.parameters.priors), protocol)


def information(task: Task, found: Played) -> Tensor:
    """By the likelihood, in nats [episode]."""
    theta, context = found
    generator = torch.Generator().manual_seed(SEED)
    return episode_bounds(task, context, theta, CONTRASTS, generator)[0]


def errors(task: Task, found: Played, draws: Tensor) -> Tensor:
    """Squared errors of the means of draws [episode, n, parameter], in the task's units."""
    return (in_units(task, draws).mean(1) - in_units(task, found[0])).square()


def in_units(task: Task, theta: Tensor) -> Tensor:
    """The same, in the task's units."""
    return torch.stack(list(task.spec.parameters.to_user(theta).values()), -1)


@torch.no_grad()
def drawn(model: Model, context: Context) -> Tensor:
    """From q's joint posterior, [episode, n, parameter]."""
    generator = torch.Generator().manual_seed(SEED)
    rows = zip(context.designs.split(BATCH), context.outcomes.split(BATCH), strict=True)
    network = model.network
    parts = [network.joint(network.encode(Context(*one))).sample(500, generator) for one in rows]
    return torch.cat(parts)[:, 0]


def exact_draws(task: Task, context: Context) -> Tensor:
    """From the exact posterior, by particles."""
    policy, found = ParticlePolicy(task), []
    for designs, outcomes in zip(
        context.designs.split(BATCH), context.outcomes.split(BATCH), strict=True
    ):
        goal = aline.episodes.goal_of(task.spec, list(task.spec.parameters.priors))
        state = policy.begin(goal.repeat(len(designs)))
        for step in range(context.length):
            state = policy.observe(state, designs[:, step], outcomes[:, step])
        found.append(state.draw(500, torch.Generator().manual_seed(SEED)))
    return torch.cat(found)


def coverage(theta: Tensor, draws: Tensor) -> Iterator[tuple[float, Tensor]]:
    """For each level, whether central intervals hold the truths [episode, parameter]."""
    rank = (draws < theta[:, None]).float().mean(1)
    for level in LEVELS:
        yield level, ((rank - 0.5).abs() <= level / 2).float()


def root(one: Estimate) -> Estimate:
    """Of a mean square."""
    value = one.value**0.5
    return Estimate(value, one.ci95 / (2 * value), one.n)


class Trial:
    """One task: its rows as they are measured."""

    def __init__(self, name: str, task: Task):
        self.name, self.task, self.rows = name, task, list[dict[str, Any]]()

    def add(self, method: str, target: str, metric: str, one: Estimate) -> None:
        """Keep a row and print it."""
        self.rows.append(row(self.name, method, target, metric, self.task.spec.horizon, one))
        words = f"{self.name:<12}{method:<8}{target:<14}{metric:<14}"
        print(f"{words}{one.value:8.3f} ± {one.ci95:.3f}", flush=True)

    def measure(self, model: Model, episodes: int) -> None:
        """The learned policy beside greedy play and chance."""
        task = self.task = self.task.described_by(model.spec)
        labels = task.spec.parameters.labels
        ours = played(learned(model, task), task, episodes)
        self.add("aline", "all", "J", mean(gains(model.network, *ours)))
        draws = drawn(model, ours[1])
        for level, holds in coverage(ours[0], draws):
            for label, column in zip(labels, holds.T, strict=True):
                self.add("aline", label, f"coverage {level}", mean(column))
        own = errors(task, ours, draws)
        for label, column in zip(labels, own.T, strict=True):
            self.add("aline", label, "rmse", root(mean(column)))
        if task.log_likelihood is not None:
            self.beside_greedy(ours, own, episodes)

    def beside_greedy(self, ours: Played, own: Tensor, episodes: int) -> None:
        """What greedy play learns, and what the exact posterior makes of our data."""
        task, labels = self.task, self.task.spec.parameters.labels
        greedy = played(ParticlePolicy(task), task, episodes)
        random = played(RandomPolicy(task.spec.design), task, episodes)
        told = {"aline": ours, "greedy": greedy, "random": random}
        nats = {name: information(task, found) for name, found in told.items()}
        for name, values in nats.items():
            self.add(name, "all", "spce", mean(values))
        share = mean(nats["aline"] - nats["greedy"])
        best = float(nats["greedy"].mean())
        self.add(
            "aline", "all", "share", Estimate(1 + share.value / best, share.ci95 / best, share.n)
        )
        exact = errors(task, ours, exact_draws(task, ours[1]))
        theirs = errors(task, greedy, exact_draws(task, greedy[1]))
        for i, label in enumerate(labels):
            self.add("exact", label, "rmse", root(mean(exact[:, i])))
            self.add("greedy", label, "rmse", root(mean(theirs[:, i])))


def main(
    tasks: Annotated[list[str] | None, typer.Argument(help="Files of first_tries; all.")] = None,
    budget: str = "10min",
    episodes: int = 500,
    seed: int = 0,
    out: Path = Path("results/first_try.json"),
) -> None:
    """Train and measure tasks; rows of others stay."""
    before = json.loads(out.read_text()) if out.exists() else {}
    kept, trained = before.get("rows", []), before.get("trained", {})
    for name in tasks or names():
        task = runpy.run_path(str(FOLDER / f"{name}.py"))["task"]
        began, cpu = time.monotonic(), time.process_time()
        model = aline.train(task, budget=budget, seed=seed)
        trial = Trial(name, task.checked().fitted())
        spent = time.process_time() - cpu
        model.save(KEPT / name)
        trial.add("aline", "all", "cpu seconds", Estimate(spent, 0.0, 1))
        print(
            f"{name}: {model.training['rounds']} rounds, {time.monotonic() - began:.0f} s",
            flush=True,
        )
        trial.measure(model, episodes)
        kept = [one for one in kept if one["task"] != name] + trial.rows
        made = provenance()
        trained[name] = {"budget": budget, "commit": made["commit"], "seed": seed}
        found = {"bench": "first_try", **made, "trained": trained, "rows": kept}
        write_atomically(out, json.dumps(found, indent=1).encode())


if __name__ == "__main__":
    typer.run(main)
