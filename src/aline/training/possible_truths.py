"""Truths that could have given the same data.

Put the truth of an episode among others. Knowing the data and all of them, but not which is which,
each is the truth with a probability in proportion to its posterior density over the density that
the others were drawn with. So q may learn from any of them, drawn with that probability: the loss
has the same expectation, however many there are and wherever they come from, and far less noise
wherever the data leave much open. Once q is right, this noise is all that is left in its gradient.

The others are drawn from q itself, and anew each time the data have doubled, so that many stay
likely as data come in. Those of a stage must not know the data that come later in it, which depend
on the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from aline.episodes import Context
from aline.model.guesses import Guesses
from aline.model.prior import own_prior
from aline.policies.importance import tempered
from aline.policies.information import WORST
from aline.spaces import Parameters
from aline.spaces.outcomes import Mixture
from aline.tasks import Task

PRIOR_SHARE = 0.1  # of q's others come from the prior, so that no weight can explode
TOGETHER_SHARE = 0.6  # of the others come from a normal that fits the parameters together
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
WIDENED = 1.5  # its covariance, so that its tails are not too light
EVEN_SHARE = 0.2  # of the normals' weights that is the same for every guess


def stage_starts(length: int) -> list[int]:
    """After how many observations, of `length`, others are drawn: 0, 1, 2, 4, 8, ..."""
    return [0, *(2**i for i in range(length.bit_length()))]


@dataclass(frozen=True)
class PossibleTruths:
    """The truths of a batch of episodes among others, with how likely each is to be the truth.

    Every episode has others of its own: what they share by chance would not average out.
    """

    theta: Tensor  # [batch, stage, 1 + other, parameter], the truth first
    log_weight: Tensor  # [batch, stage, 1 + other] before any observation
    log_likelihood: Tensor  # [batch, stage, 1 + other, observation] of each observation
    stage: Tensor  # [1 + observation] whose others serve after that many observations

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        task: Task,
        truth: Tensor,
        context: Context,
        q: Guesses,
        count: int,
        generator: torch.Generator,
    ) -> PossibleTruths:
        """Draw `count` others a stage from q at its start; q's groups are the stages."""
        starts, stage = stage_starts(context.length), []
        theta, weights, fits = [], [], []
        prior = Priors.of(task.spec.parameters, context.prior, truth)
        for i, (start, end) in enumerate(pairwise([*starts, context.length + 1])):
            if start == 0:  # nothing is known: the others come from the prior
                others = prior.sample(count, generator)
                all_ = torch.cat([truth[:, None], others], 1)
                weight = torch.zeros(all_.shape[:2])
            else:
                proposal = Proposal.fitted(
                    task, context, prior, q.group(i), start, count // 2, generator
                )
                all_ = torch.cat([truth[:, None], proposal.sample(count, generator)], 1)
                weight = -proposal.log_prob_over_prior(all_)
            theta.append(all_)
            weights.append(weight)
            fits.append(_log_likelihood(task, all_, context, context.length))
            stage.append(torch.full((end - start,), i))
        together = [torch.stack(part, 1) for part in (theta, weights, fits)]
        return cls(together[0], together[1], together[2], torch.cat(stage))

    def draw(self, lengths: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Truths [batch, prefix, count, parameter] after `lengths` [batch, prefix] observations."""
        seen = torch.arange(self.log_likelihood.shape[-1]) < lengths[..., None]
        return self.given(seen, self.stage[lengths], count, generator)

    def given(self, seen: Tensor, stage: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Truths [batch, group, count, parameter] given `seen` [batch, group, observation].

        They are drawn from the others of a `stage` [batch, group], evenly over the probabilities.
        """
        row = torch.arange(len(seen))[:, None]
        fit = (self.log_likelihood[row, stage] @ seen.float()[..., None]).squeeze(-1)
        cumulated = (self.log_weight[row, stage] + fit).softmax(-1).cumsum(-1)
        position = torch.arange(count) + torch.rand(*stage.shape, 1, generator=generator)
        last = self.theta.shape[2] - 1
        index = torch.searchsorted(cumulated, position / count).clamp(max=last)
        return self.theta[row[..., None], stage[..., None], index]


@dataclass(frozen=True)
class Priors:
    """The priors of a batch of episodes, normal on the network's scale."""

    mean: Tensor  # [batch, 1, parameter]
    std: Tensor  # the same
    parameters: Parameters

    @classmethod
    def of(cls, parameters: Parameters, chosen: Tensor | None, truth: Tensor) -> Priors:
        """Those chosen [batch, parameter, 2], or the task's own, for truths [batch, parameter]."""
        prior = own_prior(*truth.shape) if chosen is None else chosen
        mean, std = prior[:, None].unbind(-1)
        return cls(mean, std, parameters)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [batch, count, parameter]."""
        batch, _, parameters = self.mean.shape
        noise = torch.randn(batch, count, parameters, generator=generator)
        return self.parameters.redrawn(self.mean + self.std * noise, generator)

    def log_prob(self, theta: Tensor) -> Tensor:
        """Log density [batch, n] of theta [batch, n, parameter]."""
        mean, std = self.mean[..., None], self.std[..., None]
        return (
            self.parameters.cut(Mixture(torch.zeros_like(mean), mean, std)).log_prob(theta).sum(-1)
        )


@dataclass(frozen=True)
class Proposal:
    """Where others are drawn from: q's guesses, a normal for each that fits it, the prior.

    Within a guess, q knows nothing of how parameters depend on each other; its normal has the means
    and covariances of draws from it, weighed by the likelihood.
    """

    q: Guesses  # of one group
    mean: Tensor  # [batch, guess, parameter]
    root: Tensor  # [batch, guess, parameter, parameter], lower Cholesky factor of the covariance
    prior: Priors

    @classmethod
    def fitted(
        cls, task: Task, context: Context, prior: Priors, q: Guesses, length: int, count: int,
        generator: torch.Generator,
    ) -> Proposal:  # fmt: skip
        """After the first `length` observations, by `count` draws."""
        fits = [
            _fitted_normal(task, context, prior, guess, length, count, generator)
            for guess in q.each_alone()
        ]
        means, roots = zip(*fits, strict=True)
        return cls(q, torch.stack(means, 1), torch.stack(roots, 1), prior)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [batch, count, parameter]."""
        drawn = _mixed_draws(self.q, self.prior, count, generator)
        noise = torch.randn(drawn.shape, generator=generator)
        pick = torch.multinomial(self._weight.exp(), count, True, generator=generator)
        rows = torch.arange(len(pick))[:, None]
        moved = (self.root[rows, pick] @ noise[..., None]).squeeze(-1)
        together = self.mean[rows, pick] + moved
        is_together = torch.rand(drawn.shape[:-1], generator=generator) < TOGETHER_SHARE
        return torch.where(is_together[..., None], together, drawn)

    @property
    def _weight(self) -> Tensor:
        """Log weights [batch, guess] of the normals: none is left out, q may be wrong."""
        weight = self.q.log_weight[:, 0].exp()
        return torch.lerp(weight, torch.full_like(weight, 1 / weight.shape[1]), EVEN_SHARE).log()

    def log_prob_over_prior(self, theta: Tensor) -> Tensor:
        """Log density [batch, n] of theta [batch, n, parameter], over the prior's."""
        away = (theta[:, None] - self.mean[:, :, None]).mT
        z = torch.linalg.solve_triangular(self.root, away, upper=False).square().sum(2)
        spread = self.root.diagonal(dim1=2, dim2=3).log().sum(2)
        each = self._weight[..., None] - 0.5 * z - spread[..., None]
        constant = theta.shape[-1] * _LOG_SQRT_2PI
        together = each.logsumexp(1) - constant - self.prior.log_prob(theta)
        apart = _q_over_prior(self.q, self.prior, theta)
        return torch.logaddexp(
            together + math.log(TOGETHER_SHARE), apart + math.log(1 - TOGETHER_SHARE)
        )


def _fitted_normal(
    task: Task, context: Context, prior: Priors, guess: Guesses, length: int, count: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Mean and Cholesky factor of what the first `length` observations make of one guess."""
    drawn = _mixed_draws(guess, prior, count, generator)
    log_weight = _log_likelihood(task, drawn, context, length).sum(-1)
    weight = tempered(log_weight - _q_over_prior(guess, prior, drawn), max(4.0, count / 8))
    mean = (weight[..., None] * drawn).sum(1)
    away = drawn - mean[:, None]
    covariance = torch.einsum("bn,bni,bnj->bij", weight, away, away)
    floor = torch.diag_embed(1e-6 + 1e-3 * covariance.diagonal(dim1=1, dim2=2))
    return mean, torch.linalg.cholesky(WIDENED * (covariance + floor))


def _log_likelihood(task: Task, theta: Tensor, context: Context, length: int) -> Tensor:
    """Of the first `length` observations, [batch, n, length]."""
    designs, outcomes = context.designs[:, None, :length], context.outcomes[:, None, :length]
    found = task.log_prob(theta, designs, outcomes)
    return found.nan_to_num(nan=WORST, neginf=WORST)


def _mixed_draws(q: Guesses, prior: Priors, count: int, generator: torch.Generator) -> Tensor:
    """Draws [batch, count, parameter] from q's guesses, some of them from the prior."""
    drawn = q.sample(count, generator)[:, 0]
    plain = prior.sample(count, generator)
    is_plain = torch.rand(drawn.shape[:-1], generator=generator) < PRIOR_SHARE
    return torch.where(is_plain[..., None], plain, drawn)


def _q_over_prior(q: Guesses, prior: Priors, theta: Tensor) -> Tensor:
    """Log density [batch, n] of `_mixed_draws`, over the prior's."""
    gain = q.log_prob(theta[:, None])[:, 0] - prior.log_prob(theta)
    return torch.logaddexp(gain + math.log(1 - PRIOR_SHARE), gain.new_tensor(math.log(PRIOR_SHARE)))


def has_parameter_likelihood(task: Task) -> bool:
    """Whether the parameters alone say how likely data are."""
    return bool(len(task.spec.parameters)) and task.log_likelihood is not None and not task.latent
