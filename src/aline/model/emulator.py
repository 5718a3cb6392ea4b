"""What the data say about values of the parameters, by a learned likelihood.

An emulator learns how outcomes are distributed given parameters and design: an ordinary function,
far easier to learn than a posterior. A step evaluates it at a guess of the posterior and one
standard deviation to each side of it along each parameter, summed over the observations. Slopes
and curvatures there are a step of Newton's method towards the posterior, however narrow it is.
What is not Gaussian about it is left to a head, in units of that step.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aline.episodes import Context
from aline.model.advice import Frame
from aline.model.config import ModelConfig
from aline.model.guesses import Guesses
from aline.model.tokens import INSIDE, Mlp, probit
from aline.spaces import Outcome, Parameters
from aline.spaces.outcomes.mixture import Mixture, mixture_start, read_mixture

if TYPE_CHECKING:
    from aline.model.encoder import Encoded

AT_ONCE = 6000  # beliefs told at a time: what passes between layers stays in the processor's cache
COMPONENTS = 2  # of an emulated number's distribution
LEAST = -10.0  # a log likelihood of what seems impossible: it may be the emulator that is wrong
FARTHEST = 2.0  # standard deviations that a step may move a guess
NARROWEST, WIDEST = 0.05, 2.0  # by what factor it may change the guess's spread
NEAREST = 0.01  # a squared change of an outcome's numbers, or distance, below which all is alike
FIRST_TRUST = torch.tensor([-2.0])  # logit of the trust in an emulator that has learned nothing yet
FEATURES = 5  # a parameter, that a step's head sees
COMPARED = 2  # more, where there are several guesses: how each compares with the others
LOWEST = -20.0  # a guess's log weight, below which it is as good as none


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


class NewtonStep(nn.Module):
    """Makes better guesses of the posterior from the evidence near each."""

    def __init__(self, width: int, hidden: int, components: int, guesses: int):
        super().__init__()
        self.guesses = guesses
        start = torch.cat([mixture_start(components, 0), FIRST_TRUST])
        compared = COMPARED if guesses > 1 else 0
        start = torch.cat([start, torch.zeros(compared)])
        self.head = Mlp(width + FEATURES + compared, hidden, len(start))
        with torch.no_grad():
            self.head.second.bias.copy_(start)
            self.head.second.weight.mul_(0.3)

    def forward(
        self, tokens: Tensor, evidence: Evidence, log_weight: Tensor, guess: Frame
    ) -> Guesses:
        """Of tokens [batch, group, parameter, embed]; guesses have log weights [..., guess]."""
        step = evidence.step()
        features = evidence.features(step)
        tokens = tokens[:, :, None].expand(*features.shape[:-1], -1)
        if self.guesses == 1:
            numbers = self.head(torch.cat([tokens, features], -1))
            return Guesses(log_weight, trusted_mixture(numbers, step).moved(*guess))
        seen, old = evidence.log_mass(step), log_weight.clamp_min(LOWEST)
        compared = torch.stack([seen, old], -1)[..., None, :].expand(*features.shape[:-1], -1)
        numbers = self.head(torch.cat([tokens, features, compared / 4], -1))
        trust, more = numbers[..., -COMPARED:].unbind(-1)
        share = (trust.sum(-1) / trust.shape[-1]).sigmoid()
        log_weight = torch.lerp(old, seen, share) + more.sum(-1)
        belief = trusted_mixture(numbers[..., :-COMPARED], step).moved(*guess)
        return Guesses(log_weight.log_softmax(-1), belief)


def trusted_mixture(numbers: Tensor, step: Frame) -> Mixture:
    """What a head's numbers mean in units of a step that it follows as far as it trusts it."""
    trust = numbers[..., -1].sigmoid()
    belief = read_mixture(numbers[..., :-1], numbers[..., :0])
    return belief.moved(trust * step.mean, (trust * step.std.log()).exp())


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
