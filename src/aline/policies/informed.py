"""Choosing by what a design is expected to tell, where the task itself can be asked.

Where two things must fit to a thousandth for a measurement to tell anything (baskets that a person
likes nearly equally, say), a network that scores designs as they lie in their space is too blunt.
But it knows which truths are still possible, and the task knows the rest: `explore` names designs
that would tell much if such a truth were the case, and the likelihood says how much each of them
is expected to tell the possible truths apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from aline.episodes import Context
from aline.policies.importance import tempered
from aline.spaces.outcomes import Mixture
from aline.tasks import Task

DRAWS = 2048  # from q, among which possible truths are sought
EFFECTIVE = 48.0  # how many of them count at least
TRUTHS = 64  # that are kept, all equally likely
FEW = 16  # designs that are looked at closely
AT_ONCE = 2**17  # likelihood values held at a time, so that they stay in the cache


class Effort(NamedTuple):
    """What judging a design may cost."""

    truths: int  # that a design shall tell apart
    asked: int  # of these, how many answer it


GLANCE, ROUGH, CLOSE = Effort(16, 4), Effort(32, 8), Effort(TRUTHS, 16)


@dataclass(frozen=True)
class Informed:
    """A task that can be asked about truths and designs on the network's scale."""

    task: Task

    @staticmethod
    def can_be(task: Task) -> bool:
        """Whether a task names informative designs and knows its likelihood."""
        return task.explore is not None and task.log_likelihood is not None and not task.latent

    def likely(self, q: Mixture, seen: Context, generator: torch.Generator) -> Tensor:
        """Possible truths [batch, n, parameter] after what was seen, all equally likely.

        q knows each parameter for itself; here they must fit the data together. Draws from its
        marginals [batch, parameter] are weighed by the likelihood, but mildly enough that a good
        number of them counts.
        """
        drawn = q.sample(DRAWS, generator).transpose(0, 1)  # [batch, draw, parameter]
        marginals = q.unsqueeze(1)
        weight = self._log_posterior(drawn, seen) - marginals.log_prob(drawn).sum(-1)
        chosen = tempered(weight, EFFECTIVE).multinomial(TRUTHS, True, generator=generator)
        return drawn.gather(1, chosen[..., None].expand(-1, -1, drawn.shape[-1]))

    def _log_posterior(self, truths: Tensor, seen: Context) -> Tensor:
        """Up to a constant, [batch, n] of truths [batch, n, parameter]."""
        step = max(1, AT_ONCE // (truths.shape[1] * max(1, seen.length)))
        states = truths, seen.designs, seen.outcomes
        parts = zip(*(state.split(step) for state in states), strict=True)
        fits = [self.task.log_prob(z, x[:, None], y[:, None]).sum(-1) for z, x, y in parts]
        return torch.cat(fits) - 0.5 * truths.square().sum(-1)

    def candidates(self, truths: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Designs [batch, count, design]: half for some of the truths each, half uniform."""
        batch, informed = len(truths), (count + 1) // 2
        rows = torch.arange(informed) % truths.shape[1]
        each = truths[:, rows].flatten(0, 1)
        near = self.task.informative(each, 1, generator).view(batch, informed, -1)
        uniform = self.task.spec.design.sample(batch, count - informed, generator)
        return torch.cat([near, uniform], 1)

    def judge(
        self,
        truths: Tensor,
        designs: Tensor,
        effort: Effort,
        generator: torch.Generator,
        allowed: Tensor | None = None,
    ) -> Tensor:
        """What designs are expected to tell [batch, query], -inf where they are not allowed."""
        told = self.information(truths[:, : effort.truths], designs, effort.asked, generator)
        return told if allowed is None else told.masked_fill(~allowed, -torch.inf)

    def best(
        self,
        truths: Tensor,
        designs: Tensor,
        generator: torch.Generator,
        allowed: Tensor | None = None,
    ) -> Tensor:
        """The index [batch] of the allowed design that tells most: a rough look, then a close one.

        Of many noisy estimates the best is the luckiest, so the few best are looked at again.
        """
        rough = self.judge(truths, designs, ROUGH, generator, allowed)
        few = rough.topk(min(FEW, designs.shape[1]), 1)
        near = designs.gather(1, few.indices[..., None].expand(-1, -1, designs.shape[-1]))
        told = self.judge(truths, near, CLOSE, generator, few.values > -torch.inf)
        return few.indices.gather(1, told.argmax(1, keepdim=True))[:, 0]

    def information(
        self, truths: Tensor, designs: Tensor, asked: int, generator: torch.Generator
    ) -> Tensor:
        """Nats [batch, query] that designs [batch, query, design] tell the truths apart by.

        The truths [batch, n, parameter] are equally likely; the first `asked` of them answer every
        design once (prior contrastive estimation with q as the prior, at most log n).
        """
        values = truths.shape[1] * min(asked, truths.shape[1]) * designs.shape[1]
        step = max(1, AT_ONCE // values)
        parts = zip(truths.split(step), designs.split(step), strict=True)
        return torch.cat([self._information(*part, asked, generator) for part in parts])

    def _information(
        self, truths: Tensor, designs: Tensor, asked: int, generator: torch.Generator
    ) -> Tensor:
        batch, count = designs.shape[:2]
        asked = min(asked, truths.shape[1])
        source = truths[:, :asked].flatten(0, 1)
        repeated = designs.repeat_interleave(asked, 0)
        answers = self.task.worlds(source, generator).answer(repeated, generator)
        answers = answers.view(batch, asked, 1, count)
        # [batch, answering truth, truth, design]
        each = self.task.log_prob(truths[:, None], designs[:, None, None], answers)
        own = each[:, :, :asked].diagonal(dim1=1, dim2=2).mT  # [batch, answering truth, design]
        evidence = each.logsumexp(2) - math.log(truths.shape[1])
        return (own - evidence).mean(1)
