"""Do shipped models mean what they say: ranks (SBC), coverage and the joint posterior (TARP).

    python benchmarks/calibration.py
    python benchmarks/calibration.py --models gp1d --episodes 1000 --queries 200 --record

Writes results/calibration.json, of experiments that the model's own policy played to the end, for
each goal. `metric=ranks_outside:NAME`: of the 20 bins of the rank histogram of NAME's truths, in a
thousand experiments, how many lie outside a band that holds all bins of all parameters in 99 %
(bar: none). `metric=coverage_0.5:NAME`, `0.9` and `0.95`: how often central intervals hold the
truth (bar: within 2 points). `metric=tarp_p`: how likely joint ranks as uneven as these are if q is
right. Functions have one held-out outcome an experiment (`target=predictions`); queries for a
function's parameters take long, so `--queries` says how many experiments have these for a goal.
`--record` also keeps all that in the model's card.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch

import aline
from aline.app.card import record_in_card
from aline.evaluation.calibration import (
    POINTS,
    Calibration,
    calibration_of,
    calibration_of_predictions,
    can_check_predictions,
)
from aline.evaluation.estimates import Estimate
from aline.evaluation.gap import method, parameter_goals
from aline.evaluation.results import Row, result, row
from aline.evaluation.simulated import simulate_experiments
from aline.files import write_atomically
from aline.model import Model
from aline.tasks import simulator_of

RANKED = 1000  # experiments whose ranks make the histograms
MODELS = ("psychometric", "location", "detection", "ces", "gp1d", "gp2d")


def calibrations(
    model: Model, episodes: int, queries: int, seed: int
) -> Iterator[tuple[Calibration, float]]:
    """Of each of a model's goals, with the seconds that it took."""
    task = simulator_of(model.spec)
    assert task is not None
    if can_check_predictions(model.spec, task):
        began = time.monotonic()
        yield calibration_of_predictions(model, task, episodes, seed), time.monotonic() - began
    count = episodes if model.network.config.plugin is None else queries
    for names in parameter_goals(model.spec) if count else ():
        began = time.monotonic()
        played = simulate_experiments(
            model, task, names, episodes=count, lengths=[model.spec.horizon], seed=seed
        )
        yield calibration_of(model.network, played, names, seed), time.monotonic() - began


def measured(found: Calibration) -> Iterator[tuple[str, int, Estimate]]:
    """Coverage of all experiments, and the histograms of the first thousand."""
    first = found.first(RANKED)
    yield from (one for one in first.measured() if not one[0].startswith("coverage"))
    yield from (one for one in found.measured() if one[0].startswith("coverage"))


def rows_of(model: Model, found: Calibration) -> list[Row]:
    """As a result has them."""
    about = model.spec.name, method(model.spec), found.target
    return [row(*about, *value) for value in measured(found)]


def misses(found: Calibration) -> Iterator[str]:
    """What is outside the bars, in words."""
    for metric, _, value in measured(found):
        kind, _, name = metric.partition(":")
        if kind == "ranks_outside" and value.value:
            yield f"{value.value:.0f} bins of {name} are outside"
        if kind.startswith("coverage_"):
            level = float(kind.removeprefix("coverage_"))
            if abs(value.value - level) > POINTS:
                yield f"{name} at {100 * level:g} %: {value.value:.3f} ± {value.ci95:.3f}"


def main() -> None:
    """Measure, print, write after each goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("results/calibration.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    began, rows = time.monotonic(), list[Row]()
    for name in options.models:
        model = aline.load(name)
        for found, seconds in calibrations(model, options.episodes, options.queries, options.seed):
            new = rows_of(model, found)
            rows += new
            print(f"{name} ({found.target}), {found.n} experiments, {seconds:.0f} s", flush=True)
            print(*(f"  {line}" for line in found.sentences()), sep="\n", flush=True)
            print(*(f"  missed: {line}" for line in misses(found)), sep="\n", flush=True)
            made = result("calibration", rows, time.monotonic() - began, seed=options.seed)
            write_atomically(options.out, f"{json.dumps(made, indent=1)}\n".encode())
            if options.record:
                record_in_card(aline.load(name), {"rows": new})


if __name__ == "__main__":
    main()
