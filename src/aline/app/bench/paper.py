"""The paper's tables and figures beside ours, as one HTML page that needs nothing else.

Made from the benchmarks' results alone. The paper's numbers stand where their benchmark is; those
of figures are read off its plots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from aline.app.bench import al, bed, find, hpo
from aline.app.bench.bench import Result, Row
from aline.app.bench.psychometric_rows import ALL, PAIRS, SECONDS, TASK
from aline.app.pages import page
from aline.app.plots import canvas
from aline.evaluation.active import GPS
from aline.evaluation.landscapes import METHODS as LANDSCAPE_METHODS
from aline.evaluation.results import PUBLISHED, made
from aline.files import write_atomically

Numbers = Mapping[tuple[str, str, str], float]
"""What the paper reports, by task, method and goal."""
TS, GL = (",".join(pair) for pair in PAIRS)


@dataclass(frozen=True)
class Item:
    """A table, a figure or a claim of the paper, and where ours is."""

    title: str
    bench: str
    metric: str
    differs: str  # what is not the same, and why
    paper: Numbers = field(default_factory=dict)
    figures: tuple[str, ...] = ()  # of the benchmark
    tasks: tuple[str, ...] = ()  # all if empty
    targets: tuple[str, ...] = ()  # likewise

    def is_here(self, row: Row) -> bool:
        """Whether a row belongs to it."""
        return (
            row["metric"] == self.metric
            and (not self.tasks or row["task"] in self.tasks)
            and (not self.targets or row["target"] in self.targets)
        )


def _functions(*names: str) -> Numbers:
    return {
        (name, method, "predictions"): values[al.PROBLEMS.index(name)]
        for method, values in al.PUBLISHED.items()
        for name in names
    }


def _designs(place: int) -> Numbers:
    """A column of table 2: nats, hours or seconds."""
    targets = {"location": "source_x,source_y", "ces": "rho,alpha,u"}
    return {
        (task, method, targets[task]): value
        for (task, method), values in bed.PUBLISHED.items()
        if (value := values[place]) is not None
    }


def _landscapes() -> Numbers:
    return {
        (name, method, "predictions"): value
        for name, space in hpo.SPACES.items()
        for method, value in zip(LANDSCAPE_METHODS, space.published, strict=False)
    }


def _hyperparameters() -> Numbers:
    return {("gp1d", m, "parameters"): v for m, v in al.PUBLISHED_LOG_Q.items()}


def _times() -> Numbers:
    return {
        (f"gp{place + 1}d", method, "predictions"): seconds
        for method, pair in al.PUBLISHED_SECONDS.items()
        for place, seconds in enumerate(pair)
    }


INSIDE = ("gp1d", "gp2d", "higdon", "gramacy2d", "goldstein_price", "ackley")
OUTSIDE = ("gramacy1d", "branin", "three_hump_camel")
METHODS_DIFFER = (
    "The paper plays 100 runs and its numbers are read off its plots; functions, pools and first "
    "points are others here. Ours asks and answers from an ensemble of Gaussian processes with "
    "fixed kernels, which the network corrects: `ensemble` is that ensemble without any network. "
    "`gp-vr-starts` fits from four starts and `gp-vr-kernels` also chooses among three kernels by "
    "evidence, which the paper's baselines do not; `best-gp` is the best of all of them."
)
ITEMS: tuple[Item, ...] = (
    Item(
        "Predictive performance on active learning functions (section 4.1, fig:al_benchmark)",
        "al",
        "rmse",
        METHODS_DIFFER,
        _functions(*INSIDE),
        ("rmse",),
        INSIDE,
        ("predictions",),
    ),
    Item(
        "Three more functions (appendix, fig:al_additional_results)",
        "al",
        "rmse",
        f"{METHODS_DIFFER} Three-hump camel leaves the range of the paper's prior; here outcomes "
        "in a user's units are standardised as they arrive, so its scale does not matter.",
        _functions(*OUTSIDE),
        (),
        OUTSIDE,
        ("predictions",),
    ),
    Item(
        "Hyperparameters of a function: log q of the truth (section 4.1, fig:al_posterior)",
        "al",
        "logq",
        "The paper shows one curve; which dimension it is of is not said, and it stands beside "
        "one here. Its densities may be in other units, so only differences between methods "
        "compare.",
        _hyperparameters(),
        ("hyperparameters",),
        targets=("parameters",),
    ),
    Item(
        "Information gained, in nats (section 4.2, tab:bed)",
        "bed",
        "spce",
        "The paper's ALINE chooses from a pool of 2000 designs, as `aline` does here; `aline-box` "
        "chooses any. On CES ours computes with the task's likelihood and its `explore` at run "
        "time, where the paper's is free of likelihoods; `aline-untrained` is how much of that is "
        "due to those alone. DAD, vsOED and RL-BOED are our versions, trained for as long as ours "
        "on the same processor: far below their published values they are unvalidated.",
        _designs(0),
    ),
    Item(
        "Training, in hours (section 4.2, tab:bed)",
        "bed",
        "training_hours",
        "The paper's hours are of a datacentre GPU, ours of one core or less.",
        _designs(1),
    ),
    Item(
        "A run, in seconds (section 4.2, tab:bed)",
        "bed",
        "seconds_per_run",
        "The paper's seconds are of a GPU node, ours of one thread.",
        _designs(2),
    ),
    Item(
        "Designs on location finding and a posterior (appendix, fig:bed_pos_loc)",
        "bed",
        "",
        "Another source; designs are free here.",
        figures=("location",),
    ),
    Item(
        "A posterior of CES (appendix, fig:bed_pos_ces)",
        "bed",
        "",
        "Another truth. These are q's marginals; its intervals are known to be wide, and "
        "`experiment.refined()` is the posterior to use.",
        figures=("ces",),
    ),
    Item(
        "Psychometric model: RMSE after 30 trials (section 4.3, fig:psychometric)",
        TASK,
        "posterior_rmse",
        "The paper plays 100 observers and its numbers are read off its plots. QUEST+ and "
        "psi-marginal are ours, written from their papers, on finer grids; `greedy` is the exact "
        "optimum one step ahead, which the paper does not have.",
        {(TASK, "aline", pair): PUBLISHED[TASK, pair, "posterior_rmse", 30] for pair in (TS, GL)},
        ("rmse", "stimuli"),
        targets=(TS, GL),
    ),
    *(
        Item(
            f"A goal never trained on, all four parameters: {words} (appendix, "
            "fig:psychometric_ablation b)",
            TASK,
            f"posterior_rmse:{pair}",
            "The paper shows stimuli only. QUEST+ and the exact joint optimum have the same goal.",
            targets=(",".join(ALL),),
        )
        for pair, words in ((TS, "threshold and slope"), (GL, "guess and lapse"))
    ),
    Item(
        "A goal that changes after trial 15: share of extreme stimuli (appendix, "
        "fig:psychometric_ablation a)",
        TASK,
        "share_extreme:switched",
        "The paper shows stimuli only; they are among the figures above.",
    ),
    Item(
        "Seconds to choose a stimulus (appendix)",
        TASK,
        "seconds_per_step",
        "One thread here. `psi-marginal` and `questplus` are our fast versions; `-published` are "
        "as their papers write them, vectorised over the grid.",
        {(TASK, m, target): v for (m, target), v in SECONDS.items()},
    ),
    Item(
        "Seconds a run of active learning (appendix, tab:al_inference_time)",
        "al",
        "seconds_per_run",
        "One thread here. Functions in a user's units cost more than those of the task.",
        _times(),
    ),
    Item(
        "Queries one by one (appendix, fig:al_strategy_visualization)",
        "al",
        "",
        "Another function.",
        figures=("queries",),
    ),
    Item(
        "Posteriors of hyperparameters (appendix, fig:hyperparameter_posterior)",
        "al",
        "",
        "Another function.",
        figures=("posteriors",),
    ),
    Item(
        "Hyperparameter landscapes: RMSE after 30 queries (appendix, tab:hpo_results)",
        "hpo",
        "rmse",
        "HPO-B is not at hand: rpart, svm, ranger and xgboost are surrogate landscapes of "
        "YAHPO-Gym on other data sets, smooth and without noise, so errors do not compare with "
        "the paper's, only methods with each other.",
        _landscapes(),
        ("rmse",),
    ),
    Item(
        "Protocols of the field (beyond the paper)",
        "protocols",
        "spce",
        "What others published stands in the tables below; the task files are in "
        "benchmarks/protocols.",
    ),
)
WITHOUT_NUMBERS = (
    "Without results, so not here: the comparison of what methods can do (tab:method-comparison), "
    "the workflow, the architecture and its masks (docs/architecture.md), examples of functions "
    "and the settings of VPCE and RL-BOED (src/aline/baselines)."
)


def write_paper(results: Mapping[str, Result], path: Path) -> None:
    """Write the page, of the benchmarks' results by name."""
    write_atomically(path, render(results).encode())


def render(results: Mapping[str, Result]) -> str:
    """The page as text."""
    notes = [note for one in results.values() for note in one["notes"]]
    tables = [find(name).markdown(result) for name, result in results.items() if result["rows"]]
    with canvas.styled():
        sections = "\n".join(_section(item, results[item.bench]) for item in ITEMS
                             if item.bench in results)  # fmt: skip
    return page(
        "evaluation.html",
        title="aline beside its paper",
        heading="aline beside its paper",
        verdicts=f"<li>{escape(WITHOUT_NUMBERS)}</li>",
        sections=sections + _notes(notes),
        table=escape("\n\n".join(tables)),
        made=escape(made(next(iter(results.values())))),
    )


def _notes(notes: list[str]) -> str:
    """Which figures are of an earlier run, to open where one wants to know."""
    lines = "\n".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<details><summary>Notes on the runs</summary><ul>{lines}</ul></details>" * bool(notes)


def _section(item: Item, result: Result) -> str:
    lines = list(compared(item, result["rows"]))
    table = _html_table(("", "", "goal", "paper", "ours", "runs"), lines) if lines else ""
    drawn = find(item.bench).figures(result)
    shown = "\n".join(
        f"<figure>{canvas.to_svg(drawn[name])}</figure>" for name in item.figures if name in drawn
    )
    missing = "" if lines or shown else "<p>Not measured.</p>"
    parts = (f"<h2>{escape(item.title)}</h2>", f"<p>{escape(item.differs)}</p>", table, shown)
    return "\n".join([*parts, missing])


def compared(item: Item, rows: Iterable[Row]) -> Iterator[tuple[str, ...]]:
    """Lines of task, method, goal, the paper's number, ours and how many runs ours has."""
    ours = {(r["task"], r["method"], r["target"]): r for r in _last(item, rows)}
    for key in sorted({*item.paper, *ours}, key=_order):
        row, known = ours.get(key), item.paper.get(key)
        yield (
            *key,
            "" if known is None else f"{known:g}",
            "not measured" if row is None else _value(row),
            "" if row is None else str(row["n"]),
        )


def _last(item: Item, rows: Iterable[Row]) -> Iterator[Row]:
    """Of each task, method and goal the row of the last step; and the best of the GPs."""
    last: dict[tuple[str, ...], Row] = {}
    for row in filter(item.is_here, rows):
        key = row["task"], row["method"], row["target"]
        if row["value"] is not None and (key not in last or last[key]["step"] <= row["step"]):
            last[key] = row
    yield from last.values()
    if "best-gp" in {method for _, method, _ in item.paper}:
        for task in {row["task"] for row in last.values()}:
            gps = [r for r in last.values() if r["task"] == task and r["method"] in GPS]
            if gps:
                yield {**min(gps, key=lambda row: float(row["value"])), "method": "best-gp"}


def _order(key: tuple[str, ...]) -> tuple[Any, ...]:
    """By task as the benchmarks have them, goal, and ours first."""
    tasks = [*al.PROBLEMS, *bed.TASKS, *hpo.SPACES]
    task, method, target = key
    place = tasks.index(task) if task in tasks else len(tasks)
    return place, task, target, not method.startswith("aline"), method


def _value(row: Row) -> str:
    spread = row["ci95"]
    known = spread is not None and spread > 0  # a single run has none
    return f"{row['value']:.3g}" + (f" ± {spread:.2g}" if known else "")


def _html_table(heads: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    body = "\n".join(_html_row("td", line) for line in lines)
    return f'<div class="scroll"><table>{_html_row("th", heads)}\n{body}</table></div>'


def _html_row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
