"""The live view of a network that has a bank of kernels: one function that is being learned.

As model/live.py, with what the experiment's bank (model/live_bank.py) has to say to each token, and
with tokens as columns (model/live_columns.py). What does not depend on the data is computed once
for a pool and a goal, and of hundreds of candidates few are left to score: a step is some three
hundred operations on a hundred columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple, Self, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from aline.episodes import Context, Goal
from aline.episodes.goals import log_weight_of
from aline.model.attention import PER_NAT
from aline.model.kernels import REMEMBERED, Bank, place_of
from aline.model.live import Folded, FoldedMlp, folded, less_mean, plain_columns
from aline.model.live_bank import Array, Indices, LiveBank, Worth
from aline.model.live_columns import Components, Layer, Mlp, Mlps, Tokens, with_ones
from aline.model.network import STEEP, WORTH_UNIT, Network, View
from aline.model.remembered import remembered
from aline.spaces.outcomes import Mixture, Real

Known = TypeVar("Known")

_ONE = np.ones(1, np.float32)
SHORTLIST = 64  # candidates that are scored of those that a bank has an opinion of


def begin_function(network: Network) -> FunctionView:
    """A view of no data yet."""
    assert network.kernels is not None
    weights = weights_of(network)
    size = len(network.spec.design)
    return FunctionView(
        network, Context.empty(1, size), [], [], None, None, (1, 1),
        weights=weights,
        live_bank=LiveBank.empty(network.kernels),
        before=weights.store(weights.nothing, np.zeros((size + 1, 1), np.float32)),
        inner=Kept(lambda points: weights.candidate.firsts[0].dot(weights.spectrum(points))),
        tokens=Kept(lambda points: weights.point(weights.spectrum(points))),
    )  # fmt: skip


class Stored(NamedTuple):
    """What observations left, and first the token that stands for none."""

    keys_values: Array  # [layer, 2, head, head_dim + 1, observation], the policy's layers last
    plain: Array  # [plain, observation], as they are

    def append(self, more: Stored) -> Stored:
        """With more behind."""
        return Stored(
            np.concatenate([self.keys_values, more.keys_values], 4),
            np.concatenate([self.plain, more.plain], 1),
        )


class Parts(NamedTuple):
    """A network's MLPs, folded: those into tokens are centred."""

    observation: FoldedMlp[Tensor]  # of a design's spectrum and an outcome
    point: FoldedMlp[Tensor]  # of the spectrum of a point to predict at
    of_context: FoldedMlp[Tensor]  # of what a bank says
    of_point: FoldedMlp[Tensor]
    candidate: FoldedMlp[Tensor]  # of its spectrum
    advised: FoldedMlp[Tensor]  # of what a bank says of it
    worth: FoldedMlp[Tensor]  # and of its worth
    posterior: FoldedMlp[Tensor]
    predictive: FoldedMlp[Tensor]
    score: FoldedMlp[Tensor]

    @classmethod
    def of(cls, network: Network) -> Parts:
        """Fold them."""
        policy = network.policy
        design = FoldedMlp.of(network.design_embedder.mlp).centred()
        marker = less_mean(network.prediction_marker)
        worth = FoldedMlp.of(policy.worth_features).centred()
        return cls(
            observation=FoldedMlp.sum(design, FoldedMlp.of(network.outcome_embedder).centred()),
            point=replace(design, second_bias=design.second_bias + marker),
            of_context=FoldedMlp.of(network.context_features).centred(),
            of_point=FoldedMlp.of(network.point_features).centred(),
            candidate=FoldedMlp.of(policy.embedder.mlp).centred(),
            advised=FoldedMlp.of(policy.point_features).centred(),
            worth=replace(worth, first=worth.first / WORTH_UNIT),
            posterior=FoldedMlp.of(network.posterior_head.mlp, network.norm),
            predictive=FoldedMlp.of(network.predictive_head.mlp, network.norm),
            score=FoldedMlp.of(policy.head, policy.norm),
        )


class Weights(NamedTuple):
    """A network's weights for tokens that are columns."""

    folded: Folded
    layers: list[Layer]
    policy: list[Layer]
    key_value: Array  # [layer, 2 * head * (head_dim + 1), embed + 1]
    nothing: Array  # [embed + 1, 1], the token that stands for no observation
    parameters: Array  # [embed + 1, parameter], their tokens
    observation: Mlp  # of a design's spectrum and an outcome
    point: Mlp  # of the spectrum of a point to predict at
    of_context: Mlp  # of what a bank says
    of_point: Mlp
    candidate: Mlps  # of its spectrum, and what a bank says of it and of its worth
    posterior: Mlp
    predictive: Mlp
    told: Array | None  # [hidden + 1, 2 * parameter]
    score: Mlp
    steep: float  # what a logit gains as a candidate's worth grows e-fold
    steep_told: float  # and as what it would tell of the parameters does, by hypotheses

    @classmethod
    @torch.no_grad()
    def of(cls, network: Network) -> Weights:
        """Fold a network; later changes of its weights do not show."""
        known, parts, policy = folded(network), Parts.of(network), network.policy
        width = network.config.width
        return cls(
            folded=known,
            layers=[Layer.of(layer, known.heads) for layer in known.layers],
            policy=[Layer.of(layer, known.heads) for layer in known.policy],
            key_value=_key_value(known),
            nothing=with_ones(known.nothing.T),
            parameters=with_ones(known.parameters.T),
            observation=Mlp.of(parts.observation).into_tokens(first=True),
            point=Mlp.of(parts.point).into_tokens(first=True),
            of_context=Mlp.of(parts.of_context).into_tokens(),
            of_point=Mlp.of(parts.of_point).into_tokens(),
            candidate=Mlps.of(
                [
                    Mlp.of(parts.candidate).into_tokens(first=True),
                    Mlp.of(parts.advised).into_tokens(),
                    Mlp.of(parts.worth).into_tokens(),
                ]
            ),
            posterior=Mlp.of(parts.posterior, width),
            predictive=Mlp.of(parts.predictive, width),
            told=None if known.told is None else np.pad(known.told.T, ((0, 1), (0, 0))),
            score=Mlp.of(parts.score),
            steep=STEEP * float(policy.trust),
            steep_told=STEEP * float(policy.belief) if network.config.hypotheses else 0.0,
        )

    def spectrum(self, points: Tensor) -> Array:
        """What the embedders make of points [point, design] before their MLP, with ones."""
        return with_ones(self.folded.spectrum(points).T)

    def store(self, tokens: Array, plain: Array) -> Stored:
        """What observations [embed + 1, token] leave in every layer."""
        states = [Tokens.of(tokens)]
        for layer in self.layers[:-1]:
            states.append(layer.feed(states[-1]))
        # The policy's layers read the same states as the last of the inference layers.
        normed = [state.normed for state in (*states, *states[-len(self.policy) :])]
        return Stored(self.project(np.array(normed)), plain)

    def project(self, normed: Array) -> Array:
        """Keys and values of states [layer, embed + 1, token] in as many layers, the last ones."""
        layers, _, count = normed.shape
        both: Array = np.matmul(self.key_value[-layers:], normed)
        return both.reshape(layers, 2, self.folded.heads, -1, count)


weights_of = remembered(Weights.of)


def _key_value(known: Folded) -> Array:
    """Keys' and values' matrices; a head's last key is zero, its last value one."""
    layers, width, _ = known.key_value.shape
    both = np.concatenate([known.key_value, known.key_value_bias], 1)
    both = both.reshape(layers, width + 1, known.heads, -1).transpose(0, 2, 3, 1)
    size = width // known.heads
    keys = np.pad(both[:, :, :size], ((0, 0), (0, 0), (0, 1), (0, 0)))
    return np.stack([keys, both[:, :, size:]], 1).reshape(layers, -1, width + 1)


class Read(NamedTuple):
    """Tokens as the network leaves them."""

    normed: list[Array] | Array  # after each layer, [embed + 1, token]
    plain: Array  # [head * plain, token], what the last layer read of the observations

    def some(self, columns: slice) -> Read:
        """Of some tokens."""
        return Read([part[:, columns] for part in self.normed], self.plain[:, columns])


class Pointed(NamedTuple):
    """What is said of points."""

    points: Tensor
    read: Read  # of the parameters and of these
    mean: Array  # [point], as the bank expects it
    std: Array


@dataclass(kw_only=True)
class FunctionView(View):
    """A view of one episode; `hidden` and `keys` stay empty, `stored` takes their place.

    An observation is taken in only when something is asked that depends on it.
    """

    weights: Weights
    live_bank: LiveBank
    before: Stored  # what the context left but for
    new: tuple[Tensor, Tensor] | None = None  # the last observation: design [1, design], outcome
    inner: Kept[Array]  # of candidates: what their embedder's first layer makes of their spectra
    tokens: Kept[Array]  # of points to predict at
    last: Pointed | None = None  # as they may be a goal's too
    earlier: Bank | None = None  # all but the last observation, where hypotheses were asked

    def __post_init__(self) -> None:
        self.bank = self.live_bank

    @cached_property
    def supposed(self) -> Bank:
        """As `View.supposed`; who wants predictions alone does not need it."""
        if self.earlier is not None and self.new is not None:
            return self.earlier.extend(*self.new)
        assert self.network.hypotheses is not None
        return self.network.hypotheses.read(self.context, None, None)

    @cached_property
    def stored(self) -> Stored:
        """What the whole context left."""
        if self.new is None:
            return self.before
        design, outcome = self.new
        y = outcome.numpy()
        seen = np.concatenate([self.weights.folded.spectrum(design)[0], y, _ONE])[:, None]
        token = self.weights.observation(seen)
        return self.before.append(self.weights.store(token, plain_columns(design.numpy(), y)))

    def _read(self, columns: Array) -> Read:
        """Tokens [embed + 1, token] after each layer; they see only context."""
        stored, tokens, normed = self.stored, Tokens.of(columns), []
        for layer, keys_values in zip(self.weights.layers, stored.keys_values, strict=False):
            tokens, reading = layer(tokens, keys_values)
            normed.append(tokens.normed)
        if not self.network.config.shortcuts:
            return Read(normed, columns[:0])
        plain = np.matmul(stored.plain, reading.weights) / reading.total
        return Read(normed, plain.reshape(-1, columns.shape[1]))

    @property
    def _parameters(self) -> Array:
        """The parameters' tokens [embed + 1, parameter]."""
        features = [self.live_bank.description, _ONE]
        if self.guess is not None:
            features.insert(1, self.guess.describe()[0, 0].numpy())
        return self.weights.parameters + self.weights.of_context(np.concatenate(features)[:, None])

    @cached_property
    def _parameter_read(self) -> Read:
        return self._read(self._parameters)

    def _beliefs(self, read: Read, first: int) -> Components:
        """Of `first` parameters, then of points, relative to what hypotheses and bank expect."""
        inputs = np.concatenate([read.normed[-1], read.plain])
        heads = self.weights.posterior, self.weights.predictive
        parts = inputs[:, :first], inputs[:, first:]
        raw = np.concatenate([head(part) for head, part in zip(heads, parts, strict=True)], 1)
        return Components.of(raw, read.plain, self.network.config.components)

    @property
    def _first(self) -> int:
        """How many parameters' tokens come along with those of points.

        Hypotheses would have to be asked about theirs first.
        """
        return 0 if self.network.hypotheses is not None else len(self.weights.parameters[0])

    @cached_property
    def _components(self) -> Components:
        """Of the parameters."""
        own = self._beliefs(self._parameter_read, len(self.weights.parameters[0]))
        if self.guess is None:
            return own
        return own.around(*(part[0, 0].numpy() for part in (self.guess.mean, self.guess.std)))

    def posterior(self, chosen: Tensor | None = None) -> Mixture:
        """Marginal posteriors [1, 1, parameter] on the network's scale."""
        q = self._components.mixture()
        if chosen is None:
            return q
        return Mixture(*(part[:, :, chosen[0]] for part in (q.log_weight, q.mean, q.std)))

    @cached_property
    def moments(self) -> Tensor:
        """What the policy is told of q: means, then log spreads, [1, 1, 2 * parameter]."""
        return torch.from_numpy(self._components.moments())[None, None]

    def predictive(self, points: Tensor) -> Mixture:
        """Beliefs about outcomes at points [1, 1, target, design]."""
        at = self._at_points(points[0, 0])
        limits = cast(Real, self.network.spec.outcome).saturated()
        every = self._beliefs(at.read, self._first)
        if self._first:
            vars(self).setdefault("_components", every.some(slice(self._first)))
        return every.some(slice(self._first, None)).around(at.mean, at.std).mixture(limits)

    def _at_points(self, points: Tensor) -> Pointed:
        """What is said of points [point, design]."""
        if self.last is None or place_of(self.last.points) != place_of(points):
            mean, std, features = self.live_bank.expect(points, slice(None))
            columns = self.tokens.of(points) + self.weights.of_point(features)
            if self._first:  # for less than a pass of their own would cost
                columns = np.concatenate([self._parameters, columns], 1)
            read = self._read(columns)
            if self._first:
                vars(self).setdefault("_parameter_read", read.some(slice(self._first)))
            self.last = Pointed(points, read, mean, std)
        return self.last

    def scores(self, candidates: Tensor, goal: Goal) -> Tensor:
        """The pool policy's logits [1, 1, query] of candidates [1, 1, query, design]."""
        worth = self._worth(candidates[0, 0], goal)
        logits = self._scores_among(slice(None), candidates[0, 0], worth, goal)
        return torch.from_numpy(logits)[None, None]

    def best(self, candidates: Tensor, goal: Goal, allowed: Tensor | None = None) -> Tensor:
        """The index [1] of the candidate with the largest logit.

        For predictions, of many candidates only those are scored that are worth most by the bank.
        """
        worth = None if goal.has_parameters else self._worth(candidates[0], goal)
        if worth is None or len(worth.average) <= SHORTLIST:
            return super().best(candidates, goal, allowed)
        among = self._shortlist(worth.average, None if allowed is None else allowed[0].numpy())
        scores = self._scores_among(among, candidates[0], worth, goal)
        return torch.from_numpy(among[[scores.argmax()]])

    def _shortlist(self, average: Array, allowed: Array | None) -> Indices:
        """The candidates that are worth most of those that are allowed, or any where none is."""
        if allowed is not None:
            average = np.where(allowed, average, -1)
        among: Indices = np.sort(np.argpartition(-average, SHORTLIST)[:SHORTLIST])
        left = among[average[among] >= 0]
        return left if len(left) else among

    def _worth(self, candidates: Tensor, goal: Goal) -> Worth | None:
        """What the bank finds candidates [query, design] worth for a goal's predictions."""
        if not goal.points.shape[1]:
            return None
        return self.live_bank.weigh_candidates(candidates, goal.wanted)

    def _scores_among(
        self, among: slice | Indices, candidates: Tensor, worth: Worth | None, goal: Goal
    ) -> Array:
        """Logits of some of candidates [query, design]."""
        weights, shares = self.weights, None
        inner = self.inner.of(candidates)[:, among]
        if weights.told is not None:
            inner = inner + weights.told.dot(self._components.moments())[:, None]
        _, _, features = self.live_bank.expect(candidates, among)
        parts = [inner, weights.candidate.firsts[1].dot(features)]
        if worth is not None:
            shares = worth.features(among)
            parts.append(weights.candidate.firsts[2].dot(shares))
        tokens = self._ask(Tokens.of(weights.candidate(parts)), goal)
        logits: Array = weights.score(tokens.normed)[0]
        if shares is not None:
            logits += weights.steep * shares[-2]
        return self._leaning(logits, among, candidates, goal)

    def _leaning(
        self, logits: Array, among: slice | Indices, candidates: Tensor, goal: Goal
    ) -> Array:
        """Logits relative to what candidates would tell of parameters, by hypotheses."""
        if goal.has_parameters and (hypotheses := self.network.hypotheses) is not None:
            told = hypotheses.telling(self.supposed, candidates[None, None], goal.parameters)
            logits += self.weights.steep_told * told[0, 0].numpy()[among]
        return logits

    def _ask(self, tokens: Tokens, goal: Goal) -> Tokens:
        """Candidates after they read the context and the selected targets."""
        depth = len(self.weights.policy)
        own = self.weights.project(self._selected(goal, depth))
        count = len(goal.wanted)
        if count:
            own[:, 0, :, -1, -count:] = PER_NAT * log_weight_of(count)
        every = np.concatenate([self.stored.keys_values[-depth:], own], 4)
        for layer, keys_values in zip(self.weights.policy, every, strict=True):
            tokens, _ = layer(tokens, keys_values)
        return tokens

    def _selected(self, goal: Goal, depth: int) -> Array:
        """The goal's tokens as the policy's layers read them, [layer, embed + 1, target]."""
        parts: list[Any] = []
        if goal.has_parameters:
            chosen = goal.parameters[0].numpy()
            parts.append([part[:, chosen] for part in self._parameter_read.normed[-depth:]])
        if goal.points.shape[1]:
            read = self._at_points(goal.wanted).read.some(slice(self._first, None))
            parts.append(read.normed[-depth:])
        return np.concatenate(parts, 2)

    def extend(self, design: Tensor, outcome: Tensor) -> Self:
        """With one more observation: design [1, design], outcome [1]."""
        return replace(
            self,
            context=self.context.append(design, outcome),
            live_bank=self.live_bank.extend(design, outcome),
            before=self.stored,
            new=(design, outcome),
            last=None,
            earlier=vars(self).get("supposed"),
        )


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
