"""The figures of a demonstration: one kind a file."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure

from aline.app.expectation import has_response_function
from aline.app.plots.curve import plot_curve
from aline.app.plots.designs import companions, leading, plot_designs
from aline.app.plots.marginals import plot_marginals
from aline.app.plots.pairs import has_pairs, paired, plot_demo_pairs, plot_pairs
from aline.app.plots.plane import has_exact, plot_plane, sources
from aline.app.plots.widths import plot_widths
from aline.app.record import Record

__all__ = ["Plate", "plates", "plot_pairs"]


@dataclass(frozen=True)
class Plate:
    """A figure with the words around it."""

    name: str
    title: str
    caption: str
    figure: Figure
    is_wide: bool


def plates(demo: Record) -> list[Plate]:
    """The figures that suit a task: its outcome over the design first, where that can be drawn."""
    first = {1: _curve, 2: _plane}.get(len(demo.spec.design))
    found = [] if first is None else [first(demo)]
    if len(demo.spec.parameters):
        found.append(_marginals(demo))
    if has_pairs(demo.experiment.posterior()):
        found.append(_pairs(demo))
    found.append(_designs(demo))
    if len(demo.spec.parameters):
        found.append(_widths(demo))
    return found


def _curve(demo: Record) -> Plate:
    title = "Psychometric curve" if demo.spec.design.names == ("stimulus",) else "Expected outcome"
    band = (
        "95 % of the curves that the posterior still allows"
        if demo.task is not None and has_response_function(demo.task)
        else "where 95 % of the outcomes are expected"
    )
    caption = (
        f"The line is what the model expects after the last trial, the band {band}; {_data(demo)}."
    )
    if demo.world is not None:
        caption += " The dashed line is the truth, which the model never saw."
    return Plate("curve", title, caption, plot_curve(demo), True)


def _data(demo: Record) -> str:
    outcome = leading(demo)[0]
    if outcome.has_interval:
        return "a dot is a measurement"
    first, *others = outcome.labels
    return f"a circle is a response ({', '.join(reversed(others))} above, {first} below)"


def _plane(demo: Record) -> Plate:
    if sources(demo):
        caption = (
            "The shading is the joint log posterior of the position at the end, the product of "
            "the model's marginals, stronger where it is more likely. Dots are measurements in "
            "the order of the thin line."
        )
        if demo.truth:
            caption += " The cross is the true position, which the model never saw."
        if has_exact(demo):
            caption += " The dotted line is the exact posterior's 95 % region, for comparison."
    else:
        caption = "Dots are measurements, in the order of the thin line."
    return Plate("plane", "Where it measured", caption, plot_plane(demo), True)


def _marginals(demo: Record) -> Plate:
    caption = "What was known before the first trial (grey area) and after the last (line)."
    if set(demo.shown) != set(demo.spec.parameters.labels):
        caption += (
            " The experiment aimed at the parameters in blue; what it learned about the others "
            "in passing is grey."
        )
    return Plate("marginals", "What was learned", caption, plot_marginals(demo), True)


def _pairs(demo: Record) -> Plate:
    caption = (
        "After the last trial: each parameter on the diagonal; below it, shaded, where 50, 80 and "
        "95 % of the joint posterior's draws lie; above it correlations."
    )
    if demo.truth:
        caption += " The truth is dashed, or a cross."
    names, every = paired(demo.experiment.posterior(), demo.shown), demo.spec.parameters.labels
    if len(names) < len(every):
        caption += f" {len(names)} of {len(every)} parameters are shown, those aimed at first."
    return Plate("pairs", "What goes together", caption, plot_demo_pairs(demo), True)


def _designs(demo: Record) -> Plate:
    title = "Stimulus by trial" if demo.spec.design.names == ("stimulus",) else "Design by trial"
    asked = leading(demo)[0]
    outcome = "The colour is the outcome."
    if not asked.has_interval:
        first, *others = asked.labels
        outcome = f"Filled circles were answered {' or '.join(others)}, open ones {first}."
    beliefs = {label for axis in demo.spec.design.names for label in companions(demo, axis)}
    belief = "The band is what was known at the time on the same scale. " if beliefs else ""
    caption = f"Each point is what the model chose to measure next. {outcome} {belief}".strip()
    return Plate("designs", title, caption, plot_designs(demo), False)


def _widths(demo: Record) -> Plate:
    caption = "How much of the prior's uncertainty is left after each trial."
    return Plate("widths", "Posterior width by trial", caption, plot_widths(demo), False)
