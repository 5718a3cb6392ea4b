"""Where measurements can be taken: named axes, between bounds or at some points only.

The network sees each axis on [-1, 1], as its kind says (spaces/axes.py). Axes that were declared
relative to another one it sees as a difference, on a signed logarithmic scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from aline.errors import InputError
from aline.spaces.axes import Axis, Continuous, Levels, Value
from aline.spaces.conditions import Condition, Function

Values = Mapping[str, Any]

MOST_NAMES = 32  # levels of one axis up to which the network is told which one it is
TRIED = (4096, 2**17)  # designs drawn to see how many a condition allows: first few, then many
AT_ONCE = 2**18  # designs drawn at a time where a condition rejects some


class Design:
    """Named design axes; `points` is None for a box, else the only allowed points.

    Points are numbers as the simulator sees them. `repeats` says whether one may be measured twice.

    >>> from aline.spaces import Box, Pool
    >>> box = Box(delay=(1, 9), side=["left", "right"]).where(lambda d: d["delay"] > 2)
    >>> x = box.read({"delay": [3.0, 5.0], "side": ["left", "right"]})
    >>> x.tolist(), box.to_user(x).tolist(), box.to_network(box.to_user(x)).shape
    ([[-0.5, -1.0], [0.0, 1.0]], [[3.0, 0.0], [5.0, 1.0]], torch.Size([2, 2]))
    >>> box.name_columns(x), box.name_values([5.0, 1.0])
    ({'delay': tensor([3., 5.]), 'side': tensor([0, 1])}, {'delay': 5.0, 'side': 'right'})
    >>> box.words(), box.is_linear, box.is_plain, box.named_width, box.named_levels(x)
    ('delay in [1, 9], side one of left, right, where delay > 2', False, False, 0, [])
    >>> box.allows(x), box.settled(x).shape, box.possible(x, x).shape
    (tensor([True, True]), torch.Size([2, 2]), torch.Size([2, 2]))
    >>> box.sample(2, 3, torch.Generator()).shape, box.spread_evenly(4).shape
    (torch.Size([2, 3, 2]), torch.Size([4, 2]))
    >>> box.spread(torch.zeros(1, 2)), box.read_numbers({"delay": 3.0, "side": "left"})
    (tensor([[-1., -1.]]), tensor([[3., 0.]]))
    >>> sorted(box.to_json())
    ['axes', 'bounds', 'condition', 'points']
    >>> box.knowing(box)
    >>> Pool(dose=[0.1, 1.0]).point_columns()
    {'dose': [0.1, 1.0]}
    """

    def __init__(
        self,
        axes: Mapping[str, Axis],
        points: Tensor | None = None,
        relative: Mapping[str, str] | None = None,
        linear_within: float | None = None,
        condition: Condition | None = None,
        repeats: bool = True,
    ):
        if not axes:
            raise InputError("a design needs at least one axis: Box(time=(0.0, 10.0))")
        for name, axis in axes.items():
            _check_bounds(name, axis)
        self.axes = dict(axes)
        self.names = tuple(axes)
        self.low = torch.tensor([axis.low for axis in axes.values()], dtype=torch.float32)
        self.high = torch.tensor([axis.high for axis in axes.values()], dtype=torch.float32)
        self.points = points
        self.repeats = repeats
        self.condition = condition
        self.relative = dict(relative or {})
        self.linear_within = linear_within
        self._is_linear = all(isinstance(axis, Continuous) for axis in axes.values())
        self._pairs = [(self._axis(name), self._axis(to)) for name, to in self.relative.items()]
        self._check_pairs()
        # As plain numbers: an exported graph takes them as constants.
        low, high = ([getattr(axis, end) for axis in axes.values()] for end in ("low", "high"))
        self._reaches = {
            axis: math.asinh(
                max(high[axis] - low[to], high[to] - low[axis]) / (linear_within or 1.0)
            )
            for axis, to in self._pairs
        }
        self._share = 1.0  # of all designs that the condition allows, roughly
        if condition is not None and points is None and condition.is_known:
            self._share = self._share_allowed()

    def _axis(self, name: str) -> int:
        if name not in self.names:
            raise InputError(f"a design has the axes {', '.join(self.names)}, got {name!r}")
        return self.names.index(name)

    def _check_pairs(self) -> None:
        for name, to in self.relative.items():
            if to in self.relative:
                raise InputError(
                    f"{name} must be relative to an axis that is not relative itself, got {to}"
                )
            if not all(isinstance(self.axes[one], Continuous) for one in (name, to)):
                raise InputError(
                    f"{name} and {to} must have bounds (low, high) to be compared, got "
                    f"{name} {self.axes[name].words()} and {to} {self.axes[to].words()}"
                )
        if self.relative and not (
            self.linear_within is not None and 0 < self.linear_within < math.inf
        ):
            raise InputError(
                "linear_within must be a positive difference in the axes' units, got "
                f"{self.linear_within!r}"
            )

    def compared(self, relative: Mapping[str, str], *, linear_within: float) -> Design:
        """These designs, with some axes seen as their difference from another axis.

        For trials that compare two things: what matters is often how far apart they are, on
        every scale from `linear_within` (in the axes' units) up. Only what the network sees
        changes.

        >>> from aline.spaces import Box
        >>> pair = Box(left=(0.0, 9.0), right=(0.0, 9.0))
        >>> pair.compared({"right": "left"}, linear_within=0.1).names
        ('left', 'right')
        """
        return Design(self.axes, self.points, relative, linear_within, self.condition, self.repeats)

    def where(self, condition: Function) -> Design:
        """These designs, but only those for which a condition holds.

        The condition gets the design's columns as the simulator does, and compares them; a named
        level may be compared with its name. Join comparisons with & and |.

        >>> from aline.spaces import Box
        >>> Box(soon=(0, 9), late=(0, 9)).where(lambda d: d["late"] > d["soon"])
        <Design soon in [0, 9], late in [0, 9], where late > soon>
        """
        wanted = Condition.of(self.axes, condition)
        points = None if self.points is None else self._points_where(wanted, self.points)
        both = wanted if self.condition is None else self.condition & wanted
        return Design(self.axes, points, self.relative, self.linear_within, both, self.repeats)

    def _points_where(self, wanted: Condition, points: Tensor) -> Tensor:
        left = points[wanted(self._columns(points))]
        if len(left) < 2:
            raise InputError(
                f"a condition must leave at least two points, and {wanted.words()} leaves "
                f"{len(left)} of {len(points)}: relax it"
            )
        return left

    def _share_allowed(self) -> float:
        for count in TRIED:
            share = torch.rand(count, len(self), generator=torch.Generator())
            allowed = int(self.allows(self.spread(share)).sum())
            if allowed:
                return allowed / count
        assert self.condition is not None
        raise InputError(
            f"no design satisfies the condition {self.condition.words()}: of {TRIED[-1]:,} drawn "
            "at random none did; relax it, or narrow the bounds to where it holds"
        )

    def knowing(self, other: Design) -> None:
        """Learn the condition from the task's own design, where a card could not hold it."""
        if self.condition is not None and not self.condition.is_known:
            self.condition, self._share = other.condition, other._share

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<Design {self.words()}>"

    def words(self) -> str:
        """Where can be measured: "stimulus in [-5, 5]"."""
        parts = [f"{name} {axis.words()}" for name, axis in self.axes.items()]
        if self.points is not None:
            once = "" if self.repeats else ", each once"
            parts.append(f"{len(self.points)} points{once}")
        text = ", ".join(parts)
        return text if self.condition is None else f"{text}, where {self.condition.words()}"

    @property
    def is_linear(self) -> bool:
        """Whether the network sees every axis linearly between its bounds."""
        return self._is_linear and not self._pairs

    @property
    def is_plain(self) -> bool:
        """Whether any point between bounds is a design: no sets of values, no condition."""
        levels = any(axis.values is not None for axis in self.axes.values())
        return self.points is None and self.condition is None and not levels

    def to_network(self, values: Tensor) -> Tensor:
        """Numbers in the user's units [..., design] to [-1, 1]."""
        if self._is_linear:
            x = 2 * (values - self.low) / (self.high - self.low) - 1
        else:
            x = self._each("to_network", values)
        if not self._pairs:
            return x
        columns, plain = list(x.unbind(-1)), values.unbind(-1)
        for axis, to in self._pairs:
            assert self.linear_within is not None
            columns[axis] = torch.asinh(
                (plain[axis] - plain[to]) / self.linear_within
            ) / self._reach(axis)
        return torch.stack(columns, -1)

    def to_user(self, x: Tensor) -> Tensor:
        """Network scale [..., design] to numbers in the user's units, never outside the bounds."""
        if self._is_linear:
            span = self.low + (x + 1) / 2 * (self.high - self.low)
        else:
            span = self._each("to_user", x)
        if self._pairs:
            columns = list(span.unbind(-1))
            for axis, to in self._pairs:
                assert self.linear_within is not None
                apart = self.linear_within * torch.sinh(x[..., axis] * self._reach(axis))
                base = torch.minimum(torch.maximum(columns[to], self.low[to]), self.high[to])
                columns[axis] = base + apart
            span = torch.stack(columns, -1)
        return torch.minimum(torch.maximum(span, self.low), self.high)

    def _each(self, method: str, values: Tensor) -> Tensor:
        """What every axis makes of its column of values [..., design]."""
        columns = zip(self.axes.values(), values.unbind(-1), strict=True)
        return torch.stack([getattr(axis, method)(column) for axis, column in columns], -1)

    def _reach(self, axis: int) -> float:
        """The largest difference of a relative axis, on its logarithmic scale."""
        return self._reaches[axis]

    def settled(self, x: Tensor) -> Tensor:
        """Network scale [..., design] as it is measured.

        A difference may lead out of bounds, and a set has its values only.
        """
        if self._pairs:
            return self.to_network(self.to_user(x))
        return x if self._is_linear else self._each("settled", x)

    def possible(self, wanted: Tensor, otherwise: Tensor) -> Tensor:
        """The designs nearest to those wanted [..., design]; others where these are forbidden.

        So that a search can move about freely: what is not possible stays where it was.
        """
        near = self.settled(wanted.clamp(-1, 1))
        if self.condition is None:
            return near
        return torch.where(self.allows(near)[..., None], near, otherwise.expand(near.shape))

    def allows(self, x: Tensor) -> Tensor:
        """Which designs [..., design] on the network's scale satisfy the condition, bool [...]."""
        if self.condition is None:
            return torch.ones(x.shape[:-1], dtype=torch.bool)
        return self.condition(self.name_columns(x))

    def named_levels(self, x: Tensor) -> list[Tensor]:
        """Which named level designs [..., design] have, [..., level] for each such axis."""
        columns = zip(self.axes.values(), x.unbind(-1), strict=True)
        return [
            axis.which(column)
            for axis, column in columns
            if isinstance(axis, Levels) and _is_told(axis)
        ]

    @property
    def named_width(self) -> int:
        """How many numbers `named_levels` has."""
        return sum(len(axis.names) for axis in self.axes.values() if _is_told(axis))

    def name_columns(self, x: Tensor) -> dict[str, Tensor]:
        """Network scale [..., design] as the simulator sees it: name -> [...] in its units.

        Of a named level it is the place in the list of names, a whole number.
        """
        return self._columns(self.to_user(x))

    def _columns(self, values: Tensor) -> dict[str, Tensor]:
        named = zip(self.axes.items(), values.unbind(-1), strict=True)
        return {
            name: column.round().long() if axis.names else column for (name, axis), column in named
        }

    def spread(self, share: Tensor) -> Tensor:
        """Shares of the way across each axis [..., design], in [0, 1), as designs."""
        x = share * 2 - 1 if self._is_linear else self._each("spread", share)
        if self._pairs:
            x = self.to_network(self.low + (x + 1) / 2 * (self.high - self.low))
        return x

    def spread_evenly(self, count: int, seed: int | None = None) -> Tensor:
        """Designs [n, design] that fill a box evenly, the same for the same seed.

        They are `count`, or fewer where a condition allows few.
        """
        engine = torch.quasirandom.SobolEngine(len(self), scramble=seed is not None, seed=seed)
        is_free = self.condition is None
        share = engine.draw(count if is_free else min(AT_ONCE, math.ceil(4 * count / self._share)))
        x = self.spread(share)
        return x if is_free else x[self.allows(x)][:count]

    def sample(self, batch: int, count: int, generator: torch.Generator) -> Tensor:
        """Designs [batch, count, design] on the network's scale, uniform over what is allowed.

        From a pool they come without repeats as far as the pool reaches.
        """
        if self.points is None:
            if self.condition is not None:
                return self._drawn(batch * count, generator).view(batch, count, len(self))
            return self.spread(torch.rand(batch, count, len(self), generator=generator))
        points = self.to_network(self.points)
        if count > len(points):
            rows = torch.randint(len(points), (batch, count), generator=generator)
        else:
            keys = torch.rand(batch, len(points), generator=generator)
            rows = keys.topk(count, dim=1).indices
        return points[rows]

    def _drawn(self, count: int, generator: torch.Generator) -> Tensor:
        """Designs [count, design] that satisfy the condition, by rejecting others."""
        kept, missing = [torch.zeros(0, len(self))], count
        while missing:
            tried = min(AT_ONCE, math.ceil(1.2 * missing / self._share) + 8)
            x = self.spread(torch.rand(tried, len(self), generator=generator))
            kept.append(x[self.allows(x)][:missing])
            missing -= len(kept[-1])
        return torch.cat(kept)

    def read(self, values: Values) -> Tensor:
        """A user's designs as network values [count, design]; numbers count as one design."""
        numbers = self.read_numbers(values)
        if self.condition is not None and self.condition.is_known:
            self._check_condition(numbers)
        return self.to_network(numbers)

    def read_numbers(self, values: Values) -> Tensor:
        """A user's designs as numbers [count, design], whatever the condition says of them."""
        if not isinstance(values, Mapping):
            raise InputError(
                f"a design must name its axes, got {values!r}: "
                f"pass {{{', '.join(f'{name!r}: ...' for name in self.names)}}}"
            )
        if set(values) != set(self.names):
            raise InputError(
                f"a design must name exactly {', '.join(self.names)}, got "
                f"{', '.join(map(str, values)) or 'nothing'}"
            )
        columns = [axis.read(name, values[name]) for name, axis in self.axes.items()]
        if len({len(column) for column in columns}) > 1:
            sizes = ", ".join(f"{n}: {len(c)}" for n, c in zip(self.names, columns, strict=True))
            raise InputError(f"all design axes must have one length, got {sizes}")
        return torch.stack(columns, -1)

    def _check_condition(self, numbers: Tensor) -> None:
        assert self.condition is not None
        wrong = ~self.condition(self._columns(numbers))
        if bool(wrong.any()):
            first = self.name_values(numbers[wrong][0].tolist())
            shown = ", ".join(f"{name} {self.axes[name].text(v)}" for name, v in first.items())
            raise InputError(
                f"designs must satisfy {self.condition.words()}, got {shown}: the model knows no "
                "others"
            )

    def point_columns(self) -> dict[str, list[Value]]:
        """The points of a pool as users write them."""
        assert self.points is not None
        rows = [self.name_values(row) for row in self.points.tolist()]
        return {name: [row[name] for row in rows] for name in self.names}

    def name_values(self, numbers: Sequence[float]) -> dict[str, Value]:
        """One design [design] of numbers as users read it.

        The journal keeps these values, so a replay reads exactly the design that was asked for.
        """
        rows = zip(self.axes.items(), numbers, strict=True)
        return {name: axis.value_of(number) for (name, axis), number in rows}

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        # Those of continuous axes in single precision, as the cards of earlier models have them.
        rounded = torch.stack([self.low, self.high], -1).tolist()
        every = zip(self.axes.items(), rounded, strict=True)
        bounds = {
            name: pair if isinstance(axis, Continuous) else [axis.low, axis.high]
            for (name, axis), pair in every
        }
        plain: dict[str, Any] = {
            "bounds": bounds,
            "points": None if self.points is None else self.points.tolist(),
        }
        if self.relative:
            plain |= {"relative": self.relative, "linear_within": self.linear_within}
        # Left out where there is nothing to say, so that the cards of earlier models stay the same.
        kinds = {n: a.to_json() for n, a in self.axes.items() if not isinstance(a, Continuous)}
        plain |= {"axes": kinds} if kinds else {}
        plain |= {} if self.condition is None else {"condition": self.condition.to_json()}
        return plain if self.repeats else plain | {"repeats": False}


def _check_bounds(name: str, axis: Axis) -> None:
    is_set = axis.values is not None
    if not (math.isfinite(axis.low) and math.isfinite(axis.high)) or (
        axis.low >= axis.high and not is_set
    ):
        raise InputError(
            f"the bounds of {name} must be finite with low < high, got "
            f"({axis.low:g}, {axis.high:g})"
        )


def _is_told(axis: Axis) -> bool:
    """Whether the network is told which named level it is: two it tells apart by their place."""
    return 2 < len(axis.names) <= MOST_NAMES
