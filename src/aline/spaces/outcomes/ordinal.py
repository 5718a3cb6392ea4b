"""One of several levels in order: a rating."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from aline.errors import InputError
from aline.spaces.outcomes.base import Outcome, User, choices_of
from aline.spaces.outcomes.categorical import KEYS, Labelled, places
from aline.spaces.outcomes.numbers import refuse, strict_number_of, tensor_of, whole_number_of

STEPS = 12  # levels up to which the network sees each step


@dataclass(frozen=True)
class Rated(Labelled):
    """The probability of each of n levels in order, which are called 0 to n - 1."""

    def quantile(self, p: float) -> Tensor:
        """The lowest level [...] that is reached with probability p."""
        reached = self.log_weight.exp().cumsum(-1)[..., :-1] < p
        return reached.sum(-1).to(self.log_weight.dtype)

    def position(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The probabilities of lower levels, and with this one."""
        place, ends = value.round().long()[..., None], self.log_weight.exp().cumsum(-1)
        reached = ends.gather(-1, place)[..., 0]
        return reached - self.log_prob(value).exp(), reached


@dataclass(frozen=True)
class Ordinal(Outcome):
    """A rating. `levels=5` means 1 to 5; or give numbers, or labels, from low to high.

    A simulator returns the number, or which label, counting from 1.

    >>> Ordinal(["never", "sometimes", "always"]).read("always")
    'always'
    >>> Ordinal([0, 1, 2, 5]).numbers
    (0, 1, 2, 5)
    """

    kind: ClassVar[str] = "ordinal"
    heading: ClassVar[str] = "rating"

    levels: Any = 5  # after its check a tuple of numbers or of labels

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", _read_levels(self.levels))

    @property
    def numbers(self) -> tuple[float, ...]:
        """The levels in the user's units."""
        if isinstance(self.levels[0], str):
            return tuple(range(1, len(self.levels) + 1))
        return tuple(self.levels)

    @property
    def labels(self) -> tuple[str, ...]:
        """The levels in words."""
        return tuple(one if isinstance(one, str) else f"{one:g}" for one in self.levels)

    def to_network(self, user: User) -> Tensor:
        """Which level, counting from 0."""
        values = tensor_of(user).double()
        return (values[..., None] - self._table).abs().argmin(-1).float()

    def to_user(self, y: Tensor) -> Tensor:
        """The level's number."""
        return self._table[y.round().long()].to(y.dtype)

    @property
    def _table(self) -> Tensor:
        return torch.tensor(self.numbers, dtype=torch.float64)

    # What the network sees and says.

    @property
    def width(self) -> int:
        """How high it is, and each step up to it, or of many only the first and the last."""
        return 1 + len(self._steps)

    @property
    def _steps(self) -> list[float]:
        steps = [place + 0.5 for place in range(len(self.levels) - 1)]
        return steps if len(self.levels) <= STEPS else [steps[0], steps[-1]]

    def encode(self, y: Tensor) -> Tensor:
        """The place in [-1, 1]; then, for each step between levels, 1 above it and -1 below."""
        place = 2 * y / (len(self.levels) - 1) - 1
        above = torch.where(y[..., None] > torch.tensor(self._steps), 1.0, -1.0).to(y.dtype)
        return torch.cat([place[..., None], above], -1)

    def head_start(self, components: int, read: int) -> Tensor:
        """A logit a level."""
        return torch.zeros(len(self.levels))

    def belief(self, numbers: Tensor, read: Tensor, zoom: Tensor | None = None) -> Rated:
        """A logit a level."""
        return Rated(numbers.log_softmax(-1))

    def restore(self, tensors: Mapping[str, Tensor]) -> Rated:
        """The same from its tensor."""
        return Rated(**tensors)

    def enumerate(self) -> Tensor:
        """Every level."""
        return torch.arange(len(self.levels)).float()

    @property
    def is_ordered(self) -> bool:
        """Where there are more than two levels."""
        return len(self.levels) > 2

    def mirrored(self, y: Tensor) -> Tensor:
        """High for low."""
        return len(self.levels) - 1 - y

    def finite_belief(self, log_weight: Tensor) -> Rated:
        """From log probabilities."""
        return Rated(log_weight)

    # One outcome as plain data.

    def read(self, value: Any) -> Any:
        """A level as it was declared; of labels, a whole number is the place, counting from 1."""
        if isinstance(self.levels[0], str):
            place = None if isinstance(value, str) else whole_number_of(value)
            if value in self.levels:
                place = self.levels.index(value) + 1
        else:
            given = strict_number_of(value)
            place = self.levels.index(given) + 1 if given in self.levels else None
        if place is None or not 1 <= place <= len(self.levels):
            raise InputError(
                f"an outcome must be one of {', '.join(self.labels)}, got {value!r}: use one of "
                "these"
            )
        return self.levels[place - 1]

    def from_plain(self, values: Sequence[Any]) -> Tensor:
        """The levels' numbers."""
        places = [self.levels.index(value) for value in values]
        return torch.tensor([self.numbers[place] for place in places], dtype=torch.float64)

    def to_plain(self, user: User) -> list[Any]:
        """The levels as they were declared."""
        return [self.levels[int(place)] for place in self.to_network(user).reshape(-1).tolist()]

    def values(self, value: Any) -> Tensor:
        """Numbers, or labels."""
        if isinstance(self.levels[0], str):
            found = places(value, self.levels)
            value = found if found is value else torch.as_tensor(found) + 1
        read: Tensor = super().values(value)
        return read

    def check(self, user: Tensor, what: str) -> None:
        """One of the numbers."""
        wrong = (user.double()[..., None] - self._table).abs().amin(-1) > 1e-6
        rule = f"be one of {', '.join(f'{one:g}' for one in self.numbers)}"
        refuse(user, wrong, what, rule, "levels count from 1 unless you give other numbers")

    # Words and plain data.

    def words(self) -> str:
        """From where to where."""
        return f"a rating from {self.labels[0]} to {self.labels[-1]}"

    def text(self, plain: Any) -> str:
        """The label."""
        place: int = self.levels.index(plain)
        return self.labels[place]

    def form(self) -> dict[str, Any]:
        """A button a level; where all levels are single digits, these are their keys."""
        digits = all(len(label) == 1 and label.isdigit() for label in self.labels)
        keys = self.labels if digits else KEYS
        return {"kind": self.kind, "choices": choices_of(self.levels, self.labels, keys)}

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        return {"kind": self.kind, "levels": list(self.levels)}


def _read_levels(levels: Any) -> tuple[Any, ...]:
    """From a number of levels, or the levels themselves."""
    if isinstance(levels, int) and not isinstance(levels, bool) and levels >= 2:
        return tuple(range(1, levels + 1))
    found = () if isinstance(levels, str | int | float) else tuple(levels)
    if all(isinstance(one, str) and one for one in found):
        fits = len(set(found)) == len(found)
    else:
        numbers = all(isinstance(one, int | float) for one in found)
        fits = numbers and all(a < b for a, b in itertools.pairwise(found))
    if len(found) < 2 or not fits:
        raise InputError(
            "Ordinal takes a number of levels, at least 2, or the levels from low to high, as "
            f'numbers or labels: Ordinal(5), Ordinal(["never", "always"]), got {levels!r}'
        )
    return found
