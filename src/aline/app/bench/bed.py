"""Bayesian experimental design: the paper's table 2, every row on the same episodes.

Location finding and CES, all parameters the goal, one random design first. `aline` chooses from
the paper's fixed pool of 2000 designs without repeats, `aline-box` and the baselines freely. What
has to be trained is trained for as long as our shipped model was; with a budget, all that learns
is, our own too, for just so long. It is kept in runs/bed; a later run loads it. With `--resume`, a
method that was measured on a task is not measured again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aline import zoo
from aline.app.bench.bed_report import figures, markdown
from aline.app.bench.bench import Bench, BenchSettings, Measured, Progress, Row
from aline.app.bench.pieces import measure_each
from aline.baselines import Dad, RlBoed, VpceConfig, VpcePolicy, Vsoed, learn
from aline.baselines.dad import DAD_PRESETS, DAD_SHORT
from aline.baselines.history import Learner
from aline.baselines.rl_boed import RL_BOED_PRESETS, RL_BOED_SHORT
from aline.baselines.vpce import VPCE_PRESETS
from aline.baselines.vsoed import VSOED_PRESETS, VSOED_SHORT
from aline.engine import BatchEngine
from aline.episodes import Context, Goal, Offer, Policy, RandomPolicy
from aline.evaluation import Estimate, Information, Protocol, measure_information
from aline.evaluation.estimates import mean
from aline.evaluation.information import final_posterior, information_rows
from aline.evaluation.results import row
from aline.evaluation.simulated import play_protocol
from aline.files import read_tensors, write_tensors
from aline.model import Model, fresh
from aline.policies import LearnedPolicy
from aline.tasks import Task, get
from aline.training import train
from aline.training.budget import parse_duration

FOLDER = Path("runs") / "bed"
POOL = 2000
CONTRASTIVE = {"location": 10**6, "ces": 10**7}
TASKS = tuple(CONTRASTIVE)
OURS = ("aline", "aline-box")
# What is left of ours where the task's likelihood and `explore` choose, and nothing was learned.
UNTRAINED = "aline-untrained"
METHODS = (*OURS, UNTRAINED, "random", "vpce", "dad", "vsoed", "rl-boed")
# It optimises anew at every trial: on location finding, minutes an episode.
VPCE_EPISODES = {"location": 3, "ces": 200}

# Nats (sPCE at the same L), hours of training on a datacentre GPU, and seconds a run.
PUBLISHED: Mapping[tuple[str, str], tuple[float, float | None, float | None]] = {
    ("location", "aline"): (8.91, 21.20, 0.03),
    ("location", "random"): (5.17, None, None),
    ("location", "vpce"): (5.25, None, 146.59),
    ("location", "dad"): (7.33, 7.24, 0.0001),
    ("location", "vsoed"): (7.30, 4.31, 0.0002),
    ("location", "rl-boed"): (7.70, 63.29, 0.0003),
    ("ces", "aline"): (13.50, 13.29, 0.04),
    ("ces", "random"): (9.05, None, None),
    ("ces", "vpce"): (9.40, None, 788.90),
    ("ces", "dad"): (10.77, 13.70, 0.0001),
    ("ces", "vsoed"): (12.12, 0.49, 0.0003),
    ("ces", "rl-boed"): (14.60, 67.28, 0.0004),
}


@dataclass(frozen=True)
class Contender:
    """A method ready to play on a task."""

    policy: Policy
    model: Model | None = None  # whose posterior gives J and the adaptive bounds
    seconds: float | None = None  # of training


def _measure(settings: BenchSettings, progress: Progress) -> Measured:
    methods = settings.among("methods", METHODS)
    chosen = [
        (task, method)
        for task in settings.among("tasks", TASKS)
        for method in methods
        if method != UNTRAINED or get(task).model.get("policy") == "informed"
    ]
    return measure_each("bed", chosen, _measure_one, settings, progress)


def _measure_one(name: str, method: str, settings: BenchSettings, told: Progress) -> Measured:
    task = get(name)
    ready = _contender(task, method, settings, told)
    if ready.model is not None:
        task = task.described_by(ready.model.spec)
    protocol = _protocol(task, method, settings)
    contrastive = 2000 if settings.quick else CONTRASTIVE[name]
    found = measure_information(
        ready.policy,
        task,
        protocol,
        contrastive,
        network=None if ready.model is None else ready.model.network,
        adaptive=contrastive // 100,
        progress=told,
    )
    rows = [
        *information_rows(method, task, protocol, found),
        *_costs(task, method, ready, settings),
    ]
    notes = [f"{name}, {method}: {note}" for note in found.notes]
    data = {} if ready.model is None else _picture(name, method, task, ready.model, found)
    uses = _uses(method, ready)
    return Measured([{**_with_published(each), "uses": uses} for each in rows], data, notes)


def _uses(method: str, ready: Contender) -> str:
    """What a method has of the task when it chooses, beside what it has learned."""
    if method == "vpce":
        return "likelihood"
    is_informed = isinstance(ready.policy, LearnedPolicy) and ready.policy.informed is not None
    return "likelihood and the task's own `explore`" if is_informed else ""


def _protocol(task: Task, method: str, settings: BenchSettings) -> Protocol:
    full, quick = (VPCE_EPISODES[task.spec.name], 2) if method == "vpce" else (2000, 20)
    pool = POOL if method == "aline" else None
    spec = task.spec
    return Protocol(settings.count(full, quick), spec.horizon, spec.start, pool, settings.seed)


def _with_published(found: Row) -> Row:
    published = PUBLISHED.get((found["task"], found["method"]))
    if published is None:
        return found
    values = dict(zip(("spce", "training_hours", "seconds_per_run"), published, strict=True))
    return {**found, "published": values.get(found["metric"])}


# The contenders.

# Of each: its paper's settings by task, those for a budget below SHORT, and those of a quick run.
BASELINES: Mapping[str, tuple[Any, Any, Any, Any]] = {
    "dad": (DAD_PRESETS, DAD_SHORT, {"contrastive": 100, "batch": 20}, Dad),
    "vsoed": (VSOED_PRESETS, VSOED_SHORT, {"batch": 100}, Vsoed),
    "rl-boed": (
        RL_BOED_PRESETS,
        RL_BOED_SHORT,
        {"contrastive": 200, "updates": 4, "batch": 64},
        RlBoed,
    ),
}
SHORT = 3 * 3600.0  # seconds; their papers' settings are for days of a CPU


def _contender(task: Task, method: str, settings: BenchSettings, told: Progress) -> Contender:
    if method == "random":
        return Contender(RandomPolicy(task.spec.design))
    if method == "vpce":
        config = VPCE_PRESETS[task.spec.name]
        if settings.quick:
            config = VpceConfig(fit_steps=20, design_steps=20, contrastive=20, outer=20)
        return Contender(VpcePolicy(task, config))
    if method == UNTRAINED:
        shipped, generator = zoo.load(task.spec.name), torch.Generator().manual_seed(settings.seed)
        network = fresh(shipped.spec, shipped.network.config, generator)
        network.eval().requires_grad_(False)
        return Contender(LearnedPolicy(BatchEngine(network), task=task))
    if method in OURS:
        model = _our_model(task, settings)
        return Contender(LearnedPolicy(BatchEngine(model.network)), model, model.spent("seconds"))
    return _learned(task, method, settings, told)


def _our_model(task: Task, settings: BenchSettings) -> Model:
    """The shipped one; with a budget, one that was trained for as long as the others."""
    name = task.spec.name
    if name in zoo.shipped() and (settings.budget is None or settings.quick):
        return zoo.load(name)
    folder = _kept(task, "aline", settings)
    if (folder / "weights.safetensors").is_file():
        return zoo.load(folder)
    budget = _budget(task, settings)
    model = train(task, budget, seed=settings.seed, out=folder, progress=False, verdict=False)
    model.save(folder)
    return model


def _kept(task: Task, method: str, settings: BenchSettings) -> Path:
    """Where what was trained for a budget is kept."""
    words = [task.spec.name, method, _budget(task, settings), str(settings.seed)]
    return FOLDER / "-".join([*words, *(["quick"] * settings.quick)])


def _budget(task: Task, settings: BenchSettings) -> str:
    """As given, else as long as our own model was trained."""
    if settings.budget is not None:
        return settings.budget
    if settings.quick:
        return "5s"
    name = task.spec.name
    seconds = zoo.load(name).spent("seconds") if name in zoo.shipped() else None
    return f"{seconds:.0f}s" if seconds else "2h"


def _learner(task: Task, method: str, settings: BenchSettings) -> Learner:
    """With its paper's settings, or those for a budget of minutes."""
    name = task.spec.name
    presets, short, tiny, build = BASELINES[method]
    is_short = parse_duration(_budget(task, settings)) < SHORT
    changed = (short if is_short else {}) | (tiny if settings.quick else {})
    learner: Learner = build(task, replace(presets[name], **changed), settings.seed)
    return learner


def _learned(task: Task, method: str, settings: BenchSettings, told: Progress) -> Contender:
    """Load the baseline that an earlier run trained for this budget, or train it."""
    learner = _learner(task, method, settings)
    kept = _kept(task, method, settings)
    path = kept.with_name(f"{kept.name}.safetensors")
    if path.is_file():
        tensors, card = read_tensors(path)
        learner.networks.load_state_dict(tensors)
        learner.networks.eval().requires_grad_(False)
        return Contender(learner.policy(), seconds=card["seconds"])
    seconds = learn(
        learner,
        _budget(task, settings),
        seed=settings.seed,
        told=lambda share: told("training", round(100 * share), 100),
    )
    write_tensors(path, dict(learner.networks.state_dict()), {"method": method, "seconds": seconds})
    return Contender(learner.policy(), seconds=seconds)


# What it costs.


class _Timed:
    """A policy with a stopwatch."""

    def __init__(self, policy: Policy):
        self.policy, self.seconds = policy, 0.0

    def begin(self, goal: Goal) -> Any:
        return self.policy.begin(goal)

    def choose(self, state: Any, offer: Offer | None, generator: torch.Generator) -> Tensor:
        began = time.perf_counter()
        design = self.policy.choose(state, offer, generator)
        self.seconds += time.perf_counter() - began
        return design

    def observe(self, state: Any, design: Tensor, outcome: Tensor) -> Any:
        began = time.perf_counter()
        after = self.policy.observe(state, design, outcome)
        self.seconds += time.perf_counter() - began
        return after


def _costs(task: Task, method: str, ready: Contender, settings: BenchSettings) -> Iterator[Row]:
    """Seconds a run on one thread, and hours of training."""
    target = ",".join(task.spec.parameters.priors)
    runs = 1 if method == "vpce" else (2 if settings.quick else 20)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        # The first warms up, which is nothing beside what VPCE takes.
        first = 0 if method == "vpce" else -1
        seconds = [_one_run(task, method, ready.policy, n) for n in range(first, runs)][-runs:]
    finally:
        torch.set_num_threads(threads)
    each = mean(torch.tensor(seconds))
    taken = row(task.spec.name, method, target, "seconds_per_run", task.spec.horizon, each)
    yield taken if runs > 1 else {**taken, "ci95": None}
    if ready.seconds is not None:
        hours = Estimate(ready.seconds / 3600, 0.0, 1)
        yield row(task.spec.name, method, target, "training_hours", task.spec.horizon, hours)


def _one_run(task: Task, method: str, policy: Policy, seed: int) -> float:
    timed, spec = _Timed(policy), task.spec
    pool = POOL if method == "aline" else None
    protocol = Protocol(1, spec.horizon, spec.start, pool, seed)
    play_protocol(timed, task, tuple(spec.parameters.priors), protocol)
    return timed.seconds


# What the figures of the paper's appendix D.3 show.


def _picture(
    name: str, method: str, task: Task, model: Model, found: Information
) -> dict[str, Any]:
    """The first experiment: its designs and truth, and its posterior."""
    if method != "aline-box":
        return {}
    context = Context(found.context.designs[:1], found.context.outcomes[:1])
    truth = task.spec.parameters.to_labels(found.theta[0])
    picture: dict[str, Any] = {
        "truth": {label: float(value) for label, value in truth.items()},
        "designs": task.spec.design.to_user(context.designs[0]).tolist(),
        "axes": list(task.spec.design.names),
    }
    if name == "location":
        picture["log_posterior"] = _log_posterior(task, context)
    else:
        picture["marginals"] = _marginals(task, model, context)
    return {name: picture}


def _log_posterior(task: Task, context: Context, cells: int = 81) -> list[list[float]]:
    """On a grid over the unit square, rows along the second axis, relative to its peak."""
    axis = torch.linspace(0.0, 1.0, cells)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    names = task.spec.parameters.names
    theta = task.spec.parameters.to_network({names[0]: x.ravel(), names[1]: y.ravel()})
    value = task.log_prob(theta, context.designs, context.outcomes).double().sum(1)
    rounded = (value - value.max()).clamp_min(-1000).view(cells, cells)
    return [[round(v, 2) for v in line] for line in rounded.tolist()]


def _marginals(task: Task, model: Model, context: Context, draws: int = 20_000) -> dict[str, Any]:
    """Histograms of draws from q, each label's between its 0.1 % and 99.9 % quantile."""
    z = final_posterior(model.network, context).sample(draws, torch.Generator())[:, 0]
    histograms = {}
    for label, values in task.spec.parameters.to_labels(z).items():
        values = values.log() if label == "u" else values
        low, high = values.quantile(torch.tensor([0.001, 0.999])).tolist()
        edges = torch.linspace(low, max(high, low + 1e-6), 61)
        counts = torch.histogram(values.contiguous(), edges, density=True).hist
        histograms["log u" if label == "u" else label] = {
            "edges": edges.tolist(),
            "density": counts.tolist(),
        }
    return histograms


BENCH = Bench("bed", {"table": _measure}, markdown, figures)
