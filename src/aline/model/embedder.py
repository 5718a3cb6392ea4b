"""From numbers to tokens."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aline.spaces import Design


class Mlp(nn.Module):
    """Two linear layers with a ReLU between, as everywhere in the paper."""

    def __init__(self, inputs: int, hidden: int, outputs: int):
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.second = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor, more: Tensor | None = None) -> Tensor:
        """[..., inputs] -> [..., outputs]; `more` [..., hidden] comes from further inputs."""
        inner = self.first(x)
        out: Tensor = self.second(F.relu(inner if more is None else inner + more, inplace=True))
        return out


class DesignEmbedder(nn.Module):
    """f_x: the design with sines and cosines of its dyadic multiples, so that fine scales show."""

    octaves: Tensor

    def __init__(self, space: Design, octaves: int, hidden: int, width: int):
        super().__init__()
        self.space = space
        scales = math.pi / 2 * 2.0 ** torch.arange(octaves)
        self.register_buffer("octaves", scales, persistent=False)
        self.mlp = Mlp(len(space) * (1 + 2 * octaves), hidden, width)

    def forward(self, x: Tensor, more: Tensor | None = None) -> Tensor:
        """[..., design] -> [..., embed]; `more` [..., hidden] comes from further inputs."""
        x = self.space.settled(x)
        angles = (x[..., None] * self.octaves).flatten(-2)
        out: Tensor = self.mlp(torch.cat([x, angles.sin(), angles.cos()], -1), more)
        return out
