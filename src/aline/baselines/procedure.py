"""A grid method at work on one observer: ask and tell, as `aline.Experiment` has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from aline.baselines.grid import Belief, GridPolicy
from aline.episodes import goal_of
from aline.errors import InputError


class Procedure:
    """Runs trials with a grid method; `target` names parameters, None is all of them.

    >>> from aline.baselines import PsiMarginal, Procedure
    >>> from aline.tasks import get
    >>> grid = {"threshold": 21, "slope": 11, "guess": 5, "lapse": 5}
    >>> procedure = Procedure(PsiMarginal(get("psychometric"), grid), target=["threshold"])
    >>> design = procedure.ask()
    >>> procedure.tell(design, True)
    >>> sorted(procedure.mean)
    ['guess', 'lapse', 'slope', 'threshold']
    """

    def __init__(self, method: GridPolicy, target: str | Iterable[str] | None = None):
        self.method = method
        self.trials: list[tuple[dict[str, float], float]] = []
        goal = goal_of(method.spec, method.spec.parameters.labels if target is None else target)
        self._belief = method.begin(goal)

    @property
    def target(self) -> list[str]:
        """The parameters aimed at; may be set at any time."""
        names = self.method.spec.parameters.names
        return [
            n
            for n, is_target in zip(names, self._belief.goal.parameters[0], strict=True)
            if is_target
        ]

    @target.setter
    def target(self, target: str | Iterable[str]) -> None:
        self._belief = Belief(self._belief.weight, goal_of(self.method.spec, target))

    def ask(self) -> dict[str, float]:
        """The next design, in the user's units."""
        x = self.method.choose(self._belief, None, torch.Generator())
        named = self.method.spec.design.name_columns(x)
        return {name: float(column) for name, column in named.items()}

    def tell(self, design: Mapping[str, Any], outcome: Any) -> None:
        """Take in what a design gave, whether it was asked for or not."""
        x = self.method.spec.design.read(design)
        if len(x) != 1:
            raise InputError(f"a trial has one design, got {len(x)}: give one number an axis")
        value = self.method.spec.outcome.read(outcome)
        outcome_kind = self.method.spec.outcome
        y = outcome_kind.to_network(outcome_kind.from_plain([value]))
        # A design that was asked for went through the user's units and back: find its stimulus.
        gap = (self.method.stimuli - x).abs().amax(1)
        if float(gap.min()) < 1e-5:
            x = self.method.stimuli[gap.argmin()][None]
        self._belief = self.method.observe(self._belief, x, y)
        self.trials.append(({name: float(v) for name, v in design.items()}, value))

    @property
    def mean(self) -> dict[str, float]:
        """Posterior means by name."""
        return {name: float(value) for name, value in self.method.moments(self._belief)[0].items()}

    @property
    def std(self) -> dict[str, float]:
        """Posterior standard deviations by name."""
        return {name: float(value) for name, value in self.method.moments(self._belief)[1].items()}

    def marginal(self, name: str) -> tuple[Tensor, Tensor]:
        """The grid's values of a parameter, rising, and the probability of each."""
        if name not in self.method.values:
            known = ", ".join(self.method.values)
            raise InputError(f"parameters are {known}, got {name!r}: use one of these")
        values, which = self.method.values[name].unique(return_inverse=True)
        weight = torch.zeros(len(values)).index_add_(0, which, self._belief.weight[0])
        return values, weight
