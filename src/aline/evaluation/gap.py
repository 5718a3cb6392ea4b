"""Is the model right: its posterior against the exact one, what it learns, and its coverage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from aline.episodes import Context
from aline.errors import InputError
from aline.evaluation.calibration import (
    calibration_of,
    calibration_of_predictions,
    can_check_predictions,
)
from aline.evaluation.estimates import Estimate, mean, proportion
from aline.evaluation.exact import (
    MOST_PARAMETERS,
    NotConvergedError,
    can_be_exact,
    exact_log_marginals,
)
from aline.evaluation.observers import posterior_rmse
from aline.evaluation.results import Row, result, row
from aline.evaluation.simulated import Simulated, log_prior, simulate_experiments
from aline.experiment.refine import Refiner, can_refine, joint_of, smoothed
from aline.model import Mixture, Model, Network
from aline.spaces import Parameters
from aline.tasks import PREDICTIONS, Spec, Task

STEPS = (0, 5, 10, 20, 30)
LEVEL = 0.9
_DRAWS = 512  # posterior draws for its moments: their noise adds 0.1 % to an error

Progress = Callable[[int, int], None]
"""Told how many of how many episodes are done."""


def evaluate(
    model: Model,
    task: Task,
    episodes: int = 500,
    seed: int = 0,
    progress: Progress | None = None,
    *,
    start: int = 0,
    nodes: Sequence[int] | None = None,
    refined: bool = False,
) -> dict[str, Any]:
    """Measure a model on simulated experiments of its own policy, for each of its goals.

    Rows, for t in 0, 5, 10, 20, 30 and the horizon: `gap:NAME`, the mean of log p - log q of the
    true NAME with p the exact posterior; `coverage:NAME` of the 90 % interval; `j`, the nats
    gained about the targets; `rmse` of their posterior means together, and `posterior_rmse` of the
    whole posterior, the mean over the targets (`observers.posterior_rmse`). Goals are paired: the
    same truths. With `refined`, all but the gap also of the posterior that the likelihood refines,
    as `refined_…` after the last trial.

    >>> import aline
    >>> from aline.tasks import get
    >>> task = get("linear", horizon=2)
    >>> model = aline.train(task, rounds=1, progress=False)
    >>> sorted(evaluate(model, task, episodes=4)["rows"][0])[:3]
    ['ci95', 'method', 'metric']
    """
    began = time.monotonic()
    task = task.described_by(model.spec)
    steps = steps_of(model.spec)
    goals = parameter_goals(model.spec)
    notes = [] if can_be_exact(task) else [_no_exact(task)]
    if refined and not can_refine(task):
        raise InputError(f"task {task.spec.name} has no likelihood to refine a posterior with")
    rows: list[Row] = []
    calibration: list[dict[str, Any]] = []
    for number, names in enumerate(goals):
        target = ",".join(names)
        played = simulate_experiments(
            model, task, names, episodes=episodes, lengths=steps, seed=seed, start=start
        )
        values = list(_learned(model.spec, played, names))
        found = calibration_of(model.network, played, names, seed)
        calibration.append(found.to_json())
        values += found.measured()
        if can_be_exact(task):
            report = _counted(progress, number, len(goals))
            try:
                values += _gaps(task, played, nodes, report)
            except NotConvergedError as error:
                notes.append(f"no gap for {target}: {error}")
        if refined:
            values += _refined(model.network, task, played, names)
        rows += [_row(model.spec, target, value) for value in values]
        if progress is not None:
            progress((number + 1) * episodes, len(goals) * episodes)
    if can_check_predictions(model.spec, task):
        found = calibration_of_predictions(model, task, episodes, seed)
        calibration.append(found.to_json())
        rows += [_row(model.spec, PREDICTIONS, value) for value in found.measured()]
    seconds = time.monotonic() - began
    return result("evaluate", rows, seconds, seed=seed, notes=notes, calibration=calibration)


def coverage(
    model: Model, task: Task, episodes: int = 500, level: float = LEVEL, seed: int = 0
) -> dict[str, Estimate]:
    """How often the central interval of each coordinate holds the truth after a whole experiment.

    The experiments aim at all parameters.

    >>> import aline
    >>> from aline.tasks import get
    >>> task = get("linear", horizon=2)
    >>> model = aline.train(task, rounds=1, progress=False)
    >>> sorted(coverage(model, task, episodes=4))
    ['intercept', 'slope']
    """
    task = task.described_by(model.spec)
    names = tuple(model.spec.parameters.priors)
    lengths = [model.spec.horizon]
    played = simulate_experiments(model, task, names, episodes=episodes, lengths=lengths, seed=seed)
    covered = covered_by(played.rank[:, 0], level)
    return {name: proportion(covered[:, i]) for i, name in enumerate(model.spec.parameters.names)}


def steps_of(spec: Spec) -> tuple[int, ...]:
    """When the posterior is looked at."""
    return tuple(sorted({step for step in STEPS if step < spec.horizon} | {spec.horizon}))


def parameter_goals(spec: Spec) -> list[tuple[str, ...]]:
    """The parameters of each goal that the model was trained for, without repeats."""
    goals = [tuple(n for n in names if n != PREDICTIONS) for names, _ in spec.targets]
    return list(dict.fromkeys(names for names in goals if names))


def method(spec: Spec) -> str:
    """The results' word for the model on this design space."""
    return "aline-box" if spec.design.points is None else "aline"


Measured = tuple[str, int, Estimate]  # metric, step, value


def _row(spec: Spec, target: str, value: Measured) -> Row:
    return row(spec.name, method(spec), target, *value)


def _learned(spec: Spec, played: Simulated, names: Sequence[str]) -> Iterator[Measured]:
    """What needs no exact posterior."""
    parameters = spec.parameters
    covered = covered_by(played.rank, LEVEL)
    gained = (played.log_q - log_prior(played.theta)[:, None])[..., parameters.mask(names)]
    error_of_mean, error = _errors(spec, played, names)
    for i, step in enumerate(played.lengths):
        yield "j", step, mean(gained[:, i].sum(-1))
        yield "rmse", step, mean(error_of_mean[:, i])
        yield "posterior_rmse", step, mean(error[:, i])
        for k, name in enumerate(parameters.names):
            yield f"coverage:{name}", step, proportion(covered[:, i, k])


def _refined(
    network: Network, task: Task, played: Simulated, names: Sequence[str]
) -> Iterator[Measured]:
    """The same of the refined posterior after the last trial.

    J is of each parameter by itself, as q's is: together they hold more information still.
    """
    parameters, step, last = task.spec.parameters, played.lengths[-1], len(played.lengths) - 1
    q, seen = played.posterior, played.context
    ranks, gained, draws = [], [], []
    for i, theta in enumerate(played.theta.double()):
        mine = q[i, last]
        context = Context(seen.designs[i : i + 1], seen.outcomes[i : i + 1])
        refiner = Refiner(task, mine, context, joint_of(network, context))
        z = refiner.draw(torch.Generator()).z
        density = parameters.cut(smoothed(parameters.settled(z))).log_prob(theta) - log_prior(theta)
        ranks.append((z < theta).double().mean(0))
        gained.append(density[parameters.mask(names)].sum())
        draws.append(z)
    covered = covered_by(torch.stack(ranks), LEVEL)
    errors = errors_of(parameters, torch.stack(draws, 1), played.theta, names)
    yield "refined_j", step, mean(torch.stack(gained))
    yield "refined_rmse", step, mean(errors[0])
    yield "refined_posterior_rmse", step, mean(errors[1])
    for k, name in enumerate(parameters.names):
        yield f"refined_coverage:{name}", step, proportion(covered[:, k])


def covered_by(rank: Tensor, level: float) -> Tensor:
    """Whether the central interval of this level holds a truth of this posterior rank."""
    return (rank - 0.5).abs() <= level / 2


def _errors(spec: Spec, played: Simulated, names: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Errors of the posterior mean and of the whole posterior, [batch, length] each."""
    generator = torch.Generator()  # its default seed: these draws stand for an integral
    draws = played.posterior.sample(_DRAWS, generator)
    return errors_of(spec.parameters, draws, played.theta[:, None], names)


def errors_of(
    parameters: Parameters, draws: Tensor, theta: Tensor, names: Sequence[str]
) -> tuple[Tensor, Tensor]:
    """Of draws [draw, ..., parameter], in the user's units, [...] each.

    The root mean square over the targets of their mean's error, and their posterior RMSE. A value
    of a discrete parameter is wrong, by one, or right.
    """
    labels = [label for name in names for label in _labels(parameters, name)]
    found, truth = parameters.to_labels(draws), parameters.to_labels(theta)
    errors = {
        label: (found[label] != truth[label]).to(draws.dtype)
        if parameters.values_of(label)
        else found[label] - truth[label]
        for label in labels
    }
    of_mean = torch.stack([error.mean(0) for error in errors.values()])
    squares = {label: error.square().mean(0) for label, error in errors.items()}
    return of_mean.square().mean(0).sqrt(), posterior_rmse(squares, labels)


def _labels(parameters: Parameters, name: str) -> list[str]:
    size = parameters.priors[name].size if name in parameters.priors else 0
    return [f"{name}_{i + 1}" for i in range(size)] if size else [name]


def _gaps(
    task: Task, played: Simulated, nodes: Sequence[int] | None, progress: Progress | None
) -> list[Measured]:
    """Mean log p - log q of each parameter, whether it was a target or not."""
    names = task.spec.parameters.names
    at_first = prior_gap(played.posterior).tolist()
    rows: list[Measured] = [
        (f"gap:{name}", 0, Estimate(at_first[k], 0.0, 0)) for k, name in enumerate(names)
    ]
    later = played.lengths[1:]
    exact = exact_log_marginals(task, played.context, played.theta, later, nodes, progress)
    gaps = exact - played.log_q[:, 1:]
    for i, step in enumerate(later):
        rows += [(f"gap:{name}", step, mean(gaps[:, i, k])) for k, name in enumerate(names)]
    return rows


def prior_gap(posterior: Mixture) -> Tensor:
    """KL from the prior to q before any data, [parameter]; the posteriors' first length is 0."""
    z = torch.linspace(-7, 7, 2801, dtype=torch.float64)[:, None]
    log_p, log_q = log_prior(z), posterior[0, 0].double().log_prob(z)
    return (log_p.exp() * (log_p - log_q)).sum(0) * (z[1] - z[0])


def _counted(progress: Progress | None, number: int, goals: int) -> Progress | None:
    """Progress within one goal as progress over all of them."""
    if progress is None:
        return None
    return lambda done, total: progress(number * total + done, goals * total)


def _no_exact(task: Task) -> str:
    if task.log_likelihood is None:
        return "no gap: the exact posterior needs a log_likelihood, and this task has none"
    return (
        f"no gap: the exact posterior is for 1 to {MOST_PARAMETERS} parameters, this task has "
        f"{len(task.spec.parameters)}"
    )
