"""The psychometric benchmark: the paper's experiment (its figure 4 and appendix D.3), and beyond it
the exact optimum, experiments of a thousand trials, and what every method costs a trial.

All methods meet the same observers, with the same luck, and choose from the same 200 stimuli.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aline import zoo
from aline.app.bench.bench import Bench, Measured, Part, Progress, Row, Settings
from aline.app.bench.pieces import Piece, piece
from aline.app.bench.psychometric_report import figures, markdown
from aline.baselines import Procedure, PsiMarginal, QuestPlus
from aline.baselines.grid import GridPolicy
from aline.engine import BatchEngine
from aline.episodes import Context, Policy, RandomPolicy
from aline.evaluation.ceiling import Coins, Cost, best_of_coins, expected_rmse, payment
from aline.evaluation.estimates import Estimate, mean, proportion
from aline.evaluation.exact import exact_log_marginals
from aline.evaluation.greedy import exact_greedy, information_share
from aline.evaluation.observers import (
    Errors,
    Played,
    grid_errors,
    network_errors,
    play_observers,
    posterior_rmse,
    refined_errors,
)
from aline.evaluation.results import row
from aline.evaluation.simulated import posteriors_after
from aline.experiment import Experiment
from aline.model import Mixture, Model
from aline.policies import LearnedPolicy
from aline.tasks import Task, get
from aline.tasks.psychometric import psychometric

TASK = "psychometric"
PAIRS = (("threshold", "slope"), ("guess", "lapse"))
ALL = PAIRS[0] + PAIRS[1]
SWITCH = 15  # trials before the goal changes
# What experimenters would choose for this prior: steps of 0.2 in the threshold, a tenth or so of
# the others' ranges. All that is measured of the grid methods, errors and time, is at this grid.
GRID = {"threshold": 31, "slope": 15, "guess": 9, "lapse": 9}
NODES = (64, 24, 6, 6)  # of the exact posterior's quadrature
EXTREME = 4.0  # a stimulus this far from 0 is beyond every threshold
NEAR = 1.0  # a stimulus this close to the threshold is near it
# Nothing exact is below the first; the second is reached if both ends of the axis are seen clean.
CEILINGS: dict[str, Cost] = {"best-possible": payment, "best-of-two-ends": expected_rmse}
LONG = (30, 100, 300, 1000)
EXACT_OBSERVERS, EXACT_LENGTH, EXACT_NODES = 12, 300, (64, 32, 12, 12)


def _measured(
    metric: str, target: Sequence[str], method: str, step: int | None, value: Estimate
) -> Row:
    return row(TASK, method, ",".join(target), metric, step, value)


def _by_step(
    metric: str, target: Sequence[str], method: str, values: Tensor, first: int = 0
) -> list[Row]:
    """A row a column of values [observer, step]."""
    columns = enumerate(values.unbind(1), first)
    return [_measured(metric, target, method, step, mean(column)) for step, column in columns]


# Errors by trial.


def _errors(settings: Settings, progress: Progress) -> Measured:
    task = get(TASK)
    methods = settings.among("methods", [*_makers(task)])
    rows: list[Row] = []
    stimuli: dict[str, Any] = {}
    kept: dict[tuple[str, ...], Experiments] = {}
    notes: list[str] = []
    for target in (*PAIRS, ALL):
        found: dict[str, Experiments] = {}
        for method in methods:
            if method == "psi-marginal" and target == ALL:
                continue  # without nuisance it is QUEST+
            # Some do not know the goal: what they did for one they would have done for another.
            name = (method,) if method in ("questplus", "random") else (method, *target)
            if name not in kept:
                measure = partial(_experiments, task, method, target, settings, progress)
                one = piece(settings, TASK, *name, measure=measure)
                kept[name], notes = Experiments.of(one), [*notes, *one.notes]
            found[method] = kept[name]
        rows += _error_rows(target, found)
        rows += _where(task, target, {method: one.played for method, one in found.items()})
        if "aline" in found:
            stimuli[",".join(target)] = _histogram(task, found["aline"].played)
    return Measured(rows, {"stimuli": stimuli}, notes)


@dataclass(frozen=True)
class Experiments:
    """What a method played, and the errors of its own and of the exact posterior."""

    played: Played
    own: Errors
    exact: Errors

    @classmethod
    def of(cls, kept: Piece) -> Experiments:
        """Those that were kept."""
        tensors = kept.tensors
        context = Context(tensors["designs"], tensors["outcomes"])
        errors = ({n: tensors[f"{whose}.{n}"] for n in ALL} for whose in ("own", "exact"))
        return cls(Played(tensors["theta"], context), *errors)


def _makers(task: Task) -> dict[str, Callable[[], tuple[Policy, Callable[[Played], Errors]]]]:
    """Each method: its policy, and the errors of its posterior."""

    def learned() -> tuple[Policy, Callable[[Played], Errors]]:
        network = zoo.load(TASK).network
        return LearnedPolicy(BatchEngine(network)), partial(network_errors, network)

    def on_grid(policy: GridPolicy) -> tuple[Policy, Callable[[Played], Errors]]:
        return policy, partial(grid_errors, policy)

    def at_random() -> tuple[Policy, Callable[[Played], Errors]]:
        return RandomPolicy(task.spec.design), partial(grid_errors, exact_greedy(task, NODES))

    return {
        "aline": learned,
        "psi-marginal": lambda: on_grid(PsiMarginal(task, GRID)),
        "questplus": lambda: on_grid(QuestPlus(task, GRID)),
        "greedy": lambda: on_grid(exact_greedy(task, NODES)),
        "random": at_random,
    }


def _experiments(
    task: Task, method: str, target: Sequence[str], settings: Settings, progress: Progress
) -> Piece:
    policy, own = _makers(task)[method]()
    told = partial(progress, f"{method}, {' and '.join(target)}")
    count = settings.count(1000, 24)
    played = play_observers(policy, task, target, count=count, seed=settings.seed, progress=told)
    tensors = {"theta": played.theta, "designs": played.context.designs}
    tensors["outcomes"] = played.context.outcomes
    tensors |= {f"own.{name}": error for name, error in own(played).items()}
    exact = grid_errors(exact_greedy(task, NODES), played)
    return Piece(tensors | {f"exact.{name}": error for name, error in exact.items()})


def _error_rows(target: Sequence[str], found: Mapping[str, Experiments]) -> Iterator[Row]:
    for pair in [target] if target != ALL else PAIRS:
        end = "" if target != ALL else f":{','.join(pair)}"
        own = {method: posterior_rmse(one.own, pair) for method, one in found.items()}
        for method, one in found.items():
            exact = posterior_rmse(one.exact, pair)
            yield from _by_step(f"posterior_rmse{end}", target, method, own[method])
            yield from _by_step(f"exact_rmse{end}", target, method, exact)
        for other in found if "aline" in found else ():
            if other != "aline":
                less = own["aline"] - own[other]
                metric = f"posterior_rmse_minus_{other}{end}"
                yield _measured(metric, target, "aline", less.shape[1] - 1, mean(less[:, -1]))


def _where(task: Task, target: Sequence[str], played: Mapping[str, Played]) -> Iterator[Row]:
    """How many stimuli lie at the extremes and near the threshold, after the random first one."""
    for method, one in played.items():
        x, threshold = _stimuli(task, one)
        chosen = x[:, task.spec.start :]
        extreme = (chosen.abs() >= EXTREME).float().mean(1)
        near = ((chosen - threshold).abs() <= NEAR).float().mean(1)
        yield _measured("share_extreme", target, method, None, mean(extreme))
        yield _measured("share_near_threshold", target, method, None, mean(near))


def _stimuli(task: Task, played: Played) -> tuple[Tensor, Tensor]:
    """Stimuli [observer, trial] and true thresholds [observer, 1], in the user's units."""
    x = task.spec.design.to_user(played.context.designs)[..., 0]
    return x, task.spec.parameters.to_labels(played.theta)["threshold"][:, None]


def _histogram(task: Task, played: Played) -> dict[str, Any]:
    """Counts of stimuli by trial, of observers with a threshold near 0: a picture of the policy."""
    x, threshold = _stimuli(task, played)
    edges = torch.linspace(float(task.spec.design.low), float(task.spec.design.high), 26)
    middle = x[threshold[:, 0].abs() <= 1]
    counts = [
        torch.histogram(column.contiguous(), edges).hist.int().tolist() for column in middle.T
    ]
    return {"edges": edges.tolist(), "counts": counts}


# A goal that changes.


def _switch(settings: Settings, progress: Progress) -> Measured:
    task, model = get(TASK), zoo.load(TASK)
    options: dict[str, Any] = {"count": settings.count(1000, 24), "seed": settings.seed}
    policy = LearnedPolicy(BatchEngine(model.network))
    told = partial(progress, "a goal that changes")
    first = play_observers(policy, task, PAIRS[0], steps=SWITCH, **options)
    given = first.context.designs
    both = play_observers(policy, task, PAIRS[1], given=given, progress=told, **options)
    steady = play_observers(policy, task, PAIRS[1], **options)
    rows = []
    for name, played in (("switched", both), ("steady", steady)):
        extreme = _stimuli(task, played)[0].abs() >= EXTREME
        for trial, column in enumerate(extreme.unbind(1), 1):
            value = proportion(column)
            rows.append(_measured(f"share_extreme:{name}", PAIRS[1], "aline", trial, value))
    return Measured(rows, {"switch": _histogram(task, both)})


# The exact optimum.


def _optimum(settings: Settings, progress: Progress) -> Measured:
    task, model = get(TASK), zoo.load(TASK)
    oracle, count = exact_greedy(task, NODES), settings.count(200, 8)
    rows: list[Row] = []
    for target in PAIRS:
        told = partial(progress, f"one step against the optimum, {' and '.join(target)}")
        policy = LearnedPolicy(BatchEngine(model.network))
        played = play_observers(policy, task, target, count=count, seed=settings.seed)
        told(0, count)
        share = information_share(oracle, played.context, target)[:, task.spec.start :]
        told(count, count)
        rows.append(_measured("information_share", target, "aline", None, mean(share.mean(1))))
        rows += _by_step("information_share", target, "aline", share, task.spec.start + 1)
    return Measured(rows)


def _refined(settings: Settings, progress: Progress) -> Measured:
    """What a posterior by the likelihood itself says of our own trials (`refined()`)."""
    task, network = get(TASK), zoo.load(TASK).network
    count, rows = settings.count(1000, 8), []
    for target in PAIRS:
        told = partial(progress, f"refined, {' and '.join(target)}")
        policy = LearnedPolicy(BatchEngine(network))
        played = play_observers(policy, task, target, count=count, seed=settings.seed)
        errors = refined_errors(task, network, played, settings.seed, told)
        value = mean(posterior_rmse(errors, target)[:, 0])
        step = played.context.length
        rows.append(_measured("posterior_rmse", target, "aline-refined", step, value))
    return Measured(rows)


def _ceiling(settings: Settings, progress: Progress) -> Measured:
    """What no choice of stimuli can better, for guess and lapse."""
    task = psychometric()
    coins, trials, rows = Coins.of(task), 4 if settings.quick else task.spec.horizon, []
    for done, (method, cost) in enumerate(CEILINGS.items()):
        progress("what is possible", done, len(CEILINGS))
        value = Estimate(best_of_coins(coins, trials, cost), 0.0, 0)
        rows.append(_measured("posterior_rmse", PAIRS[1], method, trials, value))
    progress("what is possible", len(CEILINGS), len(CEILINGS))
    return Measured(rows)


# Time.


def _kept(name: str, part: Part) -> Part:
    """A part that `resume` takes from an earlier run: what is timed wants the machine to itself."""

    def measured(settings: Settings, progress: Progress) -> Measured:
        one = piece(
            settings,
            TASK,
            name,
            measure=lambda: Piece(values={"rows": part(settings, progress).rows}),
        )
        return Measured(one.values["rows"], notes=one.notes)

    return measured


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _times(settings: Settings, progress: Progress) -> Measured:
    """Seconds to choose a stimulus, and for a whole trial, on one thread."""
    task, model = get(TASK), zoo.load(TASK)
    runs = 3 if settings.quick else 20
    quest, psi = QuestPlus(task, GRID), PsiMarginal(task, GRID)
    published = _Published(task, GRID)
    makers: dict[str, Callable[[], Any]] = {
        "aline": lambda: Experiment(model, PAIRS[0]),
        "psi-marginal": lambda: Procedure(psi, PAIRS[0]),
        "questplus": lambda: Procedure(quest),
        "psi-marginal-published": lambda: Procedure(published, PAIRS[0]),
        "questplus-published": lambda: Procedure(published),
    }
    rows, chosen = [], {}
    with _one_thread():
        for method, make in makers.items():
            several = 1 if method.endswith("published") else runs
            told = partial(progress, f"time of {method}")
            ask, trial = _timed(task, make, several, settings.seed, told)
            target = ALL if method.startswith("quest") else PAIRS[0]
            chosen[method] = mean(ask)
            rows.append(_measured("seconds_per_step", target, method, None, mean(ask)))
            rows.append(_measured("seconds_per_trial", target, method, None, mean(trial)))
            ratio = chosen[method].value / chosen["aline"].value
            value = Estimate(ratio, ratio * chosen[method].ci95 / chosen[method].value, len(ask))
            rows.append(_measured("ratio", target, method, None, value))
    return Measured(rows)


def _timed(
    task: Task, make: Callable[[], Any], runs: int, seed: int, progress: Callable[[int, int], None]
) -> tuple[Tensor, Tensor]:
    """Seconds of every ask, and of every ask and tell; the first run only warms up."""
    generator = torch.Generator().manual_seed(seed)
    asks, trials = [], []
    for run in range(runs + 1):
        world = task.draw(1, generator)
        experiment = make()
        for _ in range(task.spec.horizon):
            began = time.perf_counter()
            asked = experiment.ask()
            middle = time.perf_counter()
            design = asked if isinstance(asked, dict) else asked.design
            answer = world.answer(task.spec.design.read(design)[None], generator).item() > 0
            resumed = time.perf_counter()
            experiment.tell(asked, answer)
            if run:
                asks.append(middle - began)
                trials.append(middle - began + time.perf_counter() - resumed)
        progress(run, runs)
    return torch.tensor(asks), torch.tensor(trials)


class _Published(GridPolicy):
    """The grid methods as their papers write them: every posterior that may come, its entropy.

    The same choice as `GridPolicy.information`, which needs no posteriors; vectorised over the
    grid, as public packages do it, with a loop over the stimuli.
    """

    def information(self, state: Any, points: Tensor | None = None) -> Tensor:
        """The expected entropy's negative, [1, stimulus]."""
        shape, weight = self.lattice.shape, state.weight[0]
        nuisance = [i for i, aim in enumerate(state.goal.parameters[0].tolist()) if not aim]
        scores = [
            self._entropy(weight * yes, shape, nuisance)
            + self._entropy(weight * (1 - yes), shape, nuisance)
            for yes in self._yes
        ]
        return -torch.stack(scores)[None]

    @staticmethod
    def _entropy(joint: Tensor, shape: tuple[int, ...], nuisance: list[int]) -> Tensor:
        evidence = joint.sum()
        posterior = (joint / evidence).view(shape)
        posterior = posterior.sum(nuisance) if nuisance else posterior
        return -evidence * (posterior * posterior.clamp_min(1e-30).log()).sum()


# A thousand trials.


def _endless(settings: Settings, progress: Progress) -> Measured:
    """Pauses, memory and drift of one long experiment."""
    task, model = get(TASK), zoo.load(TASK)
    trials = 300 if settings.quick else LONG[-1]
    with _one_thread():
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
    return [_measured(name, PAIRS[0], "aline", trials, value) for name, value in values.items()]


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


def _long(settings: Settings, progress: Progress) -> Measured:
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
        rows.append(_measured("long_rmse", PAIRS[0], "aline", length, mean(error[:, i])))
        for k, name in enumerate(task.spec.parameters.names):
            inside = proportion((rank[:, i, k] - 0.5).abs() <= 0.45)
            rows.append(_measured(f"long_coverage:{name}", PAIRS[0], "aline", length, inside))
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
        _measured(f"long_gap:{name}", PAIRS[0], "aline", length, mean(gaps[:, i, k]))
        for i, length in enumerate(short)
        for k, name in enumerate(task.spec.parameters.names)
    ]


BENCH = Bench(
    TASK,
    {
        "errors": _errors,
        "refined": _refined,
        "switch": _switch,
        "optimum": _optimum,
        "ceiling": _ceiling,
        "time": _kept("time", _times),
        "endless": _kept("endless", _endless),
        "long": _long,
    },
    markdown,
    figures,
)
