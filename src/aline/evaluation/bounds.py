"""Bounds on the information that an experiment gathered: sPCE from below, sNMC from above.

Both compare the likelihood of an episode's data under its true parameters with that under L other
draws from the prior (Foster et al., 2021). The draws are streamed, so memory does not grow with L.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from aline.episodes import Context
from aline.errors import InputError
from aline.evaluation.estimates import Estimate, mean
from aline.spaces import Parameters
from aline.tasks import Task
from aline.tasks.task import Named

_AT_ONCE = 2**16  # likelihood values a call: what stays in the cache
_EPISODES = 256  # episodes a call, each compared with _AT_ONCE / _EPISODES draws

Progress = Callable[[int, int], None]
"""Told how many of how many contrastive draws are done."""


@dataclass(frozen=True)
class Bounds:
    """Lower and upper bound on the expected information gain, in nats."""

    lower: Estimate  # sPCE
    upper: Estimate  # sNMC
    contrastive: int  # L

    @property
    def cap(self) -> float:
        """What the lower bound cannot exceed, however much was learned."""
        return math.log(self.contrastive + 1)

    @property
    def note(self) -> str | None:
        """A warning when the lower bound is near its cap, where it says little."""
        if self.lower.value < self.cap - 1:
            return None
        return (
            f"sPCE {self.lower.value:.2f} is within a nat of its cap log(L + 1) = {self.cap:.2f}: "
            "take more contrastive draws, or trust the upper bound only"
        )


def information_bounds(
    task: Task,
    context: Context,
    theta: Tensor,
    contrastive: int,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> Bounds:
    """sPCE and sNMC of played episodes; theta [batch, parameter] on the network's scale.

    All episodes share the contrastive draws. The intervals are over episodes.
    """
    lower, upper = episode_bounds(task, context, theta, contrastive, generator, progress)
    return Bounds(mean(lower), mean(upper), contrastive)


def episode_bounds(
    task: Task,
    context: Context,
    theta: Tensor,
    contrastive: int,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> tuple[Tensor, Tensor]:
    """The terms of sPCE and sNMC of each episode, [batch] each."""
    _check(task, context, contrastive)
    at_truth = task.log_prob(theta, context.designs, context.outcomes).sum(1).double()
    evidence = torch.full_like(at_truth, -torch.inf)
    steps = list(_steps(task, context))
    done = 0
    for draws in _draws(task.spec.parameters, contrastive, generator):
        parts = [_log_sum(task, draws, block) for block in steps]
        evidence = torch.logaddexp(evidence, torch.cat(parts))
        done += len(next(iter(draws.values())))
        if progress is not None:
            progress(done, contrastive)
    with_truth = torch.logaddexp(evidence, at_truth)
    lower = at_truth - with_truth + math.log(contrastive + 1)
    return lower, at_truth - evidence + math.log(contrastive)


@dataclass(frozen=True)
class Step:
    """One observation of a block of episodes, in the user's units, [1, episode] each."""

    design: Named
    outcome: Tensor


def _steps(task: Task, context: Context) -> Iterator[list[Step]]:
    """The observations of each block of episodes, step by step."""
    columns = task.spec.design.name_columns(context.designs)
    outcomes = task.spec.outcome.to_user(context.outcomes)
    for start in range(0, len(outcomes), _EPISODES):
        rows = slice(start, start + _EPISODES)
        yield [
            Step({n: c[None, rows, t] for n, c in columns.items()}, outcomes[None, rows, t])
            for t in range(context.length)
        ]


def _draws(parameters: Parameters, count: int, generator: torch.Generator) -> Iterator[Named]:
    """Prior draws in the user's units, [chunk, 1] each."""
    chunk = _AT_ONCE // _EPISODES
    for start in range(0, count, chunk):
        z = parameters.sample(min(chunk, count - start), generator)
        yield parameters.to_user(z[:, None])


def _log_sum(task: Task, draws: Named, steps: list[Step]) -> Tensor:
    """Log of the likelihoods' sum over the draws, [episode].

    Float32 within the chunk keeps what counts: a draw whose sum of log likelihoods is so large
    that its rounding shows is far below the best one. Across chunks the sum is in float64.
    """
    assert task.log_likelihood is not None
    total = torch.zeros(())
    for step in steps:
        total = total + task.log_likelihood(draws, step.design, step.outcome)
    return total.logsumexp(0).double()


def _check(task: Task, context: Context, contrastive: int) -> None:
    if task.log_likelihood is None:
        raise InputError(
            f"sPCE and sNMC need a log_likelihood, task {task.spec.name} has none: "
            "give one to Task(...)"
        )
    if context.length == 0 or context.mask is not None:
        raise InputError("bounds need at least one observation an episode and no padding")
    if contrastive < 1:
        raise InputError(f"contrastive must be at least 1, got {contrastive}")
