"""A closer look at the observations, from where the first reading of them puts a target.

Attention reads observations as they lie in the design space. Where a posterior is a hundred times
narrower than its prior, what still tells something is where each observation lies relative to the
target, on the scale of what is still unknown. A look takes the observations in that way: it
computes each one's offset from a centre in units of a scale, and moves the centre by an average of
those offsets. The centre is an average of designs and so is every move, so that neither feels the
noise of a network's large numbers: a step of Newton's method, as a network can learn it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from aline.model.tokens import Mlp
from aline.spaces.outcomes.mixture import LOG_SCALES

MOST = 80.0  # a logit whose power can still be summed
NEAREST = 0.01  # squared offset, in units of the scale, below which nearer makes no difference


class Seen(NamedTuple):
    """Observations as they are, and which of them each group sees."""

    raw: Tensor  # [design + outcome, batch, group or 1, 1, n], designs and outcomes
    bias: Tensor | None  # [batch, group or 1, 1, n], zero or minus infinity

    @classmethod
    def of(cls, observations: Tensor, bias: Tensor | None = None) -> Seen:
        """Observations [batch, group or 1, n, design + outcome]."""
        return cls(observations.movedim(-1, 0).contiguous()[:, :, :, None], bias)


class Sight(NamedTuple):
    """What a target's token makes of the observations."""

    tokens: Tensor  # [batch, group, target, embed]
    centre: Tensor  # [batch, group, target, design]
    zoom: Tensor  # [batch, group, target, 1], the log scale


class CloseUp(nn.Module):
    """Finds a centre and a scale in what attention read, then looks from there `looks` times."""

    def __init__(self, looks: int, design: int, outcome: int, width: int, heads: int):
        super().__init__()
        self.heads, self.design = heads, design
        raw = heads * (design + outcome)
        self.aim = Mlp(width + raw, width, design * (heads + 1) + 1)
        self.looks = nn.ModuleList(Look(design, outcome, width, heads, raw) for _ in range(looks))
        with torch.no_grad():
            self.aim.second.bias.zero_()
            self.aim.second.weight.mul_(0.3)

    def forward(self, tokens: Tensor, raw: Tensor, seen: Seen) -> tuple[Sight, Tensor]:
        """Tokens [batch, group, target, embed] and what they read, head * (design + outcome).

        Also gives what they read with the first and the last centre beside it.
        """
        aim = self.aim(torch.cat([tokens, raw], -1))
        share = aim[..., :-1].unflatten(-1, (self.heads + 1, -1)).softmax(-2)[..., :-1, :]
        read = raw.unflatten(-1, (self.heads, -1))[..., : self.design]
        first = (share * read).sum(-2)
        sight = Sight(tokens, first, aim[..., -1:].clamp(*LOG_SCALES))
        for look in self.looks:
            sight = look(sight, raw, seen)
        return sight, torch.cat([raw, first, sight.centre], -1)


class Look(nn.Module):
    """Reads the observations relative to a centre, and moves it."""

    def __init__(self, design: int, outcome: int, width: int, heads: int, raw: int):
        super().__init__()
        self.heads, self.design = heads, design
        hidden = width // 2
        self.relative = nn.Linear(design + 1 + outcome, hidden)
        self.told = nn.Linear(width + raw + 1, hidden + heads)
        self.weigh = nn.Linear(hidden, 2 * heads)
        self.out = nn.Linear(hidden + heads * design, width)
        self.zoom = nn.Linear(width, 1)
        with torch.no_grad():
            self.zoom.bias.zero_()
            self.zoom.weight.mul_(0.3)

    def forward(self, sight: Sight, raw: Tensor, seen: Seen) -> Sight:
        """One look.

        Where an observation has only a few numbers, each of them is a row of its own over all
        observations: matrices and sums of a few columns are slow.
        """
        shape = (*sight.zoom.shape[:3], seen.raw.shape[-1])
        centre, zoom = (part.movedim(-1, 0)[..., None] for part in (sight.centre, sight.zoom))
        offset = (seen.raw[: self.design] - centre) * (-zoom).exp()
        square = offset.square().sum(0, keepdim=True)
        offset = offset * (1 + square).rsqrt()  # [design, batch, group, target, n], short if near
        outcome = seen.raw[self.design :].expand(-1, *shape)
        told = self.told(torch.cat([sight.tokens, raw, sight.zoom], -1))
        about, step = told.split([told.shape[-1] - self.heads, self.heads], -1)
        few = torch.cat([offset, (square + NEAREST).log(), outcome])
        base = about + self.relative.bias
        weigh = (self.relative.weight, self.weigh.weight, self.weigh.bias)
        if torch.is_grad_enabled():
            read, pulled = LearnedAverages.apply(few, base, *weigh, seen.bias, self.design)  # type: ignore[no-untyped-call]
        else:
            read, pulled = Averages.of(few, base, *weigh, seen.bias, self.design).averages
        found = torch.cat([read.flatten(-2), pulled.flatten(-2)], -1)
        tokens = sight.tokens + self.out(found)
        moved = sight.centre + sight.zoom.exp() * (step[..., None] * pulled).sum(-2)
        closer = (sight.zoom + self.zoom(tokens)).clamp(*LOG_SCALES)
        return Sight(tokens, moved, closer)


class Averages(NamedTuple):
    """Observations as the heads of a look weigh them, targets [batch, group, target] in one axis.

    A head may also look at nothing: then an observation counts by itself, not by its share.
    """

    hidden: Tensor  # [target, n, hidden]
    weights: Tensor  # [target, head, n]
    pulls: Tensor  # [target, head, n], by how much each offset moves the centre
    total: Tensor  # [target, head, 1]
    averages: tuple[Tensor, Tensor]  # of a head's part of the rows, and of offsets

    @classmethod
    def of(
        cls,
        few: Tensor,
        base: Tensor,
        relative: Tensor,
        weigh: Tensor,
        weigh_bias: Tensor,
        bias: Tensor | None,
        design: int,
    ) -> Averages:
        """From `few` numbers [number, batch, group, target, n], the `design` offsets first.

        A target's rows begin at its `base` [batch, group, target, hidden].
        """
        shape, heads = few.shape[1:], len(weigh) // 2
        hidden = (few.flatten(1).T @ relative.T).view(*shape, len(relative))
        hidden = hidden.add_(base[..., None, :]).relu_().flatten(0, 2)
        weighed = torch.addmm(weigh_bias[:, None], weigh, hidden.flatten(0, 1).T)
        logits, pull = weighed.view(2, heads, *shape)
        if bias is not None:
            logits += bias
        weights = logits.clamp_(max=MOST).exp_()
        weights, pulls = (part.flatten(1, 3).transpose(0, 1) for part in (weights, weights * pull))
        total = 1 + weights.sum(-1, keepdim=True)
        # Each head reads its own part of the rows.
        parts = hidden.unflatten(-1, (heads, -1)).transpose(1, 2)
        read = (weights[:, :, None] @ parts)[:, :, 0] / total
        pulled = pulls @ few[:design].flatten(1, 3).movedim(0, -1) / total
        averages = (read.view(*shape[:3], heads, -1), pulled.view(*shape[:3], heads, -1))
        return cls(hidden, weights, pulls, total, averages)


class LearnedAverages(torch.autograd.Function):
    """The averages of `Averages`, with their gradients.

    Written by hand: the rows are the largest tensors of a training, and automatic differentiation
    writes and adds up more of them than it must, which took half again as long for the whole look.
    """

    @staticmethod
    def forward(ctx: Any, few: Tensor, base: Tensor, *weights: Any) -> tuple[Tensor, Tensor]:
        """As `Averages.of`."""
        rows = Averages.of(few, base, *weights)
        ctx.design = weights[-1]
        ctx.save_for_backward(few, *weights[:2], *rows[:-1], *rows.averages)
        return rows.averages

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Beyond the limit of a logit, as at the limit."""
        few, relative, weigh, hidden, weights, pulls, total, *averages = ctx.saved_tensors
        of_read, of_pulled = (part.flatten(0, 2) / total for part in gradients)
        of_total = -sum(
            (part * average.flatten(0, 2)).sum(-1, keepdim=True)
            for part, average in zip((of_read, of_pulled), averages, strict=True)
        )
        offset = few[: ctx.design].flatten(1, 3).transpose(0, 1)  # [target, design, n]
        own = _own_parts(of_read)  # [target, head, hidden]
        of_pulls = _product_of_few(of_pulled, offset)
        of_logits = torch.baddbmm(of_total, own, hidden.mT).mul_(weights)
        of_logits.addcmul_(of_pulls, pulls)
        both = (of_logits, of_pulls.mul_(weights))
        of_weighed = torch.stack([part.transpose(0, 1) for part in both]).view(len(weigh), -1)
        of_hidden = (of_weighed.T @ weigh).view(hidden.shape)
        of_hidden.baddbmm_(weights.mT, own).mul_(hidden.sign())
        of_row = of_hidden.flatten(0, 1)
        of_few = (relative.T @ of_row.T).view(len(few), *weights.shape[::2])
        of_few[: ctx.design] += _product_of_few(of_pulled.mT, pulls).transpose(0, 1)
        is_learned = ctx.needs_input_grad[2]
        return (
            of_few.view_as(few),
            of_hidden.sum(1).view(*few.shape[1:4], -1),
            (few.flatten(1) @ of_row).T if is_learned else None,
            of_weighed @ hidden.flatten(0, 1) if is_learned else None,
            of_weighed.sum(1) if is_learned else None,
            None,
            None,
        )


def _own_parts(parts: Tensor) -> Tensor:
    """Each head's part [target, head, n] where it lies among all of them, [..., head * n]."""
    target, heads, size = parts.shape
    whole = parts.new_zeros(target, heads, heads, size)
    whole.diagonal(dim1=1, dim2=2).copy_(parts.mT)
    return whole.flatten(2)


def _product_of_few(a: Tensor, b: Tensor) -> Tensor:
    """a [target, m, k] @ b [target, k, n] for a handful of k, where matrix products are slow."""
    product = a[..., :1] * b[:, :1]
    for k in range(1, b.shape[1]):
        product.addcmul_(a[..., k : k + 1], b[:, k : k + 1])
    return product
