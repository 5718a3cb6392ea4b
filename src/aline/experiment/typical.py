"""Whether outcomes look as the model expects them: a bet against its own predictions, all along.

Before each outcome the model says how likely every value is. A gambler with a capital of one bets
on alternatives: that the noise is larger, that outcomes are shifted, that answers are given at
random or with swapped keys, each from any trial on. A bet pays the outcome's probability under the
alternative over the model's. While the model is right nobody can expect to win, and the chance that
the capital ever reaches 20 is at most 1 in 20 (Ville's inequality): however often one looks, and
whenever one stops.

A network is right only nearly, and least of all about what is rare. So one outcome pays 20 times
the stake at most, and no single one raises a flag. Where a model's card has the capital that 5 %
of simulated good experiments ever reach, that is the limit in place of 20: lower for most models,
which then find more (evaluation/faults.py). Beyond the horizon that a model was trained for its
predictions are nobody's promise: the check ends there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from aline.engine import Engine
from aline.episodes import Context
from aline.experiment.shifts import SIZES, can_shift, payoffs_of_shifts
from aline.model import Model
from aline.spaces import Belief, Outcome
from aline.tasks import Spec, Task, simulator_of

LEVEL = 0.05  # the chance of ever raising a flag where the model is right
RICHEST = 1e200  # a capital beyond which nothing changes
MOST = 20.0  # times a stake that one outcome pays
AT_START = 0.3  # of each stake is on a fault that was there from the first trial on
SIMULATIONS = 499  # draws of the posterior, among whose outcomes one finds its rank
SWAPS = 10  # trials, evenly spaced over the horizon, from which on keys may be swapped
_NARROW = 1e-9  # probability of a value below which its density is what counts
_EDGE = 1e-12
_SAME = 1e-4  # distance of two designs, on the network's scale, that rounding explains

Array = np.ndarray[Any, np.dtype[np.float64]]
Bet = tuple[str, str]
"""The part of an outcome that it is about, and a fault."""

NOISE, HIGHER, LOWER, RANDOM, SWAPPED = "noise", "higher", "lower", "random", "swapped"
WORDS = {
    NOISE: "{what} scatter more than the model expects",
    HIGHER: "{what} are higher than the model expects",
    LOWER: "{what} are lower than the model expects",
    RANDOM: "{what} look as if given at random",
    SWAPPED: "{what} look swapped, as if high were low and yes were no",
}
REMEDY = "Check apparatus, instructions and simulator before you believe the posterior."


# What ranks are like under a fault, as normal deviates: mean and standard deviation.
SHAPES = (
    (NOISE, 0.0, 3.0),
    (NOISE, 0.0, 1.7),
    (HIGHER, 2.0, 1.0),
    (HIGHER, 1.0, 1.0),
    (LOWER, -2.0, 1.0),
    (LOWER, -1.0, 1.0),
)


SHIFTED: tuple[Bet, ...] = tuple(("outcome", HIGHER if size > 0 else LOWER) for size in SIZES)


class Finding(NamedTuple):
    """What a capital of 20 was won with."""

    bet: Bet
    since: int  # the observation, counting from 1, from which on the fault is likeliest

    def __str__(self) -> str:
        part, fault = self.bet
        what = "Outcomes" if part == "outcome" else f"Values of {part}"
        since = "" if self.since == 1 else f" from about observation {self.since} on"
        return f"{WORDS[fault].format(what=what)}{since}. {REMEDY}"


@dataclass(frozen=True)
class Evidence:
    """The gambler's capital after some observations."""

    bets: tuple[Bet, ...] = field(repr=False)
    capital: Array = field(repr=False)  # [start, bet], what each stake has become
    kept: float  # what is on no bet
    limit: float = 1 / LEVEL  # the capital that raises a flag
    count: int = 0  # of observations
    most: float = 1.0  # the largest capital so far
    finding: Finding | None = None
    refitted: int = 0  # how many bets, the last, are on data that are fitted again

    @classmethod
    def start(
        cls, outcome: Outcome, horizon: int, limit: float = 1 / LEVEL, shifts: bool = False
    ) -> Evidence:
        """Before any observation: a stake on every fault, from every trial on.

        With `shifts`, also on numbers that are shifted back and fitted again.
        """
        bets = tuple(bets_on(outcome))
        if shifts:
            return cls._fresh(bets + SHIFTED, len(SHIFTED), horizon, limit)
        return cls._fresh(bets, sum(fault == SWAPPED for _, fault in bets), horizon, limit)

    @classmethod
    def _fresh(cls, bets: tuple[Bet, ...], refitted: int, horizon: int, limit: float) -> Evidence:
        hazard = 1 / horizon  # that a fault begins at a trial, if there was none before
        stakes = np.float64((1 - AT_START) * hazard) * (1 - hazard) ** np.arange(horizon)
        stakes[0] += AT_START
        columns = [stakes] * (len(bets) - refitted) + [_gathered(stakes)] * refitted
        capital = np.stack(columns, 1) / len(bets)
        return cls(bets, capital, 1 - float(capital.sum()), limit, refitted=refitted)

    def restart(self) -> Evidence:
        """Before any observation."""
        return Evidence._fresh(self.bets, self.refitted, len(self.capital), self.limit)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to find."""
        is_off = self.limit == math.inf
        return is_off or self.finding is not None or self.count >= len(self.capital)

    @property
    def starts(self) -> list[int]:
        """The observations, counting from 0, from which on data may have to be fitted again."""
        return [s for s in _starts(len(self.capital)) if s <= self.count] if self.refitted else []

    def after(self, payoff: Array, refitted: Array) -> Evidence:
        """With one more observation: what bets pay [bet], and those on refitted data [start, bet].

        The former leave the latter out.
        """
        pay = np.ones_like(self.capital)
        plain = len(self.bets) - self.refitted
        pay[: self.count + 1, :plain] = payoff
        if self.starts:
            pay[self.starts, plain:] = refitted
        capital = np.minimum(self.capital * np.minimum(pay, MOST), RICHEST)
        total = float(capital.sum()) + self.kept
        grown = replace(self, capital=capital, count=self.count + 1, most=max(self.most, total))
        return replace(grown, finding=grown._likeliest()) if total >= self.limit else grown

    def _likeliest(self) -> Finding:
        start, column = np.unravel_index(self.capital.argmax(), self.capital.shape)
        return Finding(self.bets[column], int(start) + 1)


def evidence_of(model: Model) -> Evidence:
    """Before any observation, with the limit in a model's card.

    Without one, answers are checked as theory has it, and numbers only where their simulator is at
    hand: a network that predicts numbers roughly would raise flags where all is well.
    """
    spec, task = model.spec, simulator_of(model.spec)
    is_fair = not any(fault == NOISE for _, fault in bets_on(spec.outcome))
    is_fair = is_fair or (task is not None and _can_simulate(task))
    measured = model.measurements.get("check", {})
    limit = measured.get("limit", 1 / LEVEL if is_fair else math.inf)
    shifts = task is not None and can_shift(task)
    return Evidence.start(spec.outcome, spec.horizon, limit, shifts)


def bets_on(outcome: Outcome) -> Iterator[Bet]:
    """The faults that an outcome may have; that keys are swapped comes last."""
    for name, part in outcome.parts.items():
        every = part.enumerate()
        if part.is_ordered:
            yield from ((name, fault) for fault, _, _ in SHAPES)
        if every is not None:
            yield name, RANDOM
    if outcome.mirrored(torch.zeros(outcome.event_shape)) is not None:
        yield "outcome", SWAPPED


def _starts(horizon: int) -> range:
    return range(0, horizon, max(1, horizon // SWAPS))


def _gathered(stakes: Array) -> Array:
    """With all between two starts put on the later one: nearly all observations are then right."""
    starts, found = list(_starts(len(stakes))), np.zeros_like(stakes)
    for before, start in zip([-1, *starts], starts, strict=False):
        found[start] = stakes[before + 1 : start + 1].sum()
    return found


@torch.inference_mode()
def observe(
    evidence: list[Evidence],
    engine: Engine,
    data: Any,
    design: Tensor,
    outcome: Tensor,
    task: Task | None = None,
) -> list[Evidence]:
    """With one more observation of each experiment, all of one length.

    `data` are what the engine knew before; designs [batch, design] and outcomes [batch, *event]
    on the network's scale. It takes one pass of the network, or, of a number whose simulator is at
    hand, draws of the posterior and what they would have given.
    """
    kind, starts = engine.network.spec.outcome, evidence[0].starts
    value, refitted = outcome.double(), torch.ones(len(outcome), 0, 0)
    if task is not None and _can_simulate(task):
        ranks = _simulated_ranks(task, engine, data, design, value, evidence[0].count)
        paid = torch.stack(_of_shapes(*ranks), -1)
        if starts:
            past = engine.context(data)
            refitted = payoffs_of_shifts(task, engine, past, design, value, starts)
    elif not starts:
        belief = engine.predictive(data, design[:, None])[:, 0].double()
        paid = payoffs(kind, belief, value)
    else:
        beliefs = _with_swaps(kind, engine, engine.context(data), design, starts)
        paid = payoffs(kind, beliefs[:, 0], value)
        refitted = _payoffs_of_swaps(kind, beliefs, value)[..., None]
    rows = zip(evidence, paid.numpy(), refitted.numpy(), strict=True)
    return [one.after(*found) for one, *found in rows]


def _can_simulate(task: Task) -> bool:
    """Whether outcomes are numbers that follow from the parameters alone."""
    kind = task.spec.outcome
    is_number = kind.is_ordered and kind.enumerate() is None and not kind.event_shape
    return is_number and task.latent is None


def _simulated_ranks(
    task: Task, engine: Engine, data: Any, design: Tensor, value: Tensor, seed: int
) -> tuple[Tensor, Tensor]:
    """Where outcomes [batch] lie among simulated ones of the same designs.

    An outcome that is one of them has each rank with the same probability, so that bets on ranks
    are fair however few draws there are. Where designs are chosen a network predicts roughly: it
    was trained to predict anywhere.
    """
    generator = torch.Generator().manual_seed(seed)
    if engine.network.conditional is None:
        theta = engine.posterior(data).sample(SIMULATIONS, generator).transpose(0, 1)
    else:
        theta = engine.joint(data).sample(SIMULATIONS, generator)[:, 0]
    designs = design.repeat_interleave(SIMULATIONS, 0)[:, None]
    world = task.worlds(theta.flatten(0, 1), generator)
    found = world.answer(designs, generator).unflatten(0, (len(design), SIMULATIONS))[..., 0]
    below = (found < value[:, None]).sum(1).double() / (SIMULATIONS + 1)
    reached = ((found <= value[:, None]).sum(1) + 1).double() / (SIMULATIONS + 1)
    return below, reached


def _payoffs_of_swaps(kind: Outcome, beliefs: Belief, value: Tensor) -> Tensor:
    """What bets on swapped keys pay, [batch, swap], by beliefs [batch, 1 + swap]."""
    other = kind.mirrored(value)
    assert other is not None
    others = other[:, None].expand(-1, beliefs.shape[1] - 1, *other.shape[1:])
    usual = beliefs[:, 0].log_prob(value)
    return (beliefs[:, 1:].log_prob(others) - usual[:, None]).exp()


def _with_swaps(
    kind: Outcome, engine: Engine, context: Context, design: Tensor, starts: list[int]
) -> Belief:
    """Beliefs [batch, 1 + start]: as it is, and if answers were mirrored from a start on."""
    batch, many = len(design), 1 + len(starts)
    outcomes = context.outcomes[:, None].repeat_interleave(many, 1)
    for row, start in enumerate(starts, 1):
        mirrored = kind.mirrored(outcomes[:, row, start:])
        assert mirrored is not None
        outcomes[:, row, start:] = mirrored
    designs = context.designs.repeat_interleave(many, 0)
    prior = None if context.prior is None else context.prior.repeat_interleave(many, 0)
    read = engine.read(Context(designs, outcomes.flatten(0, 1), prior=prior))
    found = engine.predictive(read, design.repeat_interleave(many, 0)[:, None])[:, 0].double()
    return found.each(lambda tensor: tensor.unflatten(0, (batch, many)))


def payoffs(outcome: Outcome, belief: Belief, value: Tensor) -> Tensor:
    """What a stake on each of `bets_on` but swapped keys becomes, [*target, bet]."""
    found = []
    beliefs, values = belief.split(), outcome.split(value)
    for name, part in outcome.parts.items():
        every = part.enumerate()
        if part.is_ordered:
            below, reached = beliefs[name].position(values[name])
            found += _of_shapes(below, reached)
        if every is not None:
            found.append((-beliefs[name].log_prob(values[name])).exp() / len(every))
    return torch.stack(found, -1)


def _of_shapes(below: Tensor, reached: Tensor) -> list[Tensor]:
    """What bets on `SHAPES` pay for an outcome between two ranks of the predictive."""
    low, high = torch.special.ndtri(below), torch.special.ndtri(reached)
    middle = torch.special.ndtri(((below + reached) / 2).clamp(_EDGE, 1 - _EDGE))
    size = reached - below
    found = []
    for _, mean, std in SHAPES:
        mass = torch.special.ndtr((high - mean) / std) - torch.special.ndtr((low - mean) / std)
        density = (0.5 * middle**2 - 0.5 * ((middle - mean) / std) ** 2).exp() / std
        found.append(torch.where(size > _NARROW, mass / size.clamp_min(_NARROW), density))
    return found


def beyond_training(spec: Spec, context: Context) -> Iterator[str]:
    """What of an experiment's designs and length the network was not trained on, in words."""
    points = spec.design.points
    if points is not None and context.length:
        known = spec.design.to_network(points)
        away = torch.cdist(context.designs[0], known).amin(1) > _SAME
        if bool(away.any()):
            yield (
                f"{int(away.sum())} of {context.length} designs are none of the {len(points)} "
                "points that the model was trained on: its predictions there are a guess."
            )
    if context.length > spec.horizon:
        yield (
            f"{context.length} observations are more than the {spec.horizon} that the model was "
            "trained for: its intervals may be wrong, and new faults are not looked for."
        )
