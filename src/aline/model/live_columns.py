"""A network's layers for one running experiment whose tokens are columns.

As the folded layers of model/live.py, for the hundred tokens at a time that a bank describes. They
lie side by side, [embed, token]: so heads are split and joined without a copy, and what a bank says
of points [feature, point] is multiplied as it is. Below the inputs of every matrix is a row of ones
that takes the biases in: a linear map is one product.

All of it is numpy, whose operations cost less to call than torch's, but for the two that compare
with a number: there numpy takes four times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from aline.model.attention import MOST
from aline.model.live import FoldedLayer, FoldedMlp
from aline.spaces.outcomes.mixture import LOG_SCALES, STD_FLOOR, Censored, Mixture

Array = np.ndarray[Any, np.dtype[np.float32]]

_FLOOR, _NARROWEST, _WIDEST = np.array([STD_FLOOR, *LOG_SCALES], np.float32)


class Mlp(NamedTuple):
    """Two linear layers with a ReLU between."""

    first: Array  # [hidden + 1, inputs + 1], the last row passes the ones on
    second: Array  # [outputs, hidden + 1]

    @classmethod
    def of(cls, folded: FoldedMlp[Tensor], width: int | None = None) -> Mlp:
        """With the row of ones below the first `width` inputs, or below all."""
        width = len(folded.first) if width is None else width
        before, behind = folded.first[:width], folded.first[width:]
        first = torch.cat([before, folded.first_bias[None], behind]).T
        ones = torch.zeros(1, first.shape[1])
        ones[0, width] = 1
        second = torch.cat([folded.second, folded.second_bias[None]]).T
        return cls(_array(torch.cat([first, ones])), _array(second))

    def into_tokens(self, first: bool = False) -> Mlp:
        """With outputs as tokens have them, to be added to others or the `first` of a sum."""
        second = np.pad(self.second, ((0, 1), (0, 0)))
        second[-1, -1] = first  # the row of ones
        return self._replace(second=second)

    def __call__(self, inputs: Array) -> Array:
        """[inputs + 1, column] -> [outputs, column]."""
        out: Array = self.second.dot(ramp(self.first.dot(inputs)))
        return out


class Tokens(NamedTuple):
    """Tokens as a layer leaves them."""

    columns: Array  # [embed + 1, token]
    normed: Array  # likewise, after a LayerNorm without its affine part

    @classmethod
    def of(cls, columns: Array) -> Tokens:
        """Of columns that have a mean of zero, and ones below.

        The mean of squares is a product with a constant, which takes half as long as a sum.
        """
        normed = columns / np.sqrt(_mean_of_squares(len(columns)).dot(columns * columns))
        normed[-1] = 1
        return cls(columns, normed)


class Reading(NamedTuple):
    """How much tokens read of each key, [head, key, token], and what that is to be divided by."""

    weights: Array
    total: Array  # [head, 1, token]


class Layer(NamedTuple):
    """A layer's matrices."""

    query: Array  # [head * (head_dim + 1), embed + 1]
    out: Array  # [embed + 1, head * (head_dim + 1)]
    inner: Mlp

    @classmethod
    def of(cls, folded: FoldedLayer[Tensor], heads: int) -> Layer:
        """Each head has a row more: queries a one, for a bias of keys, and readings a one too."""
        width = len(folded.query)
        query = np.zeros((heads, width // heads + 1, width + 1), np.float32)
        query[:, :-1, :-1] = _array(folded.query.T).reshape(heads, -1, width)
        query[:, :-1, -1] = _array(folded.query_bias).reshape(heads, -1)
        query[:, -1, -1] = 1
        out = np.zeros((width + 1, heads, width // heads + 1), np.float32)
        out[:-1, :, :-1] = _array(folded.out.T).reshape(width, heads, -1)
        out[:-1, 0, -1] = _array(folded.out_bias)
        feed = folded.feed_in, folded.feed_in_bias, folded.feed_out, folded.feed_out_bias
        inner = Mlp.of(FoldedMlp(*feed)).into_tokens()
        return cls(query.reshape(-1, width + 1), out.reshape(width + 1, -1), inner)

    def feed(self, tokens: Tokens) -> Tokens:
        """The feed-forward half."""
        return Tokens.of(tokens.columns + self.inner(tokens.normed))

    def __call__(self, tokens: Tokens, keys_values: Array) -> tuple[Tokens, Reading]:
        """Tokens after reading keys, values [2, head, head_dim + 1, key] and feeding forward."""
        keys, values = keys_values
        heads, size, _ = keys.shape
        query = self.query.dot(tokens.normed).reshape(heads, size, -1)
        weights = _powers(np.matmul(keys.swapaxes(1, 2), query))
        read = np.matmul(values, weights)
        total = read[:, -1:].copy()
        read /= total
        told = tokens.columns + self.out.dot(read.reshape(heads * size, -1))
        return self.feed(Tokens.of(told)), Reading(weights, total)


class Components(NamedTuple):
    """A mixture for each target, [component, target], and its moments [target]."""

    log_weight: Array
    mean: Array
    std: Array
    centre: Array
    spread: Array

    @classmethod
    def of(cls, raw: Array, plain: Array, count: int) -> Components:
        """What a head means by its numbers [number, target], as `read_mixture`."""
        log_weight = _column_wise(torch.log_softmax, raw[:count])
        mean = raw[count : 2 * count]
        std = functional.softplus(torch.from_numpy(raw[2 * count : 3 * count])).numpy()
        std += _FLOOR
        if len(plain):
            share = _column_wise(torch.softmax, raw[3 * count : -1])[:-1]
            scale = np.exp(np.minimum(np.maximum(raw[-1], _NARROWEST), _WIDEST))
            mean = np.add.reduce(share * plain, 0) + scale * mean
            std = scale * std + _FLOOR
        weight = np.exp(log_weight)
        centre = np.add.reduce(weight * mean, 0)
        away = mean - centre
        spread = np.sqrt(np.add.reduce(weight * (std * std + away * away), 0))
        return cls(log_weight, mean, std, centre, spread)

    def some(self, targets: slice) -> Components:
        """Of some targets."""
        return Components(*(part[..., targets] for part in self))

    def around(self, mean: Array, std: Array) -> Components:
        """In units of `std` from `mean` [target]."""
        moved = mean + std * self.mean, std * self.std, mean + std * self.centre, std * self.spread
        return Components(self.log_weight, *moved)

    def mixture(self, limits: tuple[float, float] | None = None) -> Mixture:
        """As a belief [1, 1, target]."""
        log_weight, mean, std, *moments = (torch.from_numpy(part.T[None, None]) for part in self)
        belief = Mixture(log_weight, mean, std)
        if limits is not None:
            belief = Censored(log_weight, mean, std, limits=limits)
        vars(belief)["kept_moments"] = tuple(moments)
        return belief

    def moments(self) -> Array:
        """Means, then log spreads, [2 * target]."""
        return np.concatenate([self.centre, np.log(np.maximum(self.spread, _FLOOR))])


def ramp(columns: Array) -> Array:
    """ReLU, in place."""
    torch.from_numpy(columns).relu_()
    return columns


class Mlps(NamedTuple):
    """The sum of several MLPs, each of inputs of its own."""

    firsts: list[Array]
    second: Array  # [outputs, (hidden + 1) * MLPs]

    @classmethod
    def of(cls, mlps: list[Mlp]) -> Mlps:
        """Of these."""
        second = np.concatenate([mlp.second for mlp in mlps], 1)
        return cls([mlp.first for mlp in mlps], second)

    def __call__(self, inner: list[Array]) -> Array:
        """Of what the first of them make of their inputs, [hidden + 1, column] each."""
        rows = ramp(np.concatenate(inner))
        out: Array = self.second[:, : len(rows)].dot(rows)
        return out


def with_ones(columns: Array) -> Array:
    """With a row of ones below."""
    return np.concatenate([columns, np.ones((1, columns.shape[1]), np.float32)])


def _powers(logits: Array) -> Array:
    """Powers of two, in place; of exponents as in model/live.py."""
    torch.from_numpy(logits).clamp_max_(MOST)
    out: Array = np.exp2(logits, out=logits)
    return out


def _column_wise(softmax: Callable[[Tensor, int], Tensor], columns: Array) -> Array:
    """Torch has it in one operation."""
    out: Array = softmax(torch.from_numpy(columns), 0).numpy()
    return out


@cache
def _mean_of_squares(rows: int) -> Array:
    """What takes the mean of all but the last of rows, which is one, and adds LayerNorm's 1e-5."""
    return np.array([1 / (rows - 1)] * (rows - 1) + [1e-5], np.float32)


def _array(part: Tensor) -> Array:
    """As numpy sees it."""
    out: Array = part.detach().contiguous().numpy()
    return out
