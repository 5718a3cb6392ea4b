"""The live view of a network that has a bank of kernels: one function that is being learned.

As model/live.py, with what the experiment's bank (model/live_bank.py) has to say to each token. All
of it is computed in numpy: of the hundreds of candidates few are left to score, and to go back and
forth between two libraries costs more than torch gains on a hundred rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from aline.episodes import Goal
from aline.model.heads import Belief, Censored, Mixture, MixtureHead
from aline.model.kernels import REMEMBERED, Expectation, place_of
from aline.model.live import (
    FoldedMlp,
    LiveView,
    ParameterRows,
    arrays,
    ask,
    begin_live,
    decode_rows,
    less_mean,
    mixtures,
    moments_of,
    standardise,
    wanted_points,
)
from aline.model.live_bank import Array, Indices, LiveBank, Worth
from aline.model.network import STEEP, WORTH_UNIT, Decoded, Network
from aline.model.remembered import remembered

Known = TypeVar("Known")

SHORTLIST = 64  # candidates that are scored of those that a bank has an opinion of


def begin_function(network: Network) -> FunctionView:
    """A view of no data yet."""
    assert network.kernels is not None
    bare, advice = begin_live(network), _advice(network)
    return FunctionView(
        network,
        bare.context,
        [],
        [],
        None,
        None,
        (1, 1),
        weights=bare.weights,
        before=bare.before,
        live_bank=LiveBank.empty(network.kernels),
        advice=advice,
        spectra=Kept(bare.weights.spectrum),
        tokens=Kept(lambda points: advice.point(bare.weights.spectrum(points))),
    )


class Advice(NamedTuple):
    """A network's weights for points, candidates and what a bank says of them, folded."""

    point: FoldedMlp[Array]  # of the spectrum of a point to predict at
    predictive: FoldedMlp[Array] | None  # of real outcomes
    candidate: FoldedMlp[Array]  # of the spectrum of a candidate
    score: FoldedMlp[Array]
    of_context: FoldedMlp[Array]
    of_point: FoldedMlp[Array]
    of_candidate: FoldedMlp[Array]
    of_worth: FoldedMlp[Array]
    steep: Array  # [1], what a logit gains as a candidate's worth grows e-fold

    @classmethod
    @torch.no_grad()
    def of(cls, network: Network) -> Advice:
        """Fold what a network has of it."""
        policy, predictive = network.policy, network.predictive_head
        design = FoldedMlp.of(network.design_embedder.mlp).centred()
        marker = less_mean(network.prediction_marker)
        is_mixture = isinstance(predictive, MixtureHead)
        worth = FoldedMlp.of(policy.worth_features).centred()
        return cls(
            point=_few(replace(design, second_bias=design.second_bias + marker)),
            predictive=_few(FoldedMlp.of(predictive.mlp, network.norm)) if is_mixture else None,
            candidate=_few(FoldedMlp.of(policy.embedder.mlp).centred()),
            score=_few(FoldedMlp.of(policy.head, policy.norm)),
            of_context=_few(FoldedMlp.of(network.context_features).centred()),
            of_point=_few(FoldedMlp.of(network.point_features).centred()),
            of_candidate=_few(FoldedMlp.of(policy.point_features).centred()),
            of_worth=_few(replace(worth, first=worth.first / WORTH_UNIT)),
            steep=np.array([STEEP * float(policy.trust)], np.float32),
        )


def _few(folded: FoldedMlp[Tensor]) -> FoldedMlp[Array]:
    """The same for numpy."""
    return FoldedMlp(*arrays(folded))


_advice = remembered(Advice.of)


@dataclass(kw_only=True)
class FunctionView(LiveView):
    """A live view whose tokens are told what a bank says."""

    live_bank: LiveBank
    advice: Advice
    spectra: Kept[Array]  # of candidates
    tokens: Kept[Array]  # of points to predict at

    def __post_init__(self) -> None:
        self.bank = self.live_bank

    @cached_property
    def _parameter_rows(self) -> ParameterRows:
        return self._decode_rows(self._parameters)

    def _decode_rows(self, rows: Array) -> ParameterRows:
        return decode_rows(rows, self.weights.few_layers, self.stored, self._has_shortcuts)

    @property
    def _parameters(self) -> Array:
        """The parameters' tokens [parameter, embed]."""
        told = self.advice.of_context(self.live_bank.description[None])
        return self.weights.parameters + told

    def _decode_points(self, points: Tensor, expected: Expectation | None) -> Decoded:
        assert expected is not None
        rows = self.tokens.of(points[0, 0]) + self.advice.of_point(expected.features[0, 0].numpy())
        # The parameters' tokens come along, for less than a pass of their own would cost.
        first = len(self.weights.parameters)
        states, plain = self._decode_rows(np.concatenate([self._parameters, rows]))
        own = [rows[:first] for rows in states], plain[:first]
        vars(self).setdefault("_parameter_rows", own)
        *tokens, read = (torch.from_numpy(rows[None, None, first:]) for rows in (*states, plain))
        return Decoded(tokens, read)

    def _believe(self, decoded: Decoded) -> Belief:
        head = self.network.predictive_head
        if self.advice.predictive is None or not isinstance(head, MixtureHead):
            return super()._believe(decoded)
        rows, plain = (part[0, 0].numpy() for part in (decoded.states[-1], decoded.plain))
        raw = self.advice.predictive(np.concatenate([standardise(rows), plain], 1))
        parts = mixtures(raw, plain, head.components)
        belief = Mixture(*(torch.from_numpy(part)[None, None] for part in parts))
        return belief if head.limits is None else Censored(**vars(belief), limits=head.limits)

    def scores(self, candidates: Tensor, goal: Goal) -> Tensor:
        """The pool policy's logits [1, 1, query] of candidates [1, 1, query, design]."""
        worth = self._worth(candidates[0, 0], goal)
        logits = self._scores_among(slice(None), candidates[0, 0], worth, goal)
        return torch.from_numpy(logits)[None, None]

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
        scores = self._scores_among(among, candidates[0], worth, goal)
        scores[average[among] < 0] = -np.inf
        return torch.from_numpy(among[[scores.argmax()]])

    def _worth(self, candidates: Tensor, goal: Goal) -> Worth | None:
        """What the bank finds candidates [query, design] worth for a goal's predictions."""
        if not goal.points.shape[1]:
            return None
        return self.live_bank.weigh_candidates(candidates, wanted_points(goal)[0])

    def _scores_among(
        self, among: slice | Indices, candidates: Tensor, worth: Worth | None, goal: Goal
    ) -> Array:
        """Logits of some of candidates [query, design]."""
        rows = self.advice.candidate(self.spectra.of(candidates)[among], self._heard)
        _, _, features = self.live_bank.expect(candidates, among)
        rows += self.advice.of_candidate(features.T)
        shares = None if worth is None else worth.features(among)
        if shares is not None:
            rows += self.advice.of_worth(shares.T)
        logits = self.advice.score(standardise(ask(rows, [self], [goal])))[:, 0]
        return logits if shares is None else logits + self.advice.steep * shares[-1]

    @property
    def _heard(self) -> Array | None:
        """What the policy makes of q's moments, [1, hidden]."""
        if self.weights.told is None:
            return None
        heard: Array = moments_of([self._components]).dot(self.weights.told)
        return heard

    def extend(self, design: Tensor, outcome: Tensor) -> FunctionView:
        """With one more observation: design [1, design], outcome [1]."""
        return FunctionView(
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
            live_bank=self.live_bank.extend(design, outcome),
            advice=self.advice,
            spectra=self.spectra,
            tokens=self.tokens,
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
