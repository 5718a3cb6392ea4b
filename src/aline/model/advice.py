"""The narrow door through which a plug-in may speak to the network: plain tensors.

A plug-in knows something of a kind of task that attention would have to learn, such as what a
process expects of a function. The network adds its features to tokens and starts its beliefs from
its frames; it may also leave the choice of designs to it. It knows nothing else of it. Most tasks
have none, and `NoAdvisor` speaks for them: all its tensors have a width of zero.

Axes: [batch, group, ...]. Points are [batch, n, design], the same for all groups, or
[batch, group, n, design].
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from aline.episodes import Context, Goal
from aline.errors import InputError, InternalError
from aline.tasks import Spec

# Who speaks by which name: the module is imported when a network asks for it.
PLUG_INS = {
    "functions": "aline.functions.advisor",
    "landscapes": "aline.landscapes.advisor",
}


class Frame(NamedTuple):
    """Where a belief starts from: it is relative to this mean, in units of this deviation."""

    mean: Tensor
    std: Tensor


class PointAdvice(NamedTuple):
    """Of points: features [batch, group, n, point_width], and a frame [batch, group, n] if any."""

    features: Tensor
    frame: Frame | None


class Advice:
    """What a plug-in says of a context, for groups that each see a prefix of it; here, nothing."""

    def __init__(self, batch: int, groups: int, length: int):
        self.shape, self.length = (batch, groups), length  # of how many observations

    def context_features(self) -> Tensor:
        """[batch, group, context_width], added to the parameters' tokens."""
        return torch.zeros(*self.shape, 0)

    def parameter_frame(self) -> Frame | None:
        """Where the parameters' posteriors start from, [batch, group, parameter]."""
        return None

    def at_points(self, points: Tensor) -> PointAdvice:
        """Of points."""
        return PointAdvice(torch.zeros(*self.shape, points.shape[-2], 0), None)

    def scores(self, candidates: Tensor, goal: Goal) -> Tensor:
        """Logits [batch, group, n] of candidates for a goal, where the plug-in chooses."""
        raise InternalError("without a plug-in the network chooses")

    def regrouped(self, visible: Tensor) -> Advice:
        """For groups that see `visible` [batch, group, context] of the whole context."""
        return Advice(*visible.shape)

    def extend(self, design: Tensor, outcome: Tensor) -> Advice:
        """With one more observation: design [batch, design], outcome [batch, *event]."""
        return Advice(*self.shape, self.length + 1)


class NoAdvisor(nn.Module):
    """For tasks without a plug-in."""

    context_width = point_width = 0
    has_frames = False  # whether it says where beliefs start from
    is_learned = False  # whether it has weights of its own, trained with the network's

    def read(self, context: Context) -> Advice:
        """Take a whole context in, for one group that sees all of it."""
        return Advice(context.designs.shape[0], 1, context.length)

    def in_units(self, engine: Any, noise: float | None) -> Any:
        """An engine for outcomes in a user's units, of which the network was not trained."""
        raise InputError(
            "standardise is for models of unknown functions, such as gp1d: other simulators have "
            "units of their own"
        )


def advisor_for(spec: Spec, name: str | None, settings: dict[str, Any]) -> NoAdvisor:
    """The plug-in of that name for a task."""
    if name is None:
        return NoAdvisor()
    if name not in PLUG_INS:
        raise InputError(f"plug-ins are {', '.join(PLUG_INS)}, got {name!r}")
    advisor: NoAdvisor = import_module(PLUG_INS[name]).advisor(spec, **settings)
    return advisor
