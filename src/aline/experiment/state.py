"""An experiment as its journal of events leaves it.

`State.after(event)` is the only way a state changes, live and in a replay alike: what a process
saw before it died is what the next one computes from the same events.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from aline.engine import Engine, LiveEngine, engine_for
from aline.episodes import Context, Goal, goal_of
from aline.episodes.goals import Target
from aline.errors import StateError
from aline.experiment.allowed import Allowed, plain_restriction
from aline.experiment.choosing import Request, choose_ahead
from aline.experiment.drawn_posterior import weighed
from aline.experiment.events import Measured, changes_of
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
from aline.experiment.trial import Trial
from aline.experiment.typical import Evidence, beyond_training, evidence_of, observe
from aline.model import Model
from aline.policies import FixedPolicy, LearnedPolicy
from aline.spaces import Outcome, Real
from aline.spaces.axes import Value
from aline.tasks import Spec, Task, simulator_of

REFINE = "experiment.refined() takes the likelihood itself, whatever the network was trained for."


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
    chosen: list[dict[str, Value]] = field(default_factory=list, init=False, repr=False)

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
        return replace(self, sequence=self.sequence + 1, **changes_of(self, event))

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

    @cached_property
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
        """The evidence against the model in all outcomes so far; computed when it is asked for."""
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
        """Reasons to doubt the posterior, a sentence each."""
        beyond = (
            *beyond_training(self.spec, self.context),
            *knowledge_warnings(self.spec.parameters, self.knowledge),
        )
        return (*self.misfit, *beyond, *((REFINE,) if beyond and self._can_refine else ()))

    @property
    def misfit(self) -> tuple[str, ...]:
        """Reasons to doubt that the model describes the outcomes."""
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
        return self.chosen[0]

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
