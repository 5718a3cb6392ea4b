"""Reads the observations again, relative to where a target seems to lie.

Attention reads observations as they lie in the design space. Where a posterior is a hundred times
narrower than its prior, what still matters is where each observation lies relative to the target,
on the scale of what is still unknown. A zoom layer computes each observation's offset from a
centre in units of a scale, and moves the centre by an average of those offsets. The centre is an
average of designs and so is every move, so that neither feels the rounding of a network's large
numbers: a step of Newton's method, as a network can learn it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from aline.model.tokens import Mlp
from aline.spaces.outcomes.mixture import LOG_SCALES

MOST = 80.0  # a logit whose power can still be summed
NEAREST = 0.01  # squared offset, in units of the scale, below which nearer makes no difference


class RawObservations(NamedTuple):
    """Observations as they are, and which of them each group sees."""

    raw: Tensor  # [design + outcome, batch, group or 1, 1, n], designs and outcomes
    bias: Tensor | None  # [batch, group or 1, 1, n], zero or minus infinity

    @classmethod
    def of(cls, observations: Tensor, bias: Tensor | None = None) -> RawObservations:
        """Observations [batch, group or 1, n, design + outcome]."""
        return cls(observations.movedim(-1, 0).contiguous()[:, :, :, None], bias)


class Zoomed(NamedTuple):
    """What a target's token makes of the observations."""

    tokens: Tensor  # [batch, group, target, embed]
    centre: Tensor  # [batch, group, target, design]
    log_scale: Tensor  # [batch, group, target, 1]


class Zoom(nn.Module):
    """Finds a centre and a scale in what attention read, then refines both layer by layer."""

    def __init__(self, count: int, design: int, outcome: int, width: int, heads: int):
        super().__init__()
        self.heads, self.design = heads, design
        raw = heads * (design + outcome)
        self.aim = Mlp(width + raw, width, design * (heads + 1) + 1)
        sizes = design, outcome, width, heads, raw
        self.layers = nn.ModuleList(ZoomLayer(*sizes) for _ in range(count))
        with torch.no_grad():
            self.aim.second.bias.zero_()
            self.aim.second.weight.mul_(0.3)

    def forward(self, tokens: Tensor, raw: Tensor, seen: RawObservations) -> tuple[Zoomed, Tensor]:
        """Tokens [batch, group, target, embed] and what they read, head * (design + outcome).

        Also gives what they read with the first and the last centre beside it.
        """
        aim = self.aim(torch.cat([tokens, raw], -1))
        share = aim[..., :-1].unflatten(-1, (self.heads + 1, -1)).softmax(-2)[..., :-1, :]
        read = raw.unflatten(-1, (self.heads, -1))[..., : self.design]
        first = (share * read).sum(-2)
        zoomed = Zoomed(tokens, first, aim[..., -1:].clamp(*LOG_SCALES))
        for layer in self.layers:
            zoomed = layer(zoomed, raw, seen)
        return zoomed, torch.cat([raw, first, zoomed.centre], -1)


class ZoomLayer(nn.Module):
    """Reads the observations relative to a centre, and moves it."""

    def __init__(self, design: int, outcome: int, width: int, heads: int, raw: int):
        super().__init__()
        self.heads, self.design = heads, design
        hidden = width // 2
        self.relative = nn.Linear(design + 1 + outcome, hidden)
        self.query = nn.Linear(width + raw + 1, hidden + heads)
        self.weigh = nn.Linear(hidden, 2 * heads)
        self.out = nn.Linear(hidden + heads * design, width)
        self.scale = nn.Linear(width, 1)
        with torch.no_grad():
            self.scale.bias.zero_()
            self.scale.weight.mul_(0.3)

    def forward(self, before: Zoomed, raw: Tensor, seen: RawObservations) -> Zoomed:
        """One step.

        Where an observation has only a few numbers, each of them is a row of its own over all
        observations: matrices and sums of a few columns are slow.
        """
        shape = (*before.log_scale.shape[:3], seen.raw.shape[-1])
        parts = (before.centre, before.log_scale)
        centre, log_scale = (part.movedim(-1, 0)[..., None] for part in parts)
        offset = (seen.raw[: self.design] - centre) * (-log_scale).exp()
        square = offset.square().sum(0, keepdim=True)
        offset = offset * (1 + square).rsqrt()  # [design, batch, group, target, n], short if near
        outcome = seen.raw[self.design :].expand(-1, *shape)
        query = self.query(torch.cat([before.tokens, raw, before.log_scale], -1))
        about, step = query.split([query.shape[-1] - self.heads, self.heads], -1)
        few = torch.cat([offset, (square + NEAREST).log(), outcome])
        base = about + self.relative.bias
        weigh = (self.relative.weight, self.weigh.weight, self.weigh.bias)
        if torch.is_grad_enabled():
            read, pulled = LearnedAverages.apply(few, base, *weigh, seen.bias, self.design)  # type: ignore[no-untyped-call]
        else:
            read, pulled = Averages.of(few, base, *weigh, seen.bias, self.design).averages
        found = torch.cat([read.flatten(-2), pulled.flatten(-2)], -1)
        tokens = before.tokens + self.out(found)
        moved = before.centre + before.log_scale.exp() * (step[..., None] * pulled).sum(-2)
        log_scale = (before.log_scale + self.scale(tokens)).clamp(*LOG_SCALES)
        return Zoomed(tokens, moved, log_scale)


class Averages(NamedTuple):
    """Observations as the heads weigh them, targets [batch, group, target] in one axis.

    A head may also weigh nothing at all: then an observation counts by itself, not by its share.
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
            logits = logits + bias
        # Not in place in a part of a tensor, which an exported graph would scatter into the whole.
        weights = logits.clamp(max=MOST).exp_()
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
    writes and adds up more of them than it must, which makes a training round slower.
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
