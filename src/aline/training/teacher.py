"""Teachers for pool policies: what designs are worth at states of the policy's own play.

Where it can be computed what a design is expected to tell about the goal, a policy learns it by
cross-entropy: without the noise of single outcomes, and without q's errors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from aline.model import Network
from aline.training.config import TrainingConfig
from aline.training.losses import Played, read_for_policy, stratified, up_to

STATES = 1  # of each episode that an update learns from
ALTERNATIVES = 48  # designs compared at a state
TEMPERATURE = 0.03  # the share of the maximum by which designs may miss it and still be wanted


class ComparedDesigns(NamedTuple):
    """Designs to compare at some states, and what each is worth there."""

    designs: Tensor  # [batch, n, design]
    gain: Tensor  # [batch, group, n], positive


class Teacher(ABC):
    """Knows what designs are worth, whatever was observed before."""

    @abstractmethod
    def lesson(
        self, played: Played, visible: Tensor, generator: torch.Generator
    ) -> ComparedDesigns:
        """At states that have made the observations `visible` [batch, group, context]."""

    def loss(
        self, network: Network, played: Played, config: TrainingConfig, generator: torch.Generator
    ) -> Tensor:
        """Cross-entropy from a softmax over what designs are worth to the policy's over its scores.

        Worth counts as a share of the best design's: late trials tell a tenth of what early ones
        do. Maximising the worth that the policy expects would be the same in the end, but it
        hardly moves a policy that is sure of a wrong design, and learned several times slower.
        """
        steps = stratified(played.batch, STATES, played.length, generator)
        designs, gain = self.lesson(played, up_to(steps, played.length), generator)
        known = read_for_policy(network, played, steps)
        scores = network.scores(*known, played.goal, designs)
        share = gain / gain.amax(-1, keepdim=True).clamp_min(1e-9)
        wanted = (share / TEMPERATURE).softmax(-1)
        return -(wanted * scores.log_softmax(-1)).sum(-1).mean()
