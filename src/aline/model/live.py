"""The same network for one running experiment, with the fewest operations a trial.

A trial of an experiment is a few dozen tiny tensors: what it costs is the number of operations,
not their size. For one episode and an "independent" context we can do with a third of them:
LayerNorm's affine part and the attention scale go into the next matrix, its centring into the
matrices before it, the keys of all layers are projected in one batched product, unselected targets
are left out instead of masked, and attention runs with queries last, which suits hundreds of
queries and 8-dimensional heads. Its softmax is in powers of two, which take half as long as those
of e, and is normalised when the values are summed: their row of ones sums the weights.

What has a few rows (one more observation, the parameters' tokens, their mixtures) is computed in
numpy, whose operations cost less to call; what may have hundreds (candidates) in torch, which
computes these quicker and on as many threads as it was told to use. A layer is written once, for
either; both see the same memory.

Several experiments that want their candidates scored at the same time share the operations
(`score_together`): their rows lie one after the other, each reads keys of its own. Shorter contexts
are padded with zeros, which need no mask as their row of ones is zero too.
The numbers are those of `Network.read` up to rounding (tests/model/test_live.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, pairwise
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor, nn

from aline.episodes import Context, Goal
from aline.episodes.goals import log_weight_of
from aline.model.attention import MOST, PER_NAT, Layer, powers
from aline.model.closeup import Seen
from aline.model.embedder import Mlp
from aline.model.network import INSIDE, Decoded, Network, View
from aline.model.remembered import remembered
from aline.spaces import Design
from aline.spaces.outcomes.mixture import STD_FLOOR, Mixture

Array = np.ndarray[Any, np.dtype[np.float32]]
Rows = TypeVar("Rows", Array, Tensor)

# As arrays: numpy takes longer to read a Python number than to add it.
_ZERO, _FLOOR, _EPSILON = np.array([[0.0], [STD_FLOOR], [1e-5]], np.float32)
_NARROWEST, _WIDEST = np.array([[-7.0], [1.0]], np.float32)  # log scales of a mixture's layout
_SMALL = torch.tensor([1e-5])
_LOWEST, _HIGHEST = np.array([[share] for share in INSIDE], np.float32)


def begin_live(network: Network) -> LiveView:
    """A view of no data yet, of a network with an "independent" context."""
    empty = Context.empty(1, len(network.spec.design))
    weights = folded(network)
    first = weights.project(weights.context_states(weights.nothing))
    stored = Stored(*first, np.zeros((1, len(network.spec.design) + 1, 1), np.float32))
    return LiveView(network, empty, [], [], None, None, (1, 1), weights=weights, before=stored)


class Projected(NamedTuple):
    """Keys and values of some tokens in some layers."""

    keys: Array  # [layer, head, token, head_dim]
    values: Array  # [layer, head, head_dim + 1, token], the last row ones


class Stored(NamedTuple, Generic[Rows]):
    """What contexts left in every layer, the inference layers before the policy's."""

    keys: Rows  # [layer, view * head, context, head_dim]
    values: Rows  # [layer, view * head, head_dim + 1, context]
    plain: Rows  # [view, plain, context], the observations as they are


ParameterRows = tuple[list[Array], Array]
"""The parameters' tokens [parameter, embed] after each layer, and what the last read."""


class Components(NamedTuple):
    """A mixture for each parameter, [parameter, component]."""

    log_weight: Array
    mean: Array
    std: Array


@dataclass(kw_only=True)
class LiveView(View):
    """A view of one episode; `hidden` and `keys` stay empty, `stored` takes their place.

    An observation is taken in only when something is asked that depends on it.
    """

    weights: Folded
    before: Stored[Array]  # what the context left but for
    new: tuple[Tensor, Tensor] | None = None  # the last observation: design [1, design], outcome

    @cached_property
    def stored(self) -> Stored[Array]:
        """What the whole context left."""
        return _stored([self])[0]

    def decode(self, tokens: Tensor) -> Decoded:
        """Target tokens [1, 1, target, embed] after each layer; they see only context."""
        stored = Stored(*map(torch.from_numpy, self.stored))
        rows = less_mean(tokens[0, 0])
        states, plain = decode_rows(rows, self.weights.layers, stored, self._has_shortcuts)
        return Decoded([rows[None, None] for rows in states], plain[None, None])

    @property
    def _has_shortcuts(self) -> bool:
        return self.network.config.shortcuts

    @cached_property
    def _parameter_rows(self) -> ParameterRows:
        return _parameter_rows([self])[0]

    def posterior(self, chosen: Tensor | None = None) -> Mixture:
        """Marginal posteriors [1, 1, parameter] on the network's scale."""
        if chosen is not None:
            every = self.posterior()
            rows = chosen[:, None, :, None].expand(-1, -1, -1, every.mean.shape[-1])
            parts = every.log_weight, every.mean, every.std
            return Mixture(*(part.gather(2, rows) for part in parts))
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
        return Seen(torch.from_numpy(self.stored.plain[0, :, 1:])[:, None, None, None], None)

    @cached_property
    def _components(self) -> Components:
        if self.network.close_up is None:
            return _components([self])[0]
        belief = super().posterior()
        parts = belief.log_weight, belief.mean, belief.std
        return Components(*(part[0, 0].numpy() for part in parts))

    @cached_property
    def moments(self) -> Tensor:
        """What the policy is told of q: means, then log spreads, [1, 1, 2 * parameter]."""
        return torch.from_numpy(moments_of([self._components])[None])

    def scores(self, candidates: Tensor, goal: Goal) -> Tensor:
        """The pool policy's logits [1, 1, query] of candidates [1, 1, query, design]."""
        return _scores([Question(self, candidates, goal)])

    def _policy_decode(self, tokens: Tensor, goal: Goal) -> Tensor:
        """Queries see the context and the selected targets, never each other."""
        rows = ask(less_mean(tokens[0, 0]), [self], [goal])
        out: Tensor = self.network.policy.norm(rows[None, None])
        return out

    def _selected_states(self, goal: Goal, depth: int) -> Array:
        """The goal's tokens as the policy's layers read them, [layer, target, embed]."""
        chosen = goal.parameters[0].numpy()
        states = [rows[chosen] for rows in self._parameter_rows[0][-depth:]]
        if goal.points.shape[1]:
            more = self._at(goal.wanted[None, None]).decoded.states[-depth:]
            pairs = zip(states, more, strict=True)
            states = [np.concatenate([rows, others[0, 0].numpy()]) for rows, others in pairs]
        return np.array(states)

    def extend(self, design: Tensor, outcome: Tensor) -> LiveView:
        """With one more observation: design [1, design], outcome [1]."""
        return LiveView(
            self.network,
            self.context.append(design, outcome),
            [],
            [],
            None,
            None,
            (1, 1),
            weights=self.weights,
            before=self.stored,
            new=(design, outcome),
        )


class Question(NamedTuple):
    """Which of these candidates is best for a goal, as a policy asks it."""

    view: View
    candidates: Tensor  # [batch, 1, query, design]
    goal: Goal


def score_together(questions: Sequence[Question]) -> list[Tensor]:
    """The logits [batch, 1, query] of each question's candidates, in as few passes as there can be.

    Questions of live views of one network share one if they are about equally many candidates and
    their goals are parameters alone.
    """
    if len(questions) == 1:
        return [one.view.scores(one.candidates, one.goal) for one in questions]
    passes: dict[Any, list[int]] = {}
    for index, (view, candidates, goal) in enumerate(questions):
        key: Any = index
        if shares_a_pass(view) and not goal.points.shape[1]:
            key = id(view.weights), len(candidates[0, 0])
        passes.setdefault(key, []).append(index)
    scores: dict[int, Tensor] = {}
    for indices in passes.values():
        view, candidates, goal = questions[indices[0]]
        if len(indices) > 1:
            logits = _scores([questions[index] for index in indices]).split(1)
        else:
            logits = (view.scores(candidates, goal),)
        scores |= zip(indices, logits, strict=True)
    return [scores[index] for index in range(len(questions))]


def shares_a_pass(view: View) -> TypeGuard[LiveView]:
    """Whether its candidates can be scored together with those of others."""
    return type(view) is LiveView


# Of several live views, all of one network.


def _scores(questions: Sequence[Question]) -> Tensor:
    """Logits [view, 1, query]."""
    views, candidates, goals = zip(*questions, strict=True)
    weights: Folded = views[0].weights
    _keep(views, "stored", _stored)
    _keep(views, "_parameter_rows", _parameter_rows)
    if views[0].network.close_up is None:
        _keep(views, "_components", _components)
    points = [one[0, 0] for one in candidates]
    spectrum = torch.from_numpy(weights.spectrum(torch.cat(points) if points[1:] else points[0]))
    heard = None
    if weights.told is not None:
        moments = moments_of([view._components for view in views])
        heard = torch.from_numpy(moments.dot(weights.told))
    rows = ask(weights.candidate(spectrum, heard), views, goals)
    return weights.score(standardise(rows)).view(len(views), 1, -1)


def _keep(views: Sequence[LiveView], name: str, read: Callable[[list[LiveView]], Any]) -> None:
    """Let each view have what it would else compute by itself."""
    missing = [view for view in views if name not in vars(view)]
    if missing:
        for view, found in zip(missing, read(missing), strict=True):
            vars(view)[name] = found


def _stored(views: Sequence[LiveView]) -> list[Stored[Array]]:
    weights = views[0].weights
    news = [view.new for view in views if view.new is not None]
    if not news:
        return [view.before for view in views]
    designs, outcomes = news[0] if len(news) == 1 else map(torch.cat, zip(*news, strict=True))
    seen = np.concatenate([weights.spectrum(designs), outcomes.numpy()[:, None]], 1)
    keys, values = weights.project(weights.context_states(weights.observation(seen)))
    plain = plain_columns(designs.numpy(), outcomes.numpy())[None]
    rows = iter(range(len(news)))
    found = []
    for view in views:
        old = view.before
        if view.new is not None:
            row = next(rows)
            one = slice(row, row + 1)
            old = Stored(
                np.concatenate([old.keys, keys[:, :, one]], 2),
                np.concatenate([old.values, values[..., one]], 3),
                np.concatenate([old.plain, plain[..., one]], 2),
            )
        found.append(old)
    return found


def _parameter_rows(views: Sequence[LiveView]) -> list[ParameterRows]:
    weights, count = views[0].weights, len(views)
    rows = np.concatenate([weights.parameters] * count) if count > 1 else weights.parameters
    stored = _gathered([view.stored for view in views])
    states, plain = decode_rows(rows, weights.few_layers, stored, views[0]._has_shortcuts)
    if count == 1:
        return [(states, plain)]
    split = zip(*(_by_view(part, count) for part in (*states, plain)), strict=True)
    return [(parts, last) for *parts, last in split]


def _components(views: Sequence[LiveView]) -> list[Components]:
    known = [(states[-1], plain) for states, plain in (view._parameter_rows for view in views)]
    last, plain = known[0] if len(known) == 1 else map(np.concatenate, zip(*known, strict=True))
    raw = views[0].weights.posterior(np.concatenate([standardise(last), plain], 1))
    parts = mixtures(raw, plain, views[0].network.config.components)
    if len(views) == 1:
        return [parts]
    return list(map(Components, *(_by_view(part, len(views)) for part in parts)))


def _by_view(rows: Array, views: int) -> Array:
    """Rows [view * row, ...] of each view."""
    return rows.reshape(views, len(rows) // views, rows.shape[1])


def ask(rows: Tensor, views: Sequence[LiveView], goals: Sequence[Goal]) -> Tensor:
    """Queries [view * query, embed] after they read the context and the selected targets."""
    weights = views[0].weights
    depth, pairs = len(weights.policy), zip(views, goals, strict=True)
    selected = [view._selected_states(goal, depth) for view, goal in pairs]
    own = weights.project(np.concatenate(selected, 1) if len(views) > 1 else selected[0])
    ends = list(accumulate((states.shape[1] for states in selected), initial=0))
    mine = [slice(*pair) for pair in pairwise(ends)]
    stored = [view.stored for view in views]
    keys = _side_by_side(
        [(a.keys[-depth:], own.keys[:, :, b]) for a, b in zip(stored, mine, strict=True)], 2
    )
    values = _side_by_side(
        [(a.values[-depth:], own.values[..., b]) for a, b in zip(stored, mine, strict=True)], 3
    )
    bias = _bias(goals[0], keys.shape[2])
    for layer, k, v in zip(weights.policy, keys, values, strict=True):
        rows, _, _ = layer(rows, torch.from_numpy(k), torch.from_numpy(v), bias)
    return rows


def _bias(goal: Goal, keys: int) -> Tensor | None:
    """What is added to the logits [key, 1] of the context and then of the selected targets."""
    if not goal.points.shape[1]:
        return None
    count = len(goal.wanted)
    bias = torch.zeros(keys, 1)
    bias[keys - count :] = PER_NAT * log_weight_of(max(count, 1))
    return bias


def _gathered(stored: Sequence[Stored[Array]]) -> Stored[Array]:
    """What the contexts of several views left."""
    if len(stored) == 1:
        return stored[0]
    return Stored(
        _side_by_side([(one.keys,) for one in stored], 2),
        _side_by_side([(one.values,) for one in stored], 3),
        _side_by_side([(one.plain[None],) for one in stored], 3)[0],
    )


def _side_by_side(parts: Sequence[tuple[Array, ...]], axis: int) -> Array:
    """Each view's arrays [layer, head, ...], joined along an axis, as [layer, view * head, ...].

    Those that are shorter than others end in zeros.
    """
    joined = [np.concatenate(some, axis) for some in parts]
    if len(joined) == 1:
        return joined[0]
    layers, heads, *shape = joined[0].shape
    shape[axis - 2] = max(one.shape[axis] for one in joined)
    padded = np.zeros((layers, len(joined), heads, *shape), np.float32)
    for index, one in enumerate(joined):
        padded[:, index, :, : one.shape[2], : one.shape[3]] = one
    return padded.reshape(layers, -1, *shape)


def decode_rows(
    rows: Rows, layers: list[FoldedLayer[Rows]], stored: Stored[Rows], has_shortcuts: bool
) -> tuple[list[Rows], Rows]:
    """Rows [view * target, embed] after each layer, and what the last read of the observations."""
    states = []
    for index, layer in enumerate(layers):
        rows, weights, total = layer(rows, stored.keys[index], stored.values[index])
        states.append(rows)
    if not has_shortcuts:
        return states, rows[:, :0]
    views, tokens = len(stored.plain), weights.shape[2]
    if views == 1:
        read = stored.plain @ weights / total  # [view * head, plain, token]
    else:
        by_view = weights.reshape(views, -1, *weights.shape[1:])
        read = (stored.plain[:, None] @ by_view).reshape(len(weights), -1, tokens) / total
    # Sizes in full: a task may have no parameters, and of no numbers none can be worked out.
    return states, _turned_back(read.reshape(len(read) * read.shape[1], tokens), views)


def _turned(rows: Rows, views: int) -> Rows:
    """Rows [view * token, width] as [view * width, token]."""
    if views == 1:
        return rows.T
    width = rows.shape[1]
    return rows.reshape(views, -1, width).swapaxes(1, 2).reshape(views * width, -1)


def _turned_back(columns: Rows, views: int) -> Rows:
    """Columns [view * width, token] as [view * token, width]."""
    if views == 1:
        return columns.T
    tokens = columns.shape[1]
    return columns.reshape(views, -1, tokens).swapaxes(1, 2).reshape(views * tokens, -1)


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
        scale = PER_NAT / math.sqrt(layer.query.in_features // layer.heads)
        query, query_bias = _fold(layer.norm_query, layer.query)
        feed_in, feed_in_bias = _fold(layer.norm_feed, layer.feed_in)
        out, feed_out = layer.out, layer.feed_out
        return FoldedLayer(
            query * scale, query_bias * scale,
            *_centred(out.weight.T, out.bias),
            feed_in, feed_in_bias,
            *_centred(feed_out.weight.T, feed_out.bias),
        )  # fmt: skip

    def feed(self, rows: Rows) -> Rows:
        """The feed-forward half, for rows [token, embed]."""
        inner = _ramp(_product(standardise(rows), self.feed_in, self.feed_in_bias))
        fed = _product(inner, self.feed_out, rows)
        fed += self.feed_out_bias
        return fed

    def __call__(
        self, rows: Rows, keys: Rows, values: Rows, bias: Rows | None = None
    ) -> tuple[Rows, Rows, Rows]:
        """Rows [token, embed] after reading keys [head, key, head_dim] and feeding forward.

        Also how much they read of each, [head, key, token], and what that has to be divided by.
        With the heads of several views, as many rows in turn read each view's.
        """
        heads, _, head_dim = keys.shape
        views = heads * head_dim // rows.shape[1]
        query = _turned(_product(standardise(rows), self.query, self.query_bias), views)
        logits = _products(keys, query.reshape(heads, head_dim, -1))  # [head, key, token]
        if bias is not None:
            logits += bias
        weights = _powers(logits)
        sums = _products(values, weights)
        total = sums[:, head_dim:]
        read = (sums[:, :head_dim] / total).reshape(views * rows.shape[1], -1)
        told = _product(_turned_back(read, views), self.out, rows)
        told += self.out_bias
        return self.feed(told), weights, total


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

    def centred(self: FoldedMlp[Tensor]) -> FoldedMlp[Tensor]:
        """With outputs whose mean is zero."""
        return FoldedMlp(self.first, self.first_bias, *_centred(self.second, self.second_bias))

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
        """[row, inputs] -> [row, outputs]; `more` [view, hidden] comes from further inputs."""
        if more is None:
            inner = _product(rows, self.first, self.first_bias)
        elif len(more) == 1:
            inner = _product(rows, self.first, self.first_bias + more[0])
        else:
            inner = _product(rows, self.first, self.first_bias)
            inner.reshape(len(more), -1, inner.shape[1])[:] += more[:, None]
        return _product(_ramp(inner), self.second, self.second_bias)


class Folded(NamedTuple):
    """A network's weights, folded."""

    space: Design
    heads: int
    octaves: Array
    nothing: Array  # [1, embed], the token that stands for no observation
    parameters: Array  # [parameter, embed], their tokens
    observation: FoldedMlp[Array]  # of a design's spectrum and an outcome
    candidate: FoldedMlp[Tensor]  # of a design's spectrum
    layers: list[FoldedLayer[Tensor]]
    few_layers: list[FoldedLayer[Array]]  # the same, for a few rows
    policy: list[FoldedLayer[Tensor]]
    key_value: Array  # [layer, embed, 2 * embed + head], a head's keys, values and one together
    key_value_bias: Array  # [layer, 1, 2 * embed + head]
    posterior: FoldedMlp[Array]
    told: Array | None  # [2 * parameter, hidden]
    score: FoldedMlp[Tensor]

    @classmethod
    @torch.no_grad()
    def of(cls, network: Network) -> Folded:
        """Fold a network; later changes of its weights do not show."""
        policy = network.policy
        folds = [
            _with_ones(*_fold(layer.norm_key, layer.key_value), network.config.heads)
            for layer in (*network.layers, *policy.layers)
        ]
        layers = [FoldedLayer.of(layer) for layer in network.layers]
        policy_layers = [FoldedLayer.of(layer) for layer in policy.layers]
        design = FoldedMlp.of(network.design_embedder.mlp).centred()
        observation = FoldedMlp.sum(design, FoldedMlp.of(network.outcome_embedder).centred())
        posterior = FoldedMlp.of(network.posterior_head.mlp, network.norm)
        found = cls(
            space=network.spec.design,
            heads=network.config.heads,
            octaves=network.design_embedder.octaves.numpy(),
            nothing=less_mean(network.nothing[None]).numpy(),
            parameters=less_mean(network.parameter_embedding).numpy(),
            observation=FoldedMlp(*arrays(observation)),
            candidate=design if policy.is_box else FoldedMlp.of(policy.embedder.mlp).centred(),
            layers=layers,
            few_layers=[FoldedLayer(*arrays(layer)) for layer in layers],
            policy=policy_layers,
            key_value=torch.stack([weight for weight, _ in folds]).numpy(),
            key_value_bias=torch.stack([bias for _, bias in folds])[:, None].numpy(),
            posterior=FoldedMlp(*arrays(posterior)),
            told=None if policy.told is None else policy.told.weight.T.contiguous().numpy(),
            score=FoldedMlp.of(policy.head, policy.norm),
        )
        return found._relative()

    def _relative(self) -> Folded:
        """Likewise, with keys relative to those of the token that stands for no observation.

        All logits of a query then differ by as much as before, and one of them is zero.
        """
        keys, values = self.project(self.context_states(self.nothing))
        own = np.concatenate([keys[:, :, 0], np.zeros_like(values[..., 0])], 2)
        return self._replace(key_value_bias=self.key_value_bias - own.reshape(len(own), 1, -1))

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
        rows = standardise(states.reshape(layers * tokens, width)).reshape(states.shape)
        both = rows @ self.key_value[-layers:] + self.key_value_bias[-layers:]
        split = both.reshape(layers, tokens, self.heads, -1)  # keys, values, one
        cut = width // self.heads
        return Projected(split[..., :cut].swapaxes(1, 2), split[..., cut:].transpose(0, 2, 3, 1))


folded = remembered(Folded.of)


def plain_columns(designs: Array, outcomes: Array) -> Array:
    """As `plain_observations`, turned: [design + 1, observation]."""
    inside = np.minimum(np.maximum(0.5 + 0.5 * designs, _LOWEST), _HIGHEST)
    return np.concatenate([ndtri(inside), outcomes[:, None]], 1).T


def mixtures(raw: Array, plain: Array, components: int) -> Components:
    """What the posterior's head means by its numbers, as `read_mixture`."""
    logit, mean = raw[:, :components], raw[:, components : 2 * components]
    std = _softplus(raw[:, 2 * components : 3 * components]) + _FLOOR
    if plain.shape[1]:
        layout = raw[:, 3 * components :]
        share = np.exp(_log_softmax(layout[:, :-1]))[:, :-1]
        base = np.add.reduce(share * plain, 1, keepdims=True)
        scale = np.exp(np.minimum(np.maximum(layout[:, -1:], _NARROWEST), _WIDEST))
        mean, std = base + scale * mean, scale * std + _FLOOR
    return Components(_log_softmax(logit), mean, std)


def _log_softmax(rows: Array) -> Array:
    """Of each row."""
    below = rows - np.maximum.reduce(rows, 1, keepdims=True)
    below -= np.log(np.add.reduce(np.exp(below), 1, keepdims=True))
    return below


def _softplus(rows: Array) -> Array:
    """log(1 + exp(rows)); numpy's logaddexp takes several times as long."""
    out: Array = np.log1p(np.exp(-np.abs(rows))) + np.maximum(rows, _ZERO)
    return out


def moments_of(mixtures: Sequence[Components]) -> Array:
    """Means, then log spreads, as `Mixture.moments` has them, [view, 2 * parameter]."""
    log_weight, means, std = (
        [part[None] for part in mixtures[0]]
        if len(mixtures) == 1
        else map(np.array, zip(*mixtures, strict=True))
    )
    weight = np.exp(log_weight)
    mean = np.add.reduce(weight * means, 2)
    away = means - mean[..., None]
    spread = np.sqrt(np.add.reduce(weight * (std * std + away * away), 2))
    return np.concatenate([mean, np.log(np.maximum(spread, _FLOOR))], 1)


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


def _powers(logits: Rows) -> Rows:
    """Powers of two, in place.

    Exponents are relative to the token that stands for no observation (`Folded.of`).
    """
    if isinstance(logits, Tensor):
        return powers(logits)
    np.minimum(logits, MOST, out=logits)
    out: Array = np.exp2(logits, out=logits)
    return out


def standardise(rows: Rows) -> Rows:
    """LayerNorm of rows with a mean of zero, without its affine part.

    That, `_fold` moved into the next matrix, and the centring `_centred` into those before. The
    mean of squares is a product with a constant, which takes half as long as a sum.
    """
    if isinstance(rows, Tensor):
        return rows * torch.addmm(_SMALL, rows * rows, _column(rows.shape[-1])).rsqrt_()
    scaled: Array = rows / np.sqrt((rows * rows).dot(_column(rows.shape[-1]).numpy()) + _EPSILON)
    return scaled


@cache
def _column(width: int) -> Tensor:
    """A matrix that takes the mean of rows [..., width]."""
    return torch.full((width, 1), 1 / width)


def arrays(folded: FoldedLayer[Tensor] | FoldedMlp[Tensor]) -> list[Array]:
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


def less_mean(rows: Tensor) -> Tensor:
    """Rows [..., embed] with their means taken off."""
    return rows - rows.mean(-1, keepdim=True)


def _centred(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix [inputs, outputs] and bias whose outputs have a mean of zero.

    All that reads the rows which it adds to is a LayerNorm, which would take the mean away.
    """
    return less_mean(weight).contiguous(), less_mean(bias)


def _with_ones(weight: Tensor, bias: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Keys' and values' matrix and bias by heads, with a value of one besides in each."""
    inputs = len(weight)
    parts = [part.reshape(-1, 2, heads, part.shape[-1] // 2 // heads) for part in (weight, bias)]
    by_head = [part.swapaxes(1, 2).reshape(len(part), heads, -1) for part in parts]
    zero, one = torch.zeros(inputs, heads, 1), torch.ones(1, heads, 1)
    joined = [torch.cat(pair, 2).flatten(1) for pair in zip(by_head, (zero, one), strict=True)]
    return joined[0], joined[1][0]
