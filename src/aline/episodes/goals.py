"""What an experiment wants to know: parameters, predictions, or both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from aline.errors import InputError
from aline.tasks import PREDICTIONS, Spec

TRAINING_POINTS = 8  # prediction inputs an episode whose goal is "predictions anywhere"


@dataclass(frozen=True)
class Goal:
    """The targets of a batch of episodes (the paper's xi)."""

    parameters: Tensor  # bool [batch, parameter]
    points: Tensor  # [batch, target, design], where predictions are wanted
    points_mask: Tensor  # bool [batch, target], False where there is only padding

    @property
    def count(self) -> Tensor:
        """How many targets each episode has, [batch]."""
        return self.parameters.sum(1) + self.points_mask.sum(1)

    def repeat(self, batch: int) -> Goal:
        """The goal of one episode for a batch of them."""
        return Goal(
            self.parameters.expand(batch, -1),
            self.points.expand(batch, -1, -1),
            self.points_mask.expand(batch, -1),
        )

    def chosen(self) -> tuple[Tensor, Tensor]:
        """Indices [batch, n] of each episode's parameters, and which of them are not padding."""
        most = int(self.parameters.sum(1).max()) if self.parameters.numel() else 0
        mask, index = self.parameters.float().topk(most, dim=1)
        return index, mask > 0


@dataclass(frozen=True)
class Predictions:
    """Predictions wanted at given designs, in the user's units."""

    at: Mapping[str, Any]


def predictions(*, at: Mapping[str, Any]) -> Predictions:
    """A target: outcomes at these designs, e.g. ``predictions(at={"time": [1, 2, 3]})``."""
    return Predictions(at)


Target = str | Predictions


def goal_of(spec: Spec, targets: Iterable[Target]) -> Goal:
    """A user's targets as the goal of one episode."""
    targets = [targets] if isinstance(targets, str | Predictions) else list(targets)
    if not targets:
        raise InputError(
            f"a target must name at least one of {', '.join(spec.parameters.labels)}, got none"
        )
    names = [t for t in targets if isinstance(t, str) and t != PREDICTIONS]
    points = [spec.design.read(t.at) for t in targets if isinstance(t, Predictions)]
    if PREDICTIONS in targets:
        points.append(_spread(spec))
    at = torch.cat(points) if points else torch.zeros(0, len(spec.design))
    return Goal(
        spec.parameters.mask(names)[None],
        at[None],
        torch.ones(1, len(at), dtype=torch.bool),
    )


def _spread(spec: Spec) -> Tensor:
    """Fixed points that stand for "anywhere" in the design space."""
    if spec.design.points is not None:
        points = spec.design.to_network(spec.design.points)
        return points[torch.linspace(0, len(points) - 1, min(64, len(points))).long()]
    engine = torch.quasirandom.SobolEngine(len(spec.design), scramble=False)
    return engine.draw(64) * 2 - 1


def draw_goals(spec: Spec, batch: int, generator: torch.Generator) -> Goal:
    """A goal an episode, drawn by the task's training shares.

    Either all episodes of a batch want predictions or none does: their points would be padding in
    the others, and most of the work.
    """
    shares = torch.tensor([share for _, share in spec.targets])
    wants = torch.tensor([PREDICTIONS in names for names, _ in spec.targets])
    first = torch.multinomial(shares, 1, generator=generator)
    shares = shares * (wants == wants[first])
    drawn = torch.multinomial(shares, batch, replacement=True, generator=generator)
    masks = torch.stack(
        [spec.parameters.mask(n for n in names if n != PREDICTIONS) for names, _ in spec.targets]
    )
    count = TRAINING_POINTS if bool(wants[first]) else 0
    points = spec.design.sample(batch, count, generator)
    return Goal(masks[drawn], points, torch.ones(batch, count, dtype=torch.bool))
