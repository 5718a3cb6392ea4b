"""What a teacher has taught lately, to be learned again.

What a design is worth at a state does not depend on the network, and is costly to find out. So a
policy learns from the lessons of earlier rounds too, as its posterior sees these states now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from aline.episodes import Context, Goal
from aline.model import Encoded, Network, Summary
from aline.model.evidence import Searched
from aline.model.search import Places

KEPT = 24  # lessons


class Lesson(NamedTuple):
    """Designs that are compared at states, one an episode, and the scores they should have."""

    seen: Tensor  # [batch, context, design]: designs of the whole episode
    outcomes: Tensor  # [batch, context, *event]
    step: Tensor  # [batch]: the state is the one after so many observations
    goal: Tensor  # bool [batch, parameter]
    designs: Tensor  # [batch, n, design]
    wanted: Tensor  # [batch, n], from their mean over a state's designs
    prior: Tensor  # [batch, parameter, 2]
    places: Tensor  # [batch, 1, place, number], where a search ended; none if none was made

    def loss(self, network: Network, known: tuple[Encoded, Summary] | None = None) -> Tensor:
        """Squared error of the policy's scores, each from its mean at a state.

        What a state is worth is not the policy's to say. The worth is an estimate; its noise
        averages out in squares, where a softmax of it would prefer designs whose worth is least
        certain.
        """
        none = torch.zeros(len(self.step), 0, self.seen.shape[-1])
        goal = Goal(self.goal, none, none[..., 0].bool())
        scores = network.scores(*(known or self.known(network)), goal, self.designs)[:, 0]
        return F.smooth_l1_loss(scores - scores.mean(1, keepdim=True), self.wanted)

    @torch.no_grad()
    def known(self, network: Network) -> tuple[Encoded, Summary]:
        """What the network makes of the states."""
        whole = network.encode(Context(self.seen, self.outcomes, prior=self.prior))
        visible = torch.arange(self.seen.shape[1]) < self.step[:, None, None]
        encoded = network.regroup(whole, visible)
        if self.places.shape[2]:
            encoded = replace(encoded, searched=Searched(Places.from_tensor(self.places)))
        return encoded, network.summary(encoded)


class Lessons:
    """The last lessons of a training."""

    def __init__(self) -> None:
        self.kept: deque[Lesson] = deque(maxlen=KEPT)

    def add(self, lesson: Lesson) -> None:
        """Keep one more, and forget the oldest."""
        self.kept.append(lesson)

    def loss(self, network: Network, generator: torch.Generator) -> Tensor | None:
        """Of one of them, drawn at random; None where there is none yet."""
        if not self.kept:
            return None
        drawn = int(torch.randint(len(self.kept), (), generator=generator))
        return self.kept[drawn].loss(network)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """All of them by name, for a checkpoint."""
        for i, lesson in enumerate(self.kept):
            for name, value in lesson._asdict().items():
                yield f"lesson.{i}.{name}", value.clone()  # lessons of one round share episodes

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Read what `tensors` gave."""
        self.kept.clear()
        count = sum(name.startswith("lesson.") for name in tensors) // len(Lesson._fields)
        for i in range(count):
            self.add(Lesson(*(tensors[f"lesson.{i}.{name}"] for name in Lesson._fields)))
