"""aline's objects as the plain data that the API gives."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aline import experiment as live
from aline.app.card import facts_of
from aline.app.service.lab import Lab, can_simulate
from aline.errors import StorageError
from aline.experiment import Storage
from aline.experiment.settings import plain_target
from aline.experiment.storage import Event
from aline.model import Model
from aline.spaces import Axis

Plain = dict[str, Any]
CORRELATION_DRAWS = 1000  # correlations to 0.03, in 20 ms


def trial(one: live.Trial) -> Plain:
    """A trial."""
    return {
        "number": one.number,
        "state": one.state,
        "source": one.source,
        "design": one.design,
        "proposed": one.proposed,
        "outcome": one.outcome,
        "note": one.note,
    }


def experiment(one: live.Experiment, model: str | None) -> Plain:
    """An experiment with its trials."""
    trials = one.trials
    return {
        "name": one.name,
        "task": one.spec.name,
        "model": model,
        "created": one.created,
        "target": plain_target(one.spec, one.target),
        "horizon": one.horizon,
        "stop": one.stop,
        "known": one.known,
        "told": sum(t.state == "told" and t.source == "asked" for t in trials),
        "finished": one.finished,
        "closed": one.closed,
        "metadata": one.metadata,
        "sequence": one.sequence,
        "trials": [trial(t) for t in trials],
    }


def summaries(storage: Storage, names: Iterable[str]) -> list[Plain]:
    """Experiments in a list; one that cannot be read says so in its place."""
    return [_summary_or_problem(storage, name) for name in names]


def _summary_or_problem(storage: Storage, name: str) -> Plain:
    try:
        found = summary(name, storage.read(name))
        json.dumps(found, allow_nan=False)  # now, as in the whole list it would be too late
    except (StorageError, LookupError, TypeError, ValueError, AttributeError) as error:
        return _damaged(name, str(error))
    except RecursionError:
        return _damaged(name, "its metadata is nested too deeply to be shown")
    return found


def _damaged(name: str, problem: str) -> Plain:
    """An experiment of which nothing but its name is known."""
    return summary(name, [{}]) | {"problem": problem[:300]}


def summary(name: str, journal: Sequence[Event]) -> Plain:
    """An experiment in a list, from its journal alone: no model is needed to count."""
    created, *events = journal
    told: set[int] = set()
    shown = {"horizon": created.get("horizon", 0), "closed": False}
    for event in events:
        if event["event"] == "told":
            told.add(event["trial"])
        elif event["event"] == "abandoned":
            told.discard(event["trial"])
        elif event["event"] == "asked":
            told -= set(event.get("abandons", []))
        elif event["event"] == "closed":
            shown["closed"] = True
        elif event["event"] == "changed" and "horizon" in event:
            shown["horizon"] = event["horizon"]
    return {
        "name": name,
        "task": created.get("task", ""),
        "created": created.get("time", ""),
        "changed": (events[-1] if events else created).get("time", ""),
        "told": len(told),
        "metadata": created.get("metadata", {}),
        "problem": None,
        **shown,
    }


def models(lab: Lab) -> list[Plain]:
    """The models on offer."""
    return [model(n, one, can_simulate(lab.place(n))) for n, one in lab.models().items()]


def model(name: str, one: Model, can_simulate: bool) -> Plain:
    """A model."""
    spec = one.spec
    condition = spec.design.condition
    return {
        "name": name,
        "parameters": list(spec.parameters.priors),
        "axes": [
            _axis(name, axis, spec.units.get(name)) for name, axis in spec.design.axes.items()
        ],
        "where": None if condition is None else condition.words(),
        "outcome": spec.outcome.kind,
        "form": spec.outcome.form(),
        "horizon": spec.horizon,
        "targets": [list(names) for names, _ in spec.targets],
        "can_simulate": can_simulate,
        "facts": facts_of(one),
    }


def _axis(name: str, one: Axis, unit: str | None) -> Plain:
    return {
        "name": name,
        "unit": unit,
        "kind": one.kind,
        "low": None if one.names else one.low,
        "high": None if one.names else one.high,
        "values": None if one.values is None else list(one.values),
    }


def posterior(one: live.Posterior, sequence: int, level: float) -> Plain:
    """Means, standard deviations, intervals, correlations where they are known, and warnings."""
    marginals: Mapping[str, Any] = {
        name: {
            "mean": one[name].mean,
            "std": one[name].std,
            "interval": list(one[name].interval(level)),
            "probabilities": one[name].probabilities or None,
        }
        for name in one.names
    }
    return {
        "sequence": sequence,
        "level": level,
        "parameters": marginals,
        "correlation": one.correlation(CORRELATION_DRAWS) if one.is_joint else None,
        "warnings": list(one.warnings),
    }
