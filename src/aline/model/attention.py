"""One transformer layer whose tokens attend to shared keys and to a few keys of their own group.

Axes: tokens come as [batch, group, token, embed]. Every group of an episode (a prefix of its
context, say) reads the same shared keys [batch, context, embed] under its own mask, so all
prefixes of an episode train in one pass. A group may also have private keys that no other group
sees: the goal's tokens for a policy's queries, or an observation that only this group has made.

Plain batched matrix products beat torch's fused attention on a CPU: heads have 8 dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aline.model.tokens import flat

PER_NAT = 1 / math.log(2)  # powers of two in one of e
MOST = 120.0  # a power of two that can still be summed


class Keys(NamedTuple):
    """Projected keys and values, heads split, ready for matrix products."""

    keys: Tensor  # [batch, head, head_dim, context], or [batch, head, group, head_dim, context]
    # [batch, head, context, value], or [batch, head, group, context, value]; a value is head_dim
    # numbers to be mixed into the reading token, then raw numbers of which heads give averages.
    values: Tensor

    def append(self, other: Keys) -> Keys:
        """With further keys behind these."""
        return Keys(
            torch.cat([self.keys, other.keys], -1), torch.cat([self.values, other.values], -2)
        )

    def of_one_group(self) -> Keys:
        """Private keys of one group as shared keys."""
        return Keys(self.keys.squeeze(2), self.values.squeeze(2))


class Absorbed(NamedTuple):
    """Keys as many tokens read them: the projections of queries and of readings multiplied in.

    A token then takes two large products a layer in place of two for each head of 8 numbers.
    Logits are relative to those of the first key, which everyone sees. In torch they are in powers
    of two, which take half as long as those of e; in ONNX Runtime these take an eighth of those.
    tests/model/test_attention.py holds it to `Layer.forward`.
    """

    keys: Tensor  # [batch, context * head, embed]
    bias: Tensor  # [batch, context * head, 1]
    values: Tensor  # [batch, context * head, embed]

    def of(self, rows: slice) -> Absorbed:
        """Those of some episodes."""
        return Absorbed(self.keys[rows], self.bias[rows], self.values[rows])


class Reading(NamedTuple):
    """What attention brings back."""

    tokens: Tensor  # [batch, group, token, embed]
    raw: Tensor  # [batch, group, token, head * n], each head's average of the raw numbers


def _unit() -> float:
    """What absorbed logits are multiplied by."""
    return 1.0 if torch.compiler.is_exporting() else PER_NAT


def _powers(logits: Tensor) -> Tensor:
    """Of absorbed logits, in place where that can be."""
    if torch.compiler.is_exporting():
        return logits.clamp(max=MOST / PER_NAT).exp()
    return logits.clamp_max_(MOST).exp2_()


def bias_of(mask: Tensor) -> Tensor:
    """A bool mask [batch, group, key] as what is added to attention logits."""
    bias = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    return bias[:, None, :, None, :]


def _side_by_side(
    bias: Tensor | None, keys: Keys, more: Tensor | None, more_keys: Keys
) -> Tensor | None:
    """The bias of two sets of keys as one set."""
    if bias is None and more is None:
        return None
    batch = keys.keys.shape[0]
    parts = [
        torch.zeros(batch, 1, 1, 1, part.keys.shape[-1]) if known is None else known
        for known, part in ((bias, keys), (more, more_keys))
    ]
    return torch.cat(parts, -1)


def _read_in_groups(
    logits: Tensor,
    query: Tensor,
    shared: Keys,
    bias: Tensor | None,
    private: Keys | None,
    private_bias: Tensor | None,
) -> Tensor:
    """Averages of values [batch, head, group * token, value]; logits have an axis of groups."""
    if bias is not None:
        logits = logits + bias
    if private is None:
        return logits.softmax(-1).flatten(2, 3) @ shared.values
    own = query.unflatten(2, logits.shape[2:4]) @ private.keys
    if private_bias is not None:
        own = own + private_bias
    weights = torch.cat([logits, own], -1).softmax(-1)
    common, mine = weights.split([logits.shape[-1], own.shape[-1]], -1)
    return common.flatten(2, 3) @ shared.values + (mine @ private.values).flatten(2, 3)


class Layer(nn.Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self, width: int, heads: int, feedforward: int):
        super().__init__()
        self.heads = heads
        self.norm_query = nn.LayerNorm(width)
        self.norm_key = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.norm_feed = nn.LayerNorm(width)
        self.feed_in = nn.Linear(width, feedforward)
        self.feed_out = nn.Linear(feedforward, width)

    def keys(self, hidden: Tensor, raw: Tensor | None = None) -> Keys:
        """Project hidden [batch, (group,) context, embed]; `raw` [..., n] are averaged as they are.

        Attention's scale is in the keys: they are fewer than the queries.
        """
        head_dim = hidden.shape[-1] // self.heads
        both = self.key_value(self.norm_key(hidden)).unflatten(-1, (2 * self.heads, head_dim))
        keys, values = both.movedim(-2, 1).chunk(2, 1)
        if raw is not None:
            same = raw[:, None].expand(*values.shape[:-1], -1)
            values = torch.cat([values, same], -1)
        return Keys(keys.transpose(-1, -2) * (1 / math.sqrt(head_dim)), values)

    def feed(self, hidden: Tensor) -> Tensor:
        """The feed-forward half, for any shape [..., embed]."""
        rows = flat(self.norm_feed(hidden))
        out: Tensor = self.feed_out(F.relu(self.feed_in(rows), inplace=True))
        return out.view(hidden.shape).add_(hidden)

    def attend(
        self,
        tokens: Tensor,
        shared: Keys,
        bias: Tensor | None,
        private: Keys | None = None,
        private_bias: Tensor | None = None,
    ) -> Reading:
        """Tokens [batch, group, token, embed] after reading the keys they may see."""
        batch, groups, count, width = tokens.shape
        head_dim = width // self.heads
        if private is not None and groups == 1:
            bias = _side_by_side(bias, shared, private_bias, private)
            shared, private = shared.append(private.of_one_group()), None
        query = self.query(self.norm_query(tokens))
        query = query.view(batch, groups * count, self.heads, head_dim).transpose(1, 2)
        logits = query @ shared.keys
        if groups == 1:  # without an axis of groups: an exported graph has fewer nodes
            logits = logits if bias is None else logits + bias[:, :, 0]
            read = logits.softmax(-1) @ shared.values
        else:
            read = _read_in_groups(
                logits.unflatten(2, (groups, count)), query, shared, bias, private, private_bias
            )
        # Sizes are given: of no token at all, as where a task has no parameters, none can be found.
        read = read.transpose(1, 2).unflatten(1, (groups, count))  # [..., head, value]
        mixed, raw = read[..., :head_dim].flatten(-2), read[..., head_dim:].flatten(-2)
        return Reading(tokens + self.out(mixed), raw)

    def absorb(
        self, shared: Keys, bias: Tensor | None, private: Keys, private_bias: Tensor | None
    ) -> Absorbed:
        """The keys of one group, for many tokens to read."""
        bias = _side_by_side(bias, shared, private_bias, private)
        keys, values = shared.append(private.of_one_group())
        unit = _unit()
        keys = (keys - keys[..., :1]) * unit
        heads, head_dim = keys.shape[1:3]
        of_token = keys.mT @ self.query.weight.view(heads, head_dim, -1)
        always = keys.mT @ self.query.bias.view(heads, head_dim, 1)
        if bias is not None:
            always = always + unit * bias[:, :, 0].mT
        # A token's weights sum to one in every head, so the bias may come with the values.
        out = values @ self.out.weight.T.reshape(heads, head_dim, -1) + self.out.bias / heads
        return Absorbed(*(part.transpose(1, 2).flatten(1, 2) for part in (of_token, always, out)))

    def read_many(self, tokens: Tensor, absorbed: Absorbed) -> Tensor:
        """As `forward`, for tokens [batch, token, embed] of one group.

        With tokens last, all that a softmax does runs along memory: with keys last, it would take
        longer than both products.
        """
        logits = torch.baddbmm(absorbed.bias, absorbed.keys, self.norm_query(tokens).mT)
        weights = _powers(logits).unflatten(1, (-1, self.heads))
        weights = weights.div_(weights.sum(1, keepdim=True))  # [batch, context, head, token]
        return self.feed(torch.baddbmm(tokens, weights.flatten(1, 2).mT, absorbed.values))

    def forward(
        self,
        tokens: Tensor,
        shared: Keys,
        bias: Tensor | None,
        private: Keys | None = None,
        private_bias: Tensor | None = None,
    ) -> Reading:
        """Attend, then feed forward."""
        tokens, raw = self.attend(tokens, shared, bias, private, private_bias)
        return Reading(self.feed(tokens), raw)


class Layers(nn.ModuleList):
    """Layers one after the other."""

    def __init__(self, count: int, width: int, heads: int, feedforward: int):
        super().__init__(Layer(width, heads, feedforward) for _ in range(count))

    def __iter__(self) -> Iterator[Layer]:
        return iter(layer for layer in super().__iter__() if isinstance(layer, Layer))
