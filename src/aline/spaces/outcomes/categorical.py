"""One of several labels, in no order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from aline.errors import InputError
from aline.spaces.outcomes.base import Belief, Outcome, User, choices_of
from aline.spaces.outcomes.numbers import refuse, tensor_of, whole_number_of

KEYS = "123456789"


@dataclass(frozen=True)
class Labelled(Belief):
    """The probability of each of n values, which are called 0 to n - 1."""

    log_weight: Tensor  # [..., n]

    @property
    def shape(self) -> torch.Size:
        """The target axes."""
        return self.log_weight.shape[:-1]

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of values [...]."""
        value, _ = torch.broadcast_tensors(value, self.log_weight[..., 0])
        every = self.log_weight.expand(*value.shape, -1)
        return every.gather(-1, value.round().long()[..., None])[..., 0]

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [count, ...]."""
        weight = self.log_weight.exp().reshape(-1, self.log_weight.shape[-1])
        pick = torch.multinomial(weight, count, replacement=True, generator=generator)
        return pick.T.reshape(count, *self.shape).to(self.log_weight.dtype)

    def outcomes(self) -> tuple[Tensor, Tensor]:
        """All of them."""
        values = torch.arange(self.log_weight.shape[-1], dtype=self.log_weight.dtype)
        return values.expand(self.log_weight.shape), self.log_weight.exp()

    def expected(self) -> Tensor:
        """The likeliest."""
        return self.log_weight.argmax(-1).to(self.log_weight.dtype)

    def uncertainty(self) -> Tensor:
        """The entropy."""
        entropy: Tensor = torch.special.entr(self.log_weight.exp()).sum(-1)
        return entropy

    def averaged(self, log_weight: Tensor) -> Self:
        """The average probabilities."""
        return type(self)((self.log_weight + log_weight[..., None]).logsumexp(-2))

    def double(self) -> Self:
        """In double precision, with probabilities that sum to one there."""
        return type(self)(self.log_weight.double().log_softmax(-1))


@dataclass(frozen=True)
class Categorical(Outcome):
    """One of several labels. A simulator returns which, counting from 0; a person tells the label.

    It is also the prior of a parameter that is one of several values, which a simulator is given
    counting from 0; `probs` are then their probabilities, equal ones where nothing is said.

    >>> Categorical(["red", "green", "blue"]).read("green")
    'green'
    >>> Categorical(["power", "exponential"], probs=[0.25, 0.75]).shares  # of a parameter
    (0.25, 0.75)
    """

    kind: ClassVar[str] = "categorical"
    heading: ClassVar[str] = "response"
    has_mean: ClassVar[bool] = False
    has_interval: ClassVar[bool] = False

    labels: tuple[str, ...] = ()
    probs: Sequence[float] | None = None

    def __post_init__(self) -> None:
        given = self.labels
        labels = () if isinstance(given, str) else tuple(given)
        object.__setattr__(self, "labels", labels)
        named = all(isinstance(label, str) and label for label in labels)
        if not named or len(labels) < 2 or len(set(labels)) < len(labels):
            raise InputError(
                "Categorical takes at least two different labels, "
                f'Categorical(["red", "green"]), got {given!r}'
            )
        if self.probs is not None:
            object.__setattr__(self, "probs", self._normalised(self.probs))

    def _normalised(self, probs: Sequence[float]) -> tuple[float, ...]:
        given = tuple(float(p) for p in probs)
        if len(given) != len(self.labels) or not min(given) > 0 or abs(sum(given) - 1) > 1e-4:
            raise InputError(
                f"probs are a positive probability for each of {', '.join(self.labels)}, which sum "
                f"to 1, got {probs!r}"
            )
        return tuple(p / sum(given) for p in given)

    def check_declared(self) -> None:
        """An outcome's probabilities are the simulator's."""
        if self.probs is not None:
            raise InputError(
                f"probs are for a parameter's values, and an outcome's are the simulator's: got "
                f"{list(self.probs)}, leave them out"
            )

    @property
    def shares(self) -> tuple[float, ...]:
        """The probabilities of a parameter's values."""
        return tuple(self.probs or [1 / len(self.labels)] * len(self.labels))

    def to_network(self, user: User) -> Tensor:
        """Which label, counting from 0."""
        return tensor_of(user).float()

    def to_user(self, y: Tensor) -> Tensor:
        """The same."""
        return y

    # What the network sees and says.

    @property
    def width(self) -> int:
        """One number a label."""
        return len(self.labels)

    def encode(self, y: Tensor) -> Tensor:
        """One for the label, zero for the others."""
        return one_hot(y, len(self.labels))

    def head_start(self, components: int, read: int) -> Tensor:
        """A logit a label."""
        return torch.zeros(len(self.labels))

    def belief(self, numbers: Tensor, read: Tensor, zoom: Tensor | None = None) -> Labelled:
        """A logit a label."""
        return Labelled(numbers.log_softmax(-1))

    def restore(self, tensors: Mapping[str, Tensor]) -> Labelled:
        """The same from its tensor."""
        return Labelled(**tensors)

    def enumerate(self) -> Tensor:
        """Every label."""
        return torch.arange(len(self.labels)).float()

    @property
    def is_ordered(self) -> bool:
        """Labels are in no order."""
        return False

    def finite_belief(self, log_weight: Tensor) -> Labelled:
        """From log probabilities."""
        return Labelled(log_weight)

    def moments(self, belief: Belief) -> tuple[Tensor, Tensor]:
        """Labels have none."""
        raise InputError(
            f"{', '.join(self.labels)} have neither mean nor spread: use probabilities"
        )

    def drawn(self, y: Tensor) -> dict[str, Tensor]:
        """A curve a label."""
        return dict(zip(self.labels, self.encode(y).unbind(-1), strict=True))

    @property
    def axis(self) -> str:
        """Of each label."""
        return "probability"

    # One outcome as plain data.

    def read(self, value: Any) -> str:
        """A label; a whole number is its place, counting from 0."""
        place = None if isinstance(value, str) else whole_number_of(value)
        if value in self.labels:
            place = self.labels.index(value)
        if place is None or not 0 <= place < len(self.labels):
            raise InputError(
                f"an outcome must be one of {', '.join(self.labels)}, got {value!r}: use one of "
                "these"
            )
        return self.labels[place]

    def from_plain(self, values: Sequence[str]) -> Tensor:
        """Which labels."""
        return torch.tensor([self.labels.index(value) for value in values], dtype=torch.float64)

    def values(self, value: Any) -> Tensor:
        """Labels, or which they are."""
        found: Tensor = super().values(places(value, self.labels))
        return found

    def check(self, user: Tensor, what: str) -> None:
        """Which label, counting from 0."""
        last = len(self.labels) - 1
        wrong = (user < 0) | (user > last) | (user != user.round())
        rule = f"be a whole number from 0 to {last} for {', '.join(self.labels)}"
        refuse(user, wrong, what, rule, "say which label it is, counting from 0")

    # Words and plain data.

    def words(self) -> str:
        """Which ones there are."""
        return f"one of {', '.join(self.labels)}"

    def form(self) -> dict[str, Any]:
        """A button a label, with the keys 1 to 9."""
        return {"kind": self.kind, "choices": choices_of(self.labels, self.labels, KEYS)}

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        return {"kind": self.kind, "labels": list(self.labels)}


def one_hot(y: Tensor, count: int) -> Tensor:
    """Whole numbers [...] as [..., count]."""
    return (y.round()[..., None] == torch.arange(count)).to(y.dtype)


def places(value: Any, labels: Sequence[str]) -> Any:
    """Labels, in a list or alone, as their places, counting from 0; anything else as it is."""
    if isinstance(value, str) and value in labels:
        return labels.index(value)
    if isinstance(value, str):
        raise InputError(f"an outcome must be one of {', '.join(labels)}, got {value!r}")
    return [places(one, labels) for one in value] if isinstance(value, list | tuple) else value
