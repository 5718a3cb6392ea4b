"""What has been measured so far, for a batch of episodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Context:
    """Designs and their outcomes on the network's scale.

    >>> context = Context.empty(batch=2, design=1)
    >>> context = context.append(torch.zeros(2, 1), torch.ones(2))
    >>> context = context.append(torch.ones(2, 1), torch.ones(2))
    >>> context.length, context.first(1).length, context.without(0).designs[0]
    (2, 1, tensor([[1.]]))
    """

    designs: Tensor  # [batch, context, design]
    outcomes: Tensor  # [batch, context, *event], the event as the outcome's event_shape
    mask: Tensor | None = None  # bool [batch, context], False where there is only padding
    # [batch, parameter, 2]: means and standard deviations of the priors, where they are chosen for
    # an experiment; None is the task's own.
    prior: Tensor | None = None

    @property
    def length(self) -> int:
        """How many observations, padding included."""
        return self.outcomes.shape[1]

    @classmethod
    def empty(
        cls, batch: int, design: int, event: tuple[int, ...] = (), prior: Tensor | None = None
    ) -> Context:
        """Nothing measured yet."""
        designs, outcomes = torch.zeros(batch, 0, design), torch.zeros(batch, 0, *event)
        return cls(designs, outcomes, prior=prior)

    def first(self, length: int) -> Context:
        """The first so many observations."""
        mask = None if self.mask is None else self.mask[:, :length]
        return Context(self.designs[:, :length], self.outcomes[:, :length], mask, self.prior)

    def without(self, row: int) -> Context:
        """With one observation less, of a context without padding."""
        kept = [n for n in range(self.length) if n != row]
        return replace(self, designs=self.designs[:, kept], outcomes=self.outcomes[:, kept])

    def append(self, designs: Tensor, outcomes: Tensor) -> Context:
        """With one more observation each: designs [batch, design], outcomes [batch, *event]."""
        mask = self.mask
        if mask is not None:
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
        before = self.outcomes
        if not self.length:  # the first one says what an outcome is like
            before = before.reshape(len(before), 0, *outcomes.shape[1:])
        return Context(
            torch.cat([self.designs, designs[:, None]], 1),
            torch.cat([before, outcomes[:, None]], 1),
            mask,
            self.prior,
        )
