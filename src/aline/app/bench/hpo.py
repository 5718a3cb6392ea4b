"""Hyperparameter landscapes of data sets never seen (appendix D.1).

Tables come from a folder (--data), models from another (--models) or from the zoo. HPO-B itself is
not at hand: the surrogate spaces are predictions of YAHPO-Gym's models, smooth and without noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from aline import zoo
from aline.app.bench.bench import Bench, BenchSettings, Measured, Progress, Result, Row
from aline.app.bench.pieces import measure_each
from aline.errors import NotFoundError
from aline.evaluation import row
from aline.evaluation.active import ratio
from aline.evaluation.estimates import Estimate, mean
from aline.evaluation.landscapes import METHODS, Errors, Runs, explore, method_named
from aline.model import Model
from aline.tasks.table_files import read_tables
from aline.tasks.table_task import TableTask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPETITIONS = 20
SHOWN = (5, 10, 15, 20, 25, 30)  # configurations known, with a row of their own


@dataclass(frozen=True)
class Space:
    """Where a search space's tables are, and what the paper found on HPO-B's."""

    file: str
    space: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    published: tuple[float, ...] = ()  # as METHODS


# OpenML ids of data that has another id, too, or was made of the other's rows. No table shows it.
YAHPO_ALIASES = {
    "40670": "46",  # dna is splice
    "40981": "29",  # Australian is credit-approval
    "40900": "182",  # Satellite is of satimage
    "41156": "1590",  # ada is of adult
    "41146": "1040",  # sylvine and sylva_prior are of the forest cover
}
FOREST_ALIASES = {"125923": "29", "3896": "7592"}  # task ids of Australian, and of ada_agnostic
YAHPO = {"aliases": YAHPO_ALIASES}

SPACES = {
    "rpart": Space(
        "yahpo_rbv2.npz", "rpart", YAHPO, published=(0.01, 0.01, 0.07, 0.04, 0.04, 0.05)
    ),
    "svm": Space("yahpo_rbv2.npz", "svm", YAHPO, published=(0.03, 0.04, 0.22, 0.11, 0.12, 0.15)),
    "ranger": Space(
        "yahpo_rbv2.npz", "ranger", YAHPO, published=(0.02, 0.02, 0.10, 0.07, 0.08, 0.08)
    ),
    "xgboost": Space(
        "yahpo_rbv2.npz", "xgboost", YAHPO, published=(0.03, 0.04, 0.09, 0.09, 0.09, 0.09)
    ),
    "openml_forest": Space(
        "openml_random_forest.npz", None, {"repeated": "average", "aliases": FOREST_ALIASES}
    ),
    "hpobench_xgboost": Space("hpobench_xgboost6d.npz", None, {"is_error": True}),
}


def landscape_task(name: str, settings: BenchSettings) -> TableTask:
    """A search space's task."""
    known = SPACES[name]
    path = (settings.data or Path("data")) / known.file
    if not path.is_file():
        raise NotFoundError(f"no {path}: name the folder of {known.file} with --data")
    return TableTask(read_tables(path, known.space or name, **known.options))


def model_of(name: str, settings: BenchSettings) -> Model | None:
    """The model in the folder of models, or the shipped one, if there is any."""
    folder = (settings.models or Path("runs")) / name
    if (folder / "card.json").is_file():
        return zoo.load(folder)
    return zoo.load(name) if name in zoo.shipped() else None


def _measure(settings: BenchSettings, progress: Progress) -> Measured:
    wanted = settings.among("tasks", tuple(SPACES))
    ready = [name for name in wanted if model_of(name, settings) is not None]
    notes = [f"{name}: no model, so it was left out" for name in wanted if name not in ready]
    methods = settings.among("methods", METHODS)
    chosen = [(name, method) for name in ready for method in methods]
    found = measure_each("hpo", chosen, _measure_one, settings, progress)
    return Measured([*found.rows, *_ratios(found.data)], found.data, [*notes, *found.notes])


def _measure_one(name: str, method: str, settings: BenchSettings, progress: Progress) -> Measured:
    model = model_of(name, settings)
    assert model is not None
    task = landscape_task(name, settings).on("test").described_by(model.spec)
    assert isinstance(task, TableTask)
    _check_unseen(task, model)
    policy, count = method_named(method, model), settings.count(REPETITIONS, 2)
    played = []
    for number in range(len(task.recorded.count) if not settings.quick else 3):
        runs = Runs.on(task, number, count, settings.seed)
        played.append(explore(runs, policy, settings.seed))
        progress("data sets", number + 1, len(task.recorded.count))
    return Measured(_rows(name, method, played), {name: {method: _data(played)}})


def _check_unseen(task: TableTask, model: Model) -> None:
    """A model must not have learned from what it is tested on."""
    aliases = YAHPO_ALIASES | FOREST_ALIASES
    learned = {aliases.get(name, name) for name in model.spec.config["learned_from"]}
    names = [one.name for one in task.tables.part("test")]
    seen = [name for name in names if aliases.get(name, name) in learned]
    if seen:
        raise NotFoundError(f"the model has learned from {', '.join(seen)}: train another")


def _rows(name: str, method: str, played: list[Errors]) -> list[Row]:
    rows = []
    for step in SHOWN:
        error = torch.stack([one.rmse[:, step - 1].mean() for one in played])
        rows.append(row(name, method, "predictions", "rmse", step, mean(error)))
    published = SPACES[name].published
    if published:
        rows[-1]["published"] = published[METHODS.index(method)]
    covered = torch.stack([one.covered[:, -1].mean() for one in played])
    rows.append(row(name, method, "predictions", "coverage", SHOWN[-1], mean(covered)))
    return rows


def _data(played: list[Errors]) -> dict[str, Any]:
    """Curves for figures, and the last error of each data set for ratios."""
    curve = torch.stack([one.rmse.mean(0) for one in played])
    steps = [mean(error) for error in curve.unbind(1)]
    return {
        "mean": [one.value for one in steps],
        "ci95": [one.ci95 for one in steps],
        "errors": curve[:, -1].tolist(),
    }


def _ratios(data: Mapping[str, Any]) -> list[Row]:
    rows = []
    for name, methods in data.items():
        errors = {m: torch.tensor(found["errors"]).double() for m, found in methods.items()}
        if "aline" not in errors:
            continue
        rivals = {"ace-us": errors.get("ace-us"), "best-gp": _best_gp(errors)}
        for rival, theirs in rivals.items():
            if theirs is not None:
                estimate: Estimate = ratio(errors["aline"], theirs)
                one = row(name, "aline", "predictions", "ratio", SHOWN[-1], estimate)
                rows.append({**one, "against": rival})
    return rows


def _best_gp(errors: Mapping[str, Tensor]) -> Tensor | None:
    """The errors of the GP method that is best on average."""
    found = [values for method, values in errors.items() if method.startswith("gp")]
    return min(found, key=lambda values: float(values.mean())) if found else None


def _markdown(result: Result) -> str:
    last = {
        (one["task"], one["method"]): one
        for one in result["rows"]
        if one["metric"] == "rmse" and one["step"] == SHOWN[-1]
    }
    methods = [method for method in METHODS if any(key[1] == method for key in last)]
    lines = [["RMSE after 30 configurations", *methods, "over the best GP", "over ACE-US"]]
    for name in dict.fromkeys(key[0] for key in last):
        cells = [_cell(last.get((name, method))) for method in methods]
        lines.append([name, *cells, *(_ratio_cell(result, name, r) for r in ("best-gp", "ace-us"))])
    head, *rest = ["| " + " | ".join(line) + " |" for line in lines]
    notes = "".join(f"\n{note}\n" for note in result["notes"])
    intro = (
        "Data sets never seen: the mean over them and its 95 % interval. Five configurations are "
        "random. rpart, svm, ranger and xgboost are surrogate landscapes, not HPO-B's tables."
    )
    return "\n".join([intro, "", head, "|---" * len(lines[0]) + "|", *rest]) + "\n" + notes


def _cell(one: Row | None) -> str:
    return "" if one is None else f"{one['value']:.4f} ± {one['ci95']:.4f}"


def _ratio_cell(result: Result, name: str, rival: str) -> str:
    found = [
        one
        for one in result["rows"]
        if one["metric"] == "ratio" and one["task"] == name and one["against"] == rival
    ]
    return f"{found[0]['value']:.2f} ± {found[0]['ci95']:.2f}" if found else ""


def _figures(result: Result) -> Mapping[str, Figure]:
    from aline.app.plots.active import plot_curves
    from aline.app.plots.canvas import styled

    if not result["data"]:
        return {}
    with styled():
        return {"rmse": plot_curves(result["data"], "RMSE", columns=2, log=True)}


BENCH = Bench("hpo", {"errors": _measure}, _markdown, _figures, by_task=True)
