"""A closer look at the observations, from where the first reading of them puts a target.

Attention reads observations as they lie in the design space. Where a posterior is a hundred times
narrower than its prior, what still tells something is where each observation lies relative to the
target, on the scale of what is still unknown. A look takes the observations in that way: it
computes each one's offset from a centre in units of a scale, and moves the centre by an average of
those offsets. The centre is an average of designs and so is every move, so that neither feels the
noise of a network's large numbers: a step of Newton's method, as a network can learn it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aline.model.embedder import Mlp
from aline.model.heads import LOG_SCALES

MOST = 80.0  # a logit whose power can still be summed
NEAREST = 0.01  # squared offset, in units of the scale, below which nearer makes no difference


class Seen(NamedTuple):
    """Observations as they are, and which of them each group sees."""

    plain: Tensor  # [design + 1, batch, group or 1, 1, n], designs and outcomes
    bias: Tensor | None  # [batch, group or 1, 1, n], zero or minus infinity

    @classmethod
    def of(cls, observations: Tensor, bias: Tensor | None = None) -> Seen:
        """Observations [batch, group or 1, n, design + 1]."""
        return cls(observations.movedim(-1, 0).contiguous()[:, :, :, None], bias)


class Sight(NamedTuple):
    """What a target's token makes of the observations."""

    tokens: Tensor  # [batch, group, target, embed]
    centre: Tensor  # [batch, group, target, design]
    zoom: Tensor  # [batch, group, target, 1], the log scale


class CloseUp(nn.Module):
    """Finds a centre and a scale in what attention read, then looks from there `looks` times."""

    def __init__(self, looks: int, design: int, width: int, heads: int):
        super().__init__()
        self.heads = heads
        plain = heads * (design + 1)
        self.aim = Mlp(width + plain, width, design * (heads + 1) + 1)
        self.looks = nn.ModuleList(Look(design, width, heads, plain) for _ in range(looks))
        with torch.no_grad():
            self.aim.second.bias.zero_()
            self.aim.second.weight.mul_(0.3)

    def forward(self, tokens: Tensor, plain: Tensor, seen: Seen) -> tuple[Sight, Tensor]:
        """Tokens [batch, group, target, embed] and what they read, [..., head * (design + 1)].

        Also gives what they read with the first and the last centre beside it.
        """
        aim = self.aim(torch.cat([tokens, plain], -1))
        share = aim[..., :-1].unflatten(-1, (self.heads + 1, -1)).softmax(-2)[..., :-1, :]
        read = plain.unflatten(-1, (self.heads, -1))[..., :-1]
        first = (share * read).sum(-2)
        sight = Sight(tokens, first, aim[..., -1:].clamp(*LOG_SCALES))
        for look in self.looks:
            sight = look(sight, plain, seen)
        return sight, torch.cat([plain, first, sight.centre], -1)


class Look(nn.Module):
    """Reads the observations relative to a centre, and moves it."""

    def __init__(self, design: int, width: int, heads: int, plain: int):
        super().__init__()
        self.heads, self.design = heads, design
        hidden = width // 2
        self.relative = nn.Linear(design + 2, hidden)
        self.told = nn.Linear(width + plain + 1, hidden + heads)
        self.weigh = nn.Linear(hidden, 2 * heads)
        self.out = nn.Linear(hidden + heads * design, width)
        self.zoom = nn.Linear(width, 1)
        with torch.no_grad():
            self.zoom.bias.zero_()
            self.zoom.weight.mul_(0.3)

    def forward(self, sight: Sight, plain: Tensor, seen: Seen) -> Sight:
        """One look.

        Where an observation has only a few numbers, each of them is a row of its own over all
        observations: matrices and sums of a few columns are slow.
        """
        shape = (*sight.zoom.shape[:3], seen.plain.shape[-1])
        centre, zoom = (part.movedim(-1, 0)[..., None] for part in (sight.centre, sight.zoom))
        offset = (seen.plain[: self.design] - centre) * (-zoom).exp()
        square = offset.square().sum(0, keepdim=True)
        offset = offset * (1 + square).rsqrt()  # [design, batch, group, target, n], short if near
        outcome = seen.plain[self.design :].expand(1, *shape)
        told = self.told(torch.cat([sight.tokens, plain, sight.zoom], -1))
        about, step = told.split([told.shape[-1] - self.heads, self.heads], -1)
        few = torch.cat([offset, (square + NEAREST).log(), outcome]).flatten(1)
        rows = (few.T @ self.relative.weight.T).unflatten(0, shape)
        rows = F.relu(rows + (about + self.relative.bias)[..., None, :], inplace=True)
        weighed = torch.addmm(self.weigh.bias[:, None], self.weigh.weight, rows.flatten(0, -2).T)
        logits, pull = weighed.view(2, self.heads, *shape)
        if seen.bias is not None:
            logits = logits + seen.bias
        # A head may also look at nothing: then an observation counts by itself, not by its share.
        weights = logits.clamp(max=MOST).exp()
        pulls = (weights * pull).movedim(0, -2)
        weights = weights.movedim(0, -2)  # [batch, group, target, head, n]
        total = 1 + weights.sum(-1, keepdim=True)
        # Each head reads its own part of the rows.
        read = (weights @ rows).unflatten(-1, (self.heads, -1)).diagonal(dim1=-3, dim2=-2)
        pulled = (pulls @ offset.movedim(0, -1)) / total  # [batch, group, target, head, design]
        found = torch.cat([(read.mT / total).flatten(-2), pulled.flatten(-2)], -1)
        tokens = sight.tokens + self.out(found)
        moved = sight.centre + sight.zoom.exp() * (step[..., None] * pulled).sum(-2)
        closer = (sight.zoom + self.zoom(tokens)).clamp(*LOG_SCALES)
        return Sight(tokens, moved, closer)
