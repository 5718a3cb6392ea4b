"""Maps a landscape: asks for configurations until there are enough scores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aline import zoo
from aline.app.landscape.evaluation import Evaluate
from aline.app.landscape.explorer import Explorer, ModelExplorer, RegressorExplorer
from aline.app.landscape.findings import Findings, find
from aline.app.landscape.journal import Configuration, Journal
from aline.errors import InputError, NotFoundError
from aline.experiment.frames import import_pandas

if TYPE_CHECKING:
    import pandas

START = 5  # configurations that are scored first, at random
Told = Callable[[int, Configuration, float], None]


def read_candidates(path: Path) -> list[Configuration]:
    """A row a configuration, of a CSV or Parquet file; an empty cell is a setting not used."""
    pandas = import_pandas("map-landscape")
    if not path.is_file():
        raise NotFoundError(f"no file {path}: check the path of the candidates")
    try:
        frame = pandas.read_parquet(path) if path.suffix == ".parquet" else pandas.read_csv(path)
    except (ValueError, ImportError) as error:
        raise InputError(f"{path} cannot be read as a table: {error}") from None
    return listed(frame.drop_duplicates())


def listed(frame: pandas.DataFrame) -> list[Configuration]:
    """Rows as JSON has them: None of what is missing."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [
        {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in row.items()
        }
        for row in plain.to_dict("records")
    ]


def frame_of(candidates: list[Configuration]) -> pandas.DataFrame:
    """A table with NaN where a setting is missing, and 0 or 1 for no or yes."""
    frame = import_pandas("map-landscape").DataFrame(candidates)
    if len(frame.columns) < 1 or len(frame) < 2:
        raise InputError("there must be at least two candidates with one hyperparameter")
    flags = frame.select_dtypes("bool").columns
    return frame.astype(dict.fromkeys(flags, int))


def explorer_for(
    frame: pandas.DataFrame, model: Path | None, space: str | None, seed: int
) -> tuple[Explorer, str]:
    """A model of such landscapes where there is one, else a regressor; and which it is."""
    if model is not None:
        return ModelExplorer(zoo.load(model), frame, seed), str(model)
    trained = Path("runs") / (space or "")
    if space and (trained / "weights.safetensors").is_file():
        try:
            return ModelExplorer(zoo.load(trained), frame, seed), str(trained)
        except InputError:
            pass  # it has learned from tables of other columns
    return RegressorExplorer(frame, seed), "aline.ActiveRegressor()"


def explore(
    journal: Journal, explorer: Explorer, evaluate: Evaluate, count: int, seed: int, told: Told
) -> None:
    """Score candidates until there are so many; what is on disk already counts."""
    most = len(journal.candidates)
    if count > most:
        raise InputError(f"there are {most} candidates, so at most {most} can be scored")
    order = np.random.default_rng(seed).permutation(most).tolist()
    while len(journal.scores) < count:
        rows = list(journal.scores)
        if len(rows) < START:
            row = next(one for one in order if one not in journal.scores)
        else:
            row = explorer.choose(rows, _scores(journal))
        journal.add(row, evaluate(journal.candidates[row]))
        told(len(journal.scores), journal.candidates[row], journal.scores[row])


def _scores(journal: Journal) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(list(journal.scores.values()))


def findings(
    journal: Journal, frame: pandas.DataFrame, explorer: Explorer, lower_is_better: bool
) -> Findings:
    """What the scores say."""
    rows, scores = list(journal.scores), _scores(journal)
    return find(frame, lambda at: explorer.predict(at, rows, scores), lower_is_better)
