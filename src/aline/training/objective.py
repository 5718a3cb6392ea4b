"""What one update of a training minimises."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from aline.errors import InternalError
from aline.model import Network
from aline.training.config import TrainingConfig
from aline.training.losses import Played, emulator_loss, imitation_loss, inference_loss
from aline.training.particle_teacher import ParticleTeacher

PolicyLoss = Callable[[Network, Played, TrainingConfig, torch.Generator], Tensor]


def check_finite(value: Tensor, what: str = "the loss") -> None:
    """A training that diverges stops at once."""
    if not bool(torch.isfinite(value)):
        raise InternalError(f"{what} became {value.item()}")


class Losses(nn.Module):
    """What an update minimises, as one module: what several workers wrap to learn together."""

    def __init__(self, network: Network, policy_loss: PolicyLoss | None, config: TrainingConfig):
        super().__init__()
        self.network, self.policy_loss, self.config = network, policy_loss, config
        # What learns is a copy: the network has the average of its weights, which errs less.
        self.emulator = deepcopy(network.emulator)
        if network.emulator is not None:
            network.emulator.requires_grad_(False)
        teacher = getattr(policy_loss, "__self__", None)
        self.lessons = teacher.lessons if isinstance(teacher, ParticleTeacher) else None

    def forward(self, played: Played, generator: torch.Generator, **of_both: Any) -> list[Tensor]:
        """Of the emulator alone, or with settings `of_both` of q and the policy."""
        if of_both:
            return self.of_both(played, generator, **of_both)
        assert self.emulator is not None
        return [emulator_loss(self.emulator, played, generator)]

    def of_both(
        self,
        played: Played,
        generator: torch.Generator,
        points: int,
        teach: bool,
        informed: Tensor | None,
    ) -> list[Tensor]:
        """Of q, and of the policy: by its credit, by `informed` designs, or by earlier lessons."""
        # A plug-in that learns must speak anew, for what it says to carry a gradient.
        advice = None if self.network.advisor.is_learned else played.advice
        played = replace(played, encoded=self.network.encode(played.context, advice))
        losses = [inference_loss(self.network, played, self.config, points, generator)]
        check_finite(losses[0])  # before a policy draws from what is not a number
        if informed is not None:
            losses.append(imitation_loss(self.network, played, informed, generator))
        elif teach and self.policy_loss is not None:
            losses.append(self.policy_loss(self.network, played, self.config, generator))
        elif self.lessons is not None:
            again = self.lessons.loss(self.network, generator)
            losses += [] if again is None else [again]
        return losses
