"""From numbers to tokens."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aline.episodes import Context
from aline.spaces import Design, Outcome

INSIDE = (0.003, 0.997)  # shares of the way across a design's axis that count as its ends
# Wichura's rational approximations of the normal quantile (AS 241, PPND7): near the middle, beyond.
_MIDDLE = ((3.3871327179, 50.434271938, 159.29113202, 59.109374720),
           (1.0, 17.895169469, 78.757757664, 67.187563600))  # fmt: skip
_BEYOND = ((1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103),
           (1.0, 0.73700164250, 0.12021132975))  # fmt: skip


def flat(x: Tensor) -> Tensor:
    """Numbers [..., n] as rows, of which an exported graph has a product and a bias in one node."""
    return x.reshape(-1, x.shape[-1])


class Mlp(nn.Module):
    """Two linear layers with a ReLU between, as everywhere in the paper."""

    def __init__(self, inputs: int, hidden: int, outputs: int):
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.second = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor, more: Tensor | None = None) -> Tensor:
        """[..., inputs] -> [..., outputs]; `more` [..., hidden] comes from further inputs."""
        inner, shape = self.first(flat(x)), x.shape[:-1]
        if more is not None:
            wide = inner.view(*shape, inner.shape[-1]) + more
            inner, shape = flat(wide), wide.shape[:-1]
        out: Tensor = self.second(F.relu(inner, inplace=True))
        return out.view(*shape, out.shape[-1])


class Added(nn.Module):
    """Adds what a plug-in says to tokens, where there is one that says anything."""

    def __init__(self, inputs: int, hidden: int, width: int):
        super().__init__()
        self.mlp = Mlp(inputs, hidden, width) if inputs else None

    def forward(self, tokens: Tensor, features: Tensor) -> Tensor:
        """Tokens [..., embed] with features [..., inputs]."""
        return tokens if self.mlp is None else tokens + self.mlp(features)


class DesignEmbedder(nn.Module):
    """f_x: the design with sines and cosines of its dyadic multiples, so that fine scales show.

    Of an axis with named levels, which have no order, it sees also which one it is.
    """

    def __init__(self, space: Design, octaves: int, hidden: int, width: int):
        super().__init__()
        self.space = space
        self.octaves = octaves
        self.mlp = Mlp(len(space) * (1 + 2 * octaves) + space.named_width, hidden, width)

    def forward(self, x: Tensor, more: Tensor | None = None) -> Tensor:
        """[..., design] -> [..., embed]; `more` [..., hidden] comes from further inputs."""
        x = self.space.settled(x)
        numbers = [x, octaves_of(x, self.octaves), *self.space.named_levels(x)]
        out: Tensor = self.mlp(torch.cat(numbers, -1), more)
        return out


def octaves_of(x: Tensor, count: int) -> Tensor:
    """Sines, then cosines of dyadic multiples of numbers [..., n], as [..., n * 2 * count]."""
    angles = (x[..., None] * (math.pi / 2 * 2.0 ** torch.arange(count))).flatten(-2)
    return torch.cat([angles.sin(), angles.cos()], -1)


class RawNumbers(nn.Module):
    """Observations as numbers that heads can average.

    Designs are on the scale on which a parameter that is uniform on the same interval is seen.
    Behind designs and outcome come `implied` numbers: what the observation by itself says about
    parameters, straight where that is enough, bent where it is not.
    """

    def __init__(self, outcome: Outcome, design: int, implied: int, hidden: int):
        super().__init__()
        self.outcome = outcome
        self.width = design + outcome.width + implied
        self.straight = self.bent = None
        if implied:
            self.straight = nn.Linear(design + outcome.width, implied)
            self.bent = Mlp(design + outcome.width, hidden, implied)

    def forward(self, context: Context) -> Tensor:
        """[..., n, width]."""
        designs = probit((0.5 + 0.5 * context.designs).clamp(*INSIDE))
        raw = torch.cat([designs, self.outcome.encode(context.outcomes)], -1)
        if self.straight is None or self.bent is None:
            return raw
        return torch.cat([raw, self.straight(raw) + self.bent(raw)], -1)


def probit(p: Tensor) -> Tensor:
    """The normal quantile of INSIDE probabilities."""
    return probit_by_ratios(p) if torch.compiler.is_exporting() else torch.special.ndtri(p)


def probit_by_ratios(p: Tensor) -> Tensor:
    """The same to 1e-6, for graphs: ONNX has no operator for it."""
    away = p - 0.5
    middle = away * _ratio(_MIDDLE, 0.180625 - away * away)
    tail = _ratio(_BEYOND, (-torch.minimum(p, 1 - p).log()).sqrt() - 1.6)
    return torch.where(away.abs() <= 0.425, middle, tail * away.sign())


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: Tensor) -> Tensor:
    """One polynomial over another, coefficients from the constant on."""
    above, below = (_polynomial(each, x) for each in coefficients)
    return above / below


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    total = torch.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total
