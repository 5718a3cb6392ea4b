"""The paper's psychometric experiment (section 4.3, figure 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aline import zoo
from aline.app.bench.bench import Bench, Measured, Progress, Result, Settings
from aline.app.scores import score_lines
from aline.evaluation import evaluate
from aline.tasks import get

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _learned(settings: Settings, progress: Progress) -> Measured:
    """What our model says of its own experiments."""
    model = zoo.load("psychometric")
    found = evaluate(
        model,
        get("psychometric"),
        settings.count(1000, 50),
        settings.seed,
        lambda done, total: progress("our posterior against the exact one", done, total),
    )
    return Measured(found["rows"], notes=found["notes"])


def _markdown(result: Result) -> str:
    return "\n".join(["```", *score_lines(dict(result)), "```"])


def _figures(result: Result) -> Mapping[str, Figure]:
    return {}


BENCH = Bench("psychometric", {"posterior": _learned}, _markdown, _figures)
