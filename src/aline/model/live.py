"""The same network for one running experiment, with the fewest operations a trial.

A trial of an experiment is a few dozen tiny tensors: what it costs is the number of operations,
not their size. For one episode and an "independent" context we can do with a third of them:
LayerNorm's affine part and the attention scale go into the next matrix, its centring into the
matrices before it, the keys of all layers are projected in one batched product, unselected targets
are left out instead of masked, and attention runs with queries last, which suits hundreds of
queries and 8-dimensional heads. Its softmax is in powers of two, which take half as long as those
of e, and is normalised when the values are summed: their row of ones sums the weights.

What has a few rows (one more observation, the parameters' tokens, their mixtures) is computed in
numpy, whose operations cost less to call; what may have hundreds (candidates, points to predict
at) in torch, which computes these quicker and on as many threads as it was told to use. A layer is
written once, for either; both see the same memory.
The numbers are those of `Network.read` up to rounding (tests/model/test_live.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor, nn

from aline.episodes import Context, Goal
from aline.episodes.goals import log_weight_of
from aline.model.attention import Layer
from aline.model.closeup import Seen
from aline.model.embedder import Mlp
from aline.model.heads import STD_FLOOR, Belief, Censored, Mixture, MixtureHead
from aline.model.kernels import REMEMBERED, Expectation, place_of
from aline.model.live_bank import Array, Indices, LiveBank, Worth
from aline.model.network import INSIDE, STEEP, WORTH_UNIT, Decoded, Network, View
from aline.model.remembered import remembered
from aline.spaces import Design

Rows = TypeVar("Rows", Array, Tensor)
Known = TypeVar("Known")

# As arrays: numpy takes longer to read a Python number than to add it.
_ZERO, _FLOOR, _EPSILON = np.array([[0.0], [STD_FLOOR], [1e-5]], np.float32)
_NARROWEST, _WIDEST = np.array([[-7.0], [1.0]], np.float32)  # log scales of a mixture's layout
_SMALL = torch.tensor([1e-5])
_LOWEST, _HIGHEST = np.array([[share] for share in INSIDE], np.float32)
_PER_NAT = 1 / math.log(2)  # powers of two in one of e
SHORTLIST = 128  # candidates that are scored of those that a bank has an opinion of
_MOST = 120.0  # a power of two that can still be summed


def begin(network: Network) -> View:
    """A view of no data yet, as cheap to extend as the network's kind of context allows."""
    empty = Context.empty(1, len(network.spec.design))
    if network.config.context == "full":
        return network.read(empty)
    weights = _folded(network)
    first = weights.project(weights.context_states(weights.nothing))
    stored = Stored(*first, np.zeros((len(network.spec.design) + 1, 1), np.float32))
    return LiveView(
        network,
        empty,
        [],
        [],
        None,
        None,
        (1, 1),
        bank=None if network.kernels is None else LiveBank.empty(network.kernels),
        weights=weights,
        stored=stored,
        spectra=Kept(weights.spectrum),
        tokens=Kept(weights.point_tokens),
    )


class Projected(NamedTuple):
    """Keys and values of some tokens in some layers."""

    keys: Array  # [layer, head, token, head_dim]
    values: Array  # [layer, head, head_dim + 1, token], the last row ones


class Stored(NamedTuple, Generic[Rows]):
    """What the context left in every layer, the inference layers before the policy's."""

    keys: Rows  # [layer, head, context, head_dim]
    values: Rows  # [layer, head, head_dim + 1, context]
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
    spectra: Kept[Array]  # of candidates
    tokens: Kept[Tensor]  # of points to predict at

    @cached_property
    def _stored(self) -> Stored[Tensor]:
        """The same memory as torch sees it."""
        return Stored(*map(torch.from_numpy, self.stored))

    def _decode(
        self, rows: Rows, layers: list[FoldedLayer[Rows]], stored: Stored[Rows]
    ) -> tuple[list[Rows], Rows]:
        """Rows [target, embed] after each layer, and what the last read of the observations."""
        states = []
        for index, layer in enumerate(layers):
            rows, weights, total = layer(rows, stored.keys[index], stored.values[index])
            states.append(rows)
        if not self.network.config.shortcuts:
            return states, rows[:, :0]
        plain = stored.plain @ weights / total  # [head, plain, token]
        return states, plain.reshape(len(plain) * len(stored.plain), len(rows)).T

    @cached_property
    def _parameter_rows(self) -> tuple[list[Array], Array]:
        """The parameters' tokens [parameter, embed] after each layer, and what the last read."""
        return self._decode(self._parameters, self.weights.few_layers, self.stored)

    @property
    def _parameters(self) -> Array:
        """The parameters' tokens [parameter, embed]."""
        if self.weights.advice is None or self.live_bank is None:
            return self.weights.parameters
        told = self.weights.advice.of_context(self.live_bank.description[None])
        return self.weights.parameters + told

    def posterior(self, chosen: Tensor | None = None) -> Mixture:
        """Marginal posteriors [1, 1, parameter] on the network's scale."""
        if chosen is not None:
            every = self.posterior()
            rows = chosen[:, None, :, None].expand(-1, -1, -1, every.mean.shape[-1])
            return Mixture(*(part.gather(2, rows) for part in vars(every).values()))
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

    def _decode_points(self, points: Tensor, expected: Expectation | None) -> Decoded:
        rows = self.tokens.of(points[0, 0])
        if expected is not None and self.weights.advice is not None:
            rows = rows + self.weights.advice.of_point(expected.features[0, 0])
        # The parameters' tokens come along, for less than a pass of their own would cost.
        first = len(self.weights.parameters)
        every = torch.cat([torch.from_numpy(self._parameters), rows])
        states, plain = self._decode(every, self.weights.layers, self._stored)
        own = [rows[:first].numpy() for rows in states], plain[:first].numpy()
        self.__dict__.setdefault("_parameter_rows", own)
        return Decoded([rows[None, None, first:] for rows in states], plain[None, None, first:])

    def _believe(self, decoded: Decoded) -> Belief:
        head = self.network.predictive_head
        if self.weights.predictive is None or not isinstance(head, MixtureHead):
            return super()._believe(decoded)
        plain = decoded.plain[0, 0]
        raw = self.weights.predictive(torch.cat([_standardise(decoded.states[-1][0, 0]), plain], 1))
        parts = _components(raw.numpy(), plain.numpy(), head.components)
        belief = Mixture(*(torch.from_numpy(part)[None, None] for part in parts))
        return belief if head.limits is None else Censored(**vars(belief), limits=head.limits)

    def scores(self, candidates: Tensor, goal: Goal) -> Tensor:
        """The pool policy's logits [1, 1, query] of candidates [1, 1, query, design]."""
        worth = self._worth(candidates[0, 0], goal)
        return self._scores_among(slice(None), candidates[0, 0], worth, goal)[None, None]

    def best(self, candidates: Tensor, goal: Goal, allowed: Tensor | None = None) -> Tensor:
        """The index [1] of the candidate with the largest logit.

        For predictions, of many candidates only those are scored that are worth most by the bank.
        """
        worth = None if goal.parameters.any() else self._worth(candidates[0], goal)
        if worth is None or len(worth.average) <= SHORTLIST:
            return super().best(candidates, goal, allowed)
        average = worth.average
        if allowed is not None:
            average = np.where(allowed[0].numpy(), average, -1)
        among = np.sort(np.argpartition(-average, SHORTLIST)[:SHORTLIST])
        scores = self._scores_among(among, candidates[0], worth, goal).numpy()
        scores[average[among] < 0] = -np.inf
        return torch.from_numpy(among[[scores.argmax()]])

    @property
    def live_bank(self) -> LiveBank | None:
        """The bank, as such a view has it."""
        return self.bank if isinstance(self.bank, LiveBank) else None

    def _worth(self, candidates: Tensor, goal: Goal) -> Worth | None:
        """What the bank finds candidates [query, design] worth for a goal's predictions."""
        if self.live_bank is None or not goal.points.shape[1]:
            return None
        return self.live_bank.weigh_candidates(candidates, _wanted(goal)[0])

    def _scores_among(
        self, among: slice | Indices, candidates: Tensor, worth: Worth | None, goal: Goal
    ) -> Tensor:
        """Logits of some of candidates [query, design]."""
        spectrum = torch.from_numpy(self.spectra.of(candidates)[among])
        rows = self.weights.candidate(spectrum, self._heard)
        advice, bank, leaning = self.weights.advice, self.live_bank, None
        if advice is not None and bank is not None:
            _, _, features = bank.expect(candidates, among)
            rows += advice.of_candidate(torch.from_numpy(features).T)
        if advice is not None and worth is not None:
            shares = torch.from_numpy(worth.features(among))
            rows += advice.of_worth(shares.T)
            leaning = advice.steep * shares[-1]
        logits = self.weights.score(_standardise(self._ask(rows, goal)))[:, 0]
        return logits if leaning is None else logits + leaning

    @property
    def _heard(self) -> Tensor | None:
        """What the policy makes of q's moments, [hidden]."""
        if self.weights.told is None:
            return None
        return torch.from_numpy(_moments(self._components).dot(self.weights.told))

    def _policy_decode(self, tokens: Tensor, goal: Goal) -> Tensor:
        """Queries see the context and the selected targets, never each other."""
        rows = tokens[0, 0]
        rows = self._ask(_less_mean(rows), goal)
        out: Tensor = self.network.policy.norm(rows[None, None])
        return out

    def _ask(self, rows: Tensor, goal: Goal) -> Tensor:
        depth = len(self.weights.policy)
        own = self.weights.project(self._selected_states(goal, depth))
        keys = torch.from_numpy(np.concatenate([self.stored.keys[-depth:], own.keys], 2))
        values = torch.from_numpy(np.concatenate([self.stored.values[-depth:], own.values], 3))
        bias = self._bias(goal, keys.shape[2])
        for layer, k, v in zip(self.weights.policy, keys, values, strict=True):
            rows, _, _ = layer(rows, k, v, bias)
        return rows

    def _bias(self, goal: Goal, keys: int) -> Tensor | None:
        """What is added to the logits [key, 1] of the context and then of the selected targets."""
        count = _wanted(goal).shape[1]
        if not count:
            return None
        bias = np.zeros((keys, 1), np.float32)
        bias[-count:] = _PER_NAT * log_weight_of(count)
        return torch.from_numpy(bias)

    def _selected_states(self, goal: Goal, depth: int) -> Array:
        """The goal's tokens as the policy's layers read them, [layer, target, embed]."""
        chosen = goal.parameters[0].numpy()
        states = [rows[chosen] for rows in self._parameter_rows[0][-depth:]]
        if goal.points.shape[1]:
            at = _wanted(goal)[:, None]
            more = self._at(at).decoded.states[-depth:]
            pairs = zip(states, more, strict=True)
            states = [np.concatenate([rows, others[0, 0].numpy()]) for rows, others in pairs]
        return np.array(states)

    def extend(self, design: Tensor, outcome: Tensor) -> LiveView:
        """With one more observation: design [1, design], outcome [1]."""
        seen = np.concatenate([self.weights.spectrum(design), outcome.numpy()[:, None]], 1)
        new = self.weights.project(self.weights.context_states(self.weights.observation(seen)))
        plain = _plain(design.numpy(), outcome.numpy())
        stored = self.stored
        return LiveView(
            self.network,
            self.context.append(design, outcome),
            [],
            [],
            None,
            None,
            (1, 1),
            bank=None if self.live_bank is None else self.live_bank.extend(design, outcome),
            weights=self.weights,
            spectra=self.spectra,
            tokens=self.tokens,
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
        scale = _PER_NAT / math.sqrt(layer.query.in_features // layer.heads)
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
        inner = _ramp(_product(_standardise(rows), self.feed_in, self.feed_in_bias))
        fed = _product(inner, self.feed_out, rows)
        fed += self.feed_out_bias
        return fed

    def __call__(
        self, rows: Rows, keys: Rows, values: Rows, bias: Rows | None = None
    ) -> tuple[Rows, Rows, Rows]:
        """Rows [token, embed] after reading keys [head, key, head_dim] and feeding forward.

        Also how much they read of each, [head, key, token], and what that has to be divided by.
        """
        heads, _, head_dim = keys.shape
        query = _product(_standardise(rows), self.query, self.query_bias)
        logits = _products(keys, query.T.reshape(heads, head_dim, len(rows)))  # [head, key, token]
        weights = _powers(logits if bias is None else logits + bias)
        sums = _products(values, weights)
        total = sums[:, head_dim:]
        read = (sums[:, :head_dim] / total).reshape(heads * head_dim, len(rows)).T
        told = _product(read, self.out, rows)
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
        """[row, inputs] -> [row, outputs]; `more` [hidden] comes from further inputs."""
        bias = self.first_bias if more is None else self.first_bias + more
        return _product(_ramp(_product(rows, self.first, bias)), self.second, self.second_bias)


class Advice(NamedTuple):
    """What tokens make of a bank's features."""

    of_context: FoldedMlp[Array]
    of_point: FoldedMlp[Tensor]
    of_candidate: FoldedMlp[Tensor]
    of_worth: FoldedMlp[Tensor]
    steep: float  # what a logit gains as a candidate's worth grows e-fold

    @classmethod
    def of(cls, network: Network) -> Advice:
        """Fold what a network has of it."""
        policy = network.policy
        context = FoldedMlp.of(network.context_features).centred()
        worth = FoldedMlp.of(policy.worth_features).centred()
        return cls(
            of_context=FoldedMlp(*_arrays(context)),
            of_point=FoldedMlp.of(network.point_features).centred(),
            of_candidate=FoldedMlp.of(policy.point_features).centred(),
            of_worth=replace(worth, first=worth.first / WORTH_UNIT),
            steep=STEEP * float(policy.trust),
        )


class Folded(NamedTuple):
    """A network's weights, folded."""

    space: Design
    heads: int
    octaves: Array
    nothing: Array  # [1, embed], the token that stands for no observation
    parameters: Array  # [parameter, embed], their tokens
    observation: FoldedMlp[Array]  # of a design's spectrum and an outcome
    candidate: FoldedMlp[Tensor]  # of a design's spectrum
    point: FoldedMlp[Tensor]  # likewise, where a prediction is wanted
    layers: list[FoldedLayer[Tensor]]
    few_layers: list[FoldedLayer[Array]]  # the same, for a few rows
    policy: list[FoldedLayer[Tensor]]
    key_value: Array  # [layer, embed, 2 * embed + head], a head's keys, values and one together
    key_value_bias: Array  # [layer, 1, 2 * embed + head]
    posterior: FoldedMlp[Array]
    told: Array | None  # [2 * parameter, hidden]
    score: FoldedMlp[Tensor]
    predictive: FoldedMlp[Tensor] | None  # of real outcomes
    advice: Advice | None

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
        design = FoldedMlp.of(network.design_embedder.mlp).centred()
        observation = FoldedMlp.sum(design, FoldedMlp.of(network.outcome_embedder).centred())
        posterior = FoldedMlp.of(network.posterior_head.mlp, network.norm)
        predictive = network.predictive_head
        is_mixture = isinstance(predictive, MixtureHead)
        marker = _less_mean(network.prediction_marker)
        folded = cls(
            space=network.spec.design,
            heads=network.config.heads,
            octaves=network.design_embedder.octaves.numpy(),
            nothing=_less_mean(network.nothing[None]).numpy(),
            parameters=_less_mean(network.parameter_embedding).numpy(),
            observation=FoldedMlp(*_arrays(observation)),
            candidate=design if policy.is_box else FoldedMlp.of(policy.embedder.mlp).centred(),
            point=replace(design, second_bias=design.second_bias + marker),
            layers=layers,
            few_layers=[FoldedLayer(*_arrays(layer)) for layer in layers],
            policy=[FoldedLayer.of(layer) for layer in policy.layers],
            key_value=torch.stack([weight for weight, _ in folds]).numpy(),
            key_value_bias=torch.stack([bias for _, bias in folds])[:, None].numpy(),
            posterior=FoldedMlp(*_arrays(posterior)),
            told=None if policy.told is None else policy.told.weight.T.contiguous().numpy(),
            score=FoldedMlp.of(policy.head, policy.norm),
            predictive=FoldedMlp.of(predictive.mlp, network.norm) if is_mixture else None,
            advice=None if network.kernels is None else Advice.of(network),
        )
        return folded._relative()

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

    def point_tokens(self, points: Tensor) -> Tensor:
        """The tokens [row, embed] of points [row, design] to predict at."""
        return self.point(torch.from_numpy(self.spectrum(points)))

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
        split = both.reshape(layers, tokens, self.heads, -1)  # keys, values, one
        cut = width // self.heads
        return Projected(split[..., :cut].swapaxes(1, 2), split[..., cut:].transpose(0, 2, 3, 1))


_folded = remembered(Folded.of)


class Kept(Generic[Known]):
    """What does not depend on the data, of the points that were asked about last."""

    def __init__(self, compute: Callable[[Tensor], Known]):
        self._compute = compute
        self._kept: list[tuple[Tensor, Known]] = []

    def of(self, points: Tensor) -> Known:
        """That of points [row, design]."""
        place = place_of(points)
        for known, rows in self._kept:
            if place_of(known) == place:
                return rows
        rows = self._compute(points)
        self._kept = [*self._kept[1 - REMEMBERED :], (points, rows)]
        return rows


def _wanted(goal: Goal) -> Tensor:
    """The points [1, target, design] of a goal, without padding."""
    every = goal.points_mask.numpy().all()
    return goal.points if every else goal.points[:, goal.points_mask[0]]


def _plain(designs: Array, outcomes: Array) -> Array:
    """As `plain_observations`, turned: [design + 1, observation]."""
    inside = np.minimum(np.maximum(0.5 + 0.5 * designs, _LOWEST), _HIGHEST)
    return np.concatenate([ndtri(inside), outcomes[:, None]], 1).T


def _components(raw: Array, plain: Array, components: int) -> Components:
    """What the posterior's head means by its numbers, as `MixtureHead.read`."""
    logit, mean = raw[:, :components], raw[:, components : 2 * components]
    std = np.logaddexp(raw[:, 2 * components : 3 * components], _ZERO) + _FLOOR
    if plain.shape[1]:
        layout = raw[:, 3 * components :]
        share = torch.from_numpy(layout[:, :-1]).softmax(1).numpy()[:, :-1]
        base = np.add.reduce(share * plain, 1, keepdims=True)
        scale = np.exp(np.minimum(np.maximum(layout[:, -1:], _NARROWEST), _WIDEST))
        mean, std = base + scale * mean, scale * std + _FLOOR
    return Components(torch.from_numpy(logit).log_softmax(1).numpy(), mean, std)


def _moments(parts: Components) -> Array:
    """Means, then log spreads, as `Mixture.moments` has them, [2 * parameter]."""
    weight = np.exp(parts.log_weight)
    mean = np.add.reduce(weight * parts.mean, 1)
    away = parts.mean - mean[:, None]
    spread = np.sqrt(np.add.reduce(weight * (parts.std * parts.std + away * away), 1))
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


def _powers(logits: Rows) -> Rows:
    """Powers of two, in place.

    Exponents are relative to the token that stands for no observation (`Folded.of`): sums of
    powers are at least one. None of the shipped networks comes near the limit above.
    """
    if isinstance(logits, Tensor):
        return logits.clamp_max_(_MOST).exp2_()
    np.minimum(logits, _MOST, out=logits)
    out: Array = np.exp2(logits, out=logits)
    return out


def _standardise(rows: Rows) -> Rows:
    """LayerNorm of rows with a mean of zero, without its affine part.

    That, `_fold` moved into the next matrix, and the centring `_centred` into those before. The
    mean of squares is a product with a constant, which takes half as long as a sum.
    """
    if isinstance(rows, Tensor):
        return rows * torch.addmm(_SMALL, rows * rows, _column(rows.shape[-1])).rsqrt_()
    scaled: Array = rows / np.sqrt((rows * rows).dot(_mean(rows.shape[-1])) + _EPSILON)
    return scaled


@cache
def _column(width: int) -> Tensor:
    """A matrix that takes the mean of rows [..., width]."""
    return torch.full((width, 1), 1 / width)


@cache
def _mean(width: int) -> Array:
    """A matrix that puts the mean of rows [..., width] in each place."""
    return np.full((width, width), 1 / width, np.float32)


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


def _less_mean(rows: Tensor) -> Tensor:
    return rows - rows.mean(-1, keepdim=True)


def _centred(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix [inputs, outputs] and bias whose outputs have a mean of zero.

    All that reads the rows which it adds to is a LayerNorm, which would take the mean away.
    """
    return _less_mean(weight).contiguous(), _less_mean(bias)


def _with_ones(weight: Tensor, bias: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Keys' and values' matrix and bias by heads, with a value of one besides in each."""
    inputs = len(weight)
    parts = [part.reshape(-1, 2, heads, part.shape[-1] // 2 // heads) for part in (weight, bias)]
    by_head = [part.swapaxes(1, 2).reshape(len(part), heads, -1) for part in parts]
    zero, one = torch.zeros(inputs, heads, 1), torch.ones(1, heads, 1)
    joined = [torch.cat(pair, 2).flatten(1) for pair in zip(by_head, (zero, one), strict=True)]
    return joined[0], joined[1][0]
