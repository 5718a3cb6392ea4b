"""A teacher for any task with parameters: what designs are expected to tell, by possible truths.

The truths that could have given the same data (training/possible_truths.py) stand for the
posterior. A few of them answer a design; how far each answer moves the weights of all of them,
in nats, is what the design tells. Where a task has no likelihood, the truths are drawn from q and
the likelihood is the one that the network learns.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from aline.model import ModelConfig, Network
from aline.policies.information import LogProb, expected_information
from aline.tasks import PREDICTIONS, Task
from aline.training.config import TrainingConfig
from aline.training.losses import (
    Decisions,
    Played,
    alternatives,
    paired_pool_loss,
    sample_decisions,
    spread_near,
)
from aline.training.possible_truths import has_parameter_likelihood

TRUTHS = 64  # that stand for a posterior, all equally likely
ASKED = 16  # of these truths answer a design, where outcomes are too many to visit each
COMPARED = 32  # designs at a state
SHARPNESS = 4.0  # logits between designs whose worth differs by a standard deviation
SMOOTHING = 0.5  # the width of a goal's kernel, in standard deviations of the truths


class ParticleTeacher:
    """Knows what designs tell about parameters, as far as possible truths do."""

    def __init__(self, task: Task):
        self.task = task

    def loss(
        self, network: Network, played: Played, config: TrainingConfig, generator: torch.Generator
    ) -> Tensor:
        """Squared error of the policy's scores against the worth of designs at one state each.

        Both count from their mean over a state's designs: what a state is worth is not the policy's
        to say. The worth is an estimate; its noise averages out in squares, where a softmax of it
        would prefer designs whose worth is least certain.
        """
        if played.goal.points.shape[1]:
            return paired_pool_loss(network, played, config, generator)
        at = sample_decisions(network, played, generator)
        compared = replace(config, alternatives=COMPARED)
        designs = alternatives(at, played, compared, network, generator)
        with torch.no_grad():
            worth = self.worth(network, played, at, designs, generator)
            worth = worth - worth.mean(1, keepdim=True)
            wanted = SHARPNESS * worth / spread_near(worth, at.horizon)[:, None]
        scores = network.scores(*at.known, played.goal, designs)[:, 0]
        scores = scores - scores.mean(1, keepdim=True)
        return torch.nn.functional.smooth_l1_loss(scores, wanted)

    def worth(
        self,
        network: Network,
        played: Played,
        at: Decisions,
        designs: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        """Nats [batch, n] about the goal that designs [batch, n, design] are expected to tell.

        They are told beside all other observations up to the horizon: where that lies ahead, what
        later trials tell anyway does not count.
        """
        order = torch.arange(played.length)
        seen = (order < at.horizon[:, None]) & (order != at.step[:, None])
        truths, log_prob = self.truths(network, played, at, seen[:, None], generator)
        kernel = goal_kernel(truths, played.goal.parameters)
        return expected_information(self.task, truths, designs, ASKED, generator, kernel, log_prob)

    def truths(
        self,
        network: Network,
        played: Played,
        at: Decisions,
        seen: Tensor,
        generator: torch.Generator,
    ) -> tuple[Tensor, LogProb]:
        """Truths [batch, n, parameter] given what was `seen`, and their likelihood."""
        possible = played.possible_truths
        if possible is None:
            drawn = network.joint(played.read(network, seen)).sample(TRUTHS, generator)
            return drawn[:, 0], network.learned_likelihood
        stage = possible.stage[at.horizon - 1]
        truths = possible.given(seen, stage[:, None], TRUTHS, generator)[:, 0]
        shuffled = torch.randperm(TRUTHS, generator=generator)  # they come in order
        return truths[:, shuffled], self.task.log_prob


def goal_kernel(truths: Tensor, wanted: Tensor) -> Tensor | None:
    """How much truths [batch, n, parameter] agree on the `wanted` parameters [batch, parameter].

    Rows [batch, n, n] sum to one. None where everything is wanted: then each is itself alone.
    """
    if bool(wanted.all()):
        return None
    spread = truths.std(1, keepdim=True).clamp_min(1e-6)
    scaled = truths / spread * wanted[:, None] / SMOOTHING
    square = torch.cdist(scaled, scaled).square()
    square = square + 1e9 * wanted.all(1)[:, None, None] * (1 - torch.eye(truths.shape[1]))
    return (-0.5 * square).softmax(-1)


def requirement(task: Task, model: ModelConfig) -> str | None:
    """What a task lacks for its policy to be taught, in words."""
    is_learned = model.newton_steps and model.plugin is None
    if not (has_parameter_likelihood(task) or is_learned):
        return (
            "a log_likelihood of the parameters alone, without latent, or a model with newton_steps"
        )
    if not any(name != PREDICTIONS for names, _ in task.spec.targets for name in names):
        return "a goal of parameters"
    return None
