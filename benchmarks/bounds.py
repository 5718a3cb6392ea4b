"""How fast sPCE and sNMC are, against a plain broadcast implementation of the same formula.

    python benchmarks/bounds.py --output results/bounds.json

CES as in the paper's table 2: 10 trials an episode. Two sets of episodes: random designs, and
designs near indifference, as a good policy asks them. The plain implementation writes the
likelihood down as the formula reads and broadcasts it over draws, episodes and trials; both run in
chunks, on the same threads. The full evaluation (2000 episodes, L = 10^7) is projected from the
rate over the last draws, where the running sums have settled. Measure on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aline.episodes import Context, RandomPolicy
from aline.evaluation import Estimate, Protocol, episode_bounds, play_protocol, result, row
from aline.spaces import Parameters
from aline.tasks import Task, get
from aline.tasks.ces import LEAST, LIMIT, TAU

EPISODES, FULL = 2000, 10**7
BARS = {"ratio": 5.0, "minutes": 40.0, "gigabytes": 2.0}


def near_indifference(task: Task, episodes: int) -> tuple[Tensor, Context]:
    """Episodes that ask what the task names as informative for each truth."""
    generator = torch.Generator().manual_seed(1)
    world = task.draw(episodes, generator)
    theta = task.spec.parameters.to_user(world.theta[:, None])
    assert task.explore is not None
    named = task.explore(theta, task.spec.horizon, generator)
    designs = torch.stack([named[name] for name in task.spec.design.names], -1)
    x = task.spec.design.to_network(designs)
    return world.theta, Context(x, world.answer(x, generator))


def plain_bounds(
    task: Task, context: Context, theta: Tensor, contrastive: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """sPCE and sNMC a reader of the paper would write: broadcast, sum, logsumexp."""
    parameters, chunk = task.spec.parameters, 64
    designs = task.spec.design.to_user(context.designs)
    eta = task.spec.outcome.to_user(context.outcomes)
    truth = plain_log_likelihood(parameters, theta[None], designs, eta)[0].double()
    parts = []
    for start in range(0, contrastive, chunk):
        draws = parameters.sample(min(chunk, contrastive - start), generator)[:, None]
        each = plain_log_likelihood(parameters, draws, designs, eta)
        parts.append(each.logsumexp(0).double())
    others = torch.stack(parts).logsumexp(0)
    lower = truth - torch.logaddexp(others, truth) + math.log(contrastive + 1)
    return lower, truth - others + math.log(contrastive)


def plain_log_likelihood(
    parameters: Parameters, theta: Tensor, designs: Tensor, eta: Tensor
) -> Tensor:
    """Of theta [draw, episode or 1, parameter] and designs [episode, step, 6]: [draw, episode]."""
    user = parameters.to_user(theta[:, :, None])  # [draw, episode, 1 (, 3)]
    baskets = designs.clamp_min(LEAST)
    first, second = baskets[..., :3], baskets[..., 3:]
    rho, u = user["rho"][..., None], user["u"]
    values = [
        (user["alpha"] * basket**rho).sum(-1) ** (1 / user["rho"]) for basket in (first, second)
    ]
    mean = u * (values[0] - values[1])
    std = u * TAU * (1 + (first - second).norm(dim=-1))
    inside = torch.distributions.Normal(mean, std).log_prob(eta)
    above = torch.special.log_ndtr((mean - LIMIT) / std)
    below = torch.special.log_ndtr((-LIMIT - mean) / std)
    high, low = eta > LIMIT - 1e-4, eta < -LIMIT + 1e-4
    total: Tensor = torch.where(high, above, torch.where(low, below, inside)).sum(-1)
    return total


def seconds_a_pair(
    task: Task, theta: Tensor, context: Context, draws: int, plain: bool
) -> tuple[float, Tensor]:
    """Seconds for each draw of each episode, and the lower bounds; for ours, once settled."""
    generator = torch.Generator().manual_seed(0)
    if plain:
        began = time.perf_counter()
        lower, _ = plain_bounds(task, context, theta, draws, generator)
        return (time.perf_counter() - began) / (draws * len(theta)), lower
    times: list[tuple[int, float]] = []
    lower, _ = episode_bounds(
        task,
        context,
        theta,
        draws,
        generator,
        lambda done, total: times.append((done, time.perf_counter())),
    )
    (first, began), (last, ended) = times[(len(times) - 1) // 2], times[-1]
    return (ended - began) / ((last - first) * len(theta)), lower


def measure(episodes: int, draws: int, plain_draws: int) -> list[dict[str, Any]]:
    """Rows for both sets of episodes."""
    task = get("ces")
    names = tuple(task.spec.parameters.priors)
    policy = RandomPolicy(task.spec.design)
    played = {
        "random": play_protocol(policy, task, names, Protocol(episodes, task.spec.horizon, 1)),
        "near-indifference": near_indifference(task, episodes),
    }
    rows = []
    for name, (theta, context) in played.items():
        ours, _ = seconds_a_pair(task, theta, context, draws, plain=False)
        few = min(episodes, 256)
        part = Context(context.designs[:few], context.outcomes[:few])
        theirs, lower = seconds_a_pair(task, theta[:few], part, plain_draws, plain=True)
        _, same = seconds_a_pair(task, theta[:few], part, plain_draws, plain=False)
        found = {
            "nanoseconds_per_pair": 1e9 * ours,
            "plain_nanoseconds_per_pair": 1e9 * theirs,
            "ratio": theirs / ours,
            "projected_minutes": ours * EPISODES * FULL / 60,
            "difference": float((lower.mean() - same.mean()).abs()),  # other draws, same number
        }
        target = ",".join(names)
        for metric, value in found.items():
            estimate = Estimate(value, math.nan, 1)
            rows.append({**row("ces", name, target, metric, None, estimate), "ci95": None})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    memory = row("ces", "all", "", "peak_gigabytes", None, Estimate(peak, math.nan, 1))
    return [*rows, {**memory, "ci95": None}]


def show(rows: list[dict[str, Any]]) -> None:
    """Print every number, and whether it meets its bar."""
    for found in rows:
        bar = {
            "ratio": ("at least", BARS["ratio"], found["value"] >= BARS["ratio"]),
            "projected_minutes": ("at most", BARS["minutes"], found["value"] <= BARS["minutes"]),
            "peak_gigabytes": ("at most", BARS["gigabytes"], found["value"] <= BARS["gigabytes"]),
        }.get(found["metric"])
        verdict = (
            "" if bar is None else f"  bar {bar[0]} {bar[1]:g}: {'met' if bar[2] else 'MISSED'}"
        )
        print(f"{found['method']:18} {found['metric']:28} {found['value']:10.3f}{verdict}")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--draws", type=int, default=40_000, help="contrastive draws, timed")
    parser.add_argument("--plain-draws", type=int, default=4_000, help="at least 2000")
    arguments = parser.parse_args()
    began = time.monotonic()
    rows = measure(arguments.episodes, arguments.draws, arguments.plain_draws)
    show(rows)
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        whole = result("bounds", rows, time.monotonic() - began)
        arguments.output.write_text(json.dumps(whole, indent=2) + "\n")


if __name__ == "__main__":
    main()
