"""Trained models on the field's published protocols.

A task is a file in benchmarks/protocols, as a user would write it. A model is what
`aline train benchmarks/protocols/NAME.py:task --out runs/protocols/NAME` leaves in its folder.
Experiments aim at all parameters, without the likelihood. Random designs meet the same truths and
the same luck. Tasks can be measured one by one: those that are not measured stay in the file.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aline import zoo
from aline.app.bench.bench import Bench, BenchSettings, Measured, Progress, Row
from aline.app.bench.pieces import measure_each
from aline.app.bench.protocols_report import OURS, figures, markdown
from aline.app.bench.published import PROTOCOLS, Published
from aline.app.taskfile import load_task
from aline.engine import BatchEngine
from aline.episodes import Context, Offer, Policy, RandomPolicy
from aline.errors import NotFoundError
from aline.evaluation import (
    Estimate,
    Information,
    Protocol,
    converged_nodes,
    exact_gains,
    exact_log_marginals,
    information_rows,
    measure_information,
)
from aline.evaluation.estimates import mean, proportion
from aline.evaluation.exact import NotConvergedError
from aline.evaluation.gap import covered_by
from aline.evaluation.information import final_posterior, gains
from aline.evaluation.results import commit, row
from aline.model import Model
from aline.policies import LearnedPolicy
from aline.spaces import Design
from aline.tasks import Task, get

FILES = Path(__file__).parents[4] / "benchmarks" / "protocols"
MODELS = Path("runs") / "protocols"
POOL = 2000
LEVELS = (0.5, 0.9, 0.95)
ADAPTIVE = 1000  # draws from q an episode: each is a pass of the network for every parameter
ON_GRID = 200  # episodes whose posterior is compared with the exact one
SHOWN = 30  # episodes whose designs a figure shows

# Built-in tasks of the same model: their likelihood is quicker and knows its peak.
FASTER: Mapping[str, Callable[[], Task]] = {
    "two_sources": lambda: get("location", sources=2),
    "two_sources_pool": lambda: get("location", sources=2),
    "location_plain": lambda: get("location"),
    "ces_plain": lambda: get("ces"),
}


def _measure(settings: BenchSettings, progress: Progress) -> Measured:
    ready, notes = _with_a_model(settings)
    every = tuple(dict.fromkeys(m for known in PROTOCOLS.values() for m in known.methods))
    wanted = settings.among("methods", every)
    chosen = [
        (name, method) for name in ready for method in PROTOCOLS[name].methods if method in wanted
    ]
    found = measure_each("protocols", chosen, _measure_one, settings, progress)
    rows = [*found.rows, *(each for name in ready for each in _only_published(name))]
    return Measured(rows, found.data, [*notes, *found.notes])


def _with_a_model(settings: BenchSettings) -> tuple[list[str], list[str]]:
    """The tasks to measure, and a note on each for which there is no model."""
    names = settings.among("tasks", tuple(PROTOCOLS))
    missing = [name for name in names if not (_folder(name, settings) / "card.json").is_file()]
    notes = [
        f"{name}: no model in {_folder(name, settings)}: train it with `aline train "
        f"benchmarks/protocols/{name}.py:task --out {_folder(name, settings)}`"
        for name in missing
    ]
    if settings.tasks is not None and missing:
        raise NotFoundError("\n".join(notes))
    return [name for name in names if name not in missing], notes


def _folder(name: str, settings: BenchSettings) -> Path:
    return (settings.models or MODELS) / name


def protocol_task(name: str) -> Task:
    """The task as a user wrote it."""
    path = FILES / f"{name}.py"
    if not path.is_file():
        raise NotFoundError(f"no file {path}: run this benchmark in a checkout of the repository")
    return load_task(f"{path}:task")


def quickly_measured(name: str, task: Task) -> Task:
    """The same task with a likelihood that the bounds compute faster."""
    quick = copy.copy(task)
    if name in FASTER:
        twin = FASTER[name]()
        quick.log_likelihood, quick.log_peak = twin.log_likelihood, twin.log_peak
    elif task.log_likelihood is not None and not task.spec.outcome.is_continuous:
        quick.log_peak = lambda theta, design, outcome: torch.zeros(())  # a probability is below 1
    return quick


def _measure_one(name: str, method: str, settings: BenchSettings, progress: Progress) -> Measured:
    known = PROTOCOLS[name]
    model = zoo.load(_folder(name, settings))
    task = quickly_measured(name, protocol_task(name).described_by(model.spec))
    protocol = _protocol(known, method, task, settings)
    contrastive = 2000 if settings.quick else known.contrastive
    found = measure_information(
        _policy(method, model),
        task,
        protocol,
        contrastive,
        network=model.network,
        adaptive=500 if settings.quick else ADAPTIVE,
        progress=progress,
    )
    rows = information_rows(method, task, protocol, found)
    notes = [f"{name}, {method}: {note}" for note in found.notes]
    if method in OURS:
        rows += _trained(name, method, task, model)
        rows += [_row(task, method, *one) for one in _coverage(model, found)]
        exact, failed = _exact(known, task, model, found, settings, progress)
        rows += [_row(task, method, *one) for one in exact]
        notes += [f"{name}, {method}: {note}" for note in failed]
    data = {name: {"methods": {method: _about(method, task, model, protocol, found, contrastive)}}}
    return Measured([_with_published(each) for each in rows], data, notes)


class NormalDesigns(RandomPolicy):
    """Standard normal on every axis, in the user's units, and within the bounds."""

    def choose(self, state: int, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """A draw, whatever is on offer."""
        draws = torch.randn(state, len(self.design), generator=generator)
        return self.design.to_network(draws.clamp(self.design.low, self.design.high))


def _policy(method: str, model: Model) -> Policy:
    design = model.spec.design
    if method in OURS:
        return LearnedPolicy(BatchEngine(model.network))
    return RandomPolicy(design) if method == "random" else NormalDesigns(design)


def _protocol(known: Published, method: str, task: Task, settings: BenchSettings) -> Protocol:
    pool = known.pool if method == "aline" else None
    return Protocol(
        settings.count(2000, 20),
        task.spec.horizon,
        known.start,
        POOL if pool == "fixed" else None,
        settings.seed,
        fresh=POOL if pool == "fresh" else None,
    )


# What is measured beside the information.


def _row(task: Task, method: str, metric: str, estimate: Estimate) -> Row:
    target = ",".join(task.spec.parameters.priors)
    return row(task.spec.name, method, target, metric, task.spec.horizon, estimate)


def _trained(name: str, method: str, task: Task, model: Model) -> Iterator[Row]:
    seconds = model.spent("seconds")
    if seconds is not None:
        yield _row(task, method, "training_hours", Estimate(seconds / 3600, 0.0, 1))


def _coverage(model: Model, found: Information) -> Iterator[tuple[str, Estimate]]:
    """How often the central intervals of q hold the truth after the last trial."""
    rank = final_posterior(model.network, found.context).cdf(found.theta)
    for level in LEVELS:
        hits = covered_by(rank, level)
        for i, name in enumerate(model.spec.parameters.names):
            yield f"coverage{100 * level:.0f}:{name}", proportion(hits[:, i])


def _exact(
    known: Published,
    task: Task,
    model: Model,
    found: Information,
    settings: BenchSettings,
    progress: Progress,
) -> tuple[list[tuple[str, Estimate]], list[str]]:
    """What the exact posterior learned, and how far q is from it; or why there is none."""
    if not known.has_grid:
        return [], []
    first = slice(0, 3 if settings.quick else ON_GRID)
    context = Context(found.context.designs[first], found.context.outcomes[first])
    theta = found.theta[first]
    try:
        nodes = converged_nodes(task, context, theta)
    except NotConvergedError as error:
        return [], [f"no gap to the exact posterior: {error}"]
    told = _named(progress, "exact posterior")
    joint = exact_gains(task, context, theta, nodes, told)
    marginal = exact_log_marginals(task, context, theta, [context.length], nodes, told)[:, 0]
    gaps = marginal - final_posterior(model.network, context).log_prob(theta)
    values = {"exact": joint, "gap:joint": joint - gains(model.network, theta, context)}
    values |= {f"gap:{name}": gaps[:, i] for i, name in enumerate(task.spec.parameters.names)}
    return [(metric, mean(value)) for metric, value in values.items()], []


def _named(progress: Progress, what: str) -> Callable[[int, int], None]:
    return lambda done, total: progress(what, done, total)


# What the table and the figures tell beside the rows.


def _about(
    method: str,
    task: Task,
    model: Model,
    protocol: Protocol,
    found: Information,
    contrastive: int,
) -> dict[str, Any]:
    design = task.spec.design
    axes = [0] if len(design) == 1 else [0, len(design) // 2]
    designs = design.to_user(found.context.designs[:SHOWN])[..., axes]
    return {
        "chosen_from": _law(method, design, protocol),
        "contrastive": contrastive if task.log_likelihood is not None else None,
        "adaptive": None if found.adaptive is None else found.adaptive.contrastive,
        "trained": model.training.get("command"),
        "commit": commit(),
        "axes": [design.names[i] for i in axes],
        "designs": [[[float(f"{v:.4g}") for v in x] for x in one] for one in designs.tolist()],
    }


def _law(method: str, design: Design, protocol: Protocol) -> str:
    """In words, which designs there are, and the law of random ones."""
    laws = {"random": "uniform over ", "random-normal": "N(0, 1) on each axis, within "}
    first = f"; {protocol.start} random first" if protocol.start else ""
    return f"{laws.get(method, '')}{_on_offer(design, protocol)}{first}"


def _on_offer(design: Design, protocol: Protocol) -> str:
    if design.points is not None:
        where = f"the {len(design.points)} points"
    else:
        bounds = zip(design.names, design.low.tolist(), design.high.tolist(), strict=True)
        where = "the box " + ", ".join(f"{n} in [{lo:g}, {hi:g}]" for n, lo, hi in bounds)
    if protocol.pool is not None:
        return f"a pool of {protocol.pool} an episode without repeats, uniform in {where}"
    if protocol.fresh is not None:
        return f"a fresh pool of {protocol.fresh} a trial, uniform in {where}"
    return where


def _with_published(found: Row) -> Row:
    reached = PROTOCOLS[found["task"]].reached.get(found["method"], {})
    return {**found, "published": reached.get(found["metric"])}


def _only_published(name: str) -> Iterator[Row]:
    """What others reached, of methods that are not measured here."""
    known, spec = PROTOCOLS[name], protocol_task(name).spec
    for method, values in known.reached.items():
        if method in known.methods:
            continue
        for metric, value in values.items():
            yield {
                "task": name,
                "method": method,
                "target": ",".join(spec.parameters.priors),
                "metric": metric,
                "step": spec.horizon,
                "value": None,
                "ci95": None,
                "n": 0,
                "published": value,
            }


BENCH = Bench("protocols", {"table": _measure}, markdown, figures, by_task=True)
