"""From a token to what it says: a density for a number, probabilities for few values."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from aline.model.tokens import Mlp
from aline.spaces import Belief, Outcome


class Head(nn.Module):
    """A token to a belief about an outcome, or about a parameter as if it were one.

    Beside the token it sees `read` numbers, averages of what was measured.
    """

    def __init__(self, outcome: Outcome, width: int, hidden: int, components: int, read: int = 0):
        super().__init__()
        self.outcome = outcome
        start = outcome.head_start(components, read)
        self.mlp = Mlp(width + read, hidden, len(start))
        with torch.no_grad():
            self.mlp.second.bias.copy_(start)
            self.mlp.second.weight.mul_(0.3)

    def forward(self, tokens: Tensor, read: Tensor, zoom: Tensor | None = None) -> Belief:
        """[..., embed] and [..., read] -> beliefs [...]; zoom [..., 1] is a log scale."""
        return self.outcome.belief(self.mlp(torch.cat([tokens, read], -1)), read, zoom)
