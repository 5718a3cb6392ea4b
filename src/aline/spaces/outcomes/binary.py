"""A yes or a no."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from aline.errors import InputError
from aline.spaces.outcomes.base import Belief, Outcome, User, choices_of
from aline.spaces.outcomes.numbers import number_of, refuse, tensor_of


@dataclass(frozen=True)
class Bernoulli(Belief):
    """The probability of a yes for each target, as a logit."""

    logit: Tensor  # [...]

    @property
    def shape(self) -> torch.Size:
        """The target axes."""
        return self.logit.shape

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of outcomes [...] of -1 or +1."""
        return F.logsigmoid(self.logit * value)

    @property
    def probability(self) -> Tensor:
        """Of a yes."""
        return self.logit.sigmoid()

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [count, ...] of -1 or +1."""
        uniform = torch.rand((count, *self.shape), generator=generator)
        return torch.where(uniform < self.probability, 1.0, -1.0)

    def outcomes(self) -> tuple[Tensor, Tensor]:
        """A no and a yes."""
        values = torch.tensor([-1.0, 1.0], dtype=self.logit.dtype).expand(*self.shape, 2)
        return values, torch.stack([(-self.logit).sigmoid(), self.probability], -1)

    def expected(self) -> Tensor:
        """The likelier answer."""
        return torch.where(self.logit > 0, 1.0, -1.0)

    def quantile(self, p: float) -> Tensor:
        """A yes where its probability exceeds 1 - p."""
        return torch.where(self.probability > 1 - p, 1.0, -1.0)

    def uncertainty(self) -> Tensor:
        """The entropy."""
        yes, no = F.logsigmoid(self.logit), F.logsigmoid(-self.logit)
        return -(yes.exp() * yes + no.exp() * no)

    def averaged(self, log_weight: Tensor) -> Bernoulli:
        """The average probability."""
        yes, no = ((F.logsigmoid(sign * self.logit) + log_weight).logsumexp(-1) for sign in (1, -1))
        return Bernoulli(yes - no)


@dataclass(frozen=True)
class Binary(Outcome):
    """A yes/no outcome: True/1 or False/0; the network sees +1 and -1.

    >>> Binary().read(True)
    1.0
    """

    kind: ClassVar[str] = "binary"
    heading: ClassVar[str] = "response"
    has_interval: ClassVar[bool] = False
    is_yes_or_no: ClassVar[bool] = True

    def to_network(self, user: User) -> Tensor:
        """0 and 1 to -1 and +1."""
        return 2 * tensor_of(user).float() - 1

    def to_user(self, y: Tensor) -> Tensor:
        """-1 and +1 to 0 and 1."""
        return (y > 0).float()

    # What the network sees and says.

    @property
    def width(self) -> int:
        """The sign."""
        return 1

    def encode(self, y: Tensor) -> Tensor:
        """The sign."""
        return y[..., None]

    def head_start(self, components: int, read: int) -> Tensor:
        """One logit."""
        return torch.zeros(1)

    def belief(self, numbers: Tensor, read: Tensor, zoom: Tensor | None = None) -> Bernoulli:
        """One logit."""
        return Bernoulli(numbers.squeeze(-1))

    def restore(self, tensors: Mapping[str, Tensor]) -> Bernoulli:
        """The same from its tensor."""
        return Bernoulli(**tensors)

    @property
    def is_ordered(self) -> bool:
        """There are but two values."""
        return False

    def mirrored(self, y: Tensor) -> Tensor:
        """Yes for no."""
        return -y

    def enumerate(self) -> Tensor:
        """No and yes."""
        return torch.tensor([-1.0, 1.0])

    def finite_belief(self, log_weight: Tensor) -> Bernoulli:
        """From the log probabilities of no and yes."""
        return Bernoulli(log_weight[..., 1] - log_weight[..., 0])

    # One outcome as plain data.

    def read(self, value: Any) -> float:
        """A user's outcome as 0.0 or 1.0, checked."""
        number = number_of(value)
        if number not in (0.0, 1.0):
            raise InputError(f"a binary outcome must be 0 or 1 (or False or True), got {value!r}")
        return number

    def check(self, user: Tensor, what: str) -> None:
        """Only 0 and 1: a probability is not an answer."""
        wrong = (user != 0) & (user != 1)
        draw = "draw answers from probabilities, torch.rand(p.shape, generator=generator) < p"
        refuse(user, wrong, what, "be 0 or 1", draw)

    # Words and plain data.

    @property
    def labels(self) -> tuple[str, ...]:
        """No and yes."""
        return ("no", "yes")

    @property
    def axis(self) -> str:
        """The probability of a yes."""
        return "probability of yes"

    def words(self) -> str:
        """Of two answers one."""
        return "a yes or a no"

    def text(self, plain: float) -> str:
        """Yes or no."""
        return "yes" if plain > 0.5 else "no"

    def form(self) -> dict[str, Any]:
        """Two buttons."""
        return {"kind": self.kind, "choices": choices_of([1, 0], ["yes", "no"], ["y", "n"])}
