"""The live view of a network that has a bank of kernels: one function that is being learned.

As model/live.py, with what the experiment's bank (model/live_bank.py) has to say to each token.
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
        tokens=Kept(lambda points: advice.point(torch.from_numpy(bare.weights.spectrum(points)))),
    )


class Advice(NamedTuple):
    """A network's weights for points to predict at and for what a bank says, folded."""

    point: FoldedMlp[Tensor]  # of the spectrum of a point to predict at
    predictive: FoldedMlp[Tensor] | None  # of real outcomes
    of_context: FoldedMlp[Array]
    of_point: FoldedMlp[Tensor]
    of_candidate: FoldedMlp[Tensor]
    of_worth: FoldedMlp[Tensor]
    steep: float  # what a logit gains as a candidate's worth grows e-fold

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
            point=replace(design, second_bias=design.second_bias + marker),
            predictive=FoldedMlp.of(predictive.mlp, network.norm) if is_mixture else None,
            of_context=FoldedMlp(*arrays(FoldedMlp.of(network.context_features).centred())),
            of_point=FoldedMlp.of(network.point_features).centred(),
            of_candidate=FoldedMlp.of(policy.point_features).centred(),
            of_worth=replace(worth, first=worth.first / WORTH_UNIT),
            steep=STEEP * float(policy.trust),
        )


_advice = remembered(Advice.of)


@dataclass(kw_only=True)
class FunctionView(LiveView):
    """A live view whose tokens are told what a bank says."""

    live_bank: LiveBank
    advice: Advice
    spectra: Kept[Array]  # of candidates
    tokens: Kept[Tensor]  # of points to predict at

    def __post_init__(self) -> None:
        self.bank = self.live_bank

    @cached_property
    def _parameter_rows(self) -> ParameterRows:
        return decode_rows(
            self._parameters, self.weights.few_layers, self.stored, self._has_shortcuts
        )

    @property
    def _parameters(self) -> Array:
        """The parameters' tokens [parameter, embed]."""
        told = self.advice.of_context(self.live_bank.description[None])
        return self.weights.parameters + told

    def _decode_points(self, points: Tensor, expected: Expectation | None) -> Decoded:
        assert expected is not None
        rows = self.tokens.of(points[0, 0]) + self.advice.of_point(expected.features[0, 0])
        # The parameters' tokens come along, for less than a pass of their own would cost.
        first = len(self.weights.parameters)
        every = torch.cat([torch.from_numpy(self._parameters), rows])
        states, plain = self._decode_many(every)
        own = [rows[:first].numpy() for rows in states], plain[:first].numpy()
        vars(self).setdefault("_parameter_rows", own)
        return Decoded([rows[None, None, first:] for rows in states], plain[None, None, first:])

    def _believe(self, decoded: Decoded) -> Belief:
        head = self.network.predictive_head
        if self.advice.predictive is None or not isinstance(head, MixtureHead):
            return super()._believe(decoded)
        plain = decoded.plain[0, 0]
        raw = self.advice.predictive(torch.cat([standardise(decoded.states[-1][0, 0]), plain], 1))
        parts = mixtures(raw.numpy(), plain.numpy(), head.components)
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

    def _worth(self, candidates: Tensor, goal: Goal) -> Worth | None:
        """What the bank finds candidates [query, design] worth for a goal's predictions."""
        if not goal.points.shape[1]:
            return None
        return self.live_bank.weigh_candidates(candidates, wanted_points(goal)[0])

    def _scores_among(
        self, among: slice | Indices, candidates: Tensor, worth: Worth | None, goal: Goal
    ) -> Tensor:
        """Logits of some of candidates [query, design]."""
        spectrum = torch.from_numpy(self.spectra.of(candidates)[among])
        rows = self.weights.candidate(spectrum, self._heard)
        _, _, features = self.live_bank.expect(candidates, among)
        rows += self.advice.of_candidate(torch.from_numpy(features).T)
        leaning = None
        if worth is not None:
            shares = torch.from_numpy(worth.features(among))
            rows += self.advice.of_worth(shares.T)
            leaning = self.advice.steep * shares[-1]
        logits = self.weights.score(standardise(ask(rows, [self], [goal])))[:, 0]
        return logits if leaning is None else logits + leaning

    @property
    def _heard(self) -> Tensor | None:
        """What the policy makes of q's moments, [1, hidden]."""
        if self.weights.told is None:
            return None
        return torch.from_numpy(moments_of([self._components]).dot(self.weights.told))

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
