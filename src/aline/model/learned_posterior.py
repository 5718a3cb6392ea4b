"""The posterior as a learned likelihood sees it: where it lies, and what shape it has there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from aline.episodes import Context
from aline.model.advice import Frame
from aline.model.emulator import Emulator
from aline.model.encoder import Encoded
from aline.model.evidence import Evidence, Searched, points_around
from aline.model.guesses import ByValue
from aline.model.search import LEAST_STD, STARTED_WIDE, Places, Stage, search


@dataclass(frozen=True)
class LearnedPosterior:
    """The prior times the likelihood that an emulator has learned, of contexts.

    A `prior` [batch, group, parameter] is one chosen for an experiment; without it the task's own
    counts, which is N(0, 1) on the network's scale.
    """

    emulator: Emulator
    by_value: ByValue | None
    places: int  # that a search looks at

    def log_prob(self, encoded: Encoded, prior: Frame | None, points: Tensor) -> Tensor:
        """Of points [batch, group, n, parameter], up to a constant: [batch, group, n]."""
        away = points
        if prior is not None:
            away = (points - prior.mean[:, :, None]) / prior.std[:, :, None]
        found = self.emulator.of_groups(encoded, points).sum(-1) - 0.5 * away.square().sum(-1)
        if self.by_value is None:
            return found
        values = self.by_value.log_prior_over_normal(encoded.prior)
        return found + values.repeat_interleave(points.shape[-2] // values.shape[-1], -1)

    @torch.no_grad()
    def evidence(self, encoded: Encoded, prior: Frame | None, guess: Frame) -> Evidence:
        """What the data say near guesses [batch, group, guess, parameter]."""
        around = points_around(guess)
        each = self.emulator.of_groups(encoded, around.flatten(2, 3))
        if prior is not None:
            prior = Frame(*(part[:, :, None] for part in prior))
        found = Evidence.of(each.unflatten(2, around.shape[2:4]), guess, prior)
        if self.by_value is None:
            return found
        values = self.by_value.log_prior_over_normal(encoded.prior)
        return found._replace(height=found.height + values)

    @torch.no_grad()
    def search(
        self, encoded: Encoded, prior: Frame | None, guess: Frame, units: Tensor
    ) -> Searched:
        """From a first guess [batch, group, 1, parameter] on."""
        none = guess.mean.new_zeros(guess.mean.shape[:-1])
        start = Places(none, guess.mean, STARTED_WIDE * guess.std)
        return self._searched(encoded, prior, start, units)

    @torch.no_grad()
    def search_on(
        self, encoded: Encoded, prior: Frame | None, before: Searched, units: Tensor
    ) -> Searched:
        """By one stage, from where a search ended before the last observation [batch, 1, ...]."""
        context = encoded.context
        last = Context(context.designs[:, None, -1:], context.outcomes[:, None, -1:])
        stages = []
        for stage in before.stages:
            more = self.emulator.log_prob(stage.points[:, 0], last).sum(-1)
            stages.append(stage._replace(height=stage.height + more[:, None]))
        turn = context.length % len(units)  # not always the same points
        return self._searched(encoded, prior, before.places, units[turn, None], stages)

    def _searched(
        self,
        encoded: Encoded,
        prior: Frame | None,
        start: Places,
        units: Tensor,
        before: Sequence[Stage] = (),
    ) -> Searched:
        least = LEAST_STD if prior is None else LEAST_STD * prior.std[:, :, None]
        if self.by_value is not None:  # each place stays at its own value
            start = self.by_value.places(start, LEAST_STD)
            units = units.masked_fill(self.by_value.is_column, 0.0)
        log_prob = partial(self.log_prob, encoded, prior)
        places, stages = search(start, self.places, units, log_prob, least, before)
        if self.by_value is not None:
            places = self.by_value.places(places)
        return Searched(places, self.evidence(encoded, prior, places.frame), stages)
