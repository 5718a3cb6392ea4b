"""The live view of a function with its step compiled, where there was a compiler (model/native).

The step of model/live_functions.py is some three hundred operations, which take longer to call than
to compute. Here it is a dozen. What they compute is said there, in numpy, which is also what runs
where nothing was compiled, or where ALINE_NATIVE=0 in the environment asks for it; tests hold both
to the same numbers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aline.episodes import Context, Goal
from aline.episodes.goals import log_weight_of
from aline.model.attention import PER_NAT
from aline.model.kernels import place_of
from aline.model.live_bank import Array, Indices, Worth
from aline.model.live_columns import Components
from aline.model.live_functions import SHORTLIST, FunctionView, Kept, Pointed, Read
from aline.model.native_bank import Grown, NativeBank, empty, floats, native
from aline.model.native_weights import Packed, packed_of
from aline.model.network import Network
from aline.spaces.outcomes import Censored, Mixture


def is_compiled() -> bool:
    """Whether the step was compiled, and is to be used."""
    return native is not None and os.environ.get("ALINE_NATIVE") != "0"


def begin_native(network: Network) -> NativeView:
    """A view of no data yet."""
    assert network.kernels is not None
    packed = packed_of(network)
    weights = packed.plain
    return NativeView(
        network, Context.empty(1, len(network.spec.design)), [], [], None, None, (1, 1),
        weights=weights,
        packed=packed,
        live_bank=NativeBank.empty(network.kernels),
        before=packed.begin(),
        inner=Kept(lambda points: floats(weights.folded.spectrum(points).T)),
        tokens=Kept(lambda points: floats(weights.point(weights.spectrum(points))[:-1])),
    )  # fmt: skip


@dataclass(kw_only=True)
class NativeView(FunctionView):
    """A view of one episode; what is said of its fields there holds here."""

    packed: Packed
    before: Grown  # type: ignore[assignment]

    @cached_property
    def stored(self) -> Grown:  # type: ignore[override]
        """What the whole context left."""
        if self.new is None:
            return self.before
        design, outcome = self.new
        known, stored = self.weights.folded, self.before.claim(self.before.number + 1)
        settled = floats(known.space.settled(design).numpy())
        native.observe(
            *self._known(stored), design.shape[1], known.octaves, settled, floats(design.numpy()),
            float(outcome),
        )  # fmt: skip
        return stored

    def _known(self, stored: Grown) -> tuple[Any, ...]:
        """The network and what observations left, as what is compiled takes them."""
        packed = self.packed
        return packed.sizes, packed.weights, stored.array.shape[1], stored.number, stored.array

    @property
    def _first(self) -> int:
        """The parameters' tokens have a pass of their own, which costs little here."""
        return 0

    def _read(self, columns: Array) -> Read:
        """Tokens [embed + 1, token] after each layer; they see only context."""
        return self._decode(floats(columns[:-1]), None)

    def _decode(self, tokens: Array, features: Array | None) -> Read:
        """Tokens [embed, token] after each layer, with what the bank says of them."""
        count, config = tokens.shape[1], self.network.config
        states = empty(config.layers, config.width, count)
        read = empty(self.packed.read, count)
        native.decode(*self._known(self.stored), count, tokens, features, states, read)
        return Read(states, read)

    def _at_points(self, points: Tensor) -> Pointed:
        """What is said of points [point, design]."""
        if self.last is None or place_of(self.last.points) != place_of(points):
            mean, std, features = self.live_bank.expect(points, slice(None))
            self.last = Pointed(points, self._decode(self.tokens.of(points), features), mean, std)
        return self.last

    def _mixtures(
        self, is_predictive: bool, read: Read, mean: Array | None = None, std: Array | None = None
    ) -> tuple[Array, Array]:
        """Log weights, means and deviations [3, 1, 1, token, component], and their moments."""
        count = read.plain.shape[1]
        components = self.network.config.components
        mixtures, moments = empty(3, 1, 1, count, components), empty(2, 1, 1, count)
        native.believe(
            self.packed.sizes, self.packed.weights, is_predictive, count,
            read.normed[-1], read.plain, mean, std, mixtures, moments,
        )  # fmt: skip
        return mixtures, moments

    def _beliefs(self, read: Read, first: int) -> Components:
        """Of parameters, relative to what hypotheses expect."""
        mixtures, moments = self._mixtures(False, read)
        return Components(*mixtures[:, 0, 0].swapaxes(1, 2), *moments[:, 0, 0])

    def predictive(self, points: Tensor) -> Mixture:
        """Beliefs about outcomes at points [1, 1, target, design]."""
        at = self._at_points(points[0, 0])
        parts = self._mixtures(True, at.read, at.mean, at.std)
        log_weight, mean, std = torch.from_numpy(parts[0]).unbind()
        belief = Mixture(log_weight, mean, std)
        if self.packed.limits is not None:
            belief = Censored(log_weight, mean, std, limits=self.packed.limits)
        vars(belief)["kept_moments"] = torch.from_numpy(parts[1]).unbind()
        return belief

    def _scores_among(
        self, among: slice | Indices, candidates: Tensor, worth: Worth | None, goal: Goal
    ) -> Array:
        """Logits of some of candidates [query, design]."""
        weights, told = self.weights, None
        if isinstance(among, slice):
            among = np.arange(len(candidates), dtype=np.int64)
        if weights.told is not None:
            told = floats(weights.told[:-1].dot(self._components.moments()))
        _, _, features = self.live_bank.expect(candidates, among)
        states, points = self._selected(goal, len(weights.policy)), len(goal.wanted)
        logits = empty(len(among))
        native.rank(
            *self._known(self.stored),
            states.shape[2], points, PER_NAT * log_weight_of(max(points, 1)), states,
            len(candidates), len(among), among, self.inner.of(candidates), features, told,
            *(worth or (None, None, None)), weights.steep, logits,
        )  # fmt: skip
        return self._leaning(logits, among, candidates, goal)

    def _selected(self, goal: Goal, depth: int) -> Array:
        """The goal's tokens as the policy's layers read them, [layer, embed, target]."""
        if goal.has_parameters:
            return np.ascontiguousarray(super()._selected(goal, depth))
        read = self._at_points(goal.wanted).read
        assert isinstance(read.normed, np.ndarray)
        return read.normed[-depth:]

    def _shortlist(self, average: Array, allowed: Array | None) -> Indices:
        """The candidates that are worth most of those that are allowed, or any where none is."""
        among = np.empty(SHORTLIST, np.int64)
        count = native.shortlist(len(average), SHORTLIST, average, allowed, among)
        return among[:count]
