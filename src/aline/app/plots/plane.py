"""Designs in the plane, over the joint log posterior of whatever lies in it."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from aline.app.expectation import Array
from aline.app.plots.canvas import DATA, INK, MUTED, PAPER, POSTERIOR, WIDE, figure, styled
from aline.app.plots.designs import companions
from aline.app.plots.scales import ends, places, set_scale
from aline.app.record import LEVEL, Interval, Record

Pair = tuple[str, str]
# Nats below the peak, and how dark each step is drawn.
_LEVELS = (-12.0, -8.0, -5.0, -3.0, -1.5, -0.5, 0.1)
_SHADES = [(POSTERIOR, alpha) for alpha in (0.06, 0.12, 0.20, 0.32, 0.48, 0.66)]


def sources(demo: Record) -> list[Pair]:
    """Pairs of parameters that are points in the plane of a two-dimensional design."""
    if len(demo.spec.design) != 2:
        return []
    first, second = (companions(demo, axis) for axis in demo.spec.design.names)
    return list(zip(first, second, strict=True)) if len(first) == len(second) else []


def plot_plane(demo: Record) -> Figure:
    """Where was measured: in the whole plane, and close up where there is something to find."""
    with styled():
        drawn = figure(WIDE, 4.4)
        whole, close = drawn.subplots(1, 2)
        draw_plane(whole, close, demo)
    return drawn


def draw_plane(whole: Axes, close: Axes, demo: Record) -> None:
    """Two panels; the second only where the posterior became narrow."""
    across, up = (ends(axis) for axis in demo.spec.design.axes.values())
    pairs = sources(demo)
    _draw_plane(whole, demo, across, up)
    _draw_path(whole, demo)
    whole.set_title("everywhere", color=MUTED, fontsize=8.5)
    window = _close_up(demo, pairs) if pairs else None
    close.set_visible(window is not None)
    if window is not None:
        _draw_plane(close, demo, *window)
        close.set_title("close up", color=MUTED, fontsize=8.5)
        _frame(whole, *window)
    handles, names = whole.get_legend_handles_labels()
    drawn = whole.get_figure()
    assert drawn is not None
    drawn.legend(handles, names, loc="outside upper left", ncols=4, columnspacing=1.4)


def _draw_plane(axes: Axes, demo: Record, x: Interval, y: Interval) -> None:
    pairs = sources(demo)
    for pair in pairs:
        _draw_joint(axes, demo, pair, x, y)
    _draw_designs(axes, demo)
    known = [pair for pair in pairs if {*pair} <= {*demo.truth}]
    for i, pair in enumerate(known):
        across, up = (demo.truth[name] for name in pair)
        label = "truth" if i == 0 else None
        axes.scatter(across, up, s=80, marker="x", color=INK, linewidth=1.8, zorder=4, label=label)
    first, second = demo.spec.design.names
    set_scale(axes, "x", demo.spec.design.axes[first])
    set_scale(axes, "y", demo.spec.design.axes[second])
    axes.set_xlim(x)
    axes.set_ylim(y)
    axes.set_xlabel(demo.spec.label(first))
    axes.set_ylabel(demo.spec.label(second))


def _frame(axes: Axes, x: Interval, y: Interval) -> None:
    """Where the close-up is."""
    size = (x[1] - x[0], y[1] - y[0])
    axes.add_patch(Rectangle((x[0], y[0]), *size, fill=False, edgecolor=MUTED, linewidth=0.8))


def _designs(demo: Record) -> tuple[Array, Array]:
    axes = demo.spec.design.axes
    across, up = (places(axes[name], [t.design[name] for t in demo.told]) for name in axes)
    return across, up


def _draw_path(axes: Axes, demo: Record) -> None:
    """The order in which the measurements were made."""
    axes.plot(*_designs(demo), color=DATA, linewidth=0.6, alpha=0.35)


def _draw_designs(axes: Axes, demo: Record) -> None:
    x, y = _designs(demo)
    axes.scatter(x, y, s=26, color=DATA, edgecolor=PAPER, linewidth=0.5, zorder=3, label="measured")
    axes.scatter(
        x[:1], y[:1], s=70, facecolor="none", edgecolor=DATA, linewidth=1.2, label="measured first"
    )


def _draw_joint(axes: Axes, demo: Record, pair: Pair, x: Interval, y: Interval) -> None:
    """Shades of the log posterior of one point, as nats below its peak."""
    posterior = demo.experiment.posterior()
    across, up = _fine(demo, pair[0], x), _fine(demo, pair[1], y)
    columns = np.asarray(posterior.pdf(pair[0], across), dtype=np.float64)
    rows = np.asarray(posterior.pdf(pair[1], up), dtype=np.float64)
    joint = np.log(np.maximum(rows[:, None] * columns[None, :], 1e-30))
    axes.contourf(across, up, joint - joint.max(), levels=_LEVELS, colors=_SHADES)
    if has_exact(demo):
        exact = exact_density(demo, pair, across, up)
        level = region_level(exact, across, up)
        axes.contour(across, up, exact, levels=[level], colors=INK, linewidths=0.9, linestyles=":")


def has_exact(demo: Record) -> bool:
    """Whether the exact posterior is a density over this plane that can be computed."""
    if demo.task is None or demo.task.log_likelihood is None or not demo.told:
        return False
    return len(sources(demo)) == 1 and len(demo.spec.parameters.labels) == 2


def exact_density(demo: Record, pair: Pair, across: Array, up: Array) -> Array:
    """The exact posterior [up, across] of the only two parameters, relative to its peak."""
    spec, task, trials = demo.spec, demo.task, demo.told
    assert task is not None
    x, y = np.meshgrid(across, up)
    theta = spec.parameters.to_network({pair[0]: x.ravel(), pair[1]: y.ravel()})
    designs = spec.design.read(
        {axis: [t.design[axis] for t in trials] for axis in spec.design.names}
    )
    told = spec.outcome.from_plain([t.outcome for t in trials])
    outcomes = spec.outcome.to_network(told).float()
    likelihood = task.log_prob(theta, designs[None], outcomes[None]).sum(-1)
    log_density = likelihood + spec.parameters.log_prior(theta).sum(-1)
    return np.asarray((log_density - log_density.max()).exp().view(*x.shape), dtype=np.float64)


def region_level(density: Array, across: Array, up: Array) -> float:
    """The height of a density above which 95 % of its mass lies."""
    mass = density * np.gradient(up)[:, None] * np.gradient(across)[None, :]
    order = np.argsort(density, axis=None)[::-1]
    held = np.cumsum(mass.ravel()[order]) / mass.sum()
    return float(density.ravel()[order][np.searchsorted(held, LEVEL)])


def _fine(demo: Record, name: str, span: Interval) -> Array:
    """A grid of a span, denser where the posterior is and short of the span's very ends."""
    low, high = span
    inset = 1e-4 * (high - low)
    a, b = demo.last.interval[name]
    grid = np.union1d(
        np.linspace(low + inset, high - inset, 90), np.linspace(2 * a - b, 2 * b - a, 90)
    )
    return grid[(grid >= low + inset) & (grid <= high - inset)]


def _close_up(demo: Record, pairs: list[Pair]) -> tuple[Interval, Interval] | None:
    """A window around the final intervals and the truth; None where it would be half the plane."""
    ends = []
    for names in zip(*pairs, strict=True):
        values = [v for name in names for v in demo.last.interval[name]]
        values += [demo.truth[name] for name in names if name in demo.truth]
        ends.append((min(values), max(values)))
    half = 1.1 * max(b - a for a, b in ends)
    low, high = demo.spec.design.low.tolist(), demo.spec.design.high.tolist()
    if 2 * half > 0.5 * min(b - a for a, b in zip(low, high, strict=True)):
        return None
    x, y = (
        (max(low[i], (a + b) / 2 - half), min(high[i], (a + b) / 2 + half))
        for i, (a, b) in enumerate(ends)
    )
    return x, y
