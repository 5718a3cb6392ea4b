"""How fast training is: aline against the paper's loop (plain.py), in one run on one machine.

    python benchmarks/training.py --output results/training.json

Location finding, joint training, 200 episodes a round, horizon 30. `plain` and `aline` score 200
candidates at every step; `aline-box` proposes a point. A round plays a batch with every design
drawn from the policy and takes one gradient step on it, for q and the policy both. By default aline
takes several gradient steps on each batch, scores fewer candidates, and plays some rounds in other
ways: `aline-default` and `aline-box-default` are those rounds as they are, in batches of the usual
size, which learn more from an episode. That is the speed that a user gets. What the weights are
does not matter to the time, so they are untrained.

Each method runs in processes of its own, by turns: plain in one with as many threads as there are
cores, aline in a worker a core, which is how `aline train` runs. Its peak memory is that of all its
processes, with Python and torch (plain needs about 9 GB). Measure on an idle machine: whatever else
runs is in the numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import plain
import torch

from aline import tasks
from aline.evaluation.estimates import Estimate, mean
from aline.evaluation.results import Row, result, row
from aline.model import fresh
from aline.training import TrainingConfig
from aline.training.budget import Budget
from aline.training.run import Run, seeded
from aline.training.train import choose_policy_loss, default_model
from aline.training.workers import WORKER, Workers, joined

EPISODES, CANDIDATES = plain.EPISODES, plain.CANDIDATES
BUSY = 0.5  # a one-minute load above this is said aloud
MEMORY_BAR = 0.25
SPEED_BARS = {"aline": 12.0, "aline-box": 80.0}
USED = ("aline-default", "aline-box-default")  # settings that are used: ratios without a bar
# Every design of every round is drawn from the policy, and each batch serves one gradient step.
ONCE = {"random_share": 0.0, "greedy_share": 0.0, "updates": 1, "policy_updates": 1}


@dataclass(frozen=True)
class Learning:
    """How much is learned from an episode, so that rounds can be compared."""

    gradient_steps: int
    posteriors: int  # states of each episode that q learns from, over these steps
    decisions: int  # choices of each episode that the policy learns from


@dataclass(frozen=True)
class Method:
    """Something that trains in rounds."""

    learning: Learning
    round: Callable[[], None]
    episodes: int  # that a round plays


def plain_method(episodes: int, seed: int, workers: Workers) -> Method:
    """The paper's joint epoch."""
    assert workers.count == 1
    network, optimiser = plain.new_network(seed)
    generator = torch.Generator().manual_seed(seed)

    def epoch() -> None:
        plain.learn(network, optimiser, plain.play(network, generator, episodes=episodes))

    return Method(Learning(1, plain.HORIZON, plain.HORIZON), epoch, episodes)


def aline_method(
    episodes: int, seed: int, workers: Workers, policy: str, **settings: float
) -> Method:
    """Aline's joint round, with either kind of policy and some settings of the training.

    Without any, in batches of the default size.
    """
    task = tasks.get("location").fitted()
    model = replace(default_model(task, differentiable=True), policy=policy)
    config = replace(TrainingConfig(**task.training), warmup=0.0, **settings)
    if settings:
        config = replace(config, batch=episodes)
    run = Run(
        task=task,
        config=config,
        budget=Budget(rounds=100_000),
        seed=seed,
        network=fresh(task.spec, model, seeded(seed, -1)),
        policy_loss=choose_policy_loss(task, model, config, differentiable=True),
        folder=None,
        workers=workers,
    )
    states = config.decisions if policy == "box" else 1
    learning = Learning(
        config.updates, config.updates * config.prefixes, config.policy_updates * states
    )
    return Method(learning, run.step, config.batch)


METHODS: dict[str, Callable[[int, int, Workers], Method]] = {
    "plain": plain_method,
    "aline": partial(aline_method, policy="pool", candidates=CANDIDATES, **ONCE),
    "aline-default": partial(aline_method, policy="pool"),
    "aline-box": partial(aline_method, policy="box", **ONCE),
    "aline-box-default": partial(aline_method, policy="box"),
}
# Timed rounds of a method at each of its turns: about as long as each other, but for plain's.
ROUNDS = {"plain": 2, "aline": 15, "aline-default": 15, "aline-box": 100, "aline-box-default": 30}


@dataclass(frozen=True)
class Turn:
    """What one process measured."""

    seconds: list[float]  # a round
    peak_bytes: int
    learning: Learning
    episodes: int  # a round


def take_turn(
    name: str, episodes: int, seed: int, rounds: int, threads: int, worker: str | None
) -> Turn:
    """Time rounds after an untimed one; to be called in a process of its own."""
    torch.set_num_threads(threads)
    if worker is not None:
        os.environ[WORKER] = worker
    with joined() as workers:
        method = METHODS[name](episodes, seed, workers)
        method.round()
        seconds = [timed(method.round) for _ in range(rounds)]
    return Turn(seconds, peak_memory(), method.learning, method.episodes)


def side_by_side(name: str, episodes: int, seed: int, rounds: int, cores: int) -> Turn:
    """A turn of a method on some cores: by threads for plain, by workers for aline."""
    count = 1 if name == "plain" else cores
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(count, get_context("spawn")) as processes,
    ):
        jobs = [
            processes.submit(
                take_turn, name, episodes, seed, rounds, cores // count,
                None if count == 1 else f"{rank} {count} {folder}/meeting",
            )
            for rank in range(count)
        ]  # fmt: skip
        turns = [job.result() for job in jobs]
    return replace(turns[0], peak_bytes=sum(turn.peak_bytes for turn in turns))


def timed(action: Callable[[], None]) -> float:
    """Seconds an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def peak_memory() -> int:
    """The most bytes this process ever held.

    Linux lets a process inherit the peak of its parent: the parent here only imports, as its
    children do.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(
    *, turns: int, rounds: dict[str, int], cores: int, episodes: int = EPISODES
) -> dict[str, list[Turn]]:
    """Every method by turns, so that a machine that slows down slows all of them."""
    found: dict[str, list[Turn]] = {name: [] for name in METHODS}
    for turn in range(turns):
        for name, results in found.items():
            print(f"turn {turn + 1} of {turns}: {name}", file=sys.stderr, flush=True)
            results.append(side_by_side(name, episodes, turn, rounds[name], cores))
    return found


@dataclass(frozen=True)
class Measured:
    """One method's numbers over all its turns."""

    speed: Estimate  # episodes a second
    memory: Estimate  # bytes, the highest of any turn
    learning: Learning


def summarise(turns: list[Turn]) -> Measured:
    """Episodes played a second over all timed rounds; the interval by the delta method."""
    seconds = mean(torch.tensor([s for turn in turns for s in turn.seconds]))
    rate = turns[0].episodes / seconds.value
    speed = Estimate(rate, rate * seconds.ci95 / seconds.value, seconds.n)
    peak = max(turn.peak_bytes for turn in turns)
    return Measured(speed, Estimate(peak, math.nan, len(turns)), turns[0].learning)


def ratio(of: Estimate, to: Estimate) -> Estimate:
    """One number over another, with the interval of independent errors."""
    value = of.value / to.value
    error = value * math.hypot(of.ci95 / of.value, to.ci95 / to.value)
    return Estimate(value, error, of.n)


def rows(measured: dict[str, Measured]) -> list[Row]:
    """The numbers in the layout of every result; ratios say of what, and their bar."""
    found = []
    for name, mine in measured.items():
        found.append(_row(name, "episodes_per_second", mine.speed, **asdict(mine.learning)))
        found.append(_row(name, "peak_memory", mine.memory, unit="bytes"))
    base = measured["plain"]
    for name in (*SPEED_BARS, *USED):
        mine, bar = measured[name], SPEED_BARS.get(name)
        speed, memory = ratio(mine.speed, base.speed), ratio(mine.memory, base.memory)
        found.append(_row(name, "ratio", speed, of="episodes_per_second", bar=bar))
        less = None if bar is None else MEMORY_BAR
        found.append(_row(name, "ratio", memory, of="peak_memory", bar=less))
    return found


def _row(method: str, metric: str, estimate: Estimate, **more: Any) -> Row:
    target = "source_x,source_y"
    found = row("location", method, target, metric, plain.HORIZON, estimate)
    known = math.isfinite(estimate.ci95)  # a peak or a single round has no interval, JSON no NaN
    return {**found, "ci95": estimate.ci95 if known else None, **more}


def show(measured: dict[str, Measured], found: list[Row]) -> None:
    """Print what each method does, then how it compares with the bars."""
    print(f"{'':47}  what a played episode is learned from")
    head = f"{'method':17}  {'episodes/s':>16}  {'peak':>10}"
    print(f"{head}  {'gradient steps':>14}  {'states (q)':>10}  {'decisions (policy)':>18}")
    for name, mine in measured.items():
        learned, known = mine.learning, math.isfinite(mine.speed.ci95)
        error = f" ± {mine.speed.ci95:.1f}" if known else ""
        print(
            f"{name:17}  {f'{mine.speed.value:.1f}{error}':>16}  {mine.memory.value / 1e6:7.0f} MB"
            f"  {learned.gradient_steps:14}  {learned.posteriors:10}  {learned.decisions:18}"
        )
    for each in found:
        if each["metric"] == "ratio":
            print(verdict(each))


def verdict(each: Row) -> str:
    """A ratio beside its bar, in words."""
    is_speed = each["of"] == "episodes_per_second"
    value, bar = each["value"], each["bar"]
    said = f"{value:.1f} times" if is_speed else f"{value:.3f} of"
    kind = "episodes/s" if is_speed else "peak memory"
    if bar is None:
        return f"{each['method']:17}  {said} plain's {kind}, as it is used"
    met = value >= bar if is_speed else value <= bar
    need = f"at least {bar:.0f}" if is_speed else f"at most {bar}"
    return f"{each['method']:17}  {said} plain's {kind}; {need}: {'met' if met else 'MISSED'}"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    parser.add_argument("--quick", action="store_true", help="one short turn a method")
    parser.add_argument("--cores", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.cores)  # the machine's description names it
    load = os.getloadavg()[0]
    if load > BUSY:
        print(f"the machine is not idle (load {load:.1f}): times will be off", file=sys.stderr)
    rounds = {name: max(1, n // 5) for name, n in ROUNDS.items()} if arguments.quick else ROUNDS
    start = time.perf_counter()
    turns = measure(turns=1 if arguments.quick else 3, rounds=rounds, cores=arguments.cores)
    measured = {name: summarise(each) for name, each in turns.items()}
    found = rows(measured)
    show(measured, found)
    if arguments.output:
        whole = result("training", found, time.perf_counter() - start, load_at_start=load)
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(whole, indent=2) + "\n")


if __name__ == "__main__":
    main()
