"""The learned policy, as a policy on the episode loop."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from aline.episodes import Context, Goal, Offer, take
from aline.errors import InternalError
from aline.model.informed import GLANCE, TRUTHS, Informed
from aline.model.live import Question, score_together, shares_a_pass
from aline.model.network import Network, View
from aline.model.running import begin
from aline.model.standardised import read_standardised
from aline.spaces.outcomes import Mixture
from aline.tasks import Task, simulator_of


class Memory(NamedTuple):
    """What the policy remembers: the context as the network holds it, and the goal."""

    view: View
    goal: Goal


Choosing = Generator[Question, Tensor, Tensor]
"""A choice on its way: it asks, is sent logits [batch, 1, query], and returns the design."""


def choose_together(choices: Sequence[Choosing]) -> list[Tensor]:
    """The designs; what several ask at the same time is answered in one pass."""
    found: dict[int, Tensor] = {}
    logits: dict[int, Any] = dict.fromkeys(range(len(choices)))
    while logits:
        questions: dict[int, Question] = {}
        for index, answer in logits.items():
            try:
                questions[index] = choices[index].send(answer)
            except StopIteration as end:
                found[index] = end.value
        logits = dict(zip(questions, score_together(list(questions.values())), strict=True))
    return [found[index] for index in range(len(choices))]


@dataclass(frozen=True)
class LearnedPolicy:
    """Chooses with the network.

    A pool policy takes the best candidate, or a draw when `explore` is set; without an offer it
    scores `candidates` uniform draws and then, `refine` times, as many points around the best so
    far. A box policy draws from its proposal. With `standardise`, outcomes may have any units, and
    `noise` is their standard deviation about the truth, where that is known.

    An informed policy asks its task what designs tell (model/informed.py): `task`, or the built-in
    one that the network was trained for, and is about all parameters whatever the goal. Where there
    is none it is a pool policy. When `explore` is set, it only glances at designs.
    """

    network: Network
    explore: bool = False
    candidates: int = 200
    refine: int = 0
    standardise: bool = False
    noise: float | None = None
    task: Task | None = None

    @cached_property
    def informed(self) -> Informed | None:
        """The task to ask, if the policy is to ask one and there is one."""
        if self.network.config.policy != "informed" or self.standardise:
            return None
        spec = self.network.spec
        task = simulator_of(spec) if self.task is None else self.task.described_by(spec)
        return Informed(task) if task is not None and Informed.can_be(task) else None

    def begin(self, goal: Goal) -> Memory:
        """Nothing measured yet."""
        batch = len(goal.parameters)
        if not self.standardise:
            return Memory(begin(self.network, batch), goal)
        empty = Context.empty(batch, goal.points.shape[-1])
        return Memory(read_standardised(self.network, empty, noise=self.noise), goal)

    def observe(self, state: Memory, design: Tensor, outcome: Tensor) -> Memory:
        """Take in one more observation."""
        return Memory(state.view.extend(design, outcome), state.goal)

    def choose(self, state: Memory, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The next design [batch, design]."""
        return choose_together([self.choosing(state, offer, generator)])[0]

    def choosing(self, state: Memory, offer: Offer | None, generator: torch.Generator) -> Choosing:
        """Likewise, leaving it to the caller to have the candidates scored."""
        state = Memory(state.view, state.goal.pursued(state.view.context.length))
        if self.network.config.policy == "box":
            return self._choose_point(state, offer, generator)
        if self.informed is not None:
            return self._choose_informed(self.informed, state, offer, generator)
        if offer is not None:
            return (yield from self._choose_candidate(state, offer, generator))
        space = self.network.spec.design
        batch = len(state.goal.parameters)
        count = self.candidates if space.points is None else len(space.points)
        best = yield from self._choose_candidate(
            state, Offer(space.sample(batch, count, generator)), generator
        )
        if space.points is not None:
            return best
        for round_ in range(self.refine):
            spread = 2.0 / count ** (1 / len(space)) / 4**round_
            near = best[:, None] + spread * torch.randn(
                batch, count // 4, len(space), generator=generator
            )
            around = torch.cat([best[:, None], near.clamp(-1, 1)], 1)
            best = yield from self._choose_candidate(state, Offer(around), generator)
        return best

    def _choose_informed(
        self, informed: Informed, state: Memory, offer: Offer | None, generator: torch.Generator
    ) -> Tensor:
        q = first_group(state.view.posterior())
        _check_numbers(q.mean)
        if self.explore:
            truths = q.sample(TRUTHS, generator).transpose(0, 1)
        else:
            truths = informed.likely(q, state.view.context, generator)
        if offer is None:
            offer = Offer(informed.candidates(truths, self.candidates, generator))
        if self.explore:
            told = informed.judge(truths, offer.points, GLANCE, generator, offer.allowed)
            index = told.argmax(1)
        else:
            index = informed.best(truths, offer.points, generator, offer.allowed)
        return take(offer.points, index)

    def _choose_candidate(
        self, state: Memory, offer: Offer, generator: torch.Generator
    ) -> Choosing:
        if not self.explore and not shares_a_pass(state.view):
            return take(offer.points, state.view.best(offer.points, state.goal, offer.allowed))
        scores = (yield Question(state.view, offer.points[:, None], state.goal))[:, 0]
        if offer.allowed is not None:
            scores = scores.masked_fill(~offer.allowed, -torch.inf)
        return take(offer.points, self._pick(scores, generator))

    def _pick(self, scores: Tensor, generator: torch.Generator) -> Tensor:
        if not self.explore:
            return scores.argmax(1)
        weights = scores.softmax(1)
        _check_numbers(weights)
        return torch.multinomial(weights, 1, generator=generator)[:, 0]

    def _choose_point(
        self, state: Memory, offer: Offer | None, generator: torch.Generator
    ) -> Tensor:
        # Drawn even when not exploring: the policy learned with its spread, and needs it where
        # its mean would tell nothing, as in the middle of a ring-shaped posterior.
        point = state.view.propose(state.goal).draw(generator)[:, 0]
        _check_numbers(point)
        if offer is None and self.network.spec.design.points is not None:
            every = self.network.spec.design.to_network(self.network.spec.design.points)
            offer = Offer(every.expand(len(point), -1, -1))
        return point if offer is None else nearest(offer, point)


def _check_numbers(values: Tensor) -> None:
    if not bool(torch.isfinite(values).all()):
        raise InternalError("the network's choice of a design is not a number")


def first_group(q: Mixture) -> Mixture:
    """Beliefs [batch, parameter] of the only group."""
    return Mixture(q.log_weight[:, 0], q.mean[:, 0], q.std[:, 0])


def nearest(offer: Offer, point: Tensor) -> Tensor:
    """The allowed point on offer closest to each point [batch, design]."""
    distance = (offer.points - point[:, None]).square().sum(-1)
    if offer.allowed is not None:
        distance = distance.masked_fill(~offer.allowed, torch.inf)
    return take(offer.points, distance.argmin(1))
