"""Psychometric experiments of a thousand trials: what they cost a trial, and what q loses."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from aline import zoo
from aline.app.bench.bench import BenchSettings, Measured, Progress, Row
from aline.app.bench.psychometric_rows import PAIRS, TASK, measured
from aline.engine import BatchEngine
from aline.episodes import Context
from aline.evaluation.estimates import Estimate, mean, proportion
from aline.evaluation.exact import exact_log_marginals
from aline.evaluation.observers import Played, network_errors, play_observers, posterior_rmse
from aline.evaluation.simulated import posteriors_after
from aline.experiment import Experiment
from aline.model import Mixture, Model
from aline.policies import LearnedPolicy
from aline.tasks import Task, get

LONG = (30, 100, 300, 1000)
EXACT_OBSERVERS, EXACT_LENGTH, EXACT_NODES = 12, 300, (64, 32, 12, 12)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, for what is timed."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def endless(settings: BenchSettings, progress: Progress) -> Measured:
    """Pauses, memory and drift of one long experiment."""
    task, model = get(TASK), zoo.load(TASK)
    trials = 300 if settings.quick else LONG[-1]
    with one_thread():
        told = partial(progress, f"{trials} trials")
        return Measured(_run_on(task, model, trials, settings.seed, told))


def _run_on(
    task: Task, model: Model, trials: int, seed: int, progress: Callable[[int, int], None]
) -> list[Row]:
    generator = torch.Generator().manual_seed(seed)
    world = task.draw(1, generator)
    experiment = Experiment(model, PAIRS[0], horizon=trials)
    pauses, early = [], 0.0
    for number in range(trials):
        began = time.perf_counter()
        trial = experiment.ask()
        middle = time.perf_counter()
        answer = world.answer(task.spec.design.read(trial.design)[None], generator).item() > 0
        resumed = time.perf_counter()
        experiment.tell(trial, answer)
        _ = experiment.posterior().mean
        pauses.append(middle - began + time.perf_counter() - resumed)
        if number == trials // 10:
            early = _megabytes()
        if number % 50 == 49:
            progress(number + 1, trials)
    drift = _drift(model, experiment)
    values = {
        "longest_pause": Estimate(max(pauses[1:]), 0.0, trials),
        "median_pause_first_100": Estimate(statistics.median(pauses[1:100]), 0.0, 99),
        "median_pause_last_100": Estimate(statistics.median(pauses[-100:]), 0.0, 100),
        "memory_growth_mb": Estimate(_megabytes() - early, 0.0, trials),
        "drift": Estimate(drift, 0.0, trials),
    }
    return [measured(name, PAIRS[0], "aline", trials, value) for name, value in values.items()]


def _drift(model: Model, experiment: Experiment) -> float:
    """How far the posterior kept trial by trial is from one of all data read at once.

    The largest difference of a mean, in prior standard deviations.
    """
    state = experiment._state
    (live,) = state.engine.posterior(state.data).moments()[0]
    at_once = posteriors_after(model.network, state.context, [len(state.rows)])
    return float((live - at_once.moments()[0][0, 0]).abs().max())


def _megabytes() -> float:
    """The memory that this process holds; where the system does not say, the most it ever held."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * resource.getpagesize() / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def long(settings: BenchSettings, progress: Progress) -> Measured:
    """What q loses in experiments beyond its training."""
    task, model = get(TASK), zoo.load(TASK)
    lengths = [length for length in LONG if length <= (100 if settings.quick else LONG[-1])]
    count = settings.count(40, 3)
    told = partial(progress, "what long experiments lose")
    policy = LearnedPolicy(BatchEngine(model.network))
    options = {"count": count, "seed": settings.seed, "steps": lengths[-1]}
    played = play_observers(policy, task, PAIRS[0], **options)  # type: ignore[arg-type]
    posterior = posteriors_after(model.network, played.context, lengths)
    rank = posterior.cdf(played.theta[:, None])
    error = posterior_rmse(network_errors(model.network, played, lengths), PAIRS[0])
    rows = []
    for i, length in enumerate(lengths):
        rows.append(measured("long_rmse", PAIRS[0], "aline", length, mean(error[:, i])))
        for k, name in enumerate(task.spec.parameters.names):
            inside = proportion((rank[:, i, k] - 0.5).abs() <= 0.45)
            rows.append(measured(f"long_coverage:{name}", PAIRS[0], "aline", length, inside))
    return Measured(rows + _gaps(task, played, posterior, lengths, told))


def _gaps(
    task: Task,
    played: Played,
    posterior: Mixture,
    lengths: Sequence[int],
    progress: Callable[[int, int], None],
) -> list[Row]:
    """What q loses against the exact posterior, of some observers: a long one takes seconds."""
    some = slice(0, EXACT_OBSERVERS)
    context = Context(played.context.designs[some], played.context.outcomes[some])
    short = [length for length in lengths if length <= EXACT_LENGTH]
    theta = played.theta[some]
    exact = exact_log_marginals(task, context, theta, short, EXACT_NODES, progress)
    gaps = exact - posterior.log_prob(played.theta[:, None])[some, : len(short)]
    return [
        measured(f"long_gap:{name}", PAIRS[0], "aline", length, mean(gaps[:, i, k]))
        for i, length in enumerate(short)
        for k, name in enumerate(task.spec.parameters.names)
    ]
