"""The goals of the psychometric benchmark, and the rows of its result."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from aline.app.bench.bench import Row
from aline.evaluation.estimates import Estimate, mean
from aline.evaluation.results import row

TASK = "psychometric"
PAIRS = (("threshold", "slope"), ("guess", "lapse"))
ALL = PAIRS[0] + PAIRS[1]
# To choose a stimulus, as the paper reports; its rivals are public packages.
SECONDS = {
    ("aline", ",".join(PAIRS[0])): 0.002,
    ("psi-marginal-published", ",".join(PAIRS[0])): 0.02,
    ("questplus-published", ",".join(ALL)): 0.07,
}


def measured(
    metric: str, target: Sequence[str], method: str, step: int | None, value: Estimate
) -> Row:
    """A row of what was measured."""
    return row(TASK, method, ",".join(target), metric, step, value)


def by_step(
    metric: str, target: Sequence[str], method: str, values: Tensor, first: int = 0
) -> list[Row]:
    """A row a column of values [observer, step]."""
    columns = enumerate(values.unbind(1), first)
    return [measured(metric, target, method, step, mean(column)) for step, column in columns]
