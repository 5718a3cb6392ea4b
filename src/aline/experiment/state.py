"""An experiment as its journal of events leaves it.

`State.after(event)` is the only way a state changes, live and in a replay alike: what a process
saw before it died is what the next one computes from the same events.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from aline.engine import Data, Engine, LiveEngine, engine_for
from aline.episodes import Context, Goal, Offer, goal_of
from aline.episodes.goals import Target
from aline.errors import StateError, StorageError
from aline.experiment.allowed import Allowed, plain_restriction
from aline.experiment.drawn_posterior import weighed
from aline.experiment.keys import Keys
from aline.experiment.knowledge import (
    Knowledge,
    knowledge_warnings,
    network_prior,
    shape_correction,
)
from aline.experiment.posterior import Posterior
from aline.experiment.predictive import JointPredictive, Predictive, predictive_of
from aline.experiment.refine import can_refine
from aline.experiment.settings import read_target
from aline.experiment.storage import Event
from aline.experiment.trial import Trial, read_design
from aline.experiment.typical import Evidence, beyond_training, evidence_of, observe
from aline.model import Model
from aline.policies import FixedPolicy, LearnedPolicy, Memory
from aline.policies.fixed import Place
from aline.spaces import Outcome, Real
from aline.spaces.axes import Value
from aline.tasks import Spec, Task, simulator_of

REFINE = "experiment.refined() takes the likelihood itself, whatever the network was trained for."
UNITS = 2  # observations without which there is no scale, where outcomes come in any units


class Measured(NamedTuple):
    """An observation, and what was known before it."""

    data: Any
    design: Tensor  # [design] on the network's scale
    outcome: Tensor  # [1, *event]


@dataclass(frozen=True, eq=False)
class State:
    """Everything an experiment is, derived from its events."""

    policy: LearnedPolicy
    data: Any  # the data as the policy's engine holds them
    goal: Goal
    target: tuple[Target, ...]
    horizon: int
    stop: Mapping[str, float]  # name -> the 95 % interval's width that is narrow enough
    allowed: Allowed
    seed: int
    evidence: Evidence  # that outcomes are not typical
    knowledge: Knowledge = field(default_factory=dict)  # what was known beforehand
    fixed: FixedPolicy | None = None  # asks a schedule, in place of the policy
    trials: tuple[Trial, ...] = ()
    open: Mapping[int, Tensor] = field(default_factory=dict)  # trial -> its design [design]
    rows: tuple[int, ...] = ()  # the trial of each observation in the data
    unchecked: tuple[Measured, ...] = ()  # observations that the evidence does not know yet
    closed: bool = False
    keys: Keys = field(default_factory=Keys)  # a caller's key -> what it did
    sequence: int = 1  # the number of the next event
    # The next trial's design, once it was chosen; not a cached property, which on Python 3.11 would
    # let no other experiment choose meanwhile.
    _chosen: list[dict[str, Value]] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def start(cls, model: Model, event: Event) -> State:
        """The state after a journal's first event."""
        space, target = model.spec.design, read_target(model.spec, event["target"])
        # 200 draws lie within 0.5 % of any point of an interval, but not of a square.
        engine: Engine = engine_for(model)
        if event.get("standardise", False):  # the first journals do not say, nor of noise
            engine = model.network.advisor.in_units(engine, event.get("noise"))
        return cls(
            policy=LearnedPolicy(engine, candidates=event["candidates"]),
            data=engine.begin(1, network_prior(model.spec.parameters, event.get("prior", {}))),
            knowledge=event.get("prior", {}),
            goal=goal_of(model.spec, target),
            target=target,
            horizon=event["horizon"],
            stop=event["stop"],
            allowed=Allowed.read(space, plain_restriction(space, None)),
            seed=event["seed"],
            evidence=evidence_of(model),
            fixed=FixedPolicy(space.read(event["schedule"])) if "schedule" in event else None,
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
        changes = _looked_at(self)
        changes |= handler(self, event)
        if "key" in event:
            changes["keys"] = self.keys.adding(event["key"], event)
        return replace(self, sequence=self.sequence + 1, **changes)

    @property
    def engine(self) -> Engine:
        """What answers questions about the data."""
        return self.policy.engine

    @property
    def spec(self) -> Spec:
        """The task without its simulator."""
        return self.engine.network.spec

    @property
    def context(self) -> Context:
        """The data on the network's scale."""
        return self.engine.context(self.data)

    @property
    def is_standardised(self) -> bool:
        """Whether outcomes come in any units."""
        return not isinstance(self.engine, LiveEngine)

    @property
    def outcome(self) -> Outcome:
        """How outcomes are read: in the task's units, or in any."""
        return Real() if self.is_standardised else self.spec.outcome

    @property
    def told(self) -> int:
        """How many trials count towards the horizon: asked here and told."""
        return sum(self.trials[number].source == "asked" for number in self.rows)

    @cached_property
    def posterior(self) -> Posterior:
        """The parameters' posterior; it and the next design share one pass of the network."""
        if (
            self.fixed is None
            and self.policy.is_one_pass
            and self.allowed.is_everything
            and not self.open
        ):
            choose_ahead([self])
        return self.corrected(posterior_of(self.engine, self.data, lambda: self.warnings))

    def corrected(self, posterior: Posterior) -> Posterior:
        """For priors of a shape that the network does not know: its draws, weighed by them."""
        correction = self.shape_correction
        return posterior if correction is None else weighed(posterior, correction)

    @cached_property
    def shape_correction(self) -> Callable[[Tensor], Tensor] | None:
        """Log density of the priors over what the network takes for them, where they differ."""
        return shape_correction(self.spec.parameters, self.knowledge)

    @cached_property
    def checked(self) -> Evidence:
        """What the outcomes say against the model; computed when somebody looks, trial by trial."""
        evidence = self.evidence
        for data, design, outcome in self.unchecked:
            if evidence.is_over:
                break
            (evidence,) = observe(
                [evidence], self.engine, data, design[None], outcome, self._simulator
            )
        return evidence

    @property
    def _simulator(self) -> Task | None:
        """The task in its own units, if it is built in."""
        return None if self.is_standardised else simulator_of(self.spec)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why not to believe the posterior, a sentence each."""
        beyond = (
            *beyond_training(self.spec, self.context),
            *knowledge_warnings(self.spec.parameters, self.knowledge),
        )
        return (*self.misfit, *beyond, *((REFINE,) if beyond and self._can_refine else ()))

    @property
    def misfit(self) -> tuple[str, ...]:
        """Why not to believe that the model describes the outcomes."""
        finding = self.checked.finding
        return () if finding is None else (str(finding),)

    @property
    def _can_refine(self) -> bool:
        return self._simulator is not None and can_refine(self._simulator)

    def predict(self, x: Tensor) -> Predictive | JointPredictive:
        """Beliefs about outcomes at designs [count, design] on the network's scale."""
        with torch.inference_mode():
            belief = self.engine.predictive(self.data, x[None])
        return predictive_of(belief[0], self.spec.outcome)

    @cached_property
    def is_narrow(self) -> bool:
        """Whether the stopping rule holds."""
        intervals = {name: self.posterior.interval(name) for name in self.stop}
        return bool(intervals) and all(
            high - low < self.stop[name] for name, (low, high) in intervals.items()
        )

    @property
    def choice(self) -> dict[str, Value]:
        """The next trial's design, which depends on nothing but the events so far."""
        choose_ahead([self])
        return self._chosen[0]

    @property
    def shares_a_pass(self) -> bool:
        """Whether its choice can be computed together with those of others."""
        is_plain = not self.is_standardised and self.engine.network.config.plugin is None
        is_free = self.allowed.is_everything and not self.goal.points.shape[1]
        is_adaptive = self.fixed is None and self.policy.informed is None
        return is_plain and is_free and is_adaptive

    def request(self) -> Request:
        """What the policy is to choose from, knowing what.

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
        data, asked = self.data, torch.zeros(0, len(self.spec.design))
        for x in self.open.values():
            expected = _expected(self.engine, data, x)
            data = self.engine.extend(data, x[None], expected)
            asked = torch.cat([asked, x[None]])
        seen = self.context.designs[0]
        offer = self.allowed.offer(self.policy.candidates, asked, seen, generator)
        return Request(data, self.goal, offer, generator)


class Request(NamedTuple):
    """A choice to be made."""

    data: Any
    goal: Goal
    offer: Offer | None
    generator: torch.Generator


def choose_ahead(states: Sequence[State]) -> None:
    """Make the choices of several states, for each to have when it is asked.

    Those of the same model that choose anywhere do so in one pass.
    """
    groups: dict[Any, list[State]] = {}
    for place, state in enumerate(states):
        if not state._chosen:
            key = (state.engine.network, state.policy.candidates) if state.shares_a_pass else place
            groups.setdefault(key, []).append(state)
    for group in groups.values():
        for state, x in zip(group, _choices(group), strict=True):
            state._chosen.append(state.allowed.name(x))


@torch.inference_mode()
def _choices(states: Sequence[State]) -> Tensor:
    """Designs [state, design], of one state or of several that share a pass."""
    if states[0].fixed is not None:
        return _scheduled(states[0], states[0].fixed)
    requests, policy = [state.request() for state in states], states[0].policy
    if len(requests) == 1:
        data, goal, offer, generator = requests[0]
        return policy.choose(Memory(data, goal), offer, generator)
    lengths = [request.data.context.length for request in requests]
    goals = [one.goal.pursued(n) for one, n in zip(requests, lengths, strict=True)]
    together = Data.together([request.data for request in requests])
    luck = [request.generator for request in requests]
    chosen = policy.choose(Memory(together, Goal.together(goals)), None, luck)
    together.share([request.data for request in requests])
    return chosen


def _scheduled(state: State, policy: FixedPolicy) -> Tensor:
    """The schedule's design [1, design] after the trials that count, told or open."""
    _, _, offer, generator = state.request()
    return policy.choose(Place(1, state.told + len(state.open)), offer, generator)


@torch.inference_mode()
def posterior_of(
    engine: Engine, data: Any, warnings: Callable[[], tuple[str, ...]] = tuple
) -> Posterior:
    """The posterior of the only episode."""
    mixture = engine.posterior(data)[0]
    if not bool(mixture.mean.isfinite().all()):  # a journal from before outcomes had a range
        raise StateError(
            f"the posterior is not finite after {engine.context(data).length} observations: "
            "abandon the trial whose outcome is far beyond all others"
        )
    joint = None if engine.network.conditional is None else partial(engine.joint, data)
    return Posterior(mixture, engine.network.spec.parameters, joint, warnings)


def _expected(engine: Engine, data: Any, x: Tensor) -> Tensor:
    """The outcome to assume at a design: [1, *event], network scale."""
    return engine.predictive(data, x[None, None])[0].expected()


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
        "data": state.data,
        **_looked_at(state),
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
    looked_at = _looked_at(state)
    unchecked = looked_at["unchecked"]
    for design, value in zip(designs, y[:, None], strict=True):
        unchecked = _adding(state, unchecked, Measured(data, design, value))
        data = state.engine.extend(data, design[None], value)
    return {**looked_at, "data": data, "unchecked": unchecked}


def _looked_at(state: State) -> Changes:
    """The evidence so far, and what it does not know; what was computed once stays."""
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
