"""What an experiment measured as a table: for pandas, and for files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from aline.errors import UserError
from aline.experiment.storage import Event
from aline.experiment.trial import Trial
from aline.tasks import Spec

if TYPE_CHECKING:
    import pandas


def import_pandas(caller: str) -> Any:
    """The pandas module, or what to install."""
    try:
        import pandas
    except ImportError:
        raise UserError(f"{caller} needs pandas: pip install aline[pandas]") from None
    return pandas


def frame_of_trials(
    spec: Spec, trials: Sequence[Trial], events: Iterable[Event]
) -> pandas.DataFrame:
    """A row a trial."""
    pandas = import_pandas("to_frame")
    columns: dict[str, Any] = {
        "state": [trial.state for trial in trials],
        "source": [trial.source for trial in trials],
    }
    columns |= {axis: [trial.design[axis] for trial in trials] for axis in spec.design.names}
    for part, column in zip(spec.outcome.parts, spec.outcome.columns(), strict=True):
        columns[column] = [_part(spec, trial, part) for trial in trials]
    for name in note_names(trials):
        columns[note_column(name)] = [(trial.note or {}).get(name) for trial in trials]
    for kind, times in times_of(events).items():
        texts = [times.get(trial.number) for trial in trials]
        columns[f"{kind}_at"] = pandas.to_datetime(texts, utc=True, format="ISO8601")
    index = pandas.Index([trial.number for trial in trials], name="trial", dtype="int64")
    return pandas.DataFrame(columns, index=index)


def _part(spec: Spec, trial: Trial, part: str) -> Any:
    return None if trial.outcome is None else spec.outcome.pick(trial.outcome, part)


def note_names(trials: Iterable[Trial]) -> list[str]:
    """Everything that notes hold, in the order in which it first appears."""
    return list(dict.fromkeys(name for trial in trials for name in trial.note or ()))


def note_column(name: str) -> str:
    """The column of a table that holds it; no design axis or outcome is called so."""
    return f"note.{name}"


def times_of(events: Iterable[Event]) -> dict[str, dict[int, str]]:
    """When each trial was asked and told."""
    found: dict[str, dict[int, str]] = {"asked": {}, "told": {}}
    for event in events:
        if event["event"] in found:
            found[event["event"]][event["trial"]] = event["time"]
    return found
