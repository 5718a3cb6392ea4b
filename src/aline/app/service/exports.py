"""An experiment as a file to take away."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

from aline import __version__
from aline.app.service import shapes
from aline.experiment import Experiment
from aline.experiment.frames import note_column, note_names, times_of

TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "netcdf": "application/x-netcdf",
    "html": "text/html; charset=utf-8",
}
ENDINGS = {"json": "json", "csv": "csv", "netcdf": "nc", "html": "html"}


def export(
    experiment: Experiment, events: list[dict[str, Any]], model: str | None, kind: str
) -> bytes:
    """The file's content, of an experiment and its journal; a kind of `TYPES`."""
    if kind == "netcdf":
        return _netcdf(experiment)
    if kind == "html":
        return _report(experiment)
    return _csv(experiment, events) if kind == "csv" else _json(experiment, model, events)


def _report(experiment: Experiment) -> bytes:
    """The page of figures and tables that `experiment.report` writes."""
    from aline.app.record import record_of  # with matplotlib, which nothing else here needs
    from aline.app.report import render

    return render(record_of(experiment), "aline serve").encode()


def _json(experiment: Experiment, model: str | None, events: list[dict[str, Any]]) -> bytes:
    """Everything: what it is now, what is known, and the journal that it all follows from."""
    data = {
        "aline": __version__,
        "experiment": shapes.experiment(experiment, model),
        "posterior": shapes.posterior(experiment.posterior(), experiment.sequence, 0.95),
        "journal": events,
    }
    return (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()


def _csv(experiment: Experiment, events: list[dict[str, Any]]) -> bytes:
    """A line a trial."""
    axes, kind = experiment.spec.design.names, experiment.spec.outcome
    times_by_kind = times_of(events)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    columns, trials = kind.columns(), experiment.trials
    names = note_names(trials)
    notes = map(note_column, names)
    writer.writerow(["trial", "state", "source", *axes, *columns, *notes, "asked_at", "told_at"])
    for trial in trials:
        told_cells = [""] * len(columns) if trial.outcome is None else kind.cells(trial.outcome)
        designs = (trial.design[axis] for axis in axes)
        cells = (value if isinstance(value, str) else repr(value) for value in designs)
        row = [trial.number, trial.state, trial.source, *cells]
        note_cells = [_cell((trial.note or {}).get(name)) for name in names]
        times = [by_trial.get(trial.number, "") for by_trial in times_by_kind.values()]
        writer.writerow([*row, *told_cells, *note_cells, *times])
    return text.getvalue().encode()


def _cell(value: Any) -> str:
    """A value of a note: text as it is, all else as JSON, nothing where there is none."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _netcdf(experiment: Experiment) -> bytes:
    """Draws from the posterior for ArviZ."""
    data = experiment.posterior().to_arviz()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "posterior.nc"
        data.to_netcdf(str(path), engine="h5netcdf")
        return path.read_bytes()
