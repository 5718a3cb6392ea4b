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

TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "netcdf": "application/x-netcdf",
}
ENDINGS = {"json": "json", "csv": "csv", "netcdf": "nc"}


def export(
    experiment: Experiment, events: list[dict[str, Any]], model: str | None, kind: str
) -> bytes:
    """The file's content, of an experiment and its journal; a kind of `TYPES`."""
    if kind == "netcdf":
        return _netcdf(experiment)
    return _csv(experiment, events) if kind == "csv" else _json(experiment, model, events)


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
    asked, told = _times(events, "asked"), _times(events, "told")
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    columns = kind.columns()
    writer.writerow(["trial", "state", "source", *axes, *columns, "asked_at", "told_at"])
    for trial in experiment.trials:
        told_cells = [""] * len(columns) if trial.outcome is None else kind.cells(trial.outcome)
        row = [trial.number, trial.state, trial.source, *(repr(trial.design[a]) for a in axes)]
        times = [asked.get(trial.number, ""), told.get(trial.number, "")]
        writer.writerow([*row, *told_cells, *times])
    return text.getvalue().encode()


def _times(events: list[dict[str, Any]], kind: str) -> dict[int, str]:
    return {event["trial"]: event["time"] for event in events if event["event"] == kind}


def _netcdf(experiment: Experiment) -> bytes:
    """Draws from the posterior for ArviZ."""
    data = experiment.posterior().to_arviz()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "posterior.nc"
        data.to_netcdf(str(path), engine="h5netcdf")
        return path.read_bytes()
