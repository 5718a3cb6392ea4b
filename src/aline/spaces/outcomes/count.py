"""How many: 0, 1, 2, …"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from aline.errors import InputError
from aline.spaces.outcomes.base import Belief, Outcome, User, weighted_moments
from aline.spaces.outcomes.mixture import (
    LIKE_NORMAL,
    Mixture,
    log_logistic,
    log_ndtr,
    mixture_start,
    read_mixture,
)
from aline.spaces.outcomes.numbers import refuse, tensor_of, whole_number_of
from aline.spaces.outcomes.ordinal import Rated

NARROW = 0.1  # a bin's width times its distance, in deviations, up to which its density is enough
SINGLE = 64  # counts that have a cell of their own in an expectation
GROWTH = 1.07  # of cells beyond these: their own spread is 2 % of their count
MOST = 10**9
FURTHEST = 8.0  # deviations of a linear count that a token sees
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Counted(Mixture):
    """A Gaussian mixture of log(1 + count), cut into bins that end halfway between counts.

    Counts have roughly the same relative noise everywhere on that scale. Everything below the
    first bin belongs to 0, everything beyond the last to `maximum`.
    """

    maximum: int | None = None

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of counts [...]."""
        # From the count itself: for large ones, the difference of two edges has no digits left.
        size = torch.log1p(1 / (value + 0.5))[..., None]
        middle = (value + 0.5).log()[..., None] + size / 2
        z, width = (middle - self.mean) / self.std, size / self.std
        inside = log_between(z, width)
        found = torch.where(value[..., None] < 0.5, log_ndtr(z + width / 2), inside)
        if self.maximum is not None:
            last = log_ndtr(width / 2 - z)
            found = torch.where(value[..., None] > self.maximum - 0.5, last, found)
        total: Tensor = (self.log_weight + found).logsumexp(-1)
        return total

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of at most value [...]."""
        below = super().cdf((value + 1.5).log())
        return below if self.maximum is None else torch.where(value >= self.maximum, 1.0, below)

    def position(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The probabilities of fewer, and with this many."""
        reached = self.cdf(value)
        below = torch.where(value < 0.5, torch.zeros_like(reached), self.cdf(value - 1))
        return below, reached

    def _counts(self, latent: Tensor) -> Tensor:
        """The bins that log(1 + count) [...] falls into."""
        most = math.inf if self.maximum is None else self.maximum
        return (torch.expm1(latent) + 0.5).floor().clamp(0, most)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [count, ...]."""
        return self._counts(self._draws(count, generator).clamp(max=math.log(MOST)))

    def quantile(self, p: float) -> Tensor:
        """The smallest count [...] that is reached with probability p."""
        return self._counts(self._quantiles(p))

    def outcomes(self) -> tuple[Tensor, Tensor]:
        """Small counts one by one, larger ones in cells that grow with them."""
        values, edges = cells(self.maximum)
        # In double precision: a float's rounding at a billion would be a count of a hundred.
        wide = self.double().unsqueeze(len(self.shape))
        below = Mixture.cdf(wide, edges)
        cells_below = torch.cat([below.new_zeros(*self.shape, 1), below], -1).diff(dim=-1)
        # The last cell by the other tail: one less a rounded sum, 1e-16, times a billion squared
        # would be a spread of ten.
        tail = torch.special.ndtr((wide.mean - edges[-1]) / wide.std)
        beyond = (wide.log_weight.exp() * tail).sum(-1)
        weights = torch.cat([cells_below.clamp_min(0), beyond], -1)
        kind = self.mean.dtype
        return values.to(kind).expand(weights.shape), weights.to(kind)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [...] of the count."""
        return weighted_moments(*self.outcomes())

    def expected(self) -> Tensor:
        """The count at the mean of its logarithm: a few huge ones do not move it."""
        return self._counts(self.kept_moments[0])

    def uncertainty(self) -> Tensor:
        """The spread of the logarithm."""
        return self.kept_moments[1]

    def moved(self, mean: Tensor, std: Tensor) -> Self:
        """Counts have no units."""
        return Belief.moved(self, mean, std)


@dataclass(frozen=True)
class Count(Outcome):
    """A whole number from 0 on; with a `maximum`, more than that is reported as the maximum.

    `loc` and `scale` are those of log(1 + count); training measures them if they are not given.

    >>> Count(maximum=50).read(7)
    7
    """

    kind: ClassVar[str] = "count"
    measured: ClassVar[tuple[str, ...]] = ("loc", "scale")

    maximum: int | None = None
    loc: float | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        most = self.maximum
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise InputError(f"maximum must be a whole number, at least 1, got {most!r}")

    # Scales.

    def to_network(self, user: User) -> Tensor:
        """The count as it is; `encode` scales it."""
        values = tensor_of(user)
        return values if values.is_floating_point() else values.float()

    def to_user(self, y: Tensor) -> Tensor:
        """The same."""
        return y

    def fitted(self, samples: User) -> Self:
        """With location and scale of log(1 + count) taken from simulated counts."""
        values = tensor_of(samples).double().log1p()
        loc = float(values.mean()) if self.loc is None else self.loc
        scale = float(values.std()) if self.scale is None else self.scale
        return replace(self, loc=loc, scale=max(scale, 1e-3))

    def _scales(self) -> tuple[float, float]:
        if self.loc is None or self.scale is None:
            raise InputError(
                "this outcome has no scale yet: use task.fitted(), or give Count(loc=…, scale=…)"
            )
        return self.loc, self.scale

    # What the network sees and says.

    @property
    def width(self) -> int:
        """The count and its logarithm."""
        return 2

    def encode(self, y: Tensor) -> Tensor:
        """Both standardised: sums of counts tell of a rate, logarithms of its order."""
        loc, scale = self._scales()
        linear = (y - math.expm1(loc)) / (math.exp(loc) * math.sinh(scale))
        return torch.stack([linear.clamp(-FURTHEST, FURTHEST), (y.log1p() - loc) / scale], -1)

    def head_start(self, components: int, read: int) -> Tensor:
        """Near the prior."""
        return mixture_start(components, read)

    def belief(self, numbers: Tensor, read: Tensor, zoom: Tensor | None = None) -> Counted:
        """A mixture of the standardised logarithm."""
        loc, scale = self._scales()
        latent = read_mixture(numbers, read, zoom)
        mean, std = loc + scale * latent.mean, scale * latent.std
        return Counted(latent.log_weight, mean, std, self.maximum)

    def emulated(self, numbers: Tensor, y: Tensor) -> Tensor:
        """By logistic distributions in the place of normal ones."""
        belief = self.belief(numbers, numbers[..., :0])
        size = torch.log1p(1 / (y + 0.5))[..., None]
        middle = (y + 0.5).log()[..., None] + size / 2
        z, width = (middle - belief.mean) / belief.std, size / belief.std
        up, down = log_logistic(z + width / 2), log_logistic(width / 2 - z)
        found = up + torch.where(y[..., None] < 0.5, 0.0, down + log_share(LIKE_NORMAL * width))
        if self.maximum is not None:
            found = torch.where(y[..., None] > self.maximum - 0.5, down, found)
        total: Tensor = (belief.log_weight + found).logsumexp(-1)
        return total

    def restore(self, tensors: Mapping[str, Tensor]) -> Counted:
        """The same from its tensors."""
        return Counted(**tensors, maximum=self.maximum)

    def enumerate(self) -> Tensor | None:
        """Every count, where there is a maximum."""
        return None if self.maximum is None else torch.arange(self.maximum + 1).float()

    def finite_belief(self, log_weight: Tensor) -> Rated:
        """From log probabilities, where there is a maximum."""
        return Rated(log_weight)

    # One outcome as plain data.

    def read(self, value: Any) -> int:
        """A whole number, checked."""
        number = whole_number_of(value)
        if number is None or number < 0:
            raise InputError(f"a count must be a whole number, at least 0, got {value!r}")
        if self.maximum is not None and number > self.maximum:
            raise InputError(
                f"a count must be at most {self.maximum}, got {value!r}: more than the maximum is "
                "reported as the maximum"
            )
        return number

    def check(self, user: Tensor, what: str) -> None:
        """Whole numbers from 0 to the maximum."""
        wrong = (user < 0) | (user != user.round())
        draw = "draw counts from rates, torch.poisson(rate, generator=generator)"
        refuse(user, wrong, what, "be a whole number, at least 0, as it is a count", draw)
        if self.maximum is not None:
            rule = f"be at most the maximum, {self.maximum}"
            cut = f"use clamp(max={self.maximum}), or a larger maximum"
            refuse(user, user > self.maximum, what, rule, cut)

    # Words and plain data.

    def words(self) -> str:
        """A count."""
        return "a count" if self.maximum is None else f"a count up to {self.maximum}"

    def form(self) -> dict[str, Any]:
        """A field for a whole number."""
        return {"kind": self.kind, "range": [0, self.maximum], "step": 1}


def log_share(width: Tensor) -> Tensor:
    """Log of 1 - exp(-width)."""
    return (-torch.expm1(-width)).log()


def log_between(z: Tensor, width: Tensor) -> Tensor:
    """Log probability that a standard normal lies within width / 2 of z, in float32 too."""
    narrow = width * (1 + z.abs()) < NARROW
    # Each way gets harmless numbers where the other one counts, so that no gradient is NaN.
    thin = torch.where(narrow, width, 0.5 * NARROW)
    bent = torch.log1p((thin * thin * (z * z - 1) / 24).clamp_min(-0.5))
    by_density = thin.log() - 0.5 * z * z - _LOG_SQRT_2PI + bent
    wide = torch.where(narrow, 1.0, width)
    near, far = -z.abs() + wide / 2, -z.abs() - wide / 2  # in the tail where log_ndtr has digits
    log_near = log_ndtr(near)
    apart = (log_near - log_ndtr(far)).clamp_min(1e-6)
    by_tails = log_near + (-torch.expm1(-apart)).log()
    return torch.where(narrow, by_density, by_tails)


@cache
def cells(maximum: int | None) -> tuple[Tensor, Tensor]:
    """Counts that stand for cells [n], and log(1 + count) at the edges between them [n - 1]."""
    last = MOST if maximum is None else maximum
    starts = list(range(min(last, SINGLE) + 1))
    while starts[-1] < last:
        starts.append(min(last, max(starts[-1] + 1, int(GROWTH * starts[-1]))))
    # Kept, so that they must not be tensors that inference mode made: training may read them too.
    with torch.inference_mode(False):
        first = torch.tensor(starts, dtype=torch.float64)
        values = torch.cat([(first[:-1] + first[1:] - 1) / 2, first[-1:]])
        return values, (first[1:] + 0.5).log()
