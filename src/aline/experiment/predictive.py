"""What an experiment expects to measure at given designs, in the user's units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from aline.errors import InputError
from aline.experiment.marginals import as_double, check_probability, mixture_quantiles, tails
from aline.model import Belief, Bernoulli, Censored, Mixture
from aline.spaces import Outcome, Real


class Predictive:
    """Beliefs about one outcome a design; everything comes as [design], in the order asked."""

    def __init__(self, belief: Belief, outcome: Outcome):
        self._outcome = outcome
        self._belief: Belief
        if isinstance(belief, Bernoulli):
            self._belief = Bernoulli(belief.logit.double())
        else:
            weight = belief.log_weight.double().log_softmax(-1)
            self._belief = replace(
                belief, log_weight=weight, mean=belief.mean.double(), std=belief.std.double()
            )

    def __len__(self) -> int:
        belief = self._belief
        return len(belief.logit if isinstance(belief, Bernoulli) else belief.mean)

    @property
    def probability(self) -> Tensor:
        """The probability of a yes, for binary outcomes."""
        if isinstance(self._belief, Bernoulli):
            return self._belief.probability.float()
        raise InputError("a real outcome has no probability of a yes: use mean or interval")

    @property
    def mean(self) -> Tensor:
        """The expected outcome; for a binary one, the probability of a yes."""
        if isinstance(self._belief, Bernoulli):
            return self.probability
        return self._moments()[0].float()

    @property
    def std(self) -> Tensor:
        """The outcome's standard deviation, noise included."""
        if isinstance(self._belief, Bernoulli):
            return (self._belief.probability * (-self._belief.logit).sigmoid()).sqrt().float()
        return self._moments()[1].float()

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of a real outcome in the user's units."""
        assert isinstance(self._belief, Mixture)
        assert isinstance(self._outcome, Real)
        if self._outcome.knee is None and self._outcome.limits is None:
            mean, std = self._belief.moments()
            return self._outcome.to_user(mean), std * self._outcome.log_volume(std).exp()
        # Bent or cut off: no closed form. The same draws every time.
        draws = self._outcome.to_user(self._belief.sample(4096, torch.Generator()))
        return draws.mean(0), draws.std(0)

    def quantile(self, p: float) -> Tensor:
        """The value below which each outcome lies with probability p; 0 or 1 for a binary one."""
        check_probability(p)
        if isinstance(self._belief, Bernoulli):
            return (self._belief.probability > 1 - p).float()
        if p in (0, 1):
            return torch.full((len(self),), math.inf if p else -math.inf)
        rows = zip(
            self._belief.log_weight.exp().tolist(),
            self._belief.mean.tolist(),
            self._belief.std.tolist(),
            strict=True,
        )
        z = torch.tensor([mixture_quantiles(*row, p)[0] for row in rows], dtype=torch.float64)
        if isinstance(self._belief, Censored):
            z = z.clamp(*self._belief.limits)
        return self._outcome.to_user(z).float()

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """The lower and upper ends of the central interval of each outcome."""
        low, high = tails(level)
        return self.quantile(low), self.quantile(high)

    def sample(self, shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """Draws [*shape, design], independent across designs; repeatable without a generator."""
        generator = generator or torch.Generator()
        if isinstance(self._belief, Bernoulli):
            uniform = torch.rand((*shape, len(self)), generator=generator)
            return (uniform < self._belief.probability).float()
        flat = self._belief.sample(math.prod(shape), generator)
        return self._outcome.to_user(flat.reshape(*shape, len(self))).float()

    def log_prob(self, outcome: Any) -> Tensor:
        """Log density (or log probability) of outcomes that broadcast with [design]."""
        value = as_double("the outcome", outcome)
        if isinstance(self._belief, Bernoulli) and not bool(((value == 0) | (value == 1)).all()):
            raise InputError(f"a binary outcome must be 0 or 1, got {outcome!r}")
        z = self._outcome.to_network(value).double()
        log_prob, volume = self._belief.log_prob(z), self._outcome.log_volume(z)
        if isinstance(self._belief, Censored):  # at a limit it is a probability, without units
            volume = torch.where(self._belief.inside(z), volume, 0.0)
        return log_prob - volume

    def __repr__(self) -> str:
        rows = zip(self.mean.tolist(), self.std.tolist(), strict=True)
        lines = [f"{mean:9.4g}  {std:9.4g}" for mean, std in rows]
        return "\n".join([f"{'mean':>9}  {'sd':>9}", *lines])
