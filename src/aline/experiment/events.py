"""What each kind of event changes in an experiment's state."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from aline.episodes import Context, goal_of
from aline.errors import StorageError
from aline.experiment.allowed import Allowed
from aline.experiment.knowledge import Knowledge, network_prior
from aline.experiment.settings import read_target
from aline.experiment.storage import Event
from aline.experiment.trial import Trial, read_design

if TYPE_CHECKING:
    from aline.experiment.state import State

UNITS = 2  # observations without which there is no scale, where outcomes come in any units

Changes = dict[str, Any]
"""The fields of a state that an event changes."""


class Measured(NamedTuple):
    """An observation, and what was known before it."""

    data: Any
    design: Tensor  # [design] on the network's scale
    outcome: Tensor  # [1, *event]


def changes_of(state: State, event: Event) -> Changes:
    """What becomes of a state by one more event."""
    handler = _HANDLERS.get(event["event"])
    if handler is None:
        raise StorageError(
            f"the journal holds an event {event['event']!r} that this aline does not know: "
            "upgrade aline"
        )
    changes = _evidence_so_far(state) | handler(state, event)
    if "key" in event:
        changes["keys"] = state.keys.adding(event["key"], event)
    return changes


def _asked(state: State, event: Event) -> Changes:
    number, design = _next_number(state, event), event["design"]
    for other in [event["redo"]] if "redo" in event else event.get("abandons", []):
        state = replace(state, **_abandoned(state, {"trial": other}))
    return {
        "trials": (*state.trials, Trial(number, dict(design))),
        "open": {**state.open, number: read_design(state.spec.design, design)},
        "rows": state.rows,
        "data": state.data,
        **_evidence_so_far(state),
    }


def _told(state: State, event: Event) -> Changes:
    number, other = event["trial"], event.get("design")
    trial, x = state.trials[number], state.open[number]
    told = replace(trial, outcome=event["outcome"], state="told", note=event.get("note"))
    if other is not None:
        told = replace(told, design=dict(other), proposed=trial.design)
        x = read_design(state.spec.design, other)
    return {
        "trials": _with(state.trials, told),
        "open": _without(state.open, number),
        "rows": (*state.rows, number),
        **_measured(state, x[None], [event["outcome"]]),
    }


def _attached(state: State, event: Event) -> Changes:
    first, names = _next_number(state, event), state.spec.design.names
    rows = zip(*(event["designs"][name] for name in names), strict=True)
    trials = tuple(
        Trial(number, dict(zip(names, row, strict=True)), outcome, "told", source="attached")
        for number, (row, outcome) in enumerate(zip(rows, event["outcomes"], strict=True), first)
    )
    numbers = (trial.number for trial in trials)
    return {
        "trials": (*state.trials, *trials),
        "rows": (*state.rows, *numbers),
        **_measured(state, state.spec.design.read(event["designs"]), event["outcomes"]),
    }


def _abandoned(state: State, event: Event) -> Changes:
    number = event["trial"]
    changes: Changes = {
        "trials": _with(state.trials, replace(state.trials[number], state="abandoned"))
    }
    if number in state.open:
        return {**changes, "open": _without(state.open, number)}
    # Its outcome leaves the posterior: what remains is read anew.
    rows = tuple(n for n in state.rows if n != number)
    left = state.context.without(state.rows.index(number))
    unchecked = _all_unchecked(state, left)
    return {**changes, "rows": rows, "data": state.engine.read(left),
            "evidence": state.evidence.restart(), "unchecked": unchecked}  # fmt: skip


def _restricted(state: State, event: Event) -> Changes:
    return {"allowed": Allowed.read(state.spec.design, event)}


def _changed(state: State, event: Event) -> Changes:
    changes: Changes = {name: event[name] for name in ("horizon", "stop") if name in event}
    if "target" in event:
        target = read_target(state.spec, event["target"])
        changes |= {"target": target, "goal": goal_of(state.spec, target)}
    if "prior" in event:
        changes |= _knowing(state, event["prior"])
    return changes


def _knowing(state: State, knowledge: Knowledge) -> Changes:
    """With other knowledge beforehand: all data are read anew."""
    prior = network_prior(state.spec.parameters, knowledge)
    context = replace(state.context, prior=prior)
    return {"knowledge": knowledge, "data": state.engine.read(context),
            "evidence": state.evidence.restart(),
            "unchecked": _all_unchecked(state, context)}  # fmt: skip


def _closed(state: State, event: Event) -> Changes:
    return {"closed": True}


_HANDLERS: dict[str, Callable[[State, Event], Changes]] = {
    "asked": _asked,
    "told": _told,
    "attached": _attached,
    "abandoned": _abandoned,
    "restricted": _restricted,
    "changed": _changed,
    "closed": _closed,
}


def _next_number(state: State, event: Event) -> int:
    number = int(event["trial"])
    if number != len(state.trials):
        raise StorageError(
            f"the journal starts trial {number} after {len(state.trials)} trials: it is damaged"
        )
    return number


def _measured(state: State, designs: Tensor, outcomes: Sequence[Any]) -> Changes:
    """After observations at designs [n, design], of which the check is to know."""
    # Standardised in double precision: outcomes may be small differences of large numbers.
    kind, data = state.spec.outcome, state.data
    y = kind.to_network(kind.from_plain(outcomes))
    y = y if state.is_standardised else y.float()
    so_far = _evidence_so_far(state)
    unchecked = so_far["unchecked"]
    for design, value in zip(designs, y[:, None], strict=True):
        unchecked = _adding(state, unchecked, Measured(data, design, value))
        data = state.engine.extend(data, design[None], value)
    return {**so_far, "data": data, "unchecked": unchecked}


def _evidence_so_far(state: State) -> Changes:
    """The evidence, and the observations it does not know; what was computed once stays."""
    if "checked" in vars(state):  # where a cached property keeps its value
        return {"evidence": state.checked, "unchecked": ()}
    return {"evidence": state.evidence, "unchecked": state.unchecked}


def _adding(state: State, unchecked: tuple[Measured, ...], new: Measured) -> tuple[Measured, ...]:
    """With one more to check, within the horizon and once outcomes have a scale."""
    if state.evidence.limit == math.inf:  # nothing is looked for
        return ()
    before = state.engine.context(new.data).length
    first = UNITS if state.is_standardised else 0
    return (*unchecked, new) if first <= before < state.spec.horizon else unchecked


def _all_unchecked(state: State, context: Context) -> tuple[Measured, ...]:
    """Every observation of a context."""
    found: tuple[Measured, ...] = ()
    for row in range(min(context.length, state.spec.horizon)):
        before = state.engine.read(context.first(row))
        found = _adding(state, found, Measured(before, context.designs[0, row],
                                               context.outcomes[:, row]))  # fmt: skip
    return found


def _with(trials: tuple[Trial, ...], trial: Trial) -> tuple[Trial, ...]:
    return (*trials[: trial.number], trial, *trials[trial.number + 1 :])


def _without(open_: Mapping[int, Tensor], number: int) -> dict[int, Tensor]:
    return {n: x for n, x in open_.items() if n != number}
