"""The same network for one running experiment, with the fewest operations a trial.

A trial of an experiment is a few dozen tiny tensors: what it costs is the number of operations,
not their size. For one episode and an "independent" context we can do with a third of them:
LayerNorm's affine part and the attention scale go into the next matrix, the keys of all layers
are projected in one batched product, unselected targets are left out instead of masked, and
attention runs with queries last, which suits hundreds of queries and 8-dimensional heads.

What has a few rows (one more observation, the parameters' tokens, their mixtures) is computed in
numpy, whose operations cost less to call; what may have hundreds (candidates, points to predict
at) in torch, which computes these quicker and on as many threads as it was told to use. A layer is
written once, for either; both see the same memory.
The numbers are those of `Network.read` up to rounding (tests/model/test_live.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from aline.episodes import Context, Goal
from aline.model.attention import Layer
from aline.model.closeup import Seen
from aline.model.embedder import Mlp
from aline.model.heads import STD_FLOOR, Mixture
from aline.model.network import Decoded, Network, View, plain_observations
from aline.model.remembered import remembered
from aline.spaces import Design

Array = np.ndarray[Any, np.dtype[np.float32]]
Rows = TypeVar("Rows", Array, Tensor)

# As arrays: numpy takes longer to read a Python number than to add it.
_ZERO, _FLOOR, _EPSILON = np.array([[0.0], [STD_FLOOR], [1e-5]], np.float32)


def begin(network: Network) -> View:
    """A view of no data yet, as cheap to extend as the network's kind of context allows."""
    empty = Context.empty(1, len(network.spec.design))
    if network.config.context == "full" or network.config.kernels:
        return network.read(empty)
    weights = _folded(network)
    first = weights.project(weights.context_states(network.nothing.detach().numpy()[None]))
    stored = Stored(*first, np.zeros((len(network.spec.design) + 1, 1), np.float32))
    return LiveView(network, empty, [], [], None, None, (1, 1), weights=weights, stored=stored)


class Projected(NamedTuple):
    """Keys and values of some tokens in some layers."""

    keys: Array  # [layer, head, token, head_dim]
    values: Array  # [layer, head, head_dim, token]


class Stored(NamedTuple, Generic[Rows]):
    """What the context left in every layer, the inference layers before the policy's."""

    keys: Rows  # [layer, head, context, head_dim]
    values: Rows  # [layer, head, head_dim, context]
    plain: Rows  # [plain, context], the observations as they are


class Components(NamedTuple):
    """A mixture for each parameter, [parameter, component]."""

    log_weight: Array
    mean: Array
    std: Array


@dataclass(kw_only=True)
class LiveView(View):
    """A view of one episode; `hidden` and `keys` stay empty, `stored` takes their place."""

    weights: Folded
    stored: Stored[Array]

    def decode(self, tokens: Tensor) -> Decoded:
        """Target tokens [1, 1, target, embed] after each layer; they see only context."""
        states, plain = self._decode_many(tokens[0, 0])
        return Decoded([rows[None, None] for rows in states], plain[None, None])

    def _decode_many(self, rows: Tensor) -> tuple[list[Tensor], Tensor]:
        return self._decode(rows, self.weights.layers, Stored(*map(torch.from_numpy, self.stored)))

    def _decode(
        self, rows: Rows, layers: list[FoldedLayer[Rows]], stored: Stored[Rows]
    ) -> tuple[list[Rows], Rows]:
        """Rows [target, embed] after each layer, and what the last read of the observations."""
        states = []
        for index, layer in enumerate(layers):
            rows, weights = layer(rows, stored.keys[index], stored.values[index])
            states.append(rows)
        if not self.network.config.shortcuts:
            return states, rows[:, :0]
        plain = stored.plain @ weights  # [head, plain, token]
        return states, plain.reshape(len(plain) * len(stored.plain), len(rows)).T

    @cached_property
    def _parameter_rows(self) -> tuple[list[Array], Array]:
        """The parameters' tokens [parameter, embed] after each layer, and what the last read."""
        return self._decode(self.weights.parameters, self.weights.few_layers, self.stored)

    def posterior(self, chosen: Tensor | None = None) -> Mixture:
        """Marginal posteriors [1, 1, parameter] on the network's scale."""
        if chosen is not None:
            return super().posterior(chosen)
        log_weight, mean, std = (torch.from_numpy(part[None, None]) for part in self._components)
        return Mixture(log_weight, mean, std)

    @cached_property
    def parameter_states(self) -> Decoded:
        """The parameters' tokens after each layer."""
        states, plain = self._parameter_rows
        tokens = [torch.from_numpy(rows)[None, None] for rows in states]
        return Decoded(tokens, torch.from_numpy(plain)[None, None])

    def _seen(self) -> Seen:
        """The observations as they are, without the token that stands for none."""
        return Seen(torch.from_numpy(self.stored.plain[:, 1:].T)[None, None], None)

    @cached_property
    def _components(self) -> Components:
        if self.network.close_up is not None:
            belief = super().posterior()
            parts = belief.log_weight, belief.mean, belief.std
            return Components(*(part[0, 0].numpy() for part in parts))
        states, plain = self._parameter_rows
        raw = self.weights.posterior(np.concatenate([_standardise(states[-1]), plain], 1))
        return _components(raw, plain, self.network.config.components)

    @cached_property
    def moments(self) -> Tensor:
        """What the policy is told of q: means, then log spreads, [1, 1, 2 * parameter]."""
        return torch.from_numpy(_moments(self._components)[None, None])

    def scores(self, candidates: Tensor, goal: Goal) -> Tensor:
        """The pool policy's logits [1, 1, query] of candidates [1, 1, query, design]."""
        told = self._told()
        told = None if told is None else told[0, 0]
        spectrum = torch.from_numpy(self.weights.spectrum(candidates[0, 0]))
        rows = self._ask(self.weights.candidate(spectrum, told), goal)
        return self.weights.score(_standardise(rows)).view(1, 1, -1)

    def _policy_decode(self, tokens: Tensor, goal: Goal) -> Tensor:
        """Queries see the context and the selected targets, never each other."""
        out: Tensor = self.network.policy.norm(self._ask(tokens[0, 0], goal)[None, None])
        return out

    def _ask(self, rows: Tensor, goal: Goal) -> Tensor:
        depth = len(self.weights.policy)
        own = self.weights.project(self._selected_states(goal, depth))
        keys = torch.from_numpy(np.concatenate([self.stored.keys[-depth:], own.keys], 2))
        values = torch.from_numpy(np.concatenate([self.stored.values[-depth:], own.values], 3))
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

    def _selected_states(self, goal: Goal, depth: int) -> Array:
        """The goal's tokens as the policy's layers read them, [layer, target, embed]."""
        chosen = goal.parameters[0].numpy()
        states = [rows[chosen] for rows in self._parameter_rows[0][-depth:]]
        if goal.points.shape[1]:
            network, points = self.network, goal.points[0, goal.points_mask[0]]
            tokens = network.design_embedder(points) + network.prediction_marker
            more = self._decode_many(tokens)[0][-depth:]
            pairs = zip(states, more, strict=True)
            states = [np.concatenate([rows, others.numpy()]) for rows, others in pairs]
        return np.array(states)

    def extend(self, design: Tensor, outcome: Tensor) -> LiveView:
        """With one more observation: design [1, design], outcome [1]."""
        seen = np.concatenate([self.weights.spectrum(design), outcome.numpy()[:, None]], 1)
        new = self.weights.project(self.weights.context_states(self.weights.observation(seen)))
        plain = plain_observations(Context(design, outcome)).numpy().T
        stored = self.stored
        return LiveView(
            self.network,
            self.context.append(design, outcome),
            [],
            [],
            None,
            None,
            (1, 1),
            weights=self.weights,
            stored=Stored(
                np.concatenate([stored.keys, new.keys], 2),
                np.concatenate([stored.values, new.values], 3),
                np.concatenate([stored.plain, plain], 1),
            ),
        )


@dataclass(frozen=True)
class FoldedLayer(Generic[Rows]):
    """A layer's matrices [inputs, outputs], what stands before them folded in."""

    query: Rows
    query_bias: Rows  # [embed]
    out: Rows
    out_bias: Rows
    feed_in: Rows
    feed_in_bias: Rows
    feed_out: Rows
    feed_out_bias: Rows

    @staticmethod
    def of(layer: Layer) -> FoldedLayer[Tensor]:
        """Fold a layer."""
        scale = 1 / math.sqrt(layer.query.in_features // layer.heads)
        query, query_bias = _fold(layer.norm_query, layer.query)
        feed_in, feed_in_bias = _fold(layer.norm_feed, layer.feed_in)
        out, feed_out = layer.out, layer.feed_out
        return FoldedLayer(
            query * scale, query_bias * scale,
            out.weight.T.contiguous(), out.bias,
            feed_in, feed_in_bias,
            feed_out.weight.T.contiguous(), feed_out.bias,
        )  # fmt: skip

    def feed(self, rows: Rows) -> Rows:
        """The feed-forward half, for rows [token, embed]."""
        inner = _ramp(_product(_standardise(rows), self.feed_in, self.feed_in_bias))
        fed = _product(inner, self.feed_out, rows)
        fed += self.feed_out_bias
        return fed

    def __call__(
        self, rows: Rows, keys: Rows, values: Rows, bias: Rows | None = None
    ) -> tuple[Rows, Rows]:
        """Rows [token, embed] after reading keys [head, key, head_dim] and feeding forward.

        Also the weights [head, key, token] with which they read.
        """
        heads, _, head_dim = keys.shape
        query = _product(_standardise(rows), self.query, self.query_bias)
        logits = _products(keys, query.T.reshape(heads, head_dim, len(rows)))  # [head, key, token]
        weights = _softmax(logits if bias is None else logits + bias)
        read = _products(values, weights).reshape(heads * head_dim, len(rows)).T
        told = _product(read, self.out, rows)
        told += self.out_bias
        return self.feed(told), weights


@dataclass(frozen=True)
class FoldedMlp(Generic[Rows]):
    """Two linear layers with a ReLU between."""

    first: Rows
    first_bias: Rows
    second: Rows
    second_bias: Rows

    @staticmethod
    def of(mlp: Mlp, norm: nn.LayerNorm | None = None) -> FoldedMlp[Tensor]:
        """Fold an MLP and the norm before its first inputs."""
        weight, bias = _fold(norm, mlp.first)
        return FoldedMlp(weight, bias, mlp.second.weight.T.contiguous(), mlp.second.bias)

    @staticmethod
    def sum(a: FoldedMlp[Tensor], b: FoldedMlp[Tensor]) -> FoldedMlp[Tensor]:
        """One MLP of both inputs side by side that gives the sum of both outputs."""
        return FoldedMlp(
            torch.block_diag(a.first, b.first),
            torch.cat([a.first_bias, b.first_bias]),
            torch.cat([a.second, b.second]),
            a.second_bias + b.second_bias,
        )

    def __call__(self, rows: Rows, more: Rows | None = None) -> Rows:
        """[row, inputs] -> [row, outputs]; `more` [hidden] comes from further inputs."""
        bias = self.first_bias if more is None else self.first_bias + more
        return _product(_ramp(_product(rows, self.first, bias)), self.second, self.second_bias)


class Folded(NamedTuple):
    """A network's weights, folded."""

    space: Design
    heads: int
    octaves: Array
    parameters: Array  # [parameter, embed], their tokens
    observation: FoldedMlp[Array]  # of a design's spectrum and an outcome
    candidate: FoldedMlp[Tensor]  # of a design's spectrum
    layers: list[FoldedLayer[Tensor]]
    few_layers: list[FoldedLayer[Array]]  # the same, for a few rows
    policy: list[FoldedLayer[Tensor]]
    key_value: Array  # [layer, embed, 2 * embed]
    key_value_bias: Array  # [layer, 1, 2 * embed]
    posterior: FoldedMlp[Array]
    score: FoldedMlp[Tensor]

    @classmethod
    @torch.no_grad()
    def of(cls, network: Network) -> Folded:
        """Fold a network; later changes of its weights do not show."""
        policy = network.policy
        folds = [
            _fold(layer.norm_key, layer.key_value) for layer in (*network.layers, *policy.layers)
        ]
        layers = [FoldedLayer.of(layer) for layer in network.layers]
        design = FoldedMlp.of(network.design_embedder.mlp)
        observation = FoldedMlp.sum(design, FoldedMlp.of(network.outcome_embedder))
        posterior = FoldedMlp.of(network.posterior_head.mlp, network.norm)
        return cls(
            space=network.spec.design,
            heads=network.config.heads,
            octaves=network.design_embedder.octaves.numpy(),
            parameters=network.parameter_embedding.detach().numpy(),
            observation=FoldedMlp(*_arrays(observation)),
            candidate=design if policy.is_box else FoldedMlp.of(policy.embedder.mlp),
            layers=layers,
            few_layers=[FoldedLayer(*_arrays(layer)) for layer in layers],
            policy=[FoldedLayer.of(layer) for layer in policy.layers],
            key_value=torch.stack([weight for weight, _ in folds]).numpy(),
            key_value_bias=torch.stack([bias for _, bias in folds])[:, None].numpy(),
            posterior=FoldedMlp(*_arrays(posterior)),
            score=FoldedMlp.of(policy.head, policy.norm),
        )

    def spectrum(self, designs: Tensor) -> Array:
        """What the embedders make of designs [row, design] before their MLP."""
        settled: Array = self.space.settled(designs).numpy()
        angles = (settled[:, :, None] * self.octaves).reshape(len(settled), -1)
        return np.concatenate([settled, np.sin(angles), np.cos(angles)], 1)

    def context_states(self, tokens: Array) -> Array:
        """Observations [token, embed] as every layer projects them, [layer, token, embed]."""
        states = [tokens]
        for layer in self.few_layers[:-1]:
            states.append(layer.feed(states[-1]))
        # The policy's layers read the same states as the last of the inference layers.
        return np.array(states + states[-len(self.policy) :])

    def project(self, states: Array) -> Projected:
        """Keys and values of states [layer, token, embed] in as many layers, the last ones."""
        layers, tokens, width = states.shape
        rows = _standardise(states.reshape(layers * tokens, width)).reshape(states.shape)
        both = rows @ self.key_value[-layers:] + self.key_value_bias[-layers:]
        split = both.reshape(layers, tokens, 2, self.heads, width // self.heads)
        return Projected(split[:, :, 0].swapaxes(1, 2), split[:, :, 1].transpose(0, 2, 3, 1))


_folded = remembered(Folded.of)


def _components(raw: Array, plain: Array, components: int) -> Components:
    """What the posterior's head means by its numbers, as `MixtureHead.read`."""
    logit, mean = raw[:, :components], raw[:, components : 2 * components]
    std = np.logaddexp(raw[:, 2 * components : 3 * components], _ZERO) + _FLOOR
    if plain.shape[1]:
        layout = raw[:, 3 * components :]
        base = (_softmax(layout[:, :-1])[:, :-1] * plain).sum(1, keepdims=True)
        scale = np.exp(layout[:, -1:].clip(-7.0, 1.0))
        mean, std = base + scale * mean, scale * std + _FLOOR
    return Components(torch.from_numpy(logit).log_softmax(1).numpy(), mean, std)


def _moments(parts: Components) -> Array:
    """Means, then log spreads, as `Mixture.moments` has them, [2 * parameter]."""
    weight = np.exp(parts.log_weight)
    mean = (weight * parts.mean).sum(1)
    square = parts.std**2 + (parts.mean - mean[:, None]) ** 2
    spread = np.sqrt((weight * square).sum(1))
    return np.concatenate([mean, np.log(np.maximum(spread, _FLOOR))])


# The same operations for arrays and tensors.


def _product(rows: Rows, weight: Rows, plus: Rows) -> Rows:
    """rows @ weight + plus, a new one."""
    if isinstance(rows, Tensor):
        return torch.addmm(plus, rows, weight)
    out: Array = rows.dot(weight) + plus
    return out


def _products(a: Rows, b: Rows) -> Rows:
    """a @ b for every head."""
    if isinstance(a, Tensor):
        return torch.bmm(a, b)
    out: Array = np.matmul(a, b)
    return out


def _ramp(rows: Rows) -> Rows:
    """ReLU, in place."""
    if isinstance(rows, Tensor):
        return rows.relu_()
    out: Array = np.maximum(rows, _ZERO, out=rows)
    return out


def _softmax(logits: Rows) -> Rows:
    """Weights that sum to one along the second axis."""
    if isinstance(logits, Tensor):
        return logits.softmax(1)
    weights: Array = torch.from_numpy(logits).softmax(1).numpy()  # numpy's sums take longer
    return weights


def _standardise(rows: Rows) -> Rows:
    """LayerNorm without its affine part, which `_fold` moved into the next matrix."""
    if isinstance(rows, Tensor):
        return torch.layer_norm(rows, rows.shape[-1:])
    # Products with constant matrices, which take half as long as numpy's means.
    centre, mean = _averages(rows.shape[-1])
    centred = rows.dot(centre)
    scaled: Array = centred / np.sqrt((centred * centred).dot(mean) + _EPSILON)
    return scaled


@cache
def _averages(width: int) -> tuple[Array, Array]:
    """Matrices that take the mean from rows [..., width], and that put it in each place."""
    mean = np.full((width, width), 1 / width, np.float32)
    return np.eye(width, dtype=np.float32) - mean, mean


def _arrays(folded: FoldedLayer[Tensor] | FoldedMlp[Tensor]) -> list[Array]:
    """The same matrices as numpy sees them."""
    return [part.detach().numpy() for part in vars(folded).values()]


def _fold(norm: nn.LayerNorm | None, linear: nn.Linear) -> tuple[Tensor, Tensor]:
    """One matrix [inputs, outputs] and bias for a norm's affine part and the linear after it.

    Inputs of the linear beyond the norm's do not pass the norm.
    """
    if norm is None:
        return linear.weight.T.contiguous(), linear.bias
    normed = linear.weight[:, : len(norm.weight)]
    weight = torch.cat([normed * norm.weight, linear.weight[:, len(norm.weight) :]], 1)
    return weight.T.contiguous(), linear.bias + normed @ norm.bias
