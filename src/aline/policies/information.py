"""The expected information of a design, where a task's likelihood is at hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from aline.tasks import Task
from aline.tasks.task import BRANCHES

LogProb = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Log likelihood [..., n] of parameters [..., parameter], designs and outcomes [..., n, *]."""
AT_ONCE = 2**17  # likelihood values held at a time, so that they stay in the cache
WORST = -1e6  # a log likelihood of what cannot be: a sum of them stays a number


class Effort(NamedTuple):
    """What an estimate of the information may cost."""

    truths: int  # that outcomes are to distinguish
    asked: int  # of these, how many answer each design


def information_by(
    task: Task, effort: Effort, truths: Tensor, designs: Tensor, generator: torch.Generator
) -> Tensor:
    """The expected information [batch, design] with some of the truths; some episodes at a time."""
    truths = truths[:, : effort.truths]
    asked = min(effort.asked, truths.shape[1])
    step = max(1, AT_ONCE // (truths.shape[1] * asked * designs.shape[1]))
    parts = zip(truths.split(step), designs.split(step), strict=True)
    return torch.cat([expected_information(task, z, x, asked, generator) for z, x in parts])


def expected_information(
    task: Task,
    truths: Tensor,
    designs: Tensor,
    asked: int,
    generator: torch.Generator,
    similarity: Tensor | None = None,
    log_prob: LogProb | None = None,
) -> Tensor:
    """Nats [batch, design] by which outcomes distinguish the truths on average, at most log n.

    The truths [batch, n, parameter] are equally likely, on the network's scale, and the same for
    all designs [batch, design, axis]. Where outcomes are few each is visited with its probability;
    else the first `asked` truths answer, and each answer counts by how far it moves the weights of
    all truths. With a `similarity` [batch, n, n] they count apart only as far as they are not
    similar. Without a likelihood of the task, `log_prob` stands for it.
    """
    answers, is_all = _answers(task, truths, designs, asked, generator)
    # [batch, answer, truth, design]
    log_prob = log_prob or task.log_prob
    each = log_prob(truths[:, None], designs[:, None, None], answers).float()
    each = each.nan_to_num(nan=WORST, neginf=WORST, posinf=-WORST)
    total = each.logsumexp(2, keepdim=True)
    log_share = each - total
    share = log_share.exp()
    if similarity is not None:
        log_share = (similarity[:, None] @ share).clamp_min(1e-30).log()
    gain = (share * log_share).sum(2) + math.log(each.shape[2])  # [batch, answer, design]
    if not is_all:
        return gain.mean(1)
    likely = (total[:, :, 0] - math.log(each.shape[2])).exp()
    return (gain * likely).sum(1)


def _answers(
    task: Task, truths: Tensor, designs: Tensor, asked: int, generator: torch.Generator
) -> tuple[Tensor, bool]:
    """Outcomes [batch, answer, 1, design, *event], and whether these are all that there are."""
    batch, count = designs.shape[:2]
    every = task.spec.outcome.enumerate()
    if every is not None and len(every) <= BRANCHES:
        answers = every.view(1, -1, 1, 1, *every.shape[1:])
        return answers.expand(batch, -1, 1, count, *every.shape[1:]), True
    asked = min(asked, truths.shape[1])
    world = task.worlds(truths[:, :asked].flatten(0, 1), generator)
    answers = world.answer(designs.repeat_interleave(asked, 0), generator)
    return answers.view(batch, asked, 1, count, *answers.shape[2:]), False
