"""Where the posterior may lie: a few guesses about all parameters together.

A posterior may have several modes: two sources may change places, a frequency may be mistaken for
its multiple. One mean and one spread then describe none of them. Each guess is a place of its own,
which a learned likelihood can look at, compare with the others and improve. Where a parameter is
one of a few values, each value has a guess: the parameters of two models may lie far apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from aline.errors import InputError
from aline.model.advice import Frame
from aline.model.evidence import Searched
from aline.model.search import Places
from aline.spaces import Parameters
from aline.spaces.outcomes.mixture import STD_FLOOR, Mixture

WITHIN_VALUE = 0.02  # the spread of a guess about a discrete parameter: it reaches no other value


@dataclass(frozen=True)
class Guesses:
    """A mixture of guesses; within a guess each parameter is a mixture by itself."""

    log_weight: Tensor  # [batch, group, guess]
    parts: Mixture  # [batch, group, guess, parameter]
    # [batch, group, guess, parameter]: log odds of a guess's value of a discrete parameter, by the
    # experiment's prior over the task's own. Beliefs about that parameter count them by themselves.
    odds: Tensor | None = None
    searched: Searched | None = None  # where a search ended, from which these were guessed

    @classmethod
    def single(cls, belief: Mixture) -> Guesses:
        """One guess, of a belief [batch, group, parameter]."""
        none = belief.log_weight.new_zeros(())
        return cls(none.expand(*belief.shape[:2], 1), belief.unsqueeze(2))

    @cached_property
    def marginals(self) -> Mixture:
        """Of each parameter, [batch, group, parameter]."""
        if self.parts.mean.shape[2] == 1:
            return self.parts[:, :, 0]
        weight = self.log_weight[..., None]
        if self.odds is not None:
            weight = (weight - self.odds).log_softmax(2)
        parts = self.parts.log_weight + weight[..., None], self.parts.mean, self.parts.std
        joined = [part.movedim(2, -2).flatten(-2) for part in parts]
        return replace(self.parts[:, :, 0], log_weight=joined[0], mean=joined[1], std=joined[2])

    @cached_property
    def frame(self) -> Frame:
        """Means and standard deviations [batch, group, guess, parameter]; no gradient passes."""
        return moments_of(self.parts)

    def detached(self) -> Guesses:
        """Without gradients."""
        return replace(
            self, log_weight=self.log_weight.detach(), parts=self.parts.each(Tensor.detach)
        )

    def group(self, index: int) -> Guesses:
        """Of one group."""
        return Guesses(self.log_weight[:, index, None], self.parts[:, index, None])

    def each_alone(self) -> list[Guesses]:
        """Every guess as if there were no other."""
        count, none = self.log_weight.shape[-1], torch.zeros_like(self.log_weight[..., :1])
        return [Guesses(none, self.parts[:, :, i, None]) for i in range(count)]

    def log_prob(self, theta: Tensor) -> Tensor:
        """Log density of all parameters, theta [batch, group, draw, parameter]."""
        inside = self.parts.unsqueeze(2).log_prob(theta[:, :, :, None]).sum(-1)
        return (self.log_weight[:, :, None] + inside).logsumexp(-1)

    def given(self, values: Tensor, mask: Tensor, asked: Tensor) -> Tensor:
        """Log weights [batch, group, guess, n] given values [batch, group, n, parameter].

        Only those count where `mask` says so; for beliefs about parameters `asked` [..., n].
        """
        inside = self.parts.unsqueeze(3).log_prob(values[:, :, None])
        found = self.log_weight[..., None] + inside.masked_fill(~mask[:, :, None], 0.0).sum(-1)
        if self.odds is not None:
            found = found - self.odds.gather(3, asked[:, :, None].expand(found.shape))
        return found.log_softmax(2)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [batch, group, draw, parameter]."""
        drawn = self.parts.sample(count, generator).movedim(0, 3)
        weight = self.log_weight.exp()
        pick = torch.multinomial(weight.flatten(0, 1), count, True, generator=generator)
        index = pick.view(*weight.shape[:2], 1, count, 1)
        return drawn.gather(2, index.expand(-1, -1, -1, -1, drawn.shape[-1]))[:, :, 0]


@dataclass(frozen=True)
class ByValue:
    """Guesses of which each has a value of the discrete parameter to itself."""

    is_column: Tensor  # bool [parameter]: which parameter that is
    column: int
    centres: Tensor  # [value, 1], of the values' cells
    parameters: Parameters

    @classmethod
    def of(cls, parameters: Parameters, guesses: int) -> ByValue | None:
        """For parameters of which one is discrete, where there are several guesses."""
        values = parameters.sole_values if guesses > 1 else None
        wanted = {1, 2, 4} if values is None else {len(values.centres)}
        if guesses not in wanted:
            raise InputError(
                "guesses are 1, 2 or 4, or as many as a discrete parameter has values, got "
                f"{guesses}: use guesses={max(wanted)}"
            )
        if values is None:
            return None
        return cls(values.is_column, values.column, values.centres[:, None], parameters)

    def pinned(self, frame: Frame, within: float = WITHIN_VALUE) -> Frame:
        """Means and spreads [..., value, parameter], at each guess's own value."""
        mean = torch.where(self.is_column, self.centres, frame.mean)
        return Frame(mean, frame.std.masked_fill(self.is_column, within).expand(mean.shape))

    def places(self, places: Places, within: float = WITHIN_VALUE) -> Places:
        """Each at its own value; what was one place for all may become several."""
        frame = self.pinned(places.frame, within)
        return Places(places.log_weight.expand(frame.mean.shape[:-1]), *frame)

    def settled(self, parts: Mixture) -> Mixture:
        """Beliefs [..., value, parameter], about the discrete one at each guess's own value."""
        mean = torch.where(self.is_column[:, None], self.centres[..., None], parts.mean)
        std = parts.std.masked_fill(self.is_column[:, None], WITHIN_VALUE)
        return replace(parts, mean=mean, std=std)

    def log_prior(self, prior: Frame | None) -> Tensor:
        """Of each value [..., value], by the task's prior or those [..., parameter] chosen."""
        if prior is None:
            return self.parameters.log_prior_of_values(self.column)
        mean, std = (part[..., self.column] for part in prior)
        return self.parameters.log_prior_of_values(self.column, (mean, std))

    def log_prior_over_normal(self, prior: Frame | None) -> Tensor:
        """The same, in the place of the normal density of their numbers."""
        return self.log_prior(prior) + 0.5 * self.centres[:, 0].square()

    def odds(self, prior: Frame | None) -> Tensor | None:
        """As `Guesses.odds`, under priors chosen for an experiment."""
        if prior is None:
            return None
        over = self.log_prior(prior) - self.log_prior(None)
        return over[..., None] * self.is_column


def moments_of(belief: Mixture) -> Frame:
    """Means and standard deviations, as a frame that passes no gradient."""
    mean, std = belief.moments()
    return Frame(mean.detach(), std.detach().clamp_min(STD_FLOOR))
