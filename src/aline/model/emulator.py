"""The likelihood, learned: how outcomes are distributed given parameters and design.

That is an ordinary function, far easier to learn than a posterior. Summed over the observations it
says where the posterior lies (model/search.py), what shape it has there (model/evidence.py), and
how outcomes at a candidate depend on what is still unknown.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aline.episodes import Context
from aline.model.advice import Frame
from aline.model.config import ModelConfig
from aline.model.evidence import points_around
from aline.model.tokens import INSIDE, probit
from aline.spaces import Outcome, Parameters

if TYPE_CHECKING:
    from aline.model.encoder import Encoded

AT_ONCE = 6000  # beliefs told at a time: what passes between layers stays in the processor's cache
COMPONENTS = 2  # of an emulated number's distribution
LEAST = -10.0  # a log likelihood of what seems impossible: it may be the emulator that is wrong
NEAREST = 0.01  # a squared change of an outcome's numbers, or distance, below which all is alike


class Emulator(nn.Module):
    """Outcomes given parameters and design."""

    def __init__(self, outcome: Outcome, design: int, parameters: Parameters, config: ModelConfig):
        super().__init__()
        hidden = config.width
        self.outcome = outcome
        self.settled = parameters.settled  # any number of a value means the same
        start = outcome.head_start(COMPONENTS, 0)
        self.parameters_in = len(parameters)
        self.of_design = _smooth_layers(2 * design, hidden)
        self.of_parameters = _smooth_layers(len(parameters), hidden)
        self.inner = nn.Linear(hidden, hidden)
        self.of_logs = nn.Linear(hidden, hidden) if config.emulator_logs else None
        further = range(config.emulator_layers)
        self.further = nn.ModuleList(nn.Linear(hidden, hidden) for _ in further)
        self.out = nn.Linear(hidden, len(start))
        with torch.no_grad():
            self.out.bias.copy_(start)
            self.out.weight.mul_(0.3)
            if self.of_logs is not None:
                self.of_logs.weight.mul_(0.25)

    def design_states(self, designs: Tensor) -> Tensor:
        """What of designs [..., design] does not depend on the parameters, [..., hidden]."""
        seen = torch.cat([designs, probit((0.5 + 0.5 * designs).clamp(*INSIDE))], -1)
        out: Tensor = self.of_design(seen)
        return out

    def numbers(self, theta: Tensor, states: Tensor) -> Tensor:
        """Of a belief about outcomes [..., n]; theta [..., parameter], `design_states` [..., h]."""
        if torch.is_grad_enabled() or torch.compiler.is_exporting():
            return self._numbers(theta, states)
        shape = torch.broadcast_shapes(theta.shape[:-1], states.shape[:-1])
        step = max(1, AT_ONCE // max(1, math.prod(shape[1:])))
        if len(shape) > min(theta.dim(), states.dim()) - 1 or shape[0] <= step:
            return self._numbers(theta, states)
        rows = [slice(start, start + step) for start in range(0, shape[0], step)]
        inputs = [
            [part if len(part) == 1 else part[row] for part in (theta, states)] for row in rows
        ]
        return torch.cat([self._numbers(*part) for part in inputs])

    def _numbers(self, theta: Tensor, states: Tensor) -> Tensor:
        # Without gradients in place: these are the largest tensors of a training.
        spare = not torch.is_grad_enabled()
        both = states + self.of_parameters(self.settled(theta))
        hidden = F.hardswish(both)
        if self.of_logs is not None:
            hidden = hidden + self.of_logs((both.square() + NEAREST).log())
        hidden = F.hardswish(self.inner(hidden), spare)
        for layer in self.further:
            hidden = hidden + F.hardswish(layer(hidden), spare)
        out: Tensor = self.out(hidden)
        return out

    def effects(self, guesses: int) -> int:
        """How many numbers say how an outcome depends on the parameters."""
        changes = self.parameters_in + (guesses if guesses > 1 else 0)
        return (1 + 2 * changes) * self.out.out_features

    def effects_of(self, guess: Frame, places: Tensor | None, designs: Tensor) -> Tensor:
        """How outcomes at designs [..., n, design] change over the spread of a guess [..., p].

        Also how they differ between several `places` [..., guess, 1 + p], log weights first.
        """
        points = points_around(guess)
        if places is not None:
            points = torch.cat([points, places[..., 1:]], -2)
        count = guess.mean.shape[-1]
        found = self.numbers(points[..., None, :, :], self.design_states(designs)[..., None, :])
        here, above, below, there = found.split(
            [1, count, count, points.shape[-2] - 1 - 2 * count], -2
        )
        change = (above - below) / 2
        if places is not None:
            weight = (places[..., :1] / 2).exp()[..., None, :, :]
            change = torch.cat([change, weight * (there - here)], -2)
        return torch.cat([here, change.asinh(), (change.square() + NEAREST).log()], -2).flatten(-2)

    def log_prob(self, theta: Tensor, context: Context) -> Tensor:
        """Of each observation [..., n] for theta [..., parameter]; context [..., n, *]."""
        return self.log_prob_at(theta, self.design_states(context.designs), context.outcomes)

    def log_prob_at(self, theta: Tensor, states: Tensor, outcomes: Tensor) -> Tensor:
        """As `log_prob`, where the designs' states are at hand."""
        numbers = self.numbers(theta[..., None, :], states)
        return self.outcome.emulated(numbers, outcomes).clamp_min(LEAST)

    def of_groups(self, encoded: Encoded, points: Tensor) -> Tensor:
        """Log likelihoods [batch, group, point, n] of parameters [batch, group, point, parameter].

        Of each observation that a group sees; zero of those that it does not.
        """
        points = encoded.fold(points)
        found = self._of_context(encoded, points)
        if encoded.extra is not None:
            found = torch.cat([found, self._of_seen(points, encoded.extra, 2)], -1)
        return encoded.unfold(found)

    def _of_context(self, encoded: Encoded, points: Tensor) -> Tensor:
        """Groups are prefixes, mostly: what lies behind a group's last observation is left out."""
        seen = encoded.context
        if encoded.bias is None:
            return self._of_seen(points, seen, 1)
        hidden = encoded.bias[:, 0, ..., 1:] < 0  # [row, group, 1, n]
        if encoded.shape[1] == 1:
            return self._of_seen(points, seen, 1).masked_fill(hidden, 0.0)
        found = points.new_zeros(*points.shape[:3], hidden.shape[-1])
        states = self.design_states(seen.designs)
        for group in range(points.shape[1]):
            visible = (~hidden[:, group]).any(0)[0].nonzero()
            length = int(visible[-1]) + 1 if len(visible) else 0
            found[:, group, :, :length] = self.log_prob_at(
                points[:, group], states[:, None, :length], seen.outcomes[:, None, :length]
            )
        return found.masked_fill_(hidden, 0.0)

    def _of_seen(self, theta: Tensor, seen: Context, groups: int) -> Tensor:
        """Log likelihoods [row, group, point, n] of theta [row, group, point, parameter].

        What was seen has one row for all groups of an episode (`groups` 1), or one each (2).
        """
        rows = theta.shape[:groups]
        designs, outcomes = (
            part.reshape(*rows, *[1] * (3 - groups), *part.shape[1:])
            for part in (seen.designs, seen.outcomes)
        )
        return self.log_prob(theta, Context(designs, outcomes))


def _smooth_layers(inputs: int, hidden: int) -> nn.Sequential:
    """What is learned of designs, or of parameters, by themselves: they are few, pairs are many."""
    return nn.Sequential(
        nn.Linear(inputs, 2 * hidden), nn.Hardswish(), nn.Linear(2 * hidden, hidden)
    )
