"""Parameters two by two: marginals, draws of the joint posterior, correlations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from aline.app.expectation import Array
from aline.app.plots.canvas import INK, MUTED, POSTERIOR, WIDE, draw_truth, figure, styled
from aline.app.record import Record
from aline.experiment import Posterior

MOST = 5  # parameters: more panels would be too small to read
DRAWS = 4000
REGIONS = (0.95, 0.8, 0.5)  # of the draws, from the widest on
_ALPHAS = (0.14, 0.3, 0.55)
_BINS = 64
_SIDE = {2: 2.5, 3: 2.1, 4: 1.8, 5: 1.6}  # inches of a panel, by how many there are in a row

Range = tuple[float, float]


def has_pairs(posterior: Posterior) -> bool:
    """Whether there are two numbers, and it is known what they have to do with each other."""
    return posterior.is_joint and len(_numbers(posterior)) > 1


def _numbers(posterior: Posterior) -> list[str]:
    """The parameters that are numbers, whatever the values of discrete ones are."""
    priors = posterior.parameters.priors
    special = {n for n, prior in priors.items() if prior.given or prior.family == "Categorical"}
    return [name for name in posterior.names if name not in special]


def paired(posterior: Posterior, first: Sequence[str] = ()) -> list[str]:
    """The parameters to show, those of `first` before others, each group in its order."""
    names = sorted(_numbers(posterior), key=lambda name: name not in first)[:MOST]
    return [name for name in posterior.names if name in names]


def scalar_draws(posterior: Posterior, count: int) -> dict[str, Array]:
    """Draws by scalar name: of a vector a, a_1, a_2, ..."""
    columns = [
        value.numpy().astype(np.float64).reshape(count, -1).T
        for value in posterior.sample(count).values()
    ]
    return dict(zip(posterior.names, np.concatenate(columns), strict=True))


def shown_range(values: Array, truth: float | None = None) -> Range:
    """What holds nearly all draws, and the truth."""
    low, high = np.quantile(values, [0.004, 0.996]).tolist()
    margin = 0.06 * (high - low) or 1e-6
    # Not beyond the draws: there may be a bound.
    ends = [max(low - margin, float(values.min())), min(high + margin, float(values.max()))]
    if truth is not None and not ends[0] <= truth <= ends[1]:
        ends += [truth - margin, truth + margin]
    if min(ends) == max(ends):
        ends = [low - margin, high + margin]
    return min(ends), max(ends)


def plot_demo_pairs(demo: Record) -> Figure:
    """Of a demonstration, with its truth."""
    posterior = demo.experiment.posterior()
    names = paired(posterior, demo.shown)
    return plot_pairs(posterior, names, label=demo.spec.label, truth=demo.truth)


def plot_pairs(
    posterior: Posterior,
    names: Sequence[str] | None = None,
    *,
    label: Callable[[str], str] = str,
    truth: Mapping[str, float] | None = None,
) -> Figure:
    """A matrix of panels: marginals on the diagonal, draws below it, correlations above.

    `names` are up to five parameters; `label` gives a name its unit, as `model.spec.label` does.

        figure = plot_pairs(experiment.posterior(), label=model.spec.label)
        figure.savefig("pairs.png", dpi=150)
    """
    names = paired(posterior) if names is None else list(names)
    with styled():
        drawn = figure(*pairs_size(len(names)), gap=0.03)
        draw_pairs(drawn, posterior, names, label, truth or {})
    return drawn


def pairs_size(count: int) -> tuple[float, float]:
    """Inches of so many parameters two by two."""
    side = count * _SIDE.get(count, WIDE / count)
    return min(WIDE, side + 0.7), min(WIDE, side) * 0.8


def draw_pairs(
    drawn: FigureBase,
    posterior: Posterior,
    names: Sequence[str],
    label: Callable[[str], str],
    truth: Mapping[str, float],
) -> NDArray[Any]:
    """The panels, a row a parameter."""
    draws, size = scalar_draws(posterior, DRAWS), len(names)
    ranges = {name: shown_range(draws[name], truth.get(name)) for name in names}
    correlation = posterior.correlation(DRAWS)
    grid: NDArray[Any] = drawn.subplots(size, size, squeeze=False)
    for row, down in enumerate(names):
        for column, across in enumerate(names):
            axes = grid[row, column]
            if row == column:
                _draw_marginal(axes, posterior, down, ranges[down], truth.get(down))
            elif row > column:
                _draw_joint(axes, draws[across], draws[down], ranges[across], ranges[down])
                _mark(axes, truth.get(across), truth.get(down))
            else:
                _write(axes, correlation[down][across])
            _frame(axes, row, column, size, (label(across), label(down)))
    return grid


def _draw_marginal(
    axes: Axes, posterior: Posterior, name: str, shown: Range, truth: float | None
) -> None:
    inset = 1e-3 * (shown[1] - shown[0])  # a density may be infinite at a bound
    grid = np.linspace(shown[0] + inset, shown[1] - inset, 240)
    density = np.asarray(posterior.pdf(name, grid), dtype=np.float64)
    axes.fill_between(grid, density, color=POSTERIOR, alpha=0.15, linewidth=0)
    axes.plot(grid, density, color=POSTERIOR, linewidth=1.6)
    draw_truth(axes, truth)
    axes.set_xlim(shown)
    axes.set_ylim(0, 1.1 * float(density.max()))


def _draw_joint(axes: Axes, x: Array, y: Array, across: Range, up: Range) -> None:
    """Regions that hold so much of the draws."""
    counts, x_edges, y_edges = np.histogram2d(x, y, bins=_BINS, range=[across, up])
    density = gaussian_filter(counts.T, _smoothing(x, y, across, up), mode="nearest")
    middle = [(edges[1:] + edges[:-1]) / 2 for edges in (x_edges, y_edges)]
    levels = [*_heights(density), float(density.max()) * 1.001]
    for low, alpha in zip(levels, _ALPHAS, strict=False):
        axes.contourf(*middle, density, levels=[low, levels[-1]], colors=[(POSTERIOR, alpha)])
    axes.set_xlim(across)
    axes.set_ylim(up)


def _smoothing(x: Array, y: Array, across: Range, up: Range) -> tuple[float, float]:
    """Of each axis, rows first, in bins: by Silverman's rule, narrower on a ridge."""
    r = 0.0 if min(x.std(), y.std()) == 0 else float(np.corrcoef(x, y)[0, 1])
    shrink = 1.3 * math.sqrt(max(1 - r * r, 0.02)) * len(x) ** (-1 / 6)
    high, wide = (
        shrink * float(values.std()) / (ends[1] - ends[0]) * _BINS
        for values, ends in ((y, up), (x, across))
    )
    return max(high, 0.8), max(wide, 0.8)


def _heights(density: Array) -> list[float]:
    """Above which the density holds each of the regions' shares."""
    ordered = np.sort(density, axis=None)[::-1]
    held = np.cumsum(ordered) / ordered.sum()
    return [float(ordered[np.searchsorted(held, share)]) for share in REGIONS]


def _mark(axes: Axes, x: float | None, y: float | None) -> None:
    if x is not None and y is not None:
        axes.scatter(x, y, s=42, marker="x", color=INK, linewidth=1.4, zorder=4)


def _write(axes: Axes, correlation: float) -> None:
    """A correlation as a number on a ground that is the stronger, the stronger it is."""
    axes.set_facecolor((POSTERIOR, 0.35 * abs(correlation)))
    text = f"{round(correlation, 2) + 0.0:+.2f}".replace("-", "−")  # none is no minus zero
    strong = abs(correlation) >= 0.3
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center",
              fontsize=12, color=INK if strong else MUTED)  # fmt: skip


def _frame(axes: Axes, row: int, column: int, size: int, labels: tuple[str, str]) -> None:
    """Ticks and names only at the edges of the matrix, and none where a number stands."""
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_locator(MaxNLocator(3))
    if row < column:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
        return
    axes.tick_params(labelbottom=row == size - 1, labelleft=column == 0)
    if row == size - 1:
        axes.set_xlabel(labels[0])
    if row == column:
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
    elif column == 0:
        axes.set_ylabel(labels[1])
