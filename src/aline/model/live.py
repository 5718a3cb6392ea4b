"""The same network for one running experiment, with the fewest operations a trial.

A trial of an experiment is a few dozen tiny tensors: what it costs is the number of operations,
not their size. For one episode and an "independent" context we can do with a third of them:
LayerNorm's affine part and the attention scale go into the next matrix, the keys of all layers
are projected in one batched product, unselected targets are left out instead of masked, and
attention runs with queries last, which suits hundreds of queries and 8-dimensional heads.
The numbers are those of `Network.read` up to rounding (tests/model/test_live.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from aline.episodes import Context, Goal
from aline.model.attention import Layer
from aline.model.network import Network, View


def begin(network: Network) -> View:
    """A view of no data yet, as cheap to extend as the network's kind of context allows."""
    empty = Context.empty(1, len(network.spec.design))
    if network.config.context == "full":
        return network.read(empty)
    weights = Folded.of(network)
    stored = weights.project(weights.context_states(network.nothing[None]))
    return LiveView(network, empty, [], [], None, None, (1, 1), weights=weights, stored=stored)


class Stored(NamedTuple):
    """What the context left in every layer, the inference layers before the policy's."""

    keys: Tensor  # [layer, head, context, head_dim]
    values: Tensor  # [layer, head, head_dim, context]

    def append(self, other: Stored) -> Stored:
        """With further observations behind these."""
        return Stored(
            torch.cat([self.keys, other.keys], 2), torch.cat([self.values, other.values], 3)
        )


@dataclass(kw_only=True)
class LiveView(View):
    """A view of one episode; `hidden` and `keys` stay empty, `stored` takes their place."""

    weights: Folded
    stored: Stored

    def decode(self, tokens: Tensor) -> list[Tensor]:
        """Target tokens [1, 1, target, embed] after each layer; they see only context."""
        states, rows = [], tokens.reshape(-1, tokens.shape[-1])
        for layer, keys, values in zip(self.weights.layers, *self.stored, strict=False):
            rows = layer(rows, keys, values)
            states.append(rows[None, None])
        return states

    def _policy_decode(self, tokens: Tensor, goal: Goal) -> Tensor:
        """Queries see the context and the selected targets, never each other."""
        network, layers = self.network, self.weights.policy
        depth, rows = len(layers), tokens[0, 0]
        own = self.weights.project_policy(self._selected_states(goal))
        keys, values = Stored(self.stored.keys[-depth:], self.stored.values[-depth:]).append(own)
        for i, layer in enumerate(layers):
            rows = layer(rows, keys[i], values[i])
        out: Tensor = network.policy.norm(rows[None, None])
        return out

    def _selected_states(self, goal: Goal) -> Tensor:
        """The goal's tokens as the policy's layers read them, [layer, target, embed]."""
        depth = len(self.weights.policy)
        states = torch.cat(self.parameter_states[-depth:])[:, 0]
        if not bool(goal.parameters.all()):
            states = states[:, goal.parameters[0]]
        if goal.points.shape[1]:
            points = torch.cat(self._point_states(goal.points[:, None])[-depth:])[:, 0]
            states = torch.cat([states, points[:, goal.points_mask[0]]], 1)
        return states

    def extend(self, design: Tensor, outcome: Tensor) -> LiveView:
        """With one more observation: design [1, design], outcome [1]."""
        token = self.network.observe_tokens(design, outcome)
        stored = self.stored.append(self.weights.project(self.weights.context_states(token)))
        return self._over(self.context.append(design, outcome), stored)

    def _over(self, context: Context, stored: Stored) -> LiveView:
        return LiveView(
            self.network, context, [], [], None, None, (1, 1), weights=self.weights, stored=stored
        )


class FoldedLayer(NamedTuple):
    """A layer's matrices [inputs, outputs], what stands before them folded in."""

    query: Tensor
    query_bias: Tensor  # [embed]
    out: Tensor
    out_bias: Tensor
    feed_in: Tensor
    feed_in_bias: Tensor
    feed_out: Tensor
    feed_out_bias: Tensor

    @classmethod
    def of(cls, layer: Layer) -> FoldedLayer:
        """Fold a layer."""
        scale = 1 / math.sqrt(layer.query.in_features // layer.heads)
        query, query_bias = _fold(layer.norm_query, layer.query)
        feed_in, feed_in_bias = _fold(layer.norm_feed, layer.feed_in)
        out, feed_out = layer.out, layer.feed_out
        return cls(
            query * scale, query_bias * scale,
            out.weight.T.contiguous(), out.bias,
            feed_in, feed_in_bias,
            feed_out.weight.T.contiguous(), feed_out.bias,
        )  # fmt: skip

    def feed(self, rows: Tensor) -> Tensor:
        """The feed-forward half, for rows [token, embed]."""
        inner = torch.addmm(self.feed_in_bias, _standardise(rows), self.feed_in).relu_()
        return torch.addmm(rows, inner, self.feed_out).add_(self.feed_out_bias)

    def __call__(self, rows: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Rows [token, embed] after reading keys [head, key, head_dim] and feeding forward."""
        heads, _, head_dim = keys.shape
        query = torch.addmm(self.query_bias, _standardise(rows), self.query)
        query = query.view(-1, heads, head_dim).permute(1, 2, 0)
        weights = torch.bmm(keys, query).softmax(1)  # [head, key, token]
        read = torch.bmm(values, weights).view(heads * head_dim, -1).T
        return self.feed(torch.addmm(rows, read, self.out).add_(self.out_bias))


class Folded(NamedTuple):
    """A network's layers, folded."""

    heads: int
    layers: list[FoldedLayer]
    policy: list[FoldedLayer]
    key_value: Tensor  # [layer, embed, 2 * embed]
    key_value_bias: Tensor  # [layer, 1, 2 * embed]

    @classmethod
    @torch.no_grad()
    def of(cls, network: Network) -> Folded:
        """Fold a network; later changes of its weights do not show."""
        layers, policy = list(network.layers), list(network.policy.layers)
        folds = [_fold(layer.norm_key, layer.key_value) for layer in layers + policy]
        return cls(
            heads=network.config.heads,
            layers=[FoldedLayer.of(layer) for layer in layers],
            policy=[FoldedLayer.of(layer) for layer in policy],
            key_value=torch.stack([weight for weight, _ in folds]),
            key_value_bias=torch.stack([bias for _, bias in folds])[:, None],
        )

    def context_states(self, tokens: Tensor) -> Tensor:
        """Observations [token, embed] as every layer projects them, [layer, token, embed]."""
        states = [tokens]
        for layer in self.layers[:-1]:
            states.append(layer.feed(states[-1]))
        # The policy's layers read the same states as the last of the inference layers.
        return torch.stack(states + states[-len(self.policy) :])

    def project(self, states: Tensor) -> Stored:
        """Keys and values of states [layer, token, embed]."""
        return self._split(torch.baddbmm(self.key_value_bias, _standardise(states), self.key_value))

    def project_policy(self, states: Tensor) -> Stored:
        """Likewise for the policy's layers alone, which also read the goal."""
        depth = len(self.policy)
        weight, bias = self.key_value[-depth:], self.key_value_bias[-depth:]
        return self._split(torch.baddbmm(bias, _standardise(states), weight))

    def _split(self, both: Tensor) -> Stored:
        layers, tokens, _ = both.shape
        keys, values = both.view(layers, tokens, 2, self.heads, -1).unbind(2)
        return Stored(keys.transpose(1, 2), values.permute(0, 2, 3, 1))


def _standardise(rows: Tensor) -> Tensor:
    """LayerNorm without its affine part, which `_fold` moved into the next matrix."""
    return torch.layer_norm(rows, rows.shape[-1:])


def _fold(norm: nn.LayerNorm, linear: nn.Linear) -> tuple[Tensor, Tensor]:
    """One matrix [inputs, outputs] and bias for a norm's affine part and the linear after it."""
    weight = (linear.weight * norm.weight).T.contiguous()
    return weight, linear.bias + linear.weight @ norm.bias
