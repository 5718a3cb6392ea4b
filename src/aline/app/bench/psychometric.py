"""The psychometric benchmark: the paper's experiment (its figure 4 and appendix D.3), and beyond it
the exact optimum, experiments of a thousand trials, and what every method costs a trial.

All methods meet the same observers, with the same luck, and choose from the same 200 stimuli.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from aline import zoo
from aline.app.bench.bench import Bench, BenchSettings, Measured, Part, Progress, Row
from aline.app.bench.pieces import Piece, piece
from aline.app.bench.psychometric_figures import figures
from aline.app.bench.psychometric_long import endless, long, one_thread
from aline.app.bench.psychometric_report import markdown
from aline.app.bench.psychometric_rows import ALL, PAIRS, TASK, by_step, measured
from aline.baselines import Procedure, PsiMarginal, QuestPlus
from aline.baselines.grid import GridPolicy
from aline.engine import BatchEngine
from aline.episodes import Context, Policy, RandomPolicy
from aline.evaluation.ceiling import Coins, Cost, best_of_coins, expected_rmse, payment
from aline.evaluation.estimates import Estimate, mean, proportion
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
from aline.experiment import Experiment
from aline.policies import LearnedPolicy
from aline.tasks import Task, get
from aline.tasks.psychometric import psychometric

SWITCH = 15  # trials before the goal changes
# What experimenters would choose for this prior: steps of 0.2 in the threshold, a tenth or so of
# the others' ranges. All that is measured of the grid methods, errors and time, is at this grid.
GRID = {"threshold": 31, "slope": 15, "guess": 9, "lapse": 9}
NODES = (64, 24, 6, 6)  # of the exact posterior's quadrature
EXTREME = 4.0  # a stimulus this far from 0 is beyond every threshold
NEAR = 1.0  # a stimulus this close to the threshold is near it
# Nothing exact is below the first; the second is reached if both ends of the axis are seen clean.
CEILINGS: dict[str, Cost] = {"best-possible": payment, "best-of-two-ends": expected_rmse}

# Errors by trial.


def _errors(settings: BenchSettings, progress: Progress) -> Measured:
    task = get(TASK)
    methods = settings.among("methods", [*_makers(task)])
    rows: list[Row] = []
    stimuli: dict[str, Any] = {}
    kept: dict[tuple[str, ...], PlayedExperiments] = {}
    notes: list[str] = []
    for target in (*PAIRS, ALL):
        found: dict[str, PlayedExperiments] = {}
        for method in methods:
            if method == "psi-marginal" and target == ALL:
                continue  # without nuisance it is QUEST+
            # Some do not know the goal: what they did for one they would have done for another.
            name = (method,) if method in ("questplus", "random") else (method, *target)
            if name not in kept:
                measure = partial(_experiments, task, method, target, settings, progress)
                one = piece(settings, TASK, *name, measure=measure)
                kept[name], notes = PlayedExperiments.of(one), [*notes, *one.notes]
            found[method] = kept[name]
        rows += _error_rows(target, found)
        rows += _where(task, target, {method: one.played for method, one in found.items()})
        if "aline" in found:
            stimuli[",".join(target)] = _histogram(task, found["aline"].played)
    return Measured(rows, {"stimuli": stimuli}, notes)


@dataclass(frozen=True)
class PlayedExperiments:
    """What a method played, and the errors of its own and of the exact posterior."""

    played: Played
    own: Errors
    exact: Errors

    @classmethod
    def of(cls, kept: Piece) -> PlayedExperiments:
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
    task: Task, method: str, target: Sequence[str], settings: BenchSettings, progress: Progress
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


def _error_rows(target: Sequence[str], found: Mapping[str, PlayedExperiments]) -> Iterator[Row]:
    for pair in [target] if target != ALL else PAIRS:
        end = "" if target != ALL else f":{','.join(pair)}"
        own = {method: posterior_rmse(one.own, pair) for method, one in found.items()}
        for method, one in found.items():
            exact = posterior_rmse(one.exact, pair)
            yield from by_step(f"posterior_rmse{end}", target, method, own[method])
            yield from by_step(f"exact_rmse{end}", target, method, exact)
        for other in found if "aline" in found else ():
            if other != "aline":
                less = own["aline"] - own[other]
                metric = f"posterior_rmse_minus_{other}{end}"
                yield measured(metric, target, "aline", less.shape[1] - 1, mean(less[:, -1]))


def _where(task: Task, target: Sequence[str], played: Mapping[str, Played]) -> Iterator[Row]:
    """How many stimuli lie at the extremes and near the threshold, after the random first one."""
    for method, one in played.items():
        x, threshold = _stimuli(task, one)
        chosen = x[:, task.spec.start :]
        extreme = (chosen.abs() >= EXTREME).float().mean(1)
        near = ((chosen - threshold).abs() <= NEAR).float().mean(1)
        yield measured("share_extreme", target, method, None, mean(extreme))
        yield measured("share_near_threshold", target, method, None, mean(near))


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


def _switch(settings: BenchSettings, progress: Progress) -> Measured:
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
            rows.append(measured(f"share_extreme:{name}", PAIRS[1], "aline", trial, value))
    return Measured(rows, {"switch": _histogram(task, both)})


# The exact optimum.


def _optimum(settings: BenchSettings, progress: Progress) -> Measured:
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
        rows.append(measured("information_share", target, "aline", None, mean(share.mean(1))))
        rows += by_step("information_share", target, "aline", share, task.spec.start + 1)
    return Measured(rows)


def _refined(settings: BenchSettings, progress: Progress) -> Measured:
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
        rows.append(measured("posterior_rmse", target, "aline-refined", step, value))
    return Measured(rows)


def _ceiling(settings: BenchSettings, progress: Progress) -> Measured:
    """What no choice of stimuli can better, for guess and lapse."""
    task = psychometric()
    coins, trials, rows = Coins.of(task), 4 if settings.quick else task.spec.horizon, []
    for done, (method, cost) in enumerate(CEILINGS.items()):
        progress("what is possible", done, len(CEILINGS))
        value = Estimate(best_of_coins(coins, trials, cost), 0.0, 0)
        rows.append(measured("posterior_rmse", PAIRS[1], method, trials, value))
    progress("what is possible", len(CEILINGS), len(CEILINGS))
    return Measured(rows)


# Time.


def _kept(name: str, part: Part) -> Part:
    """A part that `resume` takes from an earlier run: what is timed wants the machine to itself."""

    def kept(settings: BenchSettings, progress: Progress) -> Measured:
        one = piece(
            settings,
            TASK,
            name,
            measure=lambda: Piece(values={"rows": part(settings, progress).rows}),
        )
        return Measured(one.values["rows"], notes=one.notes)

    return kept


def _times(settings: BenchSettings, progress: Progress) -> Measured:
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
    with one_thread():
        for method, make in makers.items():
            several = 1 if method.endswith("published") else runs
            told = partial(progress, f"time of {method}")
            ask, trial = _timed(task, make, several, settings.seed, told)
            target = ALL if method.startswith("quest") else PAIRS[0]
            chosen[method] = mean(ask)
            rows.append(measured("seconds_per_step", target, method, None, mean(ask)))
            rows.append(measured("seconds_per_trial", target, method, None, mean(trial)))
            ratio = chosen[method].value / chosen["aline"].value
            value = Estimate(ratio, ratio * chosen[method].ci95 / chosen[method].value, len(ask))
            rows.append(measured("ratio", target, method, None, value))
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


BENCH = Bench(
    TASK,
    {
        "errors": _errors,
        "refined": _refined,
        "switch": _switch,
        "optimum": _optimum,
        "ceiling": _ceiling,
        "time": _kept("time", _times),
        "endless": _kept("endless", endless),
        "long": long,
    },
    markdown,
    figures,
)
