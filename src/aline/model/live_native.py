"""The live view of a function with its step compiled, where there was a compiler (model/native).

The step of model/live_functions.py and model/live_bank.py is some three hundred operations, and
takes longer to call them than to compute. Here it is eight. What they compute is said there, in
numpy, which is also what runs where nothing was compiled or where ALINE_NATIVE=0 in the environment
asks for it; tests hold both to the same numbers.

Points and tokens are columns, LANES of them a block. Nothing is shared between threads but what
views share, and of that only rows are written that nobody else has claimed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from aline.episodes import Context, Goal
from aline.episodes.goals import log_weight_of
from aline.model.attention import PER_NAT
from aline.model.heads import Censored, Mixture, MixtureHead
from aline.model.kernels import REMEMBERED, KernelBank, Place, place_of
from aline.model.live import Folded, FoldedLayer, FoldedMlp, folded
from aline.model.live_bank import Array, Fit, Indices, LiveBank, Worth
from aline.model.live_columns import Components
from aline.model.live_functions import (
    SHORTLIST,
    FunctionView,
    Kept,
    Parts,
    Pointed,
    Read,
    Weights,
    weights_of,
)
from aline.model.network import Network
from aline.model.remembered import remembered

try:
    from aline.model import _native as native
except ImportError:  # no compiler when it was installed
    native = None  # type: ignore[assignment]

PANEL = 8  # outputs of a linear map that lie together (native/step.h)
ROOM = 16  # observations that there is room for at first


def is_compiled() -> bool:
    """Whether the step was compiled, and is to be used."""
    return native is not None and os.environ.get("ALINE_NATIVE") != "0"


def begin_native(network: Network) -> NativeView:
    """A view of no data yet."""
    assert network.kernels is not None
    packed = _packed(network)
    weights = packed.plain
    return NativeView(
        network, Context.empty(1, len(network.spec.design)), [], [], None, None, (1, 1),
        weights=weights,
        packed=packed,
        live_bank=NativeBank.empty(network.kernels),
        before=packed.begin(),
        inner=Kept(lambda points: _floats(weights.folded.spectrum(points).T)),
        tokens=Kept(lambda points: _floats(weights.point(weights.spectrum(points))[:-1])),
    )  # fmt: skip


def _padded(count: int) -> int:
    """In whole blocks."""
    return -(-count // native.LANES) * native.LANES


def _floats(given: Array) -> Array:
    return np.ascontiguousarray(given, np.float32)


def _empty(*shape: int) -> Array:
    return np.empty(shape, np.float32)


class Grown(NamedTuple):
    """The first `number` along an axis of an array that may hold more behind."""

    array: Array
    axis: int
    number: int
    used: list[int]  # how many are somebody's, for all that have this array to see

    def claim(self, total: int) -> Grown:
        """Likewise `total`, of which those behind what is here are for the caller to fill."""
        array, axis, number, used = self
        if total <= array.shape[axis] and used[0] == number:
            used[0] = total
            return Grown(array, axis, total, used)
        own = (slice(None),) * axis + (slice(number),)
        shape = list(array.shape)
        shape[axis] = max(ROOM, 2 * total)
        grown = _empty(*shape)
        grown[own] = array[own]
        return Grown(grown, axis, total, [total])


class Known(NamedTuple):
    """Points that a bank was asked about, as `live_bank.Asked`."""

    points: Tensor
    known: int
    where: Array  # [design, padded]
    rows: Grown  # [kernel, block, context, LANES]
    squares: Array  # [kernel, padded]
    mean: Array  # [kernel, padded]

    @classmethod
    def nothing(cls, points: Tensor, kernels: int) -> Known:
        """Of no observation."""
        size, padded = len(points), _padded(len(points))
        where = np.zeros((points.shape[1], padded), np.float32)
        where[:, :size] = points.numpy().T
        rows = Grown(_empty(kernels, padded // native.LANES, 0, native.LANES), 2, 0, [0])
        squares, mean = np.zeros((2, kernels, padded), np.float32)
        return cls(points, 0, where, rows, squares, mean)


@dataclass(frozen=True)
class NativeBank(LiveBank):
    """One episode's context as a bank holds it."""

    table: Array = field(kw_only=True)  # [kernel, 3 + design], its shapes
    fitted: Fit = field(kw_only=True)
    asked: dict[Place, Known] = field(default_factory=dict, repr=False)  # type: ignore[assignment]

    @classmethod
    def empty(cls, kernels: KernelBank) -> NativeBank:
        """Of no data yet."""
        plain = LiveBank.empty(kernels)
        stretch, *others = plain.shapes
        table = np.concatenate([*(part[:, :, 0] for part in others), stretch], 1)
        return cls(
            plain.shapes, plain.designs, plain.rows, plain.log_roots, plain.white,
            table=table, fitted=plain._fit,
        )  # fmt: skip

    @property
    def _fit(self) -> Fit:
        return self.fitted

    def extend(self, design: Tensor, outcome: Tensor) -> NativeBank:
        """With one more observation: design [1, design], outcome [1]."""
        x = _floats(design.numpy())
        count, kernels = len(self.designs), len(self.table)
        known, column = self._holding(design, x)
        row, white = _empty(2, kernels, count + 1)
        fits = _empty(4, kernels)
        native.extend(
            kernels, count, column, known.squares.shape[1], known.rows.array.shape[2],
            known.rows.array, known.squares, known.mean, float(outcome), self.white,
            self.log_roots, row, white, fits,
        )  # fmt: skip
        log_roots, *fit = fits
        return NativeBank(
            self.shapes,
            np.concatenate([self.designs, x]),
            (*self.rows, row),
            log_roots,
            white,
            table=self.table,
            fitted=Fit(*fit),
            asked=dict(self.asked),
            past=self.shared or self.past,
        )

    def _holding(self, design: Tensor, x: Array) -> tuple[Known, int]:
        """Points of which all is known, and which of them a design is."""
        for known in reversed(self.asked.values()):
            if known.known == len(self.designs):
                size, padded = known.where.shape
                column = native.find(size, len(known.points), padded, known.where, x)
                if column >= 0:
                    return known, column
        return self._known(design, None), 0

    def ask(self, points: Tensor) -> Known:  # type: ignore[override]
        """What is known of points [point, design] now."""
        place = place_of(points)
        before = self.asked.pop(place, None)
        if before is None or before.known < len(self.designs):
            before = self._known(points, before)
        self.asked[place] = before  # now the latest
        while len(self.asked) > REMEMBERED:
            self.asked.pop(next(iter(self.asked)), None)
        return before

    def _known(self, points: Tensor, before: Known | None) -> Known:
        """Add rows for the observations that came since."""
        kernels, size = len(self.table), self.designs.shape[1]
        if before is None:
            before = Known.nothing(points, kernels)
        count, padded = len(self.designs), before.where.shape[1]
        rows = before.rows.claim(count)
        squares, mean = before.squares.copy(), before.mean.copy()
        native.learn(
            kernels, size, before.known, count, padded, rows.array.shape[2],
            self.table, self.designs, self.white, before.where, rows.array, squares, mean,
            self.rows,
        )  # fmt: skip
        return Known(points, count, before.where, rows, squares, mean)

    def expect(self, points: Tensor, among: slice | Indices) -> tuple[Array, Array, Array]:
        """Means, deviations and features [point_features, point] at some of points, and ones."""
        known, kernels = self.ask(points), len(self.table)
        chosen = len(points) if isinstance(among, slice) else len(among)
        mean, std = _empty(2, chosen)
        features = _empty(3 * kernels + 3, chosen)
        native.expect(
            kernels, len(points), chosen, known.squares.shape[1],
            None if isinstance(among, slice) else among,
            known.squares, known.mean, self.fitted.log_scale, self.fitted.weight,
            mean, std, features,
        )  # fmt: skip
        return mean, std, features

    def weigh_candidates(self, candidates: Tensor, targets: Tensor) -> Worth:
        """What candidates [candidate, design] would tell of targets [target, design]."""
        known, goal = self.ask(candidates), self.ask(targets)
        common = self._take(candidates, targets)
        kernels, padded = known.squares.shape
        fall, left, average = _empty(kernels, padded), _empty(kernels, 1), _empty(padded)
        native.weigh(
            kernels, common.known, len(self.designs), len(targets),
            padded, known.rows.array.shape[2], known.rows.array, known.squares,
            goal.squares.shape[1], goal.rows.array.shape[2], goal.rows.array, goal.squares,
            self.fitted.log_scale, self.fitted.weight, common.covariance, fall, left, average,
        )  # fmt: skip
        self.shared[:] = [common._replace(known=len(self.designs))]
        count = len(candidates)
        return Worth(fall[:, :count], left, average[:count])

    def _prior(self, candidates: Tensor, targets: Tensor) -> Array:
        """Their covariance [kernel, block, target, LANES] before any observation."""
        where, other = self.ask(candidates).where, self.ask(targets).where
        (size, padded), room = where.shape, other.shape[1]
        kernels, lanes = len(self.table), native.LANES
        found = _empty(kernels, padded // lanes, len(targets), lanes)
        native.prior(kernels, size, len(targets), padded, room, self.table, where, other, found)
        return found


class Packed(NamedTuple):
    """A network's weights as they are compiled for (native/step.h)."""

    sizes: np.ndarray[Any, np.dtype[np.int32]]
    weights: Array
    nothing: Array  # [..., 1], what the token that stands for no observation leaves
    limits: tuple[float, float] | None  # of outcomes
    read: int  # numbers that a token reads of observations as they are
    plain: Weights  # the same, for what is done once for a pool or a goal

    @classmethod
    @torch.no_grad()
    def of(cls, network: Network) -> Packed:
        """Pack a network; later changes of its weights do not show."""
        known, parts, weights = folded(network), Parts.of(network), weights_of(network)
        config, kernels, head = network.config, network.kernels, network.predictive_head
        assert kernels is not None
        assert isinstance(head, MixtureHead)
        plain = len(network.spec.design) + 1 if config.shortcuts else 0
        mlps = (
            parts.observation, parts.of_point, parts.candidate, parts.advised, parts.worth,
            parts.posterior, parts.predictive, parts.score,
        )  # fmt: skip
        sizes = (
            config.width, config.heads, config.feedforward, config.layers, config.policy_layers,
            config.components, len(parts.candidate.first), kernels.point_features,
            kernels.worth_features, plain,
        )  # fmt: skip
        return cls(
            np.array(sizes, np.int32),
            np.concatenate(
                [
                    *(_layer(layer) for layer in (*known.layers, *known.policy)),
                    *_key_values(known),
                    *(_mlp(mlp) for mlp in mlps),
                ]
            ),
            _nothing(weights, plain),
            head.limits,
            config.heads * plain,
            weights,
        )

    def begin(self) -> Grown:
        """What is stored before any observation."""
        return Grown(self.nothing, 1, 1, [1])


_packed = remembered(Packed.of)


def _linear(weight: Tensor, bias: Tensor) -> Array:
    """A matrix [inputs, outputs] in panels, [panel, input, PANEL], and its biases."""
    inputs, outputs = weight.shape
    panels = -(-outputs // PANEL)
    padded = np.zeros((inputs + 1, panels * PANEL), np.float32)
    padded[:-1, :outputs], padded[-1, :outputs] = weight.numpy(), bias.numpy()
    by_panel = padded[:-1].reshape(inputs, panels, PANEL).swapaxes(0, 1)
    return np.concatenate([by_panel.ravel(), padded[-1]])


def _mlp(mlp: FoldedMlp[Tensor]) -> Array:
    return np.concatenate(
        [_linear(mlp.first, mlp.first_bias), _linear(mlp.second, mlp.second_bias)]
    )


def _layer(layer: FoldedLayer[Tensor]) -> Array:
    return np.concatenate(
        [
            _linear(layer.query, layer.query_bias),
            _linear(layer.out, layer.out_bias),
            _linear(layer.feed_in, layer.feed_in_bias),
            _linear(layer.feed_out, layer.feed_out_bias),
        ]
    )


def _key_values(known: Folded) -> Iterator[Array]:
    """Of each layer, the keys of all heads and then their values."""
    layers, width, _ = known.key_value.shape
    both = np.concatenate([known.key_value, known.key_value_bias], 1)
    size = width // known.heads
    # Behind a head's keys and values is a one (live.py), which is not needed here.
    parts = both.reshape(layers, width + 1, known.heads, -1)[..., : 2 * size]
    parts = parts.reshape(layers, width + 1, known.heads, 2, size).transpose(0, 1, 3, 2, 4)
    for matrix in torch.from_numpy(parts.reshape(layers, width + 1, -1)):
        yield _linear(matrix[:-1], matrix[-1])


def _nothing(weights: Weights, plain: int) -> Array:
    """What the token that stands for no observation leaves, and zeros for it as it is."""
    left = weights.store(weights.nothing, np.zeros((plain, 1), np.float32))
    keys_values = left.keys_values[:, :, :, :-1]  # without the rows of zeros and ones
    return np.concatenate([keys_values.reshape(-1, 1), left.plain])


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
        settled = _floats(known.space.settled(design).numpy())
        native.observe(
            *self._known(stored), design.shape[1], known.octaves, settled, _floats(design.numpy()),
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
        return self._decode(np.ascontiguousarray(columns[:-1]), None)

    def _decode(self, tokens: Array, features: Array | None) -> Read:
        """Tokens [embed, token] after each layer, with what the bank says of them."""
        count, config = tokens.shape[1], self.network.config
        states = _empty(config.layers, config.width, count)
        read = _empty(self.packed.read, count)
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
        mixtures, moments = _empty(3, 1, 1, count, components), _empty(2, 1, 1, count)
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
            told = weights.told[:-1].dot(self._components.moments())
        _, _, features = self.live_bank.expect(candidates, among)
        states, points = self._selected(goal, len(weights.policy)), len(goal.wanted)
        logits = _empty(len(among))
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

    def extend(self, design: Tensor, outcome: Tensor) -> NativeView:
        """With one more observation: design [1, design], outcome [1]."""
        assert isinstance(self.live_bank, NativeBank)
        return NativeView(
            self.network, self.context.append(design, outcome), [], [], None, None, (1, 1),
            weights=self.weights,
            packed=self.packed,
            live_bank=self.live_bank.extend(design, outcome),
            before=self.stored,
            new=(design, outcome),
            inner=self.inner,
            tokens=self.tokens,
            earlier=vars(self).get("supposed"),
        )  # fmt: skip
