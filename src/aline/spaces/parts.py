"""A part of a design space as plain data: of an axis its bounds, or some values of a set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from aline.errors import InputError
from aline.spaces.axes import Axis, Continuous, Levels, Value
from aline.spaces.designs import Design

Part = Mapping[str, Sequence[Value]]
"""Axes that are not named keep all their values."""

ROUNDS, TRIED = 8, 8192  # how often, and how many designs at a time, until enough are possible


def is_list(space: Design, wanted: Design) -> bool:
    """Whether what a user wants is a list of whole designs, a pool or a grid, and not a part."""
    return wanted.points is not None and set(wanted.names) == set(space.names)


def plain_part(space: Design, box: Design) -> dict[str, list[Value]]:
    """What a `Box` inside a design space allows of it, checked."""
    _check_names(space, box.names)
    return {name: _plain_axis(name, space.axes[name], axis) for name, axis in box.axes.items()}


def _check_names(space: Design, names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in space.names]
    if unknown:
        raise InputError(
            f"designs have the axes {', '.join(space.names)}, got {', '.join(unknown)}: "
            "restrict some of these"
        )


def _plain_axis(name: str, whole: Axis, part: Axis) -> list[Value]:
    if isinstance(whole, Levels):
        return _some_values(name, whole, part)
    if part.values is not None:
        raise InputError(
            f"{name} takes bounds here, {name}=(low, high), got {part.words()}: pass whole designs "
            "as candidates instead"
        )
    if part.low < whole.low or part.high > whole.high:
        raise InputError(
            f"{name} must lie in [{whole.low:g}, {whole.high:g}], got "
            f"({part.low:g}, {part.high:g}): a restriction only narrows the task's bounds"
        )
    return [part.low, part.high]


def _some_values(name: str, whole: Levels, part: Axis) -> list[Value]:
    if part.values is not None:
        whole.read(name, list(part.values))  # says so if one is unknown
        return whole.plain(list(part.values))
    if whole.names:
        raise InputError(f"{name} is {whole.words()}, got {part.words()}: list some of its levels")
    kept = [v for v in whole.values if part.low <= float(v) <= part.high]
    if not kept:
        raise InputError(f"{name} is {whole.words()}, and none lies {part.words()}: list some")
    return kept


def read_part(space: Design, plain: Part) -> Design:
    """What `plain_part` wrote, or what a client sends, as a box."""
    _check_names(space, list(plain))
    return Design({name: _part_axis(name, space.axes[name], plain[name]) for name in plain})


def _part_axis(name: str, whole: Axis, given: Sequence[Value]) -> Axis:
    if isinstance(whole, Levels):
        return Levels(given)
    if len(given) != 2 or any(isinstance(end, str) for end in given):
        raise InputError(
            f"{name} lies {whole.words()}: a part of it is [low, high], got {list(given)!r}"
        )
    return Continuous(float(given[0]), float(given[1]))


def contains(space: Design, part: Part, numbers: Tensor) -> Tensor:
    """Which designs of numbers [n, design] lie in a part, bool [n]."""
    inside = torch.ones(len(numbers), dtype=torch.bool)
    for (name, axis), column in zip(space.axes.items(), numbers.unbind(-1), strict=True):
        if name in part:
            inside &= axis.contains(part[name], column)
    return inside


def spread(space: Design, part: Part, share: Tensor) -> Tensor:
    """Shares of the way across each axis of a part [..., design] as designs."""
    columns = []
    for (name, axis), column in zip(space.axes.items(), share.unbind(-1), strict=True):
        given = part.get(name)
        columns.append(
            axis.to_user(axis.spread(column)) if given is None else axis.within(given, column)
        )
    return space.to_network(torch.stack(columns, -1))


def sample(space: Design, part: Part, count: int, generator: torch.Generator) -> Tensor:
    """Designs [count, design] of a part that satisfy the condition; none if none was found."""
    x = spread(space, part, torch.rand(count, len(space), generator=generator))
    if space.condition is None:
        return x
    found = x[space.allows(x)]
    for _ in range(ROUNDS):
        if len(found) >= count:
            break
        more = spread(space, part, torch.rand(TRIED, len(space), generator=generator))
        found = torch.cat([found, more[space.allows(more)]])
    return found[torch.arange(count) % len(found)] if len(found) else found


def fill(space: Design, part: Part, count: int) -> Tensor:
    """Designs [n, design] evenly over a part, the same each time; fewer if few are possible."""
    engine = torch.quasirandom.SobolEngine(len(space), scramble=False)
    is_free = space.condition is None
    x = spread(space, part, engine.draw(count if is_free else TRIED))
    return x if is_free else x[space.allows(x)][:count]
