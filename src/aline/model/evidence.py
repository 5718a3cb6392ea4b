"""What the data say near guesses of the posterior, by a learned likelihood.

The log posterior is looked at in a guess and one standard deviation to each side of it along each
parameter. Slopes and curvatures there are a step of Newton's method towards the posterior, however
narrow it is, and say how parameters depend on each other there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from aline.model.advice import Frame
from aline.model.search import Places, Stage

FARTHEST = 2.0  # standard deviations that a step may move a guess
NARROWEST, WIDEST = 0.05, 2.0  # by what factor it may change the guess's spread
LOWEST = -20.0  # a guess's log weight, below which it is as good as none
FEATURES = 5  # a parameter, that a step's head sees


class Evidence(NamedTuple):
    """The log posterior near guesses, as the emulator has it, in units of each guess's spread."""

    slope: Tensor  # [..., parameter]
    bend: Tensor  # the same: second derivatives along each parameter
    precision: Tensor  # [..., parameter, parameter], positive definite
    height: Tensor  # [...]: the log posterior at the guess, in units of its spread

    @classmethod
    def of(cls, log_prob: Tensor, guess: Frame, prior: Frame | None) -> Evidence:
        """From log likelihoods [..., 1 + 2 * parameter, n] at `points_around` guesses.

        Without a `prior` chosen for the experiment it is the task's own, N(0, 1).
        The likelihood of one observation is taken to depend on one combination of the parameters:
        then its second derivatives are the outer product of those along each parameter.
        """
        count = guess.mean.shape[-1]
        here, above, below = log_prob.split([1, count, count], -2)
        slope, bend = (above - below) / 2, above + below - 2 * here
        root = slope.sign() * (-bend).clamp_min(0.0).sqrt()
        away, width = guess.mean, guess.std
        if prior is not None:
            away, width = (away - prior.mean) / prior.std, width / prior.std
        at_guess = width.log() - 0.5 * away.square()
        return cls(
            slope.sum(-1) - away * width,
            bend.sum(-1) - width.square(),
            root @ root.mT + torch.diag_embed(width.square()),
            here.sum((-2, -1)) + at_guess.sum(-1),
        )

    def step(self) -> Frame:
        """Where the posterior lies as seen from the guess, and its spread."""
        covariance = inverse(self.precision)[0]
        step = (covariance @ self.slope[..., None]).squeeze(-1)
        spread = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(1e-12).sqrt()
        return Frame(step.clamp(-FARTHEST, FARTHEST), spread.clamp(NARROWEST, WIDEST))

    def log_mass(self, step: Frame) -> Tensor:
        """Log of the posterior's mass around each guess [..., guess], by Laplace's method."""
        moved = step.mean[..., None]
        gain = (self.slope * step.mean).sum(-1) - 0.5 * (moved.mT @ self.precision @ moved)[
            ..., 0, 0
        ]
        mass = self.height + gain - 0.5 * inverse(self.precision)[1]
        return mass.log_softmax(-1).clamp_min(LOWEST)

    def features(self, step: Frame) -> Tensor:
        """What a head sees, [..., parameter, FEATURES]."""
        bent = (
            self.slope.asinh(),
            self.bend.asinh(),
            self.precision.diagonal(dim1=-2, dim2=-1).log(),
        )
        return torch.stack([step.mean, step.std.log(), *bent], -1)

    def conditional(self, known: Tensor, mask: Tensor, asked: Tensor) -> Frame:
        """Parameters `asked` [..., n] given `known` [..., n, parameter] values.

        Known values count where `mask` says so. All in units of the guess.
        """
        centre = self.step().mean[..., None, :]
        precision = self.precision[..., None, :, :]
        away = torch.where(mask, known - centre, 0.0)
        pull = -(precision @ away[..., None]).squeeze(-1).masked_fill(mask, 0.0)
        either = mask[..., None] | mask[..., None, :]
        covariance = inverse(torch.where(either, torch.eye(mask.shape[-1]), precision))[0]
        moved = centre + (covariance @ pull[..., None]).squeeze(-1)
        spread = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(1e-12).sqrt()
        at = asked.expand(moved.shape[:-1])[..., None]
        return Frame(
            moved.gather(-1, at).squeeze(-1).clamp(-2 * FARTHEST, 2 * FARTHEST),
            spread.gather(-1, at).squeeze(-1).clamp(NARROWEST, WIDEST),
        )


class Searched(NamedTuple):
    """Where a search for the posterior ended, and what the data say there."""

    places: Places
    evidence: Evidence | None = None  # None where the data are to be looked at anew
    stages: Sequence[Stage] = ()  # with which the search can go on

    def at(self, *index: Tensor) -> Searched:
        """Of some episodes and steps, where the first two axes are these."""
        places = Places(*(part[index] for part in self.places))
        if self.evidence is None:
            return Searched(places)
        return Searched(places, Evidence(*(part[index] for part in self.evidence)))

    @classmethod
    def side_by_side(cls, several: list[Searched]) -> Searched:
        """Of one group each, as groups of one."""
        places = zip(*(one.places for one in several), strict=True)
        found = zip(*(one.evidence for one in several if one.evidence is not None), strict=True)
        return cls(
            Places(*(torch.cat(part, 1) for part in places)),
            Evidence(*(torch.cat(part, 1) for part in found)),
        )


def points_around(guess: Frame) -> Tensor:
    """The guess, then one standard deviation up each parameter, then down: [..., 1 + 2 p, p]."""
    unit = torch.eye(guess.mean.shape[-1])
    steps = torch.cat([torch.zeros_like(unit[:1]), unit, -unit])
    return guess.mean[..., None, :] + guess.std[..., None, :] * steps


def inverse(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Of small positive definite matrices [..., n, n], by Gauss and Jordan; and log determinants.

    In plain operations: an exported graph has no other, and many small ones are faster so.
    """
    size = matrix.shape[-1]
    joined = torch.cat([matrix, torch.eye(size).expand_as(matrix)], -1)
    pivots = []
    for i in range(size):
        pivot = joined[..., i : i + 1, i : i + 1]
        row = joined[..., i : i + 1, :] / pivot
        others = joined - joined[..., :, i : i + 1] * row
        joined = torch.cat([others[..., :i, :], row, others[..., i + 1 :, :]], -2)
        pivots.append(pivot[..., 0, 0])
    log_determinant = torch.stack(pivots, -1).clamp_min(1e-12).log().sum(-1)
    return joined[..., size:], log_determinant
