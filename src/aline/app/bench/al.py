"""The paper's active learning experiments (section 4.1, figures 2 and 3, appendix D.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from aline import zoo
from aline.app.bench.bench import Bench, BenchSettings, Measured, Progress, Result, Row
from aline.app.bench.pieces import Piece, piece
from aline.episodes import Context, Goal
from aline.errors import NotFoundError
from aline.evaluation import row
from aline.evaluation.active import (
    ENSEMBLE,
    GPS,
    METHODS,
    Curves,
    Problem,
    learn,
    make_problem,
    policy_of,
    ratio,
    seconds_per_run,
)
from aline.evaluation.estimates import Estimate, mean
from aline.evaluation.problems import FUNCTIONS
from aline.evaluation.simulated import posteriors_after
from aline.model import Model
from aline.spaces import Box
from aline.tasks import Task, get

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBLEMS = ("gp1d", "gp2d", *FUNCTIONS)
STEPS = {1: 30, 2: 50}
SHOWN = (1, 5, 10, 15, 20, 30, 40, 50)  # steps with a row of their own
HYPERPARAMETERS = ("lengthscale", "output_scale")
CHUNK = 25  # runs played together
AFTER = (1, 15, 30)
TIMED_ON = ("gp1d", "gp2d", "gramacy1d", "branin")
# A GP with several starts or kernels takes as many times longer as it has fits.
TIMED = ("aline", ENSEMBLE, "ace-us", "gp-rs", "gp-us", "gp-vr", "gp-epig")

# What the authors' plots show after the last step (100 runs).
PUBLISHED = {
    "aline": (0.05, 0.28, 0.03, 0.025, 0.04, 0.025, 0.10, 0.08, 0.66),
    "ace-us": (0.055, 0.355, 0.107, 0.025, 0.13, 0.032, 0.14, 0.11, 0.67),
    "best-gp": (0.05, 0.28, 0.015, 0.025, 0.02, 0.030, 0.14, 0.12, 0.13),
}
PUBLISHED_LOG_Q = {"aline": 0.08, "ace-us": -0.06, "ace-rs": -0.10}
PUBLISHED_SECONDS = {
    "gp-us": (0.62, 1.72), "gp-vr": (1.41, 4.03), "gp-epig": (1.34, 3.43),
    "ace-us": (0.08, 0.19), "aline": (0.08, 0.19),
}  # fmt: skip


def model_for(dimensions: int) -> Model:
    """The shipped model for functions of so many inputs, or else the one in runs/."""
    name = f"gp{dimensions}d"
    folder = Path("runs") / name
    if name not in zoo.shipped() and not (folder / "card.json").is_file():
        raise NotFoundError(
            f"no model is shipped for {name}, and there is none in {folder}: train one with "
            f"`aline train {name} --budget 3h`"
        )
    return zoo.load(name if name in zoo.shipped() else str(folder))


def _subject(name: str) -> tuple[Model, Task, int]:
    """A problem's model, its task and how many steps it has."""
    dimensions = FUNCTIONS[name].dimensions if name in FUNCTIONS else int(name[2])
    model = model_for(dimensions)
    task = get(f"gp{dimensions}d", **model.spec.config)
    return model, task.described_by(model.spec), STEPS[dimensions]


Aim = Callable[[Problem], Goal]


def _played(
    problem: Problem, method: str, model: Model, steps: int, seed: int, aim: Aim = Problem.aimed
) -> Curves:
    """All runs of a method, some at a time; a GP's on all cores, as each takes seconds."""
    firsts = range(0, problem.batch, CHUNK)

    def play_some(first: int) -> Curves:
        part = problem.runs(first, first + CHUNK)
        with _one_thread():
            return learn(part, policy_of(method, model, part), aim(part), steps, seed + first)

    if method in GPS:
        from joblib import Parallel, delayed

        found = Parallel(n_jobs=-1, prefer="processes")(delayed(play_some)(f) for f in firsts)
    else:
        found = [play_some(first) for first in firsts]
    names = ("rmse", "covered", "log_q", "designs")
    return Curves(*(torch.cat([getattr(part, name) for part in found]) for name in names))


def _rmse_part(settings: BenchSettings, progress: Progress) -> Measured:
    """Errors by step on the nine problems, with the area under the curve and coverage."""
    runs = settings.count(200, 4)
    rows: list[Row] = []
    data: dict[str, Any] = {}
    notes: list[str] = []
    methods = settings.among("methods", [method for method in METHODS if method != "ace-rs"])
    for name in settings.among("tasks", PROBLEMS):
        number = PROBLEMS.index(name)
        model, task, steps = _subject(name)
        problem = make_problem(name, task, runs, settings.seed)
        found: dict[str, Curves] = {}
        for place, method in enumerate(methods):
            progress(f"{name}: errors", place, len(methods))
            play = partial(_played, problem, method, model, steps, settings.seed)
            found[method] = _kept(settings, notes, "errors", name, method, play=play)
            published = PUBLISHED[method][number] if method in PUBLISHED else None
            rows += _curve_rows(name, method, found[method], published)
        progress(f"{name}: errors", len(methods), len(methods))
        rows += _ratio_rows(name, found, steps)
        data[f"rmse:{name}"] = {method: _band(curves.rmse) for method, curves in found.items()}
        # Run by run, for whoever wants to pair other methods with these.
        data[f"runs:{name}"] = {
            method: [float(f"{value:.5g}") for value in curves.rmse[:, -1]]
            for method, curves in found.items()
        }
    return Measured(rows, data, notes)


def _kept(
    settings: BenchSettings, notes: list[str], *name: str, play: Callable[[], Curves]
) -> Curves:
    """Play, or take what an earlier run has played; what is to be said of that goes to `notes`."""
    one = piece(settings, "al", *name, measure=lambda: Piece(vars(play())))
    notes += one.notes
    return Curves(**one.tensors)


def _curve_rows(name: str, method: str, curves: Curves, published: float | None) -> Iterator[Row]:
    steps = curves.rmse.shape[1]
    for step in SHOWN:
        if step <= steps:
            found = row(name, method, "predictions", "rmse", step, mean(curves.rmse[:, step - 1]))
            yield {**found, "published": published} if step == steps else found
            # Targets of a run share its function: runs, not targets, are independent.
            share = mean(curves.covered[:, step - 1])
            yield row(name, method, "predictions", "coverage", step, share)
    yield row(name, method, "predictions", "rmse_area", steps, mean(curves.area))


def _ratio_rows(name: str, found: Mapping[str, Curves], steps: int) -> Iterator[Row]:
    """Final error and area: ours over the best GP method's, and over our kernels' alone."""
    if "aline" not in found:
        return
    final = {method: curves.rmse[:, -1].double() for method, curves in found.items()}
    areas = {method: curves.area.double() for method, curves in found.items()}
    gps, same = [m for m in found if m in GPS], [m for m in found if m == ENSEMBLE]
    for end, rivals in (("", gps), ("_to_ensemble", same)):
        for metric, values in (("ratio", final), ("ratio_area", areas)) if rivals else ():
            best = min(rivals, key=lambda method: float(values[method].mean()))
            estimate = ratio(values["aline"], values[best])
            found_row = row(name, "aline", "predictions", f"{metric}{end}", steps, estimate)
            yield {**found_row, "against": best}


def _goals_part(settings: BenchSettings, progress: Progress) -> Measured:
    """The hyperparameter goal against ACE, and each goal on its own metric and the other's."""
    runs, steps = settings.count(200, 4), 30
    rows: list[Row] = []
    data: dict[str, Any] = {}
    notes: list[str] = []
    for name in ("gp1d", "gp2d"):
        model, task, _ = _subject(name)
        problem = make_problem(name, task, runs, settings.seed + 1)
        aims: dict[str, Aim] = {
            "parameters": lambda part: part.aimed(HYPERPARAMETERS),
            "predictions": Problem.aimed,
        }
        cases = [("aline", "parameters"), ("aline", "predictions"),
                 ("ace-us", "parameters"), ("ace-rs", "parameters")]  # fmt: skip
        log_q: dict[str, Tensor] = {}
        for place, (method, aim) in enumerate(cases):
            progress(f"{name}: hyperparameters", place, len(cases))
            play = partial(_played, problem, method, model, steps, settings.seed, aims[aim])
            curves = _kept(settings, notes, "goals", name, method, aim, play=play)
            label = method if aim == "parameters" else f"{method}, aimed at predictions"
            log_q[label] = curves.log_q.mean(2)
            for step in (s for s in SHOWN if s <= steps):
                gained = row(name, method, aim, "logq", step, mean(log_q[label][:, step - 1]))
                known = PUBLISHED_LOG_Q.get(label) if step == steps else None
                rows += [
                    {**gained, "published": known},
                    row(name, method, aim, "rmse", step, mean(curves.rmse[:, step - 1])),
                ]
        progress(f"{name}: hyperparameters", len(cases), len(cases))
        for rival in ("ace-us", "ace-rs"):
            above = mean(log_q["aline"][:, -1] - log_q[rival][:, -1])
            rows.append({**row(name, "aline", "parameters", "logq_above", steps, above),
                         "against": rival})  # fmt: skip
        data[f"logq:{name}"] = {label: _band(values) for label, values in log_q.items()}
    return Measured(rows, data, notes)


def _region_part(settings: BenchSettings, progress: Progress) -> Measured:
    """Errors within a region when it is the goal, and when the whole domain is."""
    runs, steps = settings.count(200, 4), 15
    rows: list[Row] = []
    notes: list[str] = []
    regions = {"gp1d": Box(x=(0.0, 2.0)), "gp2d": Box(x1=(0.0, 3.0), x2=(-3.0, 0.0))}
    for number, (name, box) in enumerate(regions.items()):
        progress("goals in a region", number, len(regions))
        model, task, _ = _subject(name)
        every = make_problem(name, task, runs, settings.seed + 2)
        inside = every.within(box, torch.Generator().manual_seed(settings.seed))
        aims: dict[str, Aim] = {"region": Problem.aimed, "predictions": Problem.aimed_anywhere}
        error = {}
        for aim, goal_for in aims.items():
            play = partial(_played, inside, "aline", model, steps, settings.seed, goal_for)
            curves = _kept(settings, notes, "region", name, aim, play=play)
            error[aim] = curves.rmse[:, -1]
            rows.append(row(name, "aline", aim, "rmse_region", steps, mean(error[aim])))
        gain = ratio(error["region"].double(), error["predictions"].double())
        rows.append(row(name, "aline", "region", "ratio", steps, gain))
    progress("goals in a region", len(regions), len(regions))
    return Measured(rows, notes=notes)


def _time_part(settings: BenchSettings, progress: Progress) -> Measured:
    """How long a run takes on one thread, each method in turn on the same functions.

    In the task's units, and in a user's, to which ours must adjust at every step.
    """
    repeats, rows = settings.count(10, 1), []
    for name in TIMED_ON:
        model, task, steps = _subject(name)
        problem = make_problem(name, task, repeats + 1, settings.seed + 3)
        found: dict[str, Tensor] = {}
        for number, method in enumerate(TIMED):
            progress(f"{name}: time", number, len(TIMED))
            with _one_thread():
                policy = policy_of(method, model, problem, timed=True)
                found[method] = seconds_per_run(problem, policy, steps, repeats)
            rows.append(_seconds_row(name, method, steps, found[method]))
        progress(f"{name}: time", len(TIMED), len(TIMED))
        fastest = min((m for m in TIMED if m in GPS), key=lambda m: found[m].mean())
        faster = Estimate(float(found[fastest].mean() / found["aline"].mean()), math.nan, repeats)
        rows.append({**row(name, "aline", "predictions", "times_faster", steps, faster),
                     "ci95": None, "against": fastest})  # fmt: skip
    return Measured(rows)


def _seconds_row(name: str, method: str, steps: int, seconds: Tensor) -> Row:
    known = PUBLISHED_SECONDS.get(method)
    published = known[int(name[2]) - 1] if known and name not in FUNCTIONS else None
    taken = row(name, method, "predictions", "seconds_per_run", steps, mean(seconds))
    return {**taken, "published": published}


@torch.inference_mode()
def _densities_part(settings: BenchSettings, progress: Progress) -> Measured:
    """One run in one dimension query by query, and posteriors of one in two."""
    progress("one run to look at", 0, 2)
    model, task, _ = _subject("gp1d")
    one = make_problem("gp1d", task, 1, settings.seed + 7)
    grid = torch.linspace(-1, 1, 201)[None, :, None]
    curves = learn(one, policy_of("aline", model, one), one.aimed(), 20, settings.seed)
    spec, generator = model.spec, torch.Generator()
    designs = spec.design.to_network(curves.designs)
    outcomes = one.world.answer(designs, generator)
    queries: dict[str, Any] = {
        "grid": spec.design.to_user(grid)[0, :, 0].tolist(),
        "truth": spec.outcome.to_user(one.exact.answer(grid, generator))[0].tolist(),
        "x": curves.designs[0, :, 0].tolist(),
        "y": spec.outcome.to_user(outcomes)[0].tolist(),
        "steps": {},
    }
    for step in (1, 5, 10, 20):
        encoded = model.network.encode(Context(designs[:, :step], outcomes[:, :step]))
        expected, std = model.network.predictive(encoded, grid).moments()
        queries["steps"][str(step)] = {
            "mean": spec.outcome.to_user(expected)[0, 0].tolist(),
            "low": spec.outcome.to_user(expected - 2 * std)[0, 0].tolist(),
            "high": spec.outcome.to_user(expected + 2 * std)[0, 0].tolist(),
        }
    progress("one run to look at", 1, 2)
    model, task, _ = _subject("gp2d")
    two = make_problem("gp2d", task, 1, settings.seed + 8)
    aim = two.aimed(HYPERPARAMETERS)
    curves = learn(two, policy_of("aline", model, two), aim, 30, settings.seed)
    progress("one run to look at", 2, 2)
    return Measured([], {"queries": queries, "posteriors": _densities(model, two, curves)})


def _densities(model: Model, problem: Problem, curves: Curves) -> dict[str, Any]:
    """Posterior densities of each hyperparameter on a grid, after some steps."""
    parameters = model.spec.parameters
    designs = model.spec.design.to_network(curves.designs)
    outcomes = problem.world.answer(designs, torch.Generator())
    mixture = posteriors_after(model.network, Context(designs, outcomes), AFTER)
    z = torch.linspace(-3, 3, 241)[:, None].expand(-1, len(parameters))
    values, truth = parameters.to_labels(z), parameters.to_labels(problem.world.theta[0])
    # [grid, batch, look, parameter]
    density = mixture.log_prob(z[:, None, None]) - parameters.log_volume(z)[:, None, None]
    return {
        name: {
            "grid": values[name].tolist(),
            "truth": float(truth[name]),
            "density": {
                str(step): density[:, 0, i, k].exp().tolist() for i, step in enumerate(AFTER)
            },
        }
        for k, name in enumerate(parameters.names)
    }


def _band(values: Tensor) -> dict[str, list[float]]:
    """Means and 95 % half widths by step of values [batch, step]."""
    steps = [mean(column) for column in values.T]
    return {"mean": [s.value for s in steps], "ci95": [s.ci95 for s in steps]}


@contextmanager
def _one_thread() -> Iterator[None]:
    """Methods that run in several processes, and those that are timed, have one thread each."""
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def _markdown(result: Result) -> str:
    rows = result["rows"]
    parts = [_error_table(rows), _bar_table(rows), _time_table(rows)]
    return "\n\n".join(part for part in parts if part)


def _table(lines: list[list[str]]) -> str:
    """Markdown; the first line is the header."""
    head, *body = lines
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *body))


def _value(found: Row) -> str:
    ci95 = found["ci95"]
    return f"{found['value']:.3g}" + ("" if not ci95 or math.isnan(ci95) else f" ± {ci95:.2g}")


def _error_table(rows: list[Row]) -> str:
    """Final errors, problem by method."""
    last: dict[tuple[str, str], Row] = {}
    for one in rows:
        if (one["metric"], one["target"]) == ("rmse", "predictions"):
            key = one["task"], one["method"]
            if key not in last or last[key]["step"] < one["step"]:
                last[key] = one
    problems = [name for name in PROBLEMS if (name, "gp-us") in last]
    if not problems:
        return ""
    methods = [method for method in METHODS if (problems[0], method) in last]
    lines = [["RMSE after the last query", *methods, "published (aline)"]]
    for name in problems:
        known = last[name, "aline"]["published"]
        values = [_value(last[name, method]) for method in methods]
        lines.append([name, *values, "" if known is None else f"{known:g}"])
    return _table(lines)


def _bar_table(rows: list[Row]) -> str:
    ratios = [
        f"{metric}{end}" for end in ("", "_to_ensemble") for metric in ("ratio", "ratio_area")
    ]
    wanted = (*ratios, "logq_above", "times_faster")
    lines = [["measured", "task", "value", "against"]]
    lines += [
        [f"{one['metric']} ({one['target']}, t = {one['step']})", one["task"], _value(one),
         one.get("against", "the whole domain")]
        for one in rows
        if one["metric"] in wanted
    ]  # fmt: skip
    covered = [one for one in rows if one["metric"] == "coverage" and one["method"] == "aline"]
    lines += [
        [f"coverage of 90 % intervals, t = {one['step']}", one["task"], _value(one), "0.9"]
        for one in covered
        if one["step"] in (5, 15, 30) and one["task"] in ("gp1d", "gp2d")
    ]
    return _table(lines) if len(lines) > 1 else ""


def _time_table(rows: list[Row]) -> str:
    found = {(r["task"], r["method"]): r for r in rows if r["metric"] == "seconds_per_run"}
    methods = [method for method in TIMED if ("gp1d", method) in found]
    names = [name for name in TIMED_ON if (name, "aline") in found]
    if not methods or not names:
        return ""
    heads = (f"{name}, a user's units" if name in FUNCTIONS else name for name in names)
    lines = [["seconds a run, one thread", *heads]]
    lines += [[method, *(_value(found[name, method]) for name in names)] for method in methods]
    return _table(lines)


def _figures(result: Result) -> Mapping[str, Figure]:
    from aline.app.plots.active import active_figures

    return active_figures(result["data"])


BENCH = Bench(
    "al",
    {
        "errors": _rmse_part,
        "goals": _goals_part,
        "region": _region_part,
        "time": _time_part,
        "densities": _densities_part,
    },
    _markdown,
    _figures,
)
