"""Choosing by the expected information of designs, where the task itself can be asked.

Where two things must agree to a thousandth before a measurement is informative (baskets that a
person likes nearly equally, say), a network that scores designs by where they lie is too coarse.
But it knows which parameter values are still possible, and the task knows the rest: `explore` names
designs that would be informative for given values, and the likelihood says how informative each is.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from aline.episodes import Context
from aline.policies.importance import tempered
from aline.policies.information import AT_ONCE, Effort, information_by
from aline.spaces.outcomes import Mixture
from aline.tasks import Task

DRAWS = 2048  # from q, among which possible truths are sought
EFFECTIVE = 48.0  # how many of them count at least
TRUTHS = 64  # that are kept, all equally likely
FEW = 16  # designs whose information is estimated again
QUICK, ROUGH, CLOSE = Effort(16, 4), Effort(32, 8), Effort(TRUTHS, 16)


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
        """The designs' expected information [batch, query], -inf where they are not allowed."""
        gain = information_by(self.task, effort, truths, designs, generator)
        return gain if allowed is None else gain.masked_fill(~allowed, -torch.inf)

    def best(
        self,
        truths: Tensor,
        designs: Tensor,
        generator: torch.Generator,
        allowed: Tensor | None = None,
    ) -> Tensor:
        """The index [batch] of the most informative allowed design.

        The largest of many noisy estimates is likely too large, so the few best are estimated
        again, with less noise.
        """
        rough = self.judge(truths, designs, ROUGH, generator, allowed)
        few = rough.topk(min(FEW, designs.shape[1]), 1)
        near = designs.gather(1, few.indices[..., None].expand(-1, -1, designs.shape[-1]))
        gain = self.judge(truths, near, CLOSE, generator, few.values > -torch.inf)
        return few.indices.gather(1, gain.argmax(1, keepdim=True))[:, 0]
