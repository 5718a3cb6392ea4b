"""What `aline bench NAME` runs: one module a benchmark, which holds it as `BENCH`.

To add a benchmark, write its module beside these and name it in `BENCHES`.
"""

from __future__ import annotations

from importlib import import_module

from aline.app.bench.bench import Bench
from aline.errors import NotFoundError, nearest

# Name: what it measures. The module of that name is imported when it is run.
BENCHES = {
    "al": "functions: RMSE against GPs, hyperparameters, goals in a region, time a run",
    "bed": "design of experiments: information gained on location finding and CES",
    "hpo": "hyperparameter landscapes of data sets never seen: RMSE against GPs and ACE-US",
    "protocols": "trained models on the field's published protocols, one task file each",
    "psychometric": "stimuli for an observer: RMSE, goals at run time, time a trial",
}


def find(name: str) -> Bench:
    """A benchmark by its name."""
    if name not in BENCHES:
        remedy = nearest(name, BENCHES, "use one of these, or all")
        raise NotFoundError(f"benchmarks are {', '.join(BENCHES)}, got {name!r}: {remedy}")
    bench: Bench = import_module(f"aline.app.bench.{name}").BENCH
    return bench
