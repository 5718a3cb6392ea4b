"""The learned policy, as a policy on the episode loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from aline.engine import Engine
from aline.episodes import Goal, Offer, take
from aline.errors import InternalError
from aline.policies.informed import QUICK, TRUTHS, Informed
from aline.tasks import Task, simulator_of

Generators = torch.Generator | Sequence[torch.Generator]
"""One generator for a batch of episodes, or one for each."""


class Memory(NamedTuple):
    """What the policy remembers: the data as its engine holds them, and the goal."""

    state: Any
    goal: Goal


@dataclass(frozen=True)
class LearnedPolicy:
    """Chooses with a network.

    A pool policy takes the best candidate, or a draw when `explore` is set; without an offer it
    scores `candidates` uniform draws and then, `refine` times (by default twice where designs have
    several axes, and the choice is greedy), points around the best so far. A box policy draws from
    its proposal.

    An informed policy judges designs by its task's likelihood (policies/informed.py): that of
    `task`, or of the built-in one that the network was trained for, and for all parameters whatever
    the goal. Where there is none it is a pool policy. When `explore` is set, a quick
    estimate does.

    Episodes begin with `prior` [batch, parameter, 2], where it is not the task's own.
    """

    engine: Engine
    explore: bool = False
    candidates: int = 200
    refine: int | None = None
    task: Task | None = None
    prior: Tensor | None = None

    @cached_property
    def informed(self) -> Informed | None:
        """The task to judge designs by, if the policy is to and there is one."""
        network = self.engine.network
        if network.config.policy != "informed":
            return None
        spec = network.spec
        task = simulator_of(spec) if self.task is None else self.task.described_by(spec)
        return Informed(task) if task is not None and Informed.can_be(task) else None

    @property
    def refinements(self) -> int:
        """How often points around the best are tried."""
        if self.refine is not None:
            return self.refine
        return 0 if self.explore or len(self.engine.network.spec.design) == 1 else 2

    @property
    def is_one_pass(self) -> bool:
        """Whether a choice anywhere takes one pass of the network."""
        network = self.engine.network
        is_learned = self.informed is None and network.policy is not None
        return is_learned and (network.is_box or not self.refinements)

    def begin(self, goal: Goal) -> Memory:
        """Nothing measured yet."""
        return Memory(self.engine.begin(len(goal.parameters), self.prior), goal)

    def observe(self, memory: Memory, design: Tensor, outcome: Tensor) -> Memory:
        """Take in one more observation."""
        return Memory(self.engine.extend(memory.state, design, outcome), memory.goal)

    def choose(self, memory: Memory, offer: Offer | None, generators: Generators) -> Tensor:
        """The next design [batch, design]."""
        length = self.engine.context(memory.state).length
        memory = Memory(memory.state, memory.goal.pursued(length))
        if self.engine.network.is_box:
            return self._choose_point(memory, offer, generators)
        if self.informed is not None:
            return self._choose_informed(self.informed, memory, offer, generators)
        if offer is not None:
            return self._choose_candidate(memory, offer, generators)
        return self._choose_anywhere(memory, generators)

    def _choose_anywhere(self, memory: Memory, generators: Generators) -> Tensor:
        space, batch = self.engine.network.spec.design, len(memory.goal.parameters)
        count = self.candidates if space.points is None else len(space.points)
        drawn = _drawn(lambda rows, one: space.sample(rows, count, one), batch, generators)
        best = self._choose_candidate(memory, Offer(drawn), generators)
        if space.points is not None:
            return best
        for round_ in range(self.refinements):
            spread = 2.0 / count ** (1 / len(space)) / 4**round_
            noise = _normal((batch, count // 4, len(space)), generators)
            near = space.possible(best[:, None] + spread * noise, best[:, None])
            around = torch.cat([best[:, None], near], 1)
            best = self._choose_candidate(memory, Offer(around), generators)
        return best

    def _choose_candidate(self, memory: Memory, offer: Offer, generators: Generators) -> Tensor:
        scores = self.engine.scores(memory.state, memory.goal, offer.points)
        if offer.allowed is not None:
            scores = scores.masked_fill(~offer.allowed, -torch.inf)
        if not self.explore:
            return take(offer.points, scores.argmax(1))
        weights = scores.softmax(1)
        _check_numbers(weights)
        assert isinstance(generators, torch.Generator)  # only training explores
        return take(offer.points, weights.multinomial(1, generator=generators)[:, 0])

    def _choose_point(self, memory: Memory, offer: Offer | None, generators: Generators) -> Tensor:
        # Drawn even when not exploring: the policy learned with its spread, and needs it where
        # its mean is not informative, as in the middle of a ring-shaped posterior.
        proposal = self.engine.propose(memory.state, memory.goal)
        noise = _normal(proposal.mean.shape, generators)
        point = (proposal.mean + proposal.log_std.exp() * noise).clamp(-1, 1)
        _check_numbers(point)
        space = self.engine.network.spec.design
        if offer is None and space.points is not None:
            every = space.to_network(space.points)
            offer = Offer(every.expand(len(point), -1, -1))
        return point if offer is None else nearest(offer, point)

    def _choose_informed(
        self, informed: Informed, memory: Memory, offer: Offer | None, generators: Generators
    ) -> Tensor:
        assert isinstance(generators, torch.Generator)
        q = self.engine.posterior(memory.state)
        _check_numbers(q.mean)
        if self.explore:
            truths = q.sample(TRUTHS, generators).transpose(0, 1)
        else:
            truths = informed.likely(q, self.engine.context(memory.state), generators)
        if offer is None:
            offer = Offer(informed.candidates(truths, self.candidates, generators))
        if self.explore:
            gain = informed.judge(truths, offer.points, QUICK, generators, offer.allowed)
            index = gain.argmax(1)
        else:
            index = informed.best(truths, offer.points, generators, offer.allowed)
        return take(offer.points, index)


def _drawn(
    draw: Callable[[int, torch.Generator], Tensor], batch: int, generators: Generators
) -> Tensor:
    """Draws for a batch, each episode's with a generator of its own where it has one."""
    if isinstance(generators, torch.Generator):
        return draw(batch, generators)
    return torch.cat([draw(1, one) for one in generators])


def _normal(shape: Sequence[int], generators: Generators) -> Tensor:
    rest = tuple(shape[1:])
    return _drawn(lambda rows, one: torch.randn(rows, *rest, generator=one), shape[0], generators)


def _check_numbers(values: Tensor) -> None:
    if not bool(torch.isfinite(values).all()):
        raise InternalError("the network's choice of a design is not a number")


def nearest(offer: Offer, point: Tensor) -> Tensor:
    """The allowed point on offer closest to each point [batch, design]."""
    distance = (offer.points - point[:, None]).square().sum(-1)
    if offer.allowed is not None:
        distance = distance.masked_fill(~offer.allowed, torch.inf)
    return take(offer.points, distance.argmin(1))
