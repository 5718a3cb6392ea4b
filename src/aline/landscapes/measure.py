"""Measures landscapes: configurations of a model family, cross-validated on data sets.

One CSV file a data set, in a folder a family: what `read_tables` reads. A file is written again
after every few configurations; a run that was cut off goes on where it was.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from aline.errors import InputError, UserError, nearest
from aline.files import write_atomically
from aline.landscapes.families import Family, Row

FOLDS = 3
MOST_ROWS = 400  # of a data set: a landscape needs many fits
TOGETHER = 16  # configurations measured before they are kept
OUTCOME = "y"  # accuracy; the name that `read_tables` expects

Data = tuple[Any, Any]
Progress = Callable[[str, int, int], None]
"""Told what is measured, and how many of how many configurations are done."""


def _shipped(name: str) -> Data:
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X, y


def _classes(number: int) -> Data:
    """Problems that differ in size, classes, noise and how much of the input matters."""
    from sklearn.datasets import make_classification

    rng = np.random.default_rng(number)
    informative = int(rng.integers(3, 9))
    X, y = make_classification(
        n_samples=MOST_ROWS,
        n_features=informative + int(rng.integers(0, 20)),
        n_informative=informative,
        n_redundant=0,
        n_classes=int(rng.integers(2, 5)),
        n_clusters_per_class=int(rng.integers(1, 3)),
        class_sep=float(rng.uniform(0.3, 1.5)),
        flip_y=float(rng.uniform(0.0, 0.3)),
        random_state=number,
    )
    return X, y


def _shape(name: str, noise: float) -> Data:
    from sklearn import datasets

    X, y = getattr(datasets, f"make_{name}")(MOST_ROWS, noise=noise, random_state=0)
    return X, y


def _quantiles(features: int) -> Data:
    from sklearn.datasets import make_gaussian_quantiles

    X, y = make_gaussian_quantiles(n_samples=MOST_ROWS, n_features=features, random_state=0)
    return X, y


DATA_SETS: Mapping[str, Callable[[], Data]] = {
    **{name: partial(_shipped, name) for name in ("iris", "wine", "breast_cancer", "digits")},
    **{f"classes_{n}": partial(_classes, n) for n in range(16)},
    "moons_1": partial(_shape, "moons", 0.1),
    "moons_4": partial(_shape, "moons", 0.4),
    "circles_1": partial(_shape, "circles", 0.1),
    "circles_2": partial(_shape, "circles", 0.2),
    "quantiles_3": partial(_quantiles, 3),
    "quantiles_10": partial(_quantiles, 10),
}


def data_set(name: str) -> Data:
    """Inputs and classes, of at most MOST_ROWS rows."""
    if name not in DATA_SETS:
        raise InputError(
            f"data sets are {', '.join(DATA_SETS)}, got {name!r}: {nearest(name, DATA_SETS)}"
        )
    X, y = DATA_SETS[name]()
    order = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    return X[order], y[order]


def accuracy(family: Family, row: Row, data: Data) -> float:
    """By cross-validation."""
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a bad configuration may not converge: that is its score
        scores = cross_val_score(family.build(row), *data, cv=folds)
    return float(scores.mean())


def measure_landscapes(
    folder: Path,
    families: Sequence[Family],
    names: Sequence[str],
    configurations: int,
    *,
    jobs: int = 1,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,
) -> list[Path]:
    """Measure what is missing; the files of all tables."""
    work = [(family, name) for family in families for name in names]
    return [
        _measure_table(folder, family, name, configurations, jobs, seed, progress)
        for family, name in work
    ]


def _measure_table(
    folder: Path,
    family: Family,
    name: str,
    configurations: int,
    jobs: int,
    seed: int,
    progress: Progress,
) -> Path:
    from joblib import Parallel, delayed

    path, rows = folder / family.name / f"{name}.csv", family.configurations(configurations, seed)
    done = _already(path, rows)
    data = data_set(name)
    label = f"{family.name} on {name}"
    for first in range(len(done), len(rows), TOGETHER):
        some = rows[first : first + TOGETHER]
        scores = Parallel(n_jobs=jobs)(delayed(accuracy)(family, row, data) for row in some)
        done += [{**row, OUTCOME: score} for row, score in zip(some, scores, strict=True)]
        write_atomically(path, _csv(done).encode())
        progress(label, len(done), len(rows))
    return path


def _already(path: Path, rows: Sequence[Row]) -> list[Row]:
    """What an earlier run has measured, if it was of the same configurations."""
    if not path.is_file():
        return []
    lines = path.read_text().splitlines()
    kept = [line.rpartition(",") for line in lines[1:]]
    wanted = _csv([dict(row) for row in rows]).splitlines()
    same = [",".join(lines[0].split(",")[:-1]), *(before for before, _, _ in kept)]
    if len(kept) > len(rows):
        raise UserError(f"{path} has {len(kept)} configurations: ask for as many, or more")
    if same != wanted[: len(same)]:
        raise UserError(f"{path} is of other configurations: use its seed, or another folder")
    return [{**row, OUTCOME: float(score)} for row, (_, _, score) in zip(rows, kept, strict=False)]


def _csv(rows: Sequence[Row]) -> str:
    return "\n".join([",".join(rows[0]), *_lines(rows)]) + "\n"


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        yield ",".join("" if value is None else str(value) for value in row.values())
