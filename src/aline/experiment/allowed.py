"""Where an experiment may measure next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from aline.episodes import Offer
from aline.errors import InputError, StateError
from aline.experiment.trial import name_values, plain_designs, read_design
from aline.spaces import Design


@dataclass(frozen=True)
class Allowed:
    """The designs on offer: a finite set of points, or all between bounds."""

    space: Design
    bounds: Tensor | None  # [2, design] in the user's units; None is the whole space
    points: Tensor | None  # [point, design] on the network's scale, where they are finitely many
    values: tuple[dict[str, float], ...] = ()  # the points in the user's units, as given
    repeats: bool = True  # whether a point may be measured twice

    @classmethod
    def read(cls, space: Design, restriction: Mapping[str, Any]) -> Allowed:
        """What `plain_restriction` wrote, for a design space."""
        repeats, candidates = restriction["repeats"], restriction["candidates"]
        bounds = None if restriction["box"] is None else _read_box(space, restriction["box"])
        if candidates is not None:
            rows = zip(*(candidates[name] for name in space.names), strict=True)
            values = [dict(zip(space.names, row, strict=True)) for row in rows]
        elif space.points is not None:
            values = [name_values(space.names, row) for row in space.points.tolist()]
        else:
            return cls(space, bounds, None, repeats=repeats)
        points = torch.stack([read_design(space, value) for value in values])
        if bounds is not None:
            given = torch.tensor([list(value.values()) for value in values])
            slack = 1e-6 * (space.high - space.low)
            inside = ((given >= bounds[0] - slack) & (given <= bounds[1] + slack)).all(1)
            points = points[inside]
            values = [value for value, keep in zip(values, inside.tolist(), strict=True) if keep]
        return cls(space, bounds, points, tuple(values), repeats)

    @property
    def is_everything(self) -> bool:
        """Whether any point of a box may be measured."""
        return self.points is None and self.bounds is None

    @cached_property
    def _offered(self) -> Tensor:
        """The points as a batch of one: the same tensor each time, by which an engine knows it."""
        assert self.points is not None
        return self.points[None]

    def offer(
        self, count: int, asked: Tensor, measured: Tensor, generator: torch.Generator
    ) -> Offer | None:
        """What a policy may choose from; None is the whole design space.

        Points that are open, `asked` [n, design], are not offered again while there are others;
        without repeats neither are those `measured`.
        """
        if self.points is None:
            return None if self.bounds is None else Offer(self._draw(count, generator))
        taken = asked if self.repeats else torch.cat([asked, measured])
        allowed = ~_among(self.points, taken)
        if not bool(allowed.any()):
            if not self.repeats:
                raise StateError(
                    f"all {len(self.points)} designs on offer are measured or open: "
                    "restrict(..., repeats=True) allows repeats"
                )
            allowed = torch.ones_like(allowed)
        return Offer(self._offered, allowed[None])

    def name(self, x: Tensor) -> dict[str, float]:
        """A chosen design [design] in the user's units."""
        if self.points is not None:
            return dict(self.values[int((self.points - x).abs().amax(1).argmin())])
        if self.space.relative:
            return name_values(self.space.names, self.space.to_user(x).tolist())
        # In plain Python, as in `read_design`.
        rows = zip(x.tolist(), self.space.low.tolist(), self.space.high.tolist(), strict=True)
        spread = [min(max(low + (v + 1) / 2 * (high - low), low), high) for v, low, high in rows]
        return name_values(self.space.names, spread)

    def _draw(self, count: int, generator: torch.Generator) -> Tensor:
        assert self.bounds is not None
        low, high = self.bounds.unbind()
        share = torch.rand(1, count, len(low), generator=generator)
        return self.space.to_network(low + share * (high - low))


def _read_box(space: Design, box: Mapping[str, Any]) -> Tensor:
    """Bounds [2, design] in the user's units; axes that are not named keep the task's."""
    every = zip(space.names, space.low.tolist(), space.high.tolist(), strict=True)
    return torch.tensor([box.get(name, [low, high]) for name, low, high in every]).T


def plain_restriction(
    space: Design, candidates: Mapping[str, Any] | Design | None, repeats: bool
) -> dict[str, Any]:
    """What a user allows, as JSON data."""
    plain: dict[str, Any] = {"candidates": None, "box": None, "repeats": bool(repeats)}
    if candidates is None:
        return plain
    if isinstance(candidates, Design):
        if candidates.points is None:
            plain["box"] = _plain_box(space, candidates)
        else:
            rows = [name_values(candidates.names, row) for row in candidates.points.tolist()]
            columns = {name: [row[name] for row in rows] for name in candidates.names}
            plain["candidates"] = plain_designs(space, columns)
    else:
        plain["candidates"] = plain_designs(space, candidates)
        if not all(plain["candidates"].values()):
            raise InputError("candidates must hold at least one design, got none")
    points = Allowed.read(space, plain).points
    if points is not None and not len(points):
        raise InputError(f"no point of the pool lies in {plain['box']}: allow a larger box")
    return plain


def _plain_box(space: Design, box: Design) -> dict[str, list[float]]:
    unknown = [name for name in box.names if name not in space.names]
    if unknown:
        raise InputError(
            f"designs have the axes {', '.join(space.names)}, got {', '.join(unknown)}: "
            "restrict some of these"
        )
    bounds: dict[str, list[float]] = box.to_json()["bounds"]
    for name, (low, high) in bounds.items():
        axis = space.names.index(name)
        if low < space.low[axis] or high > space.high[axis]:
            raise InputError(
                f"{name} must lie in [{space.low[axis]:g}, {space.high[axis]:g}], got "
                f"({low:g}, {high:g}): a restriction only narrows the task's bounds"
            )
    return bounds


def _among(points: Tensor, others: Tensor) -> Tensor:
    """Which points [n, design] are one of others [m, design], but for rounding."""
    if not len(others):
        return torch.zeros(len(points), dtype=torch.bool)
    distance = (points[:, None] - others).abs().amax(-1).amin(-1)
    return distance < 1e-5
