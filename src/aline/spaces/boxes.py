"""Designs as users write them: a box, a pool of points, or a grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from aline.errors import InputError
from aline.spaces.axes import Axis, Continuous, Levels, axis_from_json, axis_of
from aline.spaces.conditions import condition_from_json
from aline.spaces.designs import Design

LISTED = 2000  # combinations of sets of values up to which a box is the list of them


class Box(Design):
    """Axes that are set independently: between bounds, on a log scale, or one of some values.

    >>> Box(time=(0.0, 10.0)).names
    ('time',)
    >>> Box(amount=(10, 790), delay=[1, 7, 30], side=["left", "right"]).words()
    'amount in [10, 790], delay one of 1, 7, 30, side one of left, right'
    """

    def __init__(self, **axes: Any):
        read = {name: axis_of(name, given) for name, given in axes.items()}
        super().__init__(read, _combinations(read))


class Pool(Design):
    """A finite set of points, given as columns by name; without `repeats` each is used once.

    >>> len(Pool(dose=[0.1, 1.0, 10.0]).points)
    3
    >>> Pool(item=["a", "b"], difficulty=[0.3, 1.2], repeats=False).words()
    'item one of a, b, difficulty in [0.3, 1.2], 2 points, each once'
    """

    def __init__(self, *, repeats: bool = True, **columns: Sequence[Any]):
        axes, numbers = {}, {}
        for name, column in columns.items():
            axes[name], numbers[name] = _pool_column(column)
        if len({len(column) for column in numbers.values()}) > 1:
            raise InputError(
                "the columns of a pool must have one length, got "
                + ", ".join(f"{name}: {len(column)}" for name, column in numbers.items())
            )
        points = torch.stack(list(numbers.values()), -1) if numbers else torch.zeros(0, 0)
        if len(points) < 2:
            raise InputError(f"a pool needs at least two points, got {len(points)}")
        if not isinstance(repeats, bool):
            raise InputError(f"repeats must be True or False, got {repeats!r}: rename the column")
        super().__init__(axes, points, repeats=repeats)


class Grid(Pool):
    """Every combination of the values given for each axis.

    >>> len(Grid(dose=[0.1, 1.0], time=[1, 2, 3]).points)
    6
    """

    def __init__(self, *, repeats: bool = True, **axes: Sequence[Any]):
        rows = list(itertools.product(*axes.values()))
        columns = {name: [row[i] for row in rows] for i, name in enumerate(axes)}
        super().__init__(repeats=repeats, **columns)


def _combinations(axes: Mapping[str, Axis]) -> Tensor | None:
    """All designs there are, where every axis is a set and they are not too many."""
    sets = [axis.values for axis in axes.values()]
    if not sets or None in sets or math.prod(map(len, sets)) > LISTED:  # type: ignore[arg-type]
        return None
    numbers = [[axis.number_of(v) for v in axis.values or ()] for axis in axes.values()]
    return torch.tensor(list(itertools.product(*numbers)))


def _pool_column(column: Sequence[Any]) -> tuple[Axis, Tensor]:
    """An axis and the numbers of a column: of names their places, in the order they come in."""
    if any(isinstance(value, str) for value in column):
        names = Levels(list(dict.fromkeys(column)))
        return names, torch.tensor([names.number_of(value) for value in column])
    numbers = torch.as_tensor(column, dtype=torch.float32).reshape(-1)
    if not len(numbers):
        return Levels([0.0]), numbers
    return Continuous(float(numbers.min()), float(numbers.max())), numbers


def design_from_json(data: Mapping[str, Any]) -> Design:
    """Read what `Design.to_json` wrote."""
    kinds, points = data.get("axes", {}), data["points"]
    axes = {name: axis_from_json(kinds.get(name), pair) for name, pair in data["bounds"].items()}
    condition = data.get("condition")
    return Design(
        axes,
        None if points is None else torch.tensor(points).reshape(len(points), len(axes)),
        data.get("relative"),
        data.get("linear_within"),
        None if condition is None else condition_from_json(condition, axes),
        data.get("repeats", True),
    )
