"""A network's weights as its compiled step takes them (model/native/step.h)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from aline.model.live import Folded, FoldedLayer, FoldedMlp, folded
from aline.model.live_bank import Array
from aline.model.live_functions import Parts, Weights, weights_of
from aline.model.native_bank import Grown
from aline.model.network import Network
from aline.model.remembered import remembered
from aline.spaces import Real

PANEL = 8  # outputs of a linear map that lie together


class Packed(NamedTuple):
    """A network's weights, and what follows from them."""

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
        config, kernels = network.config, network.kernels
        assert kernels is not None
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
            cast(Real, network.spec.outcome).saturated(),
            config.heads * plain,
            weights,
        )

    def begin(self) -> Grown:
        """What is stored before any observation."""
        return Grown(self.nothing, 1, 1, [1])


packed_of = remembered(Packed.of)


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
