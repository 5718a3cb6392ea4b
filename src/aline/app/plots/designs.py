"""Each design by trial with its outcome, beside what was then known on the same scale."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from aline.app.expectation import Array
from aline.app.plots.canvas import (
    HALF,
    PAPER,
    POSTERIOR,
    SHADES,
    draw_responses,
    draw_truth,
    figure,
    label_colour,
    legend_above,
    ruled,
    styled,
)
from aline.app.plots.scales import places, set_scale
from aline.app.record import Record
from aline.spaces import Outcome

# A design axis that is measured on a parameter's own scale.
_SAME_SCALE = {"stimulus": "threshold"}


def companions(demo: Record, axis: str) -> tuple[str, ...]:
    """Parameters that live on a design axis: the threshold of a stimulus, a source's coordinate."""
    labels, same = demo.spec.parameters.labels, _SAME_SCALE.get(axis)
    return tuple(label for label in labels if label == same or label.endswith(f"_{axis}"))


def height(demo: Record) -> float:
    """Inches, of this figure and of the one that stands beside it."""
    return 3.3 if len(demo.spec.design) == 1 else 0.9 + 1.5 * len(demo.spec.design)


def plot_designs(demo: Record) -> Figure:
    """Each design by trial with its outcome."""
    with styled():
        drawn = figure(HALF, height(demo))
        panels = drawn.subplots(len(demo.spec.design), 1, sharex=True, squeeze=False)
        draw_designs(list(panels[:, 0]), demo)
    return drawn


def draw_designs(panels: list[Axes], demo: Record) -> None:
    """A panel a design axis."""
    for axes, name in zip(panels, demo.spec.design.names, strict=True):
        _draw_axis(axes, demo, name)
    panels[-1].set_xlabel("trial")
    legend_above(panels[0], 4)
    if demo.told and leading(demo)[0].has_interval:
        _draw_outcome_bar(demo, panels)


def _draw_axis(axes: Axes, demo: Record, axis: str) -> None:
    ruled(axes)
    for i, label in enumerate(companions(demo, axis)):
        _draw_belief(axes, demo, label, is_first=i == 0)
    _draw_trials(axes, demo, axis)
    set_scale(axes, "y", demo.spec.design.axes[axis])
    axes.set_xlim(0, len(demo.told) + 1)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_ylabel(demo.spec.label(axis))


def _draw_trials(axes: Axes, demo: Record, axis: str) -> None:
    trials = np.arange(1, len(demo.told) + 1)
    values = places(demo.spec.design.axes[axis], [trial.design[axis] for trial in demo.told])
    outcome, outcomes = leading(demo)
    if not outcome.has_interval:
        for place in reversed(range(len(outcome.labels))):
            kept, label = outcomes == place, outcome.labels[place]
            colour = label_colour(outcome.labels, place)
            draw_responses(axes, trials[kept], values[kept], label, colour, place > 0)
        return
    axes.scatter(
        trials,
        values,
        s=24,
        c=outcomes,
        cmap=SHADES,
        norm=_outcome_range(demo),
        edgecolor=PAPER,
        linewidth=0.6,
        zorder=3,
        clip_on=False,
    )


def _draw_belief(axes: Axes, demo: Record, label: str, is_first: bool) -> None:
    numbers = [step.number for step in demo.steps]
    low, high = zip(*(step.interval[label] for step in demo.steps), strict=True)
    name = label.rsplit("_", 1)[0]  # "source" for source_x: one legend serves all axes
    axes.fill_between(
        numbers,
        low,
        high,
        color=POSTERIOR,
        alpha=0.16,
        linewidth=0,
        label=f"{name}, 95 %" if is_first else None,
    )
    draw_truth(axes, demo.truth.get(label), across=True, name=is_first)


def leading(demo: Record) -> tuple[Outcome, Array]:
    """The outcome, the first of several, and what it was in each trial: a number, or its place."""
    name, outcome = next(iter(demo.spec.outcome.parts.items()))
    return outcome, told_numbers(demo, name)


def told_numbers(demo: Record, name: str) -> Array:
    """What one part of the outcome was in each trial."""
    outcome = demo.spec.outcome.parts[name]
    told = [demo.spec.outcome.pick(trial.outcome, name) for trial in demo.told]
    user = outcome.from_plain(told)
    return np.asarray(user, dtype=np.float64)


def _outcome_range(demo: Record) -> Normalize:
    outcomes = leading(demo)[1]
    return Normalize(outcomes.min(), outcomes.max()) if len(outcomes) else Normalize(0, 1)


def _draw_outcome_bar(demo: Record, panels: list[Axes]) -> None:
    shades = ScalarMappable(_outcome_range(demo), SHADES)
    drawn = panels[0].get_figure()
    assert drawn is not None
    bar = drawn.colorbar(shades, ax=panels, pad=0.02, aspect=30)
    bar.outline.set_visible(False)
    bar.set_label(demo.spec.label(next(iter(demo.spec.outcome.parts))))
