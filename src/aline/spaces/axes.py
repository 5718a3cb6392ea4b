"""The kinds of design axes: any value between bounds, such values on a log scale, a set of values.

Every kind says where its values lie on the network's scale, [-1, 1]. A value's number is what the
simulator sees: the value itself, or of a named level its place in the list.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from aline.errors import InputError
from aline.spaces.text import number

Value = float | str
"""A value of an axis as users write and read it."""


class Axis(ABC):
    """One thing that can be set.

    >>> import torch
    >>> from aline.spaces import Box, Levels, Log
    >>> dose, side = Box(dose=Log(0.01, 1), side=["left", "right"]).axes.values()
    >>> dose.words(), dose.text(0.1), dose.to_json(), side.names
    ('in [0.01, 1], log', '0.1', {'kind': 'log'}, ('left', 'right'))
    >>> dose.read("dose", [0.01, 1.0]), dose.plain([0.01, 1.0])
    (tensor([0.0100, 1.0000]), [0.01, 1.0])
    >>> side.number_of("right"), side.value_of(1.0)
    (1, 'right')
    >>> dose.to_network(torch.tensor(0.1)), dose.to_user(torch.tensor(0.0))
    (tensor(0.), tensor(0.1000))
    >>> dose.spread(torch.tensor(0.5)), side.settled(torch.tensor(0.2))
    (tensor(0.), tensor(1.))
    >>> dose.within((0.1, 1.0), torch.tensor(0.0))
    tensor(0.1000)
    >>> dose.contains((0.1, 1.0), torch.tensor([0.05, 0.5]))
    tensor([False,  True])
    """

    kind: ClassVar[str]
    low: float  # the least number
    high: float  # the greatest number
    values: tuple[Value, ...] | None = None  # all there are, where they are a set

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its levels, if it has names."""
        return ()

    @abstractmethod
    def to_network(self, numbers: Tensor) -> Tensor:
        """Numbers to [-1, 1]."""

    @abstractmethod
    def to_user(self, x: Tensor) -> Tensor:
        """Network scale to numbers, never outside the bounds."""

    def spread(self, share: Tensor) -> Tensor:
        """Shares of the way across, [0, 1), to the network's scale: evenly over all values."""
        return share * 2 - 1

    def settled(self, x: Tensor) -> Tensor:
        """The nearest place on the network's scale that is a value."""
        return x.clamp(-1, 1)

    def within(self, part: Sequence[Value], share: Tensor) -> Tensor:
        """Shares of the way across a part, bounds or some values, as numbers."""
        low, high = (float(end) for end in part)
        return low + share * (high - low)

    def contains(self, part: Sequence[Value], numbers: Tensor) -> Tensor:
        """Which numbers lie in a part, bounds or some values."""
        low, high = (float(end) for end in part)
        slack = 1e-6 * (self.high - self.low)
        return (numbers >= low - slack) & (numbers <= high + slack)

    def read(self, name: str, value: Any) -> Tensor:
        """A user's values as numbers [count], checked; `name` is the axis's."""
        try:
            column = torch.as_tensor(value, dtype=torch.float32).reshape(-1)
        except (TypeError, ValueError, RuntimeError):
            raise InputError(
                f"{name} must be a number or a list of numbers, got {value!r}"
            ) from None
        slack = 1e-5 * (self.high - self.low)
        outside = ~((column >= self.low - slack) & (column <= self.high + slack))
        if bool(outside.any()):
            raise InputError(
                f"{name} must lie in [{self.low:g}, {self.high:g}], got {column[outside][0]:g}: "
                "pass design values in the task's units"
            )
        return column.clamp(self.low, self.high)

    def number_of(self, value: Value) -> float:
        """The number of one value, which was checked before."""
        return float(value)

    def value_of(self, number: float) -> Value:
        """The value of a number that was computed in float32, in as few digits as tell it apart.

        0.1, as the pool's author wrote it, not 0.10000000149011612.
        """
        return float(str(np.float32(number)))

    def plain(self, value: Any) -> list[Value]:
        """A user's checked values as JSON data, kept as they were given."""
        kept: list[Value] = torch.as_tensor(value, dtype=torch.float64).reshape(-1).tolist()
        return kept

    def text(self, value: Value) -> str:
        """A value in words, as precise as its range asks for."""
        return number(float(value), self.high - self.low)

    @abstractmethod
    def words(self) -> str:
        """All its values, in words."""

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card, beside the bounds; nothing of a continuous axis."""
        return {"kind": self.kind}


class Continuous(Axis):
    """Any value between bounds; `Box(time=(0, 10))` is short for it.

    >>> Continuous(0, 10).words()
    'in [0, 10]'
    """

    kind = "continuous"

    def __init__(self, low: float, high: float):
        self.low, self.high = float(low), float(high)

    def to_network(self, numbers: Tensor) -> Tensor:
        return 2 * (numbers - self.low) / (self.high - self.low) - 1

    def to_user(self, x: Tensor) -> Tensor:
        return (self.low + (x + 1) / 2 * (self.high - self.low)).clamp(self.low, self.high)

    def words(self) -> str:
        return f"in [{self.low:.4g}, {self.high:.4g}]"


class Log(Axis):
    """Any positive value between bounds where ratios matter: drawn, moved and shown on a log scale.

    >>> Log(0.01, 1).words()
    'in [0.01, 1], log'
    """

    kind = "log"

    def __init__(self, low: float, high: float):
        if not 0 < float(low) < float(high) < math.inf:
            raise InputError(
                f"a log axis takes positive bounds, low < high, got Log({low!r}, {high!r}): "
                "use (low, high) where zero or negative values are possible"
            )
        self.low, self.high = float(low), float(high)
        self._start, self._span = math.log(self.low), math.log(self.high / self.low)

    def to_network(self, numbers: Tensor) -> Tensor:
        return 2 * (numbers.clamp(self.low, self.high).log() - self._start) / self._span - 1

    def to_user(self, x: Tensor) -> Tensor:
        return (self._start + (x + 1) / 2 * self._span).exp().clamp(self.low, self.high)

    def within(self, part: Sequence[Value], share: Tensor) -> Tensor:
        low, high = (math.log(float(end)) for end in part)
        return (low + share * (high - low)).exp()

    def text(self, value: Value) -> str:
        return f"{float(value):.3g}"  # as many digits at the low end as at the high

    def words(self) -> str:
        return f"in [{self.low:.4g}, {self.high:.4g}], log"


class Levels(Axis):
    """A set of numbers or of names; `Box(delay=[1, 7, 30])` is short for it.

    The network sees numbers by their rank, so that none is lost between others, and of names which
    one it is. A simulator gets the place of a name in the list: 0 for "left".

    >>> Levels([30, 1, 7]).values
    (1.0, 7.0, 30.0)
    """

    kind = "levels"

    def __init__(self, values: Sequence[Any]):
        given = _listed(values)
        self._is_named = all(isinstance(value, str) for value in given) and bool(given)
        if not self._is_named:
            given = sorted(_finite(value) for value in given)
        if not given or len(set(given)) < len(given):
            raise InputError(
                f"a set of values takes different numbers or different names, got {values!r}"
            )
        self.values: tuple[Value, ...] = tuple(given)
        numbers = range(len(given)) if self._is_named else given
        self._table = torch.tensor([float(value) for value in numbers])
        self._steps = max(len(given) - 1, 1)
        self.low, self.high = float(self._table[0]), float(self._table[-1])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.values)) if self._is_named else ()

    def to_network(self, numbers: Tensor) -> Tensor:
        rank = (numbers[..., None] - self._table).abs().argmin(-1)
        return 2 * rank.to(numbers.dtype) / self._steps - 1

    def to_user(self, x: Tensor) -> Tensor:
        return self._table[self._rank(x).long()].to(x.dtype)

    def spread(self, share: Tensor) -> Tensor:
        return 2 * (share * len(self.values)).floor().clamp(max=self._steps) / self._steps - 1

    def settled(self, x: Tensor) -> Tensor:
        return 2 * self._rank(x) / self._steps - 1

    def _rank(self, x: Tensor) -> Tensor:
        return ((x + 1) / 2 * self._steps).round().clamp(0, len(self.values) - 1)

    def which(self, x: Tensor) -> Tensor:
        """Which level network values [...] are, as [..., level]: one at it, zero elsewhere.

        >>> import torch
        >>> Levels(["a", "b", "c"]).which(torch.tensor([-1.0, 1.0]))
        tensor([[1., 0., 0.],
                [0., 0., 1.]])
        """
        rank = (x + 1) / 2 * self._steps
        places = torch.arange(len(self.values), dtype=x.dtype)
        return (1 - (rank[..., None] - places).abs()).clamp_min(0)

    def within(self, part: Sequence[Value], share: Tensor) -> Tensor:
        numbers = self._numbers(part)
        return numbers[(share * len(part)).long().clamp(max=len(part) - 1)]

    def contains(self, part: Sequence[Value], numbers: Tensor) -> Tensor:
        return torch.isin(self.to_network(numbers), self.to_network(self._numbers(part)))

    def _numbers(self, values: Sequence[Value]) -> Tensor:
        return torch.tensor([float(self.number_of(value)) for value in values])

    def read(self, name: str, value: Any) -> Tensor:
        return torch.tensor([self._number(name, one) for one in _listed(value)])

    def _number(self, name: str, value: Any) -> float:
        if self._is_named and value in self.values:
            return float(self.values.index(value))
        if not self._is_named and _is_number(value):
            nearest = float(self._table[(self._table - float(value)).abs().argmin()])
            if abs(nearest - float(value)) <= 1e-5 * max(abs(nearest), 1e-30):
                return nearest
        given = repr(value) if isinstance(value, str) else f"{value!s}"
        raise InputError(f"{name} must be {self.words()}, got {given}: pass one of these")

    def number_of(self, value: Value) -> float:
        return self.values.index(value) if self._is_named else float(value)

    def value_of(self, number: float) -> Value:
        return self.values[int((self._table - number).abs().argmin())]

    def plain(self, value: Any) -> list[Value]:
        return [self.value_of(self._number("it", one)) for one in _listed(value)]

    def text(self, value: Value) -> str:
        return value if isinstance(value, str) else f"{value:g}"

    def words(self) -> str:
        shown = [self.text(value) for value in self.values]
        if len(shown) > 12:
            return f"one of {len(shown)} values, {shown[0]} to {shown[-1]}"
        return f"one of {', '.join(shown)}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "values": list(self.values)}


def _listed(value: Any) -> list[Any]:
    """One value or several, as plain Python data."""
    if hasattr(value, "tolist"):  # of torch, numpy or pandas
        value = value.tolist()
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _finite(value: Any) -> float:
    if not _is_number(value) or not math.isfinite(value):
        raise InputError(
            f"a set of values takes finite numbers, or names throughout, got {value!r}"
        )
    return float(value)


def axis_of(name: str, given: Any) -> Axis:
    """An axis as users write it: bounds in a tuple, a list of values, or an axis."""
    if isinstance(given, Axis):
        return given
    if isinstance(given, tuple) and len(given) == 2 and all(map(_is_number, given)):
        return Continuous(*given)
    if isinstance(given, list) and len(given) == 2 and all(map(_is_number, given)):
        low, high = given
        raise InputError(
            f"the two numbers of {name} could be bounds or all its values, got {given!r}: write "
            f"({low:g}, {high:g}) for any value between them, or Levels([{low:g}, {high:g}])"
        )
    if isinstance(given, list) or hasattr(given, "tolist"):
        return Levels(given)
    raise InputError(
        f"the bounds of {name} must be (low, high), got {given!r}: or give a list of its values"
    )


def axis_from_json(data: Mapping[str, Any] | None, bounds: Sequence[float]) -> Axis:
    """Read what `Axis.to_json` wrote; nothing was written of a continuous one."""
    if data is None:
        return Continuous(*bounds)
    return Levels(data["values"]) if data["kind"] == Levels.kind else Log(*bounds)
