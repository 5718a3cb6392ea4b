"""What `experiment.plot`, `experiment.report` and `posterior.plot` do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from aline.app.plots.canvas import PAPER, WIDE, styled
from aline.app.plots.curve import draw_curve
from aline.app.plots.designs import draw_designs, height
from aline.app.plots.marginals import draw_marginals, size_of
from aline.app.plots.pairs import draw_pairs, paired, pairs_size
from aline.app.plots.plane import draw_plane
from aline.app.plots.widths import draw_widths
from aline.app.record import record_of
from aline.app.report import write_report
from aline.errors import InputError, StateError
from aline.experiment import Experiment, Posterior
from aline.experiment.given_values import find_label
from aline.tasks import Spec, Task

Panels = NDArray[Any]
"""Matplotlib's axes."""

EXPECTED = 3.6  # inches of what is drawn over the design


def plot_experiment(experiment: Experiment, task: Task | None = None) -> Panels:
    """What is expected over the design, what was asked, what is left to know: the panels."""
    record = record_of(experiment, task)
    spec = record.spec
    heights = [EXPECTED] * _rows_over_design(spec) + [height(record)]
    columns = 2 if len(spec.parameters) else 1
    with styled():
        drawn = _figure(WIDE, sum(heights))
        grid = drawn.add_gridspec(len(heights), columns, height_ratios=heights)
        if len(spec.design) == 1:
            draw_curve([drawn.add_subplot(grid[i, :]) for i in range(len(heights) - 1)], record)
        elif len(spec.design) == 2:
            panels = grid[0, :].subgridspec(1, 2).subplots(squeeze=False)[0]
            draw_plane(panels[0], panels[1], record)
        below = grid[-1, 0].subgridspec(len(spec.design), 1)
        draw_designs(list(below.subplots(sharex=True, squeeze=False)[:, 0]), record)
        if columns == 2:
            draw_widths(drawn.add_subplot(grid[-1, 1]), record)
    return np.array(drawn.axes)


def _rows_over_design(spec: Spec) -> int:
    """A panel for each outcome over one axis, one for a plane, none over more axes."""
    return {1: len(spec.outcome.parts), 2: 1}.get(len(spec.design), 0)


def plot_posterior(
    posterior: Posterior,
    names: Iterable[str] | None = None,
    truth: Mapping[str, float] | None = None,
) -> Panels:
    """Parameters two by two where their joint posterior is known, else one by one.

    Also one by one where a discrete one is among them.
    """
    shown = _shown(posterior, names)
    with styled():
        is_discrete = any(posterior.parameters.values_of(name) for name in shown)
        if posterior.is_joint and len(shown) > 1 and not is_discrete:
            drawn = _figure(*pairs_size(len(shown)))
            return draw_pairs(drawn, posterior, shown, str, truth or {})
        drawn = _figure(*size_of(shown))
        draw_marginals(drawn, posterior, shown, shown, str, truth or {})
    return np.array(drawn.axes)


def _shown(posterior: Posterior, names: Iterable[str] | None) -> list[str]:
    """The parameters to draw: those named, or as many as are legible."""
    if not posterior.names:
        raise InputError("the task has no parameters: draw predictions with experiment.plot()")
    if names is None:
        is_discrete = posterior.parameters.cells is not None
        every = list(posterior.names)
        return paired(posterior) if posterior.is_joint and not is_discrete else every
    chosen = [names] if isinstance(names, str) else list(names)
    for name in chosen:
        find_label(posterior.parameters, name)
    return chosen or paired(posterior)


def report_experiment(
    experiment: Experiment, path: str | Path, task: Task | None = None, overwrite: bool = False
) -> Path:
    """Write the report of an experiment that was run."""
    place = Path(path)
    if place.exists() and not overwrite:
        raise StateError(f"{place} is there already: pass overwrite=True, or choose another name")
    made = f'experiment.report("{place.name}")'
    return write_report(record_of(experiment, task), place, made)


def _figure(width: float, tall: float) -> Figure:
    """A figure that pyplot knows, so that notebooks show it; on paper, for files."""
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, tall), layout="constrained", facecolor=PAPER)
