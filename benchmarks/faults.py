"""Are faults found? Shipped models on worlds that are not as they were trained to expect.

    python benchmarks/faults.py

Writes results/faults.json: of 200 experiments with each planted fault, in how many a warning came
within the horizon (`metric=caught`; `metric=false_alarms` where all is as it should be). A shift is
one of three standard deviations of the noise, that is of outcomes given the parameters: the model
can explain part of it by other parameters. Beside it, for answers, for shifts of location finding
and for functions, `best_possible` is what no check can surpass that warns of 5 % of good
experiments, even if it knows which fault to look for and when it begins: the most powerful test,
whose statistic is the exact marginal likelihood ratio (Neyman and Pearson). The bars: 90 %, and
5 %. `--limits 1000` instead plays so many good experiments of another seed for the capital that
raises a flag, and keeps it in the cards.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

import aline
from aline.episodes import Context
from aline.evaluation import exact_gains
from aline.evaluation.estimates import proportion
from aline.evaluation.faults import Fault, check_experiments, faulty_experiments
from aline.evaluation.judge import with_check
from aline.evaluation.results import Row, result, row
from aline.experiment.shifts import can_shift
from aline.experiment.typical import LEVEL
from aline.files import write_atomically
from aline.functions.kernels import KINDS, covariance
from aline.functions.task import NOISE
from aline.model import Model
from aline.tasks import Task, World, simulator_of

REPEATS = 256  # of a trial, to know its noise by
NODES = (64, 64)  # of the exact evidence of two parameters
PROCESSES = 1000  # of the prior of functions
PARTICLES = 10_000  # of the prior, for exact likelihood ratios
TRIAL = 10  # at which late faults begin
CAUGHT = 0.9


def noisier(world: World, designs: Tensor, outcome: Tensor, luck: torch.Generator) -> Tensor:
    """Three times as far from what is expected."""
    mean, _ = _noise(world, designs)
    return _within_limits(world, mean + 3 * (outcome - mean))


def shifted(world: World, designs: Tensor, outcome: Tensor, luck: torch.Generator) -> Tensor:
    """Higher by three standard deviations of the noise."""
    _, spread = _noise(world, designs)
    return _within_limits(world, outcome + 3 * spread)


def at_random(world: World, designs: Tensor, outcome: Tensor, luck: torch.Generator) -> Tensor:
    """A coin's answers."""
    return torch.where(torch.rand(outcome.shape, generator=luck) < 0.5, 1.0, -1.0)


def swapped(world: World, designs: Tensor, outcome: Tensor, luck: torch.Generator) -> Tensor:
    """Yes for no."""
    return -outcome


def _noise(world: World, designs: Tensor) -> tuple[Tensor, Tensor]:
    many = world.answer(designs.expand(-1, REPEATS, -1), torch.Generator().manual_seed(1))
    return many.mean(1, keepdim=True), many.std(1, keepdim=True)


def _within_limits(world: World, outcome: Tensor) -> Tensor:
    limits = world.task.spec.outcome.saturated()
    return outcome if limits is None else outcome.clamp(*limits)


MEASURED = [Fault(noisier, 1), Fault(shifted, 1), Fault(noisier, TRIAL), Fault(shifted, TRIAL)]
ANSWERED = [Fault(at_random, TRIAL), Fault(swapped, TRIAL), Fault(swapped, 1)]
PAIRS = (("threshold", "slope"), ("guess", "lapse"))


class Subject(NamedTuple):
    """A model, its task, and what its experiments aim at."""

    model: Model
    task: Task
    target: tuple[str, ...]


def subjects(names: list[str]) -> Iterator[Subject]:
    """Shipped models, with each of their main goals."""
    for name in names:
        model = aline.load(name)
        task = simulator_of(model.spec)
        assert task is not None
        goals = PAIRS if name == "psychometric" else (tuple(model.spec.targets[0][0]),)
        for goal in goals:
            yield Subject(model, task, goal)


def played(subject: Subject, fault: Fault | None, episodes: int, seed: int) -> Context:
    """Experiments with a fault."""
    return faulty_experiments(*subject, fault, episodes, seed)


def has_best(subject: Subject, fault: Fault) -> bool:
    """Whether the exact marginal likelihood with a fault is known."""
    if subject.model.network.config.plugin == "functions":
        return True
    is_grid = can_shift(subject.task) and len(subject.task.spec.parameters) == len(NODES)
    return subject.model.spec.outcome.kind == "binary" or (fault.change is shifted and is_grid)


def log_ratio(subject: Subject, context: Context, fault: Fault) -> Tensor:
    """Of the exact marginal likelihoods with a fault and without it, [episode]."""
    if subject.model.network.config.plugin == "functions":
        return _ratio_of_functions(subject, context, fault)
    if fault.change is not shifted:
        return _ratio_of_answers(subject, context, fault)
    world = subject.task.draw(len(context.designs), torch.Generator().manual_seed(0))
    _, spread = _noise(world, context.designs[:, :1])
    back = context.outcomes - 3 * spread * (torch.arange(context.length) >= fault.trial - 1)
    return _evidence(subject.task, Context(context.designs, back)) - _evidence(
        subject.task, context
    )


def _evidence(task: Task, context: Context) -> Tensor:
    """The exact log marginal likelihood, [episode], from what any one truth has beside it."""
    theta = torch.zeros(len(context.designs), len(NODES))
    at_one = task.log_prob(theta, context.designs, context.outcomes).double().sum(1)
    return at_one - exact_gains(task, context, theta, NODES)


def _ratio_of_answers(subject: Subject, context: Context, fault: Fault) -> Tensor:
    generator, before = torch.Generator().manual_seed(0), fault.trial - 1
    theta = torch.randn(PARTICLES, len(subject.task.spec.parameters), generator=generator)
    flipped = torch.cat([context.outcomes[:, :before], -context.outcomes[:, before:]], 1)
    found = []
    for x, y, other in zip(context.designs, context.outcomes, flipped, strict=True):
        usual = subject.task.log_prob(theta, x[None], y[None])
        if fault.change is swapped:
            with_fault = subject.task.log_prob(theta, x[None], other[None]).sum(1).logsumexp(0)
        else:
            coins = (len(y) - before) * math.log(0.5)
            with_fault = usual[:, :before].sum(1).logsumexp(0) + coins
        found.append(with_fault - usual.sum(1).logsumexp(0))
    return torch.stack(found)


def _ratio_of_functions(subject: Subject, context: Context, fault: Fault) -> Tensor:
    """By Gaussian processes with kernels, lengthscales and scales of the prior."""
    generator, spec = torch.Generator().manual_seed(0), subject.task.spec
    drawn = spec.parameters.to_user(spec.parameters.sample(PROCESSES, generator))
    kind = torch.randint(len(KINDS), (PROCESSES,), generator=generator)
    lengthscale, size = drawn["lengthscale"].double(), drawn["output_scale"].double()
    is_faulty = torch.arange(context.length) >= fault.trial - 1
    noise = NOISE * torch.where(is_faulty & (fault.change is noisier), 3.0, 1.0).double()
    shift = 3 * NOISE * (is_faulty & (fault.change is shifted))
    found = []
    for x, y in zip(spec.design.to_user(context.designs).double(),
                    spec.outcome.to_user(context.outcomes).double(), strict=True):  # fmt: skip
        apart = ((x[:, None] - x)[None] / lengthscale.view(PROCESSES, 1, 1, -1)).square().sum(-1)
        prior = size.view(-1, 1, 1).square() * covariance(kind, apart.flatten(1)).view(apart.shape)
        found.append(_log_normal(prior, noise, y - shift) - _log_normal(prior, NOISE, y))
    return torch.stack(found)


def _log_normal(prior: Tensor, noise: Tensor | float, y: Tensor) -> Tensor:
    """The log density of outcomes [n] on average over priors [draw, n, n], up to a constant."""
    count = len(y)
    root = torch.linalg.cholesky(prior + noise**2 * torch.eye(count, dtype=prior.dtype))
    white = torch.linalg.solve_triangular(root, y.view(1, -1, 1), upper=False)
    each = -0.5 * white.square().sum((1, 2)) - root.diagonal(dim1=1, dim2=2).log().sum(1)
    found: Tensor = each.logsumexp(0)
    return found


def measured(subject: Subject, episodes: int, seed: int) -> Iterator[Row]:
    """Rows of a model: good experiments, and those with each fault."""
    spec = subject.model.spec
    good = played(subject, None, episodes, seed)
    goal = ",".join(subject.target)

    def one(method: str, metric: str, found: Tensor) -> Row:
        return row(spec.name, method, goal, metric, spec.horizon, proportion(found))

    def raised(context: Context) -> Tensor:
        return torch.tensor(
            [e.finding is not None for e in check_experiments(subject.model, context)]
        )

    yield one("none", "false_alarms", raised(good))
    for fault in ANSWERED if spec.outcome.kind == "binary" else MEASURED:
        if fault.trial > spec.horizon - 5:
            continue
        context = played(subject, fault, episodes, seed)
        yield one(fault.name, "caught", raised(context))
        if has_best(subject, fault):
            limit = log_ratio(subject, good, fault).quantile(1 - LEVEL)
            yield one(fault.name, "best_possible", log_ratio(subject, context, fault) > limit)


def set_limit(name: str, episodes: int) -> None:
    """Keep in a shipped model's card the capital that good experiments hardly ever reach."""
    model = aline.load(name)
    task = simulator_of(model.spec)
    assert task is not None
    assert model.source is not None
    told = with_check(model, task, episodes)
    told.save(model.source)
    print(f"{name}: {told.measurements['check']}", flush=True)


def verdict(found: Row) -> str:
    """A row as a line."""
    value, about = found["value"], f"{found['task']} ({found['target']}), {found['method']}"
    if found["metric"] == "false_alarms":
        return f"{about}: {value:.3f} false alarms, {'met' if value <= LEVEL else 'missed'}"
    if found["metric"] == "best_possible":
        return f"{about}: at most {value:.3f} by any check of 5 % false alarms"
    return f"{about}: {value:.3f} caught, {'met' if value >= CAUGHT else 'missed'}"


def main() -> None:
    """Plant, check, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", default=["location", "psychometric", "ces", "gp1d"])
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=100, help="not that of the cards' limits")
    parser.add_argument("--limits", type=int, help="only set the cards' limits, by so many")
    parser.add_argument("--out", type=Path, default=Path("results/faults.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.limits:
        for name in options.models:
            set_limit(name, options.limits)
        return
    began, rows = time.monotonic(), list[Row]()
    for subject in subjects(options.models):
        for found in measured(subject, options.episodes, options.seed):
            rows.append(found)
            print(verdict(found), flush=True)
            seconds = time.monotonic() - began
            text = json.dumps(result("faults", rows, seconds, seed=options.seed), indent=1)
            write_atomically(options.out, f"{text}\n".encode())


if __name__ == "__main__":
    main()
