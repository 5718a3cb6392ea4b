"""The policy half (psi): candidates, or one proposal token, read the context and the goal.

It reads the inference half's hidden states without passing gradients back, so that its loss never
disturbs q (paper, section 3.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from aline.model.attention import Absorbed, Keys, Layers
from aline.model.config import ModelConfig
from aline.model.tokens import DesignEmbedder, Mlp
from aline.spaces import Design

AT_ONCE = 5000  # candidates whose tokens are held at a time: a few hundred kB an operation
LOG_STD = (-6.0, 0.0)  # of a proposal, on the network's scale


@dataclass(frozen=True)
class Proposal:
    """A point of the box and how sure the policy is of it, on the network's scale."""

    mean: Tensor  # [batch, group, design]
    log_std: Tensor  # [batch, group, design]
    strain: Tensor  # [batch, group, design], how far the head's numbers exceed both bounds

    def __getitem__(self, index: Any) -> Proposal:
        """Of some groups."""
        return Proposal(self.mean[index], self.log_std[index], self.strain[index])

    def draw(self, generator: torch.Generator) -> Tensor:
        """A point around the mean, inside the box, that passes gradients to both."""
        noise = torch.randn(self.mean.shape, generator=generator)
        return (self.mean + self.log_std.exp() * noise).clamp(-1, 1)


class Read(NamedTuple):
    """What the policy's layers read: the context, and the goal's tokens, with their biases."""

    context: list[Keys]
    context_bias: Tensor | None
    goal: list[Keys]
    goal_bias: Tensor | None


class PolicyHalf(nn.Module):
    """Scores candidates, or proposes a point.

    Its tokens start from means and log spreads of `summarised` parameters.
    """

    def __init__(self, space: Design, summarised: int, effects: int, config: ModelConfig):
        super().__init__()
        width, hidden = config.width, config.feedforward
        self.design = len(space)
        self.layers = Layers(config.policy_layers, width, config.heads, hidden)
        self.norm = nn.LayerNorm(width)
        self.is_box = config.policy == "box"
        self.effects: nn.Linear | None = None
        if self.is_box:
            self.proposal = nn.Parameter(torch.randn(width))
            self.head = _proposal_head(width, hidden, self.design, summarised)
        else:
            self.embedder = DesignEmbedder(space, config.octaves, hidden, width)
            self.head = Mlp(width, hidden, 1)
            if effects:
                self.effects = nn.Linear(effects, hidden, bias=False)
        self.summary = nn.Linear(2 * summarised, hidden, bias=False) if summarised else None

    def keys(self, hidden: list[Tensor]) -> list[Keys]:
        """The context's states as these layers read them: those of the last inference layers."""
        used = hidden[-len(self.layers) :]
        return [layer.keys(h.detach()) for layer, h in zip(self.layers, used, strict=True)]

    def decode(self, tokens: Tensor, read: Read) -> Tensor:
        """Tokens [row, group, token, embed] that see the context and the goal, never each other."""
        for layer, context, goal in zip(self.layers, read.context, read.goal, strict=True):
            tokens = layer(tokens, context, read.context_bias, goal, read.goal_bias).tokens
        out: Tensor = self.norm(tokens)
        return out

    def tokens(
        self, candidates: Tensor, moments: Tensor | None, effects: Tensor | None = None
    ) -> Tensor:
        """Of candidates [..., n, design], with q's moments [..., 2 * parameter].

        `effects` [..., n, effect] say how outcomes there depend on the parameters.
        """
        more = None
        if self.summary is not None:
            assert moments is not None
            more = self.summary(moments)[..., None, :]
            more = more if self.effects is None else more + self.effects(effects)
        out: Tensor = self.embedder(candidates, more)
        return out

    def score(self, tokens: Tensor) -> Tensor:
        """Logits [batch, group, n] of decoded tokens."""
        logits: Tensor = self.head(tokens).squeeze(-1)
        return logits

    def decode_many(self, tokens: Tensor, read: Read) -> Tensor:
        """As `decode`, for many tokens [batch, token, embed] of one group, without gradients.

        A few episodes at a time: their tokens stay in the processor's cache from one operation to
        the next.
        """
        parts = zip(self.layers, read.context, read.goal, strict=True)
        readers = [
            layer.absorb(context, read.context_bias, goal, read.goal_bias)
            for layer, context, goal in parts
        ]
        if torch.compiler.is_exporting():  # a graph takes all in one pass
            return self._decode_some(tokens, readers)
        step, found = max(1, AT_ONCE // max(1, tokens.shape[1])), []
        for start in range(0, len(tokens), step):
            rows = slice(start, start + step)
            found.append(self._decode_some(tokens[rows], [reader.of(rows) for reader in readers]))
        return torch.cat(found)

    def _decode_some(self, tokens: Tensor, readers: list[Absorbed]) -> Tensor:
        for layer, reader in zip(self.layers, readers, strict=True):
            tokens = layer.read_many(tokens, reader)
        out: Tensor = self.norm(tokens)
        return out

    def propose(self, token: Tensor, moments: Tensor | None) -> Proposal:
        """The point that a decoded token [batch, group, embed] means."""
        more = None if self.summary is None else self.summary(moments)
        numbers = self.head(token, more).unflatten(-1, (-1, self.design))
        raw, spread = numbers[..., 0, :], numbers[..., 1, :]
        point = raw
        if moments is not None:
            share = numbers[..., 3:, :].softmax(-2)[..., :-1, :]
            scale = numbers[..., 2, :].clamp(*LOG_STD)
            point = (share * moments.chunk(2, -1)[0][..., None]).sum(-2) + scale.exp() * raw
            spread = spread + scale
        log_std = spread.clamp(*LOG_STD)
        # The inverse of the scale on which a parameter that is uniform on the box is seen.
        mean = torch.erf(point / math.sqrt(2))
        return Proposal(mean, log_std, raw**2 + (spread - log_std) ** 2)


def _proposal_head(width: int, hidden: int, design: int, summarised: int) -> Mlp:
    """Numbers [layout, design]: a point, its spread and, beside a summary, a scale and shares.

    With a summary the point is relative to an average of the parameters' means, by these shares;
    at first it follows none of them.
    """
    layout = torch.zeros(2 + (summarised + 2 if summarised else 0), design)
    layout[1] = -1.0
    if summarised:
        layout[-1] = 1.0
    head = Mlp(width, hidden, layout.numel())
    with torch.no_grad():
        head.second.weight.mul_(0.1)
        head.second.bias.copy_(layout.flatten())
    return head
