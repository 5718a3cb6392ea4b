"""Psi-marginal (Prins 2013, Journal of Vision 13(7):3), written from the paper.

The psi method (Kontsevich & Tyler 1999) with nuisance parameters: every trial shows the stimulus
after which the posterior of the other parameters, the nuisance integrated out, is expected to have
the smallest entropy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from aline.baselines.grid import GridPolicy
from aline.errors import InputError
from aline.tasks import Task
from aline.tasks.lattice import Lattice, Points


class PsiMarginal(GridPolicy):
    """Aims at the goal's parameters; with `nuisance`, at all but these, whatever the goal.

    >>> from aline.baselines import Procedure
    >>> from aline.tasks import get
    >>> grid = {"threshold": 21, "slope": 11, "guess": 5, "lapse": 5}
    >>> method = PsiMarginal(get("psychometric"), grid, nuisance=["guess", "lapse"])
    >>> sorted(Procedure(method).ask())
    ['stimulus']
    """

    def __init__(
        self,
        task: Task,
        points: Points | Lattice,
        stimuli: Mapping[str, Any] | None = None,
        nuisance: Iterable[str] | None = None,
    ):
        super().__init__(task, points, stimuli)
        self.nuisance = None if nuisance is None else task.spec.parameters.mask(nuisance)
        if self.nuisance is not None and bool(self.nuisance.all()):
            raise InputError("not every parameter can be nuisance: leave at least one out")

    def targets(self, goal: Tensor) -> Tensor:
        """All but the nuisance."""
        return goal if self.nuisance is None else ~self.nuisance
