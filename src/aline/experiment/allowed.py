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
from aline.experiment.trial import plain_designs, read_design
from aline.spaces import Design, parts
from aline.spaces.axes import Value
from aline.spaces.parts import Part, is_list, plain_part


@dataclass(frozen=True)
class Allowed:
    """The designs on offer: a finite set of points, or all in a part of the design space."""

    space: Design
    part: Part  # of each axis its bounds or some values; empty is the whole space
    points: Tensor | None  # [point, design] on the network's scale, where they are finitely many
    values: tuple[dict[str, Value], ...] = ()  # the points in the user's units, as given
    repeats: bool = True  # whether a point may be measured twice

    @classmethod
    def read(cls, space: Design, restriction: Mapping[str, Any]) -> Allowed:
        """What `plain_restriction` wrote, for a design space."""
        repeats, candidates = restriction["repeats"], restriction["candidates"]
        part = restriction["box"] or {}
        if candidates is None and space.points is None:
            return cls(space, part, None, repeats=repeats)
        columns = space.point_columns() if candidates is None else candidates
        rows = zip(*(columns[name] for name in space.names), strict=True)
        values = [dict(zip(space.names, row, strict=True)) for row in rows]
        points = torch.stack([read_design(space, value) for value in values])
        if part:
            inside = parts.contains(space, part, space.read_numbers(columns))
            points = points[inside]
            values = [value for value, keep in zip(values, inside.tolist(), strict=True) if keep]
        return cls(space, part, points, tuple(values), repeats)

    @property
    def is_everything(self) -> bool:
        """Whether any point of a box may be measured."""
        return self.points is None and not self.part

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
            if not self.part:
                return None
            return Offer(parts.sample(self.space, self.part, count, generator)[None])
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

    def name(self, x: Tensor) -> dict[str, Value]:
        """A chosen design [design] in the user's units."""
        if self.points is not None:
            return dict(self.values[int((self.points - x).abs().amax(1).argmin())])
        if not self.space.is_linear:
            return self.space.name_values(self.space.to_user(x).tolist())
        # In plain Python, as in `read_design`.
        rows = zip(x.tolist(), self.space.low.tolist(), self.space.high.tolist(), strict=True)
        spread = [min(max(low + (v + 1) / 2 * (high - low), low), high) for v, low, high in rows]
        return self.space.name_values(spread)


def plain_restriction(
    space: Design,
    candidates: Mapping[str, Any] | Design | None,
    repeats: bool | None = None,
) -> dict[str, Any]:
    """What a user allows, as JSON data; the design space says whether points may repeat."""
    once = space.repeats if repeats is None else bool(repeats)
    plain: dict[str, Any] = {"candidates": None, "box": None, "repeats": once}
    if candidates is None:
        return plain
    if isinstance(candidates, Design) and not is_list(space, candidates):
        plain["box"] = plain_part(space, candidates)
        _check_possible(space, plain["box"])
    else:
        listed = candidates.point_columns() if isinstance(candidates, Design) else candidates
        plain["candidates"] = plain_designs(space, listed)
        if not all(plain["candidates"].values()):
            raise InputError("candidates must hold at least one design, got none")
    points = Allowed.read(space, plain).points
    if points is not None and not len(points):
        raise InputError(f"no point of the pool lies in {plain['box']}: allow a larger box")
    return plain


def _check_possible(space: Design, part: Part) -> None:
    if space.condition is None or space.points is not None:
        return
    if not len(parts.sample(space, part, 1, torch.Generator())):
        raise InputError(
            f"no design of {part} satisfies {space.condition.words()}: allow a larger box"
        )


def _among(points: Tensor, others: Tensor) -> Tensor:
    """Which points [n, design] are one of others [m, design], but for rounding."""
    if not len(others):
        return torch.zeros(len(points), dtype=torch.bool)
    distance = (points[:, None] - others).abs().amax(-1).amin(-1)
    return distance < 1e-5
