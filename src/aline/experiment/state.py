"""An experiment as its journal of events leaves it.

`State.after(event)` is the only way a state changes, live and in a replay alike: what a process
saw before it died is what the next one computes from the same events.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from aline.episodes import Goal, goal_of
from aline.episodes.goals import Target
from aline.errors import StateError, StorageError
from aline.experiment.allowed import Allowed, plain_restriction
from aline.experiment.keys import Keys
from aline.experiment.observed import Observed
from aline.experiment.posterior import Posterior
from aline.experiment.predictive import Predictive
from aline.experiment.settings import read_target
from aline.experiment.storage import Event
from aline.experiment.trial import Trial, read_design
from aline.model import Belief, Bernoulli, LearnedPolicy, Mixture, Network, View
from aline.model.live import shares_a_pass
from aline.model.policy import Choosing, Memory, choose_together
from aline.spaces import Outcome, Real
from aline.tasks import Spec


@dataclass(frozen=True, eq=False)
class State:
    """Everything an experiment is, derived from its events."""

    policy: LearnedPolicy
    observed: Observed
    goal: Goal
    target: tuple[Target, ...]
    horizon: int
    stop: Mapping[str, float]  # name -> the 95 % interval's width that is narrow enough
    allowed: Allowed
    seed: int
    trials: tuple[Trial, ...] = ()
    open: Mapping[int, Tensor] = field(default_factory=dict)  # trial -> its design [design]
    rows: tuple[int, ...] = ()  # the trial of each observation in the view
    closed: bool = False
    keys: Keys = field(default_factory=Keys)  # a caller's key -> what it did
    sequence: int = 1  # the number of the next event
    # The next trial's design, once it was chosen; not a cached property, which on Python 3.11 would
    # let no other experiment choose meanwhile.
    _chosen: list[dict[str, float]] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def start(cls, network: Network, event: Event) -> State:
        """The state after a journal's first event."""
        space, target = network.spec.design, read_target(event["target"])
        # 200 draws lie within 0.5 % of any point of an interval, but not of a square.
        refine = 0 if len(space) == 1 else 2
        standardise = event.get("standardise", False)  # the first journals do not say
        policy = LearnedPolicy(
            network,
            candidates=event["candidates"],
            refine=refine,
            standardise=standardise,
            noise=event.get("noise"),  # nor this
        )
        return cls(
            policy=policy,
            observed=Observed.nothing(policy),
            goal=goal_of(network.spec, target),
            target=target,
            horizon=event["horizon"],
            stop=event["stop"],
            allowed=Allowed.read(space, plain_restriction(space, None, repeats=True)),
            seed=event["seed"],
        )

    @torch.inference_mode()
    def after(self, event: Event) -> State:
        """The state after one more event."""
        handler = _HANDLERS.get(event["event"])
        if handler is None:
            raise StorageError(
                f"the journal holds an event {event['event']!r} that this aline does not know: "
                "upgrade aline"
            )
        changes = handler(self, event)
        if "key" in event:
            changes["keys"] = self.keys.adding(event["key"], event)
        return replace(self, sequence=self.sequence + 1, **changes)

    @property
    def spec(self) -> Spec:
        """The task without its simulator."""
        return self.policy.network.spec

    @property
    def outcome(self) -> Outcome:
        """How outcomes are read: in the task's units, or in any."""
        return Real() if self.policy.standardise else self.spec.outcome

    @property
    def view(self) -> View:
        """The data as the network holds it."""
        return self.observed.view

    @property
    def told(self) -> int:
        """How many trials count towards the horizon: asked here and told."""
        return sum(self.trials[number].source == "asked" for number in self.rows)

    @cached_property
    def posterior(self) -> Posterior:
        """The parameters' posterior; it and the next design share one pass of the network."""
        return posterior_of(self.view, self.spec)

    def predict(self, x: Tensor) -> Predictive:
        """Beliefs about outcomes at designs [count, design] on the network's scale."""
        with torch.inference_mode():
            belief = self.view.predictive(x[None, None])
        return Predictive(_first(belief), self.spec.outcome)

    @cached_property
    def is_narrow(self) -> bool:
        """Whether the stopping rule holds."""
        intervals = {name: self.posterior.interval(name) for name in self.stop}
        return bool(intervals) and all(
            high - low < self.stop[name] for name, (low, high) in intervals.items()
        )

    @property
    def choice(self) -> dict[str, float]:
        """The next trial's design, which depends on nothing but the events so far."""
        choose_ahead([self])
        return self._chosen[0]

    @property
    def shares_a_pass(self) -> bool:
        """Whether its choice can be computed together with those of others."""
        plain = self.policy.network.config.policy == "pool" and not self.goal.points.shape[1]
        return plain and shares_a_pass(self.view)

    def _choosing(self) -> Choosing:
        """That choice on its way.

        Where trials are still open, the policy looks at the data as if each had already given
        the outcome that is expected of it ("kriging believer"): every model learns to predict,
        so this is the cheapest way to tell the policy what is about to be known, and unlike a
        distance to keep it lets a repeat happen where a repeat is best. The posterior that a
        user sees never contains such data.
        """
        # A generator of its own for every trial: a resumed experiment draws the same candidates.
        # torch takes 32 bits of a seed, so the two numbers are mixed into that many.
        key = zlib.crc32(f"{self.seed}:{len(self.trials)}".encode())
        generator = torch.Generator().manual_seed(key)
        view, asked = self.view, torch.zeros(0, len(self.spec.design))
        for x in self.open.values():
            view = view.extend(x[None], _expected(view, x))
            asked = torch.cat([asked, x[None]])
        offer = self.allowed.offer(
            self.policy.candidates, asked, self.observed.context.designs[0], generator
        )
        return self.policy.choosing(Memory(view, self.goal), offer, generator)


def choose_ahead(states: Sequence[State]) -> None:
    """Make the choices of several states in one pass, for each to have when it is asked."""
    missing = [state for state in states if not state._chosen]
    for state, choice in zip(missing, _choices(missing), strict=True):
        state._chosen.append(choice)


@torch.inference_mode()
def _choices(states: Sequence[State]) -> list[dict[str, float]]:
    designs = choose_together([state._choosing() for state in states])
    return [state.allowed.name(x[0]) for state, x in zip(states, designs, strict=True)]


@torch.inference_mode()
def posterior_of(view: View, spec: Spec) -> Posterior:
    """The posterior of the only episode and group."""
    mixture = view.posterior()
    if not bool(mixture.mean.isfinite().all()):  # a journal from before outcomes had a range
        raise StateError(
            f"the posterior is not finite after {view.context.length} observations: abandon the "
            "trial whose outcome is far beyond all others"
        )
    first = Mixture(mixture.log_weight[0, 0], mixture.mean[0, 0], mixture.std[0, 0])
    return Posterior(first, spec.parameters)


def _first(belief: Belief) -> Belief:
    """The beliefs [target] of the only episode and group."""
    if isinstance(belief, Bernoulli):
        return Bernoulli(belief.logit[0, 0])
    return Mixture(belief.log_weight[0, 0], belief.mean[0, 0], belief.std[0, 0])


def _expected(view: View, x: Tensor) -> Tensor:
    """The likeliest binary outcome, or the mean real one, at a design: [1], network scale."""
    belief = view.predictive(x[None, None, None])
    if isinstance(belief, Bernoulli):
        return torch.where(belief.logit > 0, 1.0, -1.0).reshape(1)
    return belief.moments()[0].reshape(1)


Changes = dict[str, Any]
"""The fields of a state that an event changes."""


def _asked(state: State, event: Event) -> Changes:
    number, design = _next_number(state, event), event["design"]
    for other in [event["redo"]] if "redo" in event else event.get("abandons", []):
        state = replace(state, **_abandoned(state, {"trial": other}))
    return {
        "trials": (*state.trials, Trial(number, dict(design))),
        "open": {**state.open, number: read_design(state.spec.design, design)},
        "rows": state.rows,
        "observed": state.observed,
    }


def _told(state: State, event: Event) -> Changes:
    number, other = event["trial"], event.get("design")
    trial, x = state.trials[number], state.open[number]
    told = replace(trial, outcome=event["outcome"], state="told")
    if other is not None:
        told = replace(told, design=dict(other), proposed=trial.design)
        x = read_design(state.spec.design, other)
    return {
        "trials": _with(state.trials, told),
        "open": _without(state.open, number),
        "rows": (*state.rows, number),
        "observed": _extend(state, state.observed, x, event["outcome"]),
    }


def _attached(state: State, event: Event) -> Changes:
    first, names = _next_number(state, event), state.spec.design.names
    rows = zip(*(event["designs"][name] for name in names), strict=True)
    trials = tuple(
        Trial(number, dict(zip(names, row, strict=True)), outcome, "told", source="attached")
        for number, (row, outcome) in enumerate(zip(rows, event["outcomes"], strict=True), first)
    )
    observed = state.observed
    for x, trial in zip(state.spec.design.read(event["designs"]), trials, strict=True):
        observed = _extend(state, observed, x, trial.outcome)
    numbers = (trial.number for trial in trials)
    return {
        "trials": (*state.trials, *trials),
        "rows": (*state.rows, *numbers),
        "observed": observed,
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
    return {**changes, "rows": rows, "observed": state.observed.without(state.rows.index(number))}


def _restricted(state: State, event: Event) -> Changes:
    return {"allowed": Allowed.read(state.spec.design, event)}


def _changed(state: State, event: Event) -> Changes:
    changes: Changes = {name: event[name] for name in ("horizon", "stop") if name in event}
    if "target" in event:
        target = read_target(event["target"])
        changes |= {"target": target, "goal": goal_of(state.spec, target)}
    return changes


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


def _extend(state: State, observed: Observed, x: Tensor, outcome: float | None) -> Observed:
    # Standardised in double precision: outcomes may be small differences of large numbers.
    y = state.spec.outcome.to_network(torch.tensor([outcome], dtype=torch.float64))
    return observed.extend(x[None], y if state.policy.standardise else y.float())


def _with(trials: tuple[Trial, ...], trial: Trial) -> tuple[Trial, ...]:
    return (*trials[: trial.number], trial, *trials[trial.number + 1 :])


def _without(open_: Mapping[int, Tensor], number: int) -> dict[int, Tensor]:
    return {n: x for n, x in open_.items() if n != number}
