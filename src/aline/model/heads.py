"""What the network says: densities for real targets, probabilities for binary ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aline.model.tokens import Mlp

STD_FLOOR = 1e-4
LOG_SCALES = (-7.0, 1.0)  # of a mixture; the prior's is about 0
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Mixture:
    """A Gaussian mixture for each target, on the network's scale."""

    log_weight: Tensor  # [..., component]
    mean: Tensor  # [..., component]
    std: Tensor  # [..., component]

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density of value [...]."""
        z = (value[..., None] - self.mean) / self.std
        return (self.log_weight - self.std.log() - 0.5 * z * z).logsumexp(-1) - _LOG_SQRT_2PI

    def __getitem__(self, index: Any) -> Mixture:
        """Of some targets."""
        return replace(self, **{name: part[index] for name, part in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """By name."""
        return {"log_weight": self.log_weight, "mean": self.mean, "std": self.std}

    def unsqueeze(self, dim: int) -> Mixture:
        """With one more axis of targets, that values may broadcast along."""
        return replace(
            self,
            log_weight=self.log_weight.unsqueeze(dim),
            mean=self.mean.unsqueeze(dim),
            std=self.std.unsqueeze(dim),
        )

    def moved(self, mean: Tensor, std: Tensor) -> Mixture:
        """The same in units of `std` [...] from `mean` [...]."""
        mean, std = mean[..., None], std[..., None]
        return replace(self, mean=mean + std * self.mean, std=std * self.std)

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of at most value [...]."""
        z = (value[..., None] - self.mean) / self.std
        below: Tensor = (self.log_weight.exp() * torch.special.ndtr(z)).sum(-1)
        return below

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [count, ...], independent across targets."""
        shape = self.mean.shape[:-1]
        weight = self.log_weight.exp().reshape(-1, self.mean.shape[-1])
        pick = torch.multinomial(weight, count, replacement=True, generator=generator)
        mean = self.mean.reshape(weight.shape).gather(1, pick)
        std = self.std.reshape(weight.shape).gather(1, pick)
        draws = mean + std * torch.randn(mean.shape, generator=generator)
        return draws.T.reshape(count, *shape)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [...]."""
        return self.kept_moments

    @cached_property
    def kept_moments(self) -> tuple[Tensor, Tensor]:
        """As `moments`; whoever makes a mixture and has them already may leave them here."""
        weight = self.log_weight.exp()
        mean = (weight * self.mean).sum(-1)
        # Around the mean: far from zero the difference of squares would lose all digits.
        square = self.std**2 + (self.mean - mean[..., None]) ** 2
        return mean, (weight * square).sum(-1).sqrt()


@dataclass(frozen=True)
class Censored(Mixture):
    """A mixture whose values beyond two limits are all reported as the limit."""

    limits: tuple[float, float] = (-math.inf, math.inf)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density of value [...] between the limits, log probability at a limit."""
        low, high = self.limits
        below = self._log_tail((low - self.mean) / self.std)
        above = self._log_tail((self.mean - high) / self.std)
        at_limit = torch.where(value < 0.5 * (low + high), below, above)
        return torch.where(self.inside(value), super().log_prob(value), at_limit)

    def inside(self, value: Tensor) -> Tensor:
        """Whether value [...] lies between the limits, but for rounding."""
        low, high = self.limits
        slack = 1e-5 * (high - low)
        return (value > low + slack) & (value < high - slack)

    def _log_tail(self, z: Tensor) -> Tensor:
        tail: Tensor = (self.log_weight + torch.special.log_ndtr(z)).logsumexp(-1)
        return tail

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [count, ...], independent across targets."""
        return super().sample(count, generator).clamp(*self.limits)


@dataclass(frozen=True)
class Bernoulli:
    """The probability of a yes for each target, as a logit."""

    logit: Tensor  # [...]

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of outcomes [...] of -1 or +1."""
        return F.logsigmoid(self.logit * value)

    def __getitem__(self, index: Any) -> Bernoulli:
        """Of some targets."""
        return Bernoulli(self.logit[index])

    def tensors(self) -> dict[str, Tensor]:
        """By name."""
        return {"logit": self.logit}

    @property
    def probability(self) -> Tensor:
        """Of a yes."""
        return self.logit.sigmoid()


class MixtureHead(nn.Module):
    """A token to a mixture. At the start of training it is near N(0, 1), the prior.

    Beside the token it may see `raw` numbers, averages of what was measured. Then the mixture is
    laid out around a base, on a scale of its own: the base is an average of the raw numbers and
    of zero, the prior's mean, by weights that the head chooses. Averages of nearly equal numbers
    hardly feel the noise of their weights, so a posterior that is a thousand times narrower than
    the prior can be centred without a thousand times more exact weights.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        components: int,
        raw: int = 0,
        limits: tuple[float, float] | None = None,
    ):
        super().__init__()
        self.components, self.raw, self.limits = components, raw, limits
        shape = torch.zeros(3, components)
        shape[1] = torch.linspace(-1, 1, components)
        shape[2] = 0.4  # softplus(0.4) = 0.91
        layout = torch.zeros(raw + 2 if raw else 0)
        if raw:
            layout[raw] = 3.0  # at first the base is zero
        self.mlp = Mlp(width + raw, hidden, shape.numel() + len(layout))
        with torch.no_grad():
            self.mlp.second.bias.copy_(torch.cat([shape.flatten(), layout]))
            self.mlp.second.weight.mul_(0.3)

    def forward(self, tokens: Tensor, raw: Tensor, zoom: Tensor | None = None) -> Mixture:
        """[..., embed] and [..., raw] -> mixtures [...]; zoom [..., 1] is a log scale."""
        return self.read(self.mlp(torch.cat([tokens, raw], -1)), raw, zoom)

    def read(self, numbers: Tensor, raw: Tensor, zoom: Tensor | None = None) -> Mixture:
        """What the MLP's numbers [..., 3 * component + layout] mean."""
        logit, mean, spread = numbers[..., : 3 * self.components].chunk(3, -1)
        std = F.softplus(spread) + STD_FLOOR
        if self.raw:
            layout = numbers[..., 3 * self.components :]
            share = layout[..., :-1].softmax(-1)[..., :-1]
            base = (share * raw).sum(-1, keepdim=True)
            scale = layout[..., -1:] if zoom is None else layout[..., -1:] + zoom
            scale = scale.clamp(*LOG_SCALES).exp()
            mean, std = base + scale * mean, scale * std + STD_FLOOR
        if self.limits is None:
            return Mixture(logit.log_softmax(-1), mean, std)
        return Censored(logit.log_softmax(-1), mean, std, self.limits)


class BernoulliHead(nn.Module):
    """A token to a probability."""

    def __init__(self, width: int, hidden: int, raw: int = 0):
        super().__init__()
        self.mlp = Mlp(width + raw, hidden, 1)

    def forward(self, tokens: Tensor, raw: Tensor) -> Bernoulli:
        """[..., embed] and [..., raw] -> probabilities [...]."""
        return Bernoulli(self.mlp(torch.cat([tokens, raw], -1)).squeeze(-1))


Belief = Mixture | Bernoulli
