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
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from aline.episodes import Context, Goal
from aline.model.attention import Layer
from aline.model.embedder import Mlp
from aline.model.heads import Mixture
from aline.model.network import Decoded, Network, View, plain_observations
from aline.spaces import Design


def begin(network: Network) -> View:
    """A view of no data yet, as cheap to extend as the network's kind of context allows."""
    empty = Context.empty(1, len(network.spec.design))
    if network.config.context == "full" or network.config.kernels or network.close_up:
        return network.read(empty)
    weights = Folded.of(network)
    first = weights.project(weights.context_states(network.nothing[None]))
    stored = Stored(*first, torch.zeros(len(network.spec.design) + 1, 1))
    return LiveView(network, empty, [], [], None, None, (1, 1), weights=weights, stored=stored)


class Projected(NamedTuple):
    """Keys and values of some tokens in some layers."""

    keys: Tensor  # [layer, head, token, head_dim]
    values: Tensor  # [layer, head, head_dim, token]


class Stored(NamedTuple):
    """What the context left in every layer, the inference layers before the policy's."""

    keys: Tensor  # [layer, head, context, head_dim]
    values: Tensor  # [layer, head, head_dim, context]
    plain: Tensor  # [plain, context], the observations as they are

    def append(self, new: Projected, plain: Tensor) -> Stored:
        """With further observations behind these."""
        return Stored(
            torch.cat([self.keys, new.keys], 2),
            torch.cat([self.values, new.values], 3),
            torch.cat([self.plain, plain], 1),
        )


@dataclass(kw_only=True)
class LiveView(View):
    """A view of one episode; `hidden` and `keys` stay empty, `stored` takes their place."""

    weights: Folded
    stored: Stored

    def decode(self, tokens: Tensor) -> Decoded:
        """Target tokens [1, 1, target, embed] after each layer; they see only context."""
        states, plain = self._decode(tokens[0, 0])
        return Decoded([rows[None, None] for rows in states], plain[None, None])

    def _decode(self, rows: Tensor) -> Decoded:
        states = []
        for layer, keys, values in zip(self.weights.layers, *self.stored[:2], strict=False):
            rows, weights = layer(rows, keys, values)
            states.append(rows)
        if not self.network.config.shortcuts:
            return Decoded(states, rows[:, :0])
        plain = torch.matmul(self.stored.plain, weights)  # [head, plain, token]
        return Decoded(states, plain.flatten(0, 1).T)

    @cached_property
    def _parameter_rows(self) -> Decoded:
        """The parameters' tokens [parameter, embed] after each layer."""
        return self._decode(self.network.parameter_embedding)

    def posterior(self, chosen: Tensor | None = None) -> Mixture:
        """Marginal posteriors [1, 1, parameter] on the network's scale."""
        return self._posterior if chosen is None else super().posterior(chosen)

    @cached_property
    def _posterior(self) -> Mixture:
        states, plain = self._parameter_rows
        rows = torch.cat([_standardise(states[-1]), plain], 1)
        raw = self.weights.posterior(rows)
        return self.network.posterior_head.read(raw[None, None], plain[None, None])

    def scores(self, candidates: Tensor, goal: Goal) -> Tensor:
        """The pool policy's logits [1, 1, query] of candidates [1, 1, query, design]."""
        told = self._told()
        told = None if told is None else told[0, 0]
        rows = self.weights.candidate(self.weights.spectrum(candidates[0, 0]), told)
        return self.weights.score(_standardise(self._ask(rows, goal))).view(1, 1, -1)

    def _policy_decode(self, tokens: Tensor, goal: Goal) -> Tensor:
        """Queries see the context and the selected targets, never each other."""
        out: Tensor = self.network.policy.norm(self._ask(tokens[0, 0], goal)[None, None])
        return out

    def _ask(self, rows: Tensor, goal: Goal) -> Tensor:
        depth = len(self.weights.policy)
        own = self.weights.project_policy(self._selected_states(goal, depth))
        keys = torch.cat([self.stored.keys[-depth:], own.keys], 2)
        values = torch.cat([self.stored.values[-depth:], own.values], 3)
        bias = self._bias(goal, keys.shape[2])
        for layer, k, v in zip(self.weights.policy, keys, values, strict=True):
            rows, _ = layer(rows, k, v, bias)
        return rows

    def _bias(self, goal: Goal, keys: int) -> Tensor | None:
        """What is added to the logits [key, 1] of the context and then of the selected targets."""
        if not goal.points.shape[1]:
            return None
        selected = torch.cat([goal.parameters, goal.points_mask], 1)
        own = goal.log_weight[selected]
        return torch.cat([torch.zeros(keys - len(own)), own])[:, None]

    def _selected_states(self, goal: Goal, depth: int) -> Tensor:
        """The goal's tokens as the policy's layers read them, [layer, target, embed]."""
        states = torch.stack(self._parameter_rows.states[-depth:])[:, goal.parameters[0]]
        if goal.points.shape[1]:
            network, points = self.network, goal.points[0, goal.points_mask[0]]
            tokens = network.design_embedder(points) + network.prediction_marker
            states = torch.cat([states, torch.stack(self._decode(tokens).states[-depth:])], 1)
        return states

    def extend(self, design: Tensor, outcome: Tensor) -> LiveView:
        """With one more observation: design [1, design], outcome [1]."""
        seen = torch.cat([self.weights.spectrum(design), outcome[:, None]], 1)
        states = self.weights.context_states(self.weights.observation(seen))
        plain = plain_observations(Context(design, outcome)).T
        return LiveView(
            self.network,
            self.context.append(design, outcome),
            [],
            [],
            None,
            None,
            (1, 1),
            weights=self.weights,
            stored=self.stored.append(self.weights.project(states), plain),
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

    def __call__(
        self, rows: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Rows [token, embed] after reading keys [head, key, head_dim] and feeding forward.

        Also the weights [head, key, token] with which they read.
        """
        heads, _, head_dim = keys.shape
        query = torch.addmm(self.query_bias, _standardise(rows), self.query)
        query = query.view(-1, heads, head_dim).permute(1, 2, 0)
        logits = torch.bmm(keys, query)  # [head, key, token]
        weights = (logits if bias is None else logits + bias).softmax(1)
        read = torch.bmm(values, weights).view(heads * head_dim, -1).T
        return self.feed(torch.addmm(rows, read, self.out).add_(self.out_bias)), weights


class FoldedMlp(NamedTuple):
    """Two linear layers with a ReLU between."""

    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor

    @classmethod
    def of(cls, mlp: Mlp, norm: nn.LayerNorm | None = None) -> FoldedMlp:
        """Fold an MLP and the norm before its first inputs."""
        weight, bias = _fold(norm, mlp.first)
        return cls(weight, bias, mlp.second.weight.T.contiguous(), mlp.second.bias)

    @classmethod
    def sum(cls, a: FoldedMlp, b: FoldedMlp) -> FoldedMlp:
        """One MLP of both inputs side by side that gives the sum of both outputs."""
        return cls(
            torch.block_diag(a.first, b.first),
            torch.cat([a.first_bias, b.first_bias]),
            torch.cat([a.second, b.second]),
            a.second_bias + b.second_bias,
        )

    def __call__(self, rows: Tensor, more: Tensor | None = None) -> Tensor:
        """[row, inputs] -> [row, outputs]; `more` [hidden] comes from further inputs."""
        bias = self.first_bias if more is None else self.first_bias + more
        inner = torch.addmm(bias, rows, self.first).relu_()
        return torch.addmm(self.second_bias, inner, self.second)


class Folded(NamedTuple):
    """A network's weights, folded."""

    space: Design
    heads: int
    octaves: Tensor
    observation: FoldedMlp  # of a design's spectrum and an outcome
    candidate: FoldedMlp  # of a design's spectrum
    layers: list[FoldedLayer]
    policy: list[FoldedLayer]
    key_value: Tensor  # [layer, embed, 2 * embed]
    key_value_bias: Tensor  # [layer, 1, 2 * embed]
    posterior: FoldedMlp
    score: FoldedMlp

    @classmethod
    @torch.no_grad()
    def of(cls, network: Network) -> Folded:
        """Fold a network; later changes of its weights do not show."""
        layers, policy = list(network.layers), network.policy
        folds = [_fold(layer.norm_key, layer.key_value) for layer in (*layers, *policy.layers)]
        design = FoldedMlp.of(network.design_embedder.mlp)
        return cls(
            space=network.spec.design,
            heads=network.config.heads,
            octaves=network.design_embedder.octaves,
            observation=FoldedMlp.sum(design, FoldedMlp.of(network.outcome_embedder)),
            candidate=design if policy.is_box else FoldedMlp.of(policy.embedder.mlp),
            layers=[FoldedLayer.of(layer) for layer in layers],
            policy=[FoldedLayer.of(layer) for layer in policy.layers],
            key_value=torch.stack([weight for weight, _ in folds]),
            key_value_bias=torch.stack([bias for _, bias in folds])[:, None],
            posterior=FoldedMlp.of(network.posterior_head.mlp, network.norm),
            score=FoldedMlp.of(policy.head, policy.norm),
        )

    def spectrum(self, designs: Tensor) -> Tensor:
        """What the embedders make of designs [row, design] before their MLP."""
        designs = self.space.settled(designs)
        angles = (designs[..., None] * self.octaves).flatten(1)
        return torch.cat([designs, angles.sin(), angles.cos()], 1)

    def context_states(self, tokens: Tensor) -> Tensor:
        """Observations [token, embed] as every layer projects them, [layer, token, embed]."""
        states = [tokens]
        for layer in self.layers[:-1]:
            states.append(layer.feed(states[-1]))
        # The policy's layers read the same states as the last of the inference layers.
        return torch.stack(states + states[-len(self.policy) :])

    def project(self, states: Tensor) -> Projected:
        """Keys and values of states [layer, token, embed]."""
        return self._split(torch.baddbmm(self.key_value_bias, _standardise(states), self.key_value))

    def project_policy(self, states: Tensor) -> Projected:
        """Likewise for the policy's layers alone, which also read the goal."""
        depth = len(self.policy)
        weight, bias = self.key_value[-depth:], self.key_value_bias[-depth:]
        return self._split(torch.baddbmm(bias, _standardise(states), weight))

    def _split(self, both: Tensor) -> Projected:
        layers, tokens, _ = both.shape
        keys, values = both.view(layers, tokens, 2, self.heads, -1).unbind(2)
        return Projected(keys.transpose(1, 2), values.permute(0, 2, 3, 1))


def _standardise(rows: Tensor) -> Tensor:
    """LayerNorm without its affine part, which `_fold` moved into the next matrix."""
    return torch.layer_norm(rows, rows.shape[-1:])


def _fold(norm: nn.LayerNorm | None, linear: nn.Linear) -> tuple[Tensor, Tensor]:
    """One matrix [inputs, outputs] and bias for a norm's affine part and the linear after it.

    Inputs of the linear beyond the norm's do not pass the norm.
    """
    if norm is None:
        return linear.weight.T.contiguous(), linear.bias
    normed = linear.weight[:, : len(norm.weight)]
    weight = torch.cat([normed * norm.weight, linear.weight[:, len(norm.weight) :]], 1)
    return weight.T.contiguous(), linear.bias + normed @ norm.bias
