"""Paired observers, and the errors of what was learned about them, trial by trial.

Every policy meets the same truths with the same luck and chooses from the same stimuli, so that
what differs between two policies is what they chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from aline.baselines.grid import GridPolicy
from aline.episodes import Context, Policy, goal_of
from aline.evaluation.simulated import Progress, Protocol, play_protocol, posteriors_after
from aline.experiment.refine import Refiner, joint_of
from aline.model import Network
from aline.spaces import Parameters
from aline.tasks import Task
from aline.tasks.lattice import evenly_spaced

_BATCH = 250
_DRAWS = 512  # posterior draws for its moments: their noise adds 0.1 % to an error


@dataclass(frozen=True)
class Played:
    """Finished experiments with their truths."""

    theta: Tensor  # [batch, parameter] on the network's scale
    context: Context


def play_observers(
    policy: Policy,
    task: Task,
    target: Sequence[str],
    *,
    count: int,
    seed: int,
    steps: int | None = None,
    given: Tensor | None = None,
    progress: Progress | None = None,
) -> Played:
    """Let a policy question `count` observers with the stimuli of `evenly_spaced`.

    `given` [batch, n, design] are shown first, else `spec.start` random ones.
    """
    spec = task.spec
    stimuli = evenly_spaced(spec.design)
    protocol = Protocol(count, steps or spec.horizon, spec.start, seed=seed, stimuli=stimuli)
    return Played(*play_protocol(policy, task, target, protocol, progress, given))


Errors = dict[str, Tensor]
"""Label -> the posterior's mean square distance from the truth after 0, 1, ... trials [batch, 1 +
step], in the user's units: what `posterior_rmse` takes."""


def grid_errors(policy: GridPolicy, played: Played) -> Errors:
    """What the posterior of a grid method says of experiments, its own or others'."""
    spec, steps = policy.spec, played.context.length
    truth = spec.parameters.to_labels(played.theta)
    errors = {label: torch.empty(len(played.theta), steps + 1) for label in truth}
    for first in range(0, len(played.theta), _BATCH):
        rows = slice(first, first + _BATCH)
        size = len(played.theta[rows])
        state = policy.begin(goal_of(spec, spec.parameters.labels).repeat(size))
        for step in range(steps + 1):
            mean, std = policy.moments(state)
            for label, error in errors.items():
                error[rows, step] = (mean[label] - truth[label][rows]) ** 2 + std[label] ** 2
            if step < steps:
                design, outcome = played.context.designs[rows], played.context.outcomes[rows]
                state = policy.observe(state, design[:, step], outcome[:, step])
    return errors


def network_errors(
    network: Network, played: Played, lengths: Sequence[int] | None = None
) -> Errors:
    """What q says after each of `lengths` trials, by default all."""
    parameters = network.spec.parameters
    lengths = range(played.context.length + 1) if lengths is None else lengths
    parts = []
    for first in range(0, len(played.theta), _BATCH):
        rows = slice(first, first + _BATCH)
        context = Context(played.context.designs[rows], played.context.outcomes[rows])
        parts.append(_network_errors(network, parameters, context, played.theta[rows], lengths))
    return {label: torch.cat([part[label] for part in parts]) for label in parameters.labels}


def _network_errors(
    network: Network,
    parameters: Parameters,
    context: Context,
    theta: Tensor,
    lengths: Sequence[int],
) -> Errors:
    posterior = posteriors_after(network, context, lengths)
    draws = parameters.to_labels(posterior.sample(_DRAWS, torch.Generator()))
    truth = parameters.to_labels(theta)
    return {k: (v - truth[k][:, None]).square().mean(0) for k, v in draws.items()}


def refined_errors(
    task: Task, network: Network, played: Played, seed: int, progress: Progress
) -> Errors:
    """What q, refined by the likelihood, says after the last trial, [batch, 1]."""
    labels = task.spec.parameters.labels
    errors = {label: torch.empty(len(played.theta), 1) for label in labels}
    q = posteriors_after(network, played.context, [played.context.length])
    generator = torch.Generator().manual_seed(seed)
    truth = task.spec.parameters.to_labels(played.theta)
    for row in range(len(played.theta)):
        own = q[row, 0]
        seen = Context(played.context.designs[[row]], played.context.outcomes[[row]])
        refiner = Refiner(task, own, seen, joint_of(network, seen))
        draws = task.spec.parameters.to_labels(refiner.draw(generator).z)
        for label in labels:
            errors[label][row] = (draws[label] - truth[label][row]).square().mean()
        progress(row + 1, len(played.theta))
    return errors


def posterior_rmse(errors: Errors, labels: Sequence[str]) -> Tensor:
    """The posterior RMSE of some parameters, as the paper has it (its figure 4), [batch, ...].

    Of each parameter the root of the mean square distance between posterior and truth, then the
    mean over the parameters. One root over all of them would be more, unless all are alike.
    """
    return torch.stack([errors[label].sqrt() for label in labels]).mean(0)
