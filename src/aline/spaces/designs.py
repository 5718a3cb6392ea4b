"""Where measurements can be taken: a box, a pool of points, or a grid.

The network sees each design axis linearly mapped to [-1, 1], but for axes that were declared
relative to another one: these it sees as a difference, on a signed logarithmic scale.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from aline.errors import InputError

Values = Mapping[str, Any]


class Design:
    """Named design axes with bounds; `points` is None for a box, else the only allowed points."""

    def __init__(
        self,
        names: Sequence[str],
        low: Sequence[float],
        high: Sequence[float],
        points: Tensor | None = None,
        relative: Mapping[str, str] | None = None,
        linear_within: float | None = None,
    ):
        if not names:
            raise InputError("a design needs at least one axis: Box(time=(0.0, 10.0))")
        for name, lo, hi in zip(names, low, high, strict=True):
            if not (math.isfinite(lo) and math.isfinite(hi) and lo < hi):
                raise InputError(
                    f"the bounds of {name} must be finite with low < high, got ({lo:g}, {hi:g})"
                )
        self.names = tuple(names)
        self.low = torch.tensor(low, dtype=torch.float32)
        self.high = torch.tensor(high, dtype=torch.float32)
        self.points = points
        self.relative = dict(relative or {})
        self.linear_within = linear_within
        self._pairs = [(self._axis(name), self._axis(to)) for name, to in self.relative.items()]
        self._check_pairs()
        # As plain numbers: an exported graph takes them as constants.
        self._reaches = {
            axis: math.asinh(
                max(high[axis] - low[to], high[to] - low[axis]) / (linear_within or 1.0)
            )
            for axis, to in self._pairs
        }

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

        >>> pair = Box(left=(0.0, 9.0), right=(0.0, 9.0))
        >>> pair.compared({"right": "left"}, linear_within=0.1).names
        ('left', 'right')
        """
        low, high = self.low.tolist(), self.high.tolist()
        return Design(self.names, low, high, self.points, relative, linear_within)

    def __len__(self) -> int:
        return len(self.names)

    def to_network(self, values: Tensor) -> Tensor:
        """The user's units [..., design] to [-1, 1]."""
        x = 2 * (values - self.low) / (self.high - self.low) - 1
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
        """Network scale [..., design] to the user's units, never outside the bounds."""
        span = self.low + (x + 1) / 2 * (self.high - self.low)
        if self._pairs:
            columns = list(span.unbind(-1))
            for axis, to in self._pairs:
                assert self.linear_within is not None
                apart = self.linear_within * torch.sinh(x[..., axis] * self._reach(axis))
                base = torch.minimum(torch.maximum(columns[to], self.low[to]), self.high[to])
                columns[axis] = base + apart
            span = torch.stack(columns, -1)
        return torch.minimum(torch.maximum(span, self.low), self.high)

    def _reach(self, axis: int) -> float:
        """The largest difference of a relative axis, on its logarithmic scale."""
        return self._reaches[axis]

    def settled(self, x: Tensor) -> Tensor:
        """Network scale [..., design] as it is measured: a difference may lead out of bounds."""
        return self.to_network(self.to_user(x)) if self._pairs else x

    def name_columns(self, x: Tensor) -> dict[str, Tensor]:
        """Network scale [..., design] as the simulator sees it: name -> [...] in its units."""
        return dict(zip(self.names, self.to_user(x).unbind(-1), strict=True))

    def sample(self, batch: int, count: int, generator: torch.Generator) -> Tensor:
        """Designs [batch, count, design] on the network's scale, uniform over what is allowed.

        From a pool they come without repeats as far as the pool reaches.
        """
        if self.points is None:
            x = torch.rand(batch, count, len(self), generator=generator) * 2 - 1
            if self._pairs:
                x = self.to_network(self.low + (x + 1) / 2 * (self.high - self.low))
            return x
        points = self.to_network(self.points)
        if count > len(points):
            rows = torch.randint(len(points), (batch, count), generator=generator)
        else:
            keys = torch.rand(batch, len(points), generator=generator)
            rows = keys.topk(count, dim=1).indices
        return points[rows]

    def read(self, values: Values) -> Tensor:
        """A user's designs as network values [count, design]; numbers count as one design."""
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
        columns = [self._read_axis(name, values[name]) for name in self.names]
        if len({len(column) for column in columns}) > 1:
            sizes = ", ".join(f"{n}: {len(c)}" for n, c in zip(self.names, columns, strict=True))
            raise InputError(f"all design axes must have one length, got {sizes}")
        return self.to_network(torch.stack(columns, -1))

    def _read_axis(self, name: str, value: Any) -> Tensor:
        try:
            column = torch.as_tensor(value, dtype=torch.float32).reshape(-1)
        except (TypeError, ValueError, RuntimeError):
            raise InputError(
                f"{name} must be a number or a list of numbers, got {value!r}"
            ) from None
        axis = self.names.index(name)
        low, high = self.low[axis], self.high[axis]
        slack = 1e-5 * (high - low)
        outside = ~((column >= low - slack) & (column <= high + slack))
        if bool(outside.any()):
            raise InputError(
                f"{name} must lie in [{low:g}, {high:g}], got {column[outside][0]:g}: "
                "pass design values in the task's units"
            )
        return column.clamp(low, high)

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        bounds = {
            name: [lo, hi]
            for name, lo, hi in zip(self.names, self.low.tolist(), self.high.tolist(), strict=True)
        }
        plain: dict[str, Any] = {
            "bounds": bounds,
            "points": None if self.points is None else self.points.tolist(),
        }
        if self.relative:
            plain |= {"relative": self.relative, "linear_within": self.linear_within}
        return plain


class Box(Design):
    """Any point between bounds.

    >>> Box(time=(0.0, 10.0)).names
    ('time',)
    """

    def __init__(self, **bounds: tuple[float, float]):
        for name, pair in bounds.items():
            if not (isinstance(pair, Sequence) and len(pair) == 2):
                raise InputError(f"the bounds of {name} must be (low, high), got {pair!r}")
        low, high = ([float(pair[i]) for pair in bounds.values()] for i in (0, 1))
        super().__init__(tuple(bounds), low, high)


class Pool(Design):
    """A finite set of points, given as columns by name.

    >>> len(Pool(dose=[0.1, 1.0, 10.0]).points)
    3
    """

    def __init__(self, **columns: Sequence[float]):
        data = {n: torch.as_tensor(c, dtype=torch.float32).reshape(-1) for n, c in columns.items()}
        if len({len(column) for column in data.values()}) > 1:
            raise InputError(
                "the columns of a pool must have one length, got "
                + ", ".join(f"{name}: {len(column)}" for name, column in data.items())
            )
        points = torch.stack(list(data.values()), -1) if data else torch.zeros(0, 0)
        if len(points) < 2:
            raise InputError(f"a pool needs at least two points, got {len(points)}")
        low, high = points.min(0).values.tolist(), points.max(0).values.tolist()
        super().__init__(tuple(data), low, high, points)


class Grid(Pool):
    """Every combination of the values given for each axis.

    >>> len(Grid(dose=[0.1, 1.0], time=[1, 2, 3]).points)
    6
    """

    def __init__(self, **axes: Sequence[float]):
        rows = list(itertools.product(*axes.values()))
        super().__init__(**{name: [row[i] for row in rows] for i, name in enumerate(axes)})


def design_from_json(data: Mapping[str, Any]) -> Design:
    """Read what `Design.to_json` wrote."""
    bounds, points = data["bounds"], data["points"]
    low, high = ([pair[i] for pair in bounds.values()] for i in (0, 1))
    return Design(
        tuple(bounds),
        low,
        high,
        None if points is None else torch.tensor(points),
        data.get("relative"),
        data.get("linear_within"),
    )
