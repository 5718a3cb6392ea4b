"""What an experiment wants to know: parameters, predictions, or both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from aline.errors import InputError
from aline.spaces import Design, parts
from aline.spaces.parts import Part, is_list, plain_part, read_part
from aline.tasks import PREDICTIONS, Spec, World

TRAINING_POINTS = 8  # prediction inputs of an episode whose goal is predictions
REGION_SHARE = 0.5  # of these episodes want predictions in a region, the others anywhere
SPREAD_POINTS = 64  # prediction inputs that stand for a region, or for anywhere, in use


@dataclass(frozen=True)
class Goal:
    """The targets of a batch of episodes (the paper's xi).

    >>> from aline.tasks import get
    >>> goal = goal_of(get("location").spec, ["source_x"]).repeat(3)
    >>> goal.parameters.tolist()[0], goal.count
    ([True, False], tensor([1, 1, 1]))
    """

    parameters: Tensor  # bool [batch, parameter]
    points: Tensor  # [batch, target, design], where predictions are wanted
    points_mask: Tensor  # bool [batch, target], False where there is only padding
    turns: tuple[Goal, ...] = ()  # trial by trial, where no policy was trained for the whole

    def pursued(self, observed: int) -> Goal:
        """What a learned policy aims at after so many observations: the whole, or a part in turn.

        The posterior knows nothing of turns; they depend on the number alone, so that a replay
        takes the same.
        """
        return self.turns[observed % len(self.turns)] if self.turns else self

    @cached_property
    def has_parameters(self) -> bool:
        """Whether any episode wants some."""
        return bool(self.parameters.any())

    @cached_property
    def wanted(self) -> Tensor:
        """The points [target, design] of a goal of one episode, without padding."""
        mask = self.points_mask[0]
        return self.points[0] if bool(mask.all()) else self.points[0, mask]

    @property
    def count(self) -> Tensor:
        """How many targets each episode has, [batch]."""
        return self.parameters.sum(1) + self.points_mask.sum(1)

    def repeat(self, batch: int) -> Goal:
        """The goal of one episode for a batch of them."""
        return Goal(
            self.parameters.expand(batch, -1),
            self.points.expand(batch, -1, -1),
            self.points_mask.expand(batch, -1),
            tuple(turn.repeat(batch) for turn in self.turns),
        )

    @classmethod
    def together(cls, goals: Sequence[Goal]) -> Goal:
        """Goals of parameters alone, one episode each, as a batch."""
        parameters = torch.cat([goal.parameters for goal in goals])
        points, mask = goals[0].points[:, :0], goals[0].points_mask[:, :0]
        batch = len(parameters)
        return cls(parameters, points.expand(batch, -1, -1), mask.expand(batch, -1))

    @property
    def log_weight(self) -> Tensor:
        """What a policy adds to the attention logits of each parameter and point, [batch, n].

        However many points stand for a region, they weigh as much together as in training.
        """
        count = self.points_mask.sum(1, keepdim=True).clamp_min(1)
        points = (TRAINING_POINTS / count).log().expand(self.points_mask.shape)
        weight = torch.cat([torch.zeros(self.parameters.shape), points], 1)
        wanted = torch.cat([self.parameters, self.points_mask], 1)
        return weight.masked_fill(~wanted, -torch.inf)

    def chosen(self) -> tuple[Tensor, Tensor]:
        """Indices [batch, n] of each episode's parameters, and which of them are not padding."""
        most = int(self.parameters.sum(1).max()) if self.parameters.numel() else 0
        mask, index = self.parameters.float().topk(most, dim=1)
        return index, mask > 0


@dataclass(frozen=True)
class Predictions:
    """Predictions wanted at given designs, or all over a region, in the user's units."""

    at: Mapping[str, Any] | None = None
    region: Design | Part | None = None  # a part as plain data comes from a client

    def __post_init__(self) -> None:
        if (self.at is None) == (self.region is None):
            raise InputError(
                "predictions take designs or a region: predictions(at={...}) or "
                "predictions(region=Box(...))"
            )
        if self.region is not None and not isinstance(self.region, Design | Mapping):
            raise InputError(f"a region must be a Box, got {self.region!r}")


def region_of(space: Design, wanted: Predictions) -> Design:
    """The region of a design space that predictions are wanted in."""
    assert wanted.region is not None
    if isinstance(wanted.region, Mapping):
        return read_part(space, wanted.region)
    return wanted.region


def predictions(
    *, at: Mapping[str, Any] | None = None, region: Design | Part | None = None
) -> Target:
    """A target: outcomes at designs or in a region.

    ``predictions(at={"time": [1, 2, 3]})``, ``predictions(region=Box(time=(0, 2)))``. Axes that a
    region does not name keep their whole range; repeated or denser designs weigh more.

    >>> import aline
    >>> region = aline.predictions(region=aline.Box(x=(0.0, 2.0)))
    >>> aline.Experiment(aline.load("gp1d"), target=region, horizon=8).horizon
    8
    """
    return Predictions(at, region)


@dataclass(frozen=True)
class InTurn:
    """Several goals, each pursued for a trial before the next one's turn."""

    parts: tuple[tuple[str | Predictions, ...], ...]


def in_turn(*parts: str | Predictions | Iterable[str | Predictions]) -> InTurn:
    """A target: parts of a goal, trial by trial, instead of what tells most about all of it.

    ``in_turn(["threshold", "slope"], ["guess", "lapse"])``; a part that is named twice gets twice
    the trials.

    >>> import aline
    >>> goal = aline.in_turn(["threshold", "slope"], ["guess", "lapse"])
    >>> trial = aline.Experiment(aline.load("psychometric"), target=goal).ask()
    >>> list(trial.design)
    ['stimulus']
    """
    listed = tuple(
        (part,) if isinstance(part, str | Predictions) else tuple(part) for part in parts
    )
    if len(listed) < 2:
        raise InputError(
            'in_turn takes at least two parts, in_turn(["threshold"], ["guess", "lapse"]), got '
            f"{len(listed)}"
        )
    return InTurn(listed)


Target = str | Predictions | InTurn


def goal_of(spec: Spec, targets: Target | Iterable[Target]) -> Goal:
    """A user's targets as the goal of one episode, in turns where it goes beyond the trained.

    >>> from aline.tasks import get
    >>> goal_of(get("location").spec, ["source_x", "source_y"]).parameters
    tensor([[True, True]])
    """
    targets = [targets] if isinstance(targets, Target) else list(targets)
    taken = [target for target in targets if isinstance(target, InTurn)]
    if taken:
        return _goal_in_turn(spec, taken[0], len(targets))
    if not targets:
        raise InputError(
            f"a target must name at least one of {', '.join(spec.parameters.labels)}, got none"
        )
    names = [t for t in targets if isinstance(t, str) and t != PREDICTIONS]
    points = [_points(spec, t) for t in targets if isinstance(t, Predictions)]
    if PREDICTIONS in targets:
        points.append(_spread(spec.design))
    at = torch.cat(points) if points else torch.zeros(0, len(spec.design))
    whole = Goal(
        spec.parameters.mask(names)[None],
        at[None],
        torch.ones(1, len(at), dtype=torch.bool),
    )
    return replace(whole, turns=_turns(spec, whole))


def _goal_in_turn(spec: Spec, target: InTurn, among: int) -> Goal:
    if among > 1:
        raise InputError("in_turn(...) is a whole target: put everything into its parts")
    whole = goal_of(spec, dict.fromkeys(one for part in target.parts for one in part))
    return replace(whole, turns=tuple(goal_of(spec, part) for part in target.parts))


def _turns(spec: Spec, goal: Goal) -> tuple[Goal, ...]:
    """The parts of a goal that trained goals hold, if none of these holds all of it.

    A policy knows what to do for each part. For the whole it would have to guess, and what tells
    most about the whole may tell nothing about a part. A part that is learned slowly gets several
    trials in a row, if the task says so. Where the parts leave something out, a policy was never
    trained for that: it takes the goal as it is.
    """
    wanted = _wanted(goal.parameters[0], bool(goal.points.shape[1]))
    in_a_row: dict[frozenset[int], int] = {}
    for names, _ in spec.targets:
        parameters = spec.parameters.mask(n for n in names if n != PREDICTIONS)
        part = wanted & _wanted(parameters, PREDICTIONS in names)
        in_a_row[part] = max(in_a_row.get(part, 1), dict(spec.turns).get(names, 1))
    largest = [part for part in in_a_row if not any(part < other for other in in_a_row)]
    if len(largest) < 2 or wanted != frozenset().union(*largest):
        return ()
    return tuple(_part(goal, part) for part in largest for _ in range(in_a_row[part]))


def _wanted(parameters: Tensor, is_predicted: bool) -> frozenset[int]:
    """Columns of parameters [parameter], and the one after them for predictions."""
    columns = parameters.nonzero()[:, 0].tolist()
    return frozenset([*columns, len(parameters)] if is_predicted else columns)


def _part(goal: Goal, wanted: frozenset[int]) -> Goal:
    size = goal.parameters.shape[1]
    points = goal.points.shape[1] if size in wanted else 0
    chosen = torch.tensor([[column in wanted for column in range(size)]], dtype=torch.bool)
    return Goal(chosen, goal.points[:, :points], goal.points_mask[:, :points])


def _points(spec: Spec, wanted: Predictions) -> Tensor:
    """The designs [target, design] that stand for what is wanted, on the network's scale."""
    if wanted.region is None:
        assert wanted.at is not None
        points = spec.design.read(wanted.at)
        if not len(points):
            raise InputError("predictions(at=...) needs at least one design, got none")
        return points
    region = region_of(spec.design, wanted)
    if is_list(spec.design, region):
        return spec.design.read(region.point_columns())
    return _spread(spec.design, plain_part(spec.design, region))


def _spread(space: Design, part: Part | None = None) -> Tensor:
    """Fixed points that stand for "anywhere" in the design space, or in a part of it."""
    if space.points is not None:
        points = space.points[parts.contains(space, part or {}, space.points)]
        if not len(points):
            raise InputError("no design of the pool lies in the region: take a larger one")
        count = min(SPREAD_POINTS, len(points))
        return space.to_network(points[torch.linspace(0, len(points) - 1, count).long()])
    points = parts.fill(space, part, SPREAD_POINTS) if part else space.spread_evenly(SPREAD_POINTS)
    if not len(points):
        raise InputError("no design that is possible lies in the region: take a larger one")
    return points


def draw_goals(
    spec: Spec, batch: int, generator: torch.Generator, world: World | None = None
) -> Goal:
    """A goal an episode, drawn by the task's training shares; a recorded world has its own points.

    Either all episodes of a batch want predictions or none does: their points would be padding in
    the others, and most of the work.

    >>> from aline.tasks import get
    >>> draw_goals(get("psychometric").spec, 3, torch.Generator()).parameters.shape
    torch.Size([3, 4])
    """
    shares = torch.tensor([share for _, share in spec.targets])
    wants = torch.tensor([PREDICTIONS in names for names, _ in spec.targets])
    first = torch.multinomial(shares, 1, generator=generator)
    shares = shares * (wants == wants[first])
    drawn = torch.multinomial(shares, batch, replacement=True, generator=generator)
    masks = torch.stack(
        [spec.parameters.mask(n for n in names if n != PREDICTIONS) for names, _ in spec.targets]
    )
    count = TRAINING_POINTS if bool(wants[first]) else 0
    if world is not None and world.is_recorded:
        points = world.sample(count, generator)
    else:
        points = spec.design.sample(batch, count, generator)
        if count and spec.design.points is None:
            points = _in_regions(spec.design, points, generator)
    return Goal(masks[drawn], points, torch.ones(batch, count, dtype=torch.bool))


def _in_regions(space: Design, points: Tensor, generator: torch.Generator) -> Tensor:
    """Points in [-1, 1], those of some episodes drawn together into a random box."""
    batch, _, axes = points.shape
    half = 0.1 + 0.9 * torch.rand(batch, 1, axes, generator=generator)
    middle = (1 - half) * (2 * torch.rand(batch, 1, axes, generator=generator) - 1)
    within = torch.rand(batch, 1, 1, generator=generator) < REGION_SHARE
    return space.possible(torch.where(within, middle + half * points, points), points)
