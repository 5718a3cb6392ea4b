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

from aline.model import Encoded, ModelConfig, Network, Summary
from aline.model.prior import own_prior
from aline.policies.information import LogProb, expected_information
from aline.spaces import Parameters
from aline.tasks import PREDICTIONS, Task
from aline.training.config import TrainingConfig
from aline.training.lessons import Lesson, Lessons
from aline.training.losses import (
    Played,
    all_but_one,
    alternatives,
    judged_after,
    paired_pool_loss,
    read_for_policy,
    spread_near,
)
from aline.training.possible_truths import has_parameter_likelihood

TRUTHS = 64  # that stand for a posterior, all equally likely
ASKED = 16  # of these truths answer a design, where outcomes are too many to visit each
COMPARED = 32  # designs at a state
SHARPNESS = 4.0  # logits between designs whose worth differs by a standard deviation
APART = 1e3  # times the distance between values of a discrete parameter
SMOOTHING = 0.5  # within how many standard deviations truths are similar for a goal


class ParticleTeacher:
    """Knows what designs tell about parameters, as far as possible truths do."""

    def __init__(self, task: Task):
        self.task, self.lessons = task, Lessons()

    def loss(
        self, network: Network, played: Played, config: TrainingConfig, generator: torch.Generator
    ) -> Tensor:
        """Of a new lesson about one state of each episode; goals of predictions are paired."""
        if played.goal.points.shape[1]:
            return paired_pool_loss(network, played, config, generator)
        step = torch.randint(played.length, (played.batch,), generator=generator)
        known = read_for_policy(network, played, step[:, None])
        with torch.no_grad():
            lesson = self.lesson(network, played, step, known, config, generator)
        self.lessons.add(lesson)
        return lesson.loss(network, known)

    def lesson(
        self,
        network: Network,
        played: Played,
        step: Tensor,
        known: tuple[Encoded, Summary],
        config: TrainingConfig,
        generator: torch.Generator,
    ) -> Lesson:
        """What designs are worth after `step` [batch] observations."""
        compared = replace(config, alternatives=COMPARED)
        designs = alternatives(known, played, compared, network, generator)
        horizon = judged_after(step, played.length, config.look_ahead, generator)
        worth = self.worth(network, played, step, horizon, designs, generator)
        worth = worth - worth.mean(1, keepdim=True)
        wanted = SHARPNESS * worth / spread_near(worth, step)[:, None]
        seen, goal = played.context, played.goal.parameters
        prior = own_prior(*goal.shape) if seen.prior is None else seen.prior
        searched = known[1].searched
        places = wanted.new_zeros(len(step), 1, 0, 0)
        if searched is not None:
            places = searched.places.as_tensor()
        return Lesson(seen.designs, seen.outcomes, step, goal, designs, wanted, prior, places)

    def worth(
        self,
        network: Network,
        played: Played,
        step: Tensor,
        horizon: Tensor,
        designs: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        """Nats [batch, n] about the goal that designs [batch, n, design] are expected to tell.

        They are judged beside the other observations up to a `horizon` [batch]: what later ones
        will tell anyway, a design need not.
        """
        seen = all_but_one(step, horizon, played.length)
        truths, log_prob = self.truths(network, played, seen, horizon - 1, generator)
        similarity = goal_similarity(truths, played.goal.parameters, self.task.spec.parameters)
        return expected_information(
            self.task, truths, designs, ASKED, generator, similarity, log_prob
        )

    def truths(
        self,
        network: Network,
        played: Played,
        seen: Tensor,
        count: Tensor,
        generator: torch.Generator,
    ) -> tuple[Tensor, LogProb]:
        """Truths [batch, n, parameter] given `seen` [batch, context] data; their likelihood.

        `count` [batch] are the numbers of these observations.
        """
        seen, possible = seen[:, None], played.possible_truths
        if possible is None:
            drawn = network.joint(played.read(network, seen)).sample(TRUTHS, generator)
            return drawn[:, 0], network.learned_likelihood
        truths = possible.given(seen, possible.stage[count][:, None], TRUTHS, generator)[:, 0]
        shuffled = torch.randperm(TRUTHS, generator=generator)  # they come in order
        return truths[:, shuffled], self.task.log_prob


def goal_similarity(
    truths: Tensor, wanted: Tensor, parameters: Parameters | None = None
) -> Tensor | None:
    """How much truths [batch, n, parameter] agree on the `wanted` parameters [batch, parameter].

    Rows [batch, n, n] sum to one. None where everything is wanted: then each is itself alone.
    """
    if bool(wanted.all()):
        return None
    spread = truths.std(1, keepdim=True).clamp_min(1e-6)
    scaled = truths / spread / SMOOTHING
    if parameters is not None and parameters.cells is not None:
        # Two values of a discrete one are as different as can be, however near they lie.
        settled = APART * parameters.settled(truths)
        scaled = torch.where(parameters.cells.is_discrete, settled, scaled)
    scaled = scaled * wanted[:, None]
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
