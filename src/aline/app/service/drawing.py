"""What the page draws, as numbers: beliefs, predictions, designs and widths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from aline.app.demo import Observer
from aline.app.expectation import (
    Curves,
    along,
    bands_of_curves,
    drawn_along,
    has_response_function,
    true_curves,
    values_along,
)
from aline.app.plots.pairs import has_pairs, paired, scalar_draws, shown_range
from aline.app.plots.scales import ends, places, ticks
from aline.app.record import prior_of, targeted
from aline.experiment import Experiment, Marginal, Posterior, Predictive, Trial
from aline.spaces import Axis, Design, Log, Outcome
from aline.tasks import PREDICTIONS, Spec, simulator_of

POINTS = 101  # along a parameter or a design axis
SIDE = 25  # of a plane
TRIALS = 1000  # points that show where it measured: more would only cover each other
WIDTHS = 100  # observations up to which the curve of what is left to know has a point for each
OCTAVE = 8  # points of it from there on, each time the observations double: it gets flat
LEVEL = 0.95
SHOWN = 0.998  # of a parameter's probability is shown
ROOM = 2.5  # a close-up is at least so many times as wide as the 95 % interval
BAR, EDGE = 0.35, 1e-3  # half the width of a bar, and how far its sides lean outwards
CURVES = 200  # drawn from the posterior for a band
PAIR_DRAWS = 1000  # for correlations, to 0.03
PAIR_POINTS = 300  # of them that are shown

Plain = dict[str, Any]


def draw(experiment: Experiment, observer: Observer | None) -> Plain:
    """Everything the page shows of an experiment, from one moment of it."""
    spec, posterior = experiment.spec, experiment.posterior()
    truth = {} if observer is None else observer.truth
    prior, trials = prior_of(spec.parameters), experiment.trials
    told = sum(trial.state == "told" for trial in trials)
    return {
        "sequence": experiment.sequence,
        "parts": [
            {"name": name, "labels": _labels(part)} for name, part in spec.outcome.parts.items()
        ],
        "parameters": [
            _marginal(spec, prior[name], posterior[name], truth.get(name), is_target)
            for name, is_target in _with_aim(experiment)
        ],
        "pairs": _pairs(experiment, truth),
        "prediction": _prediction(experiment, observer),
        "trials": [
            {
                "number": t.number,
                "design": {
                    name: float(places(axis, [t.design[name]])[0])
                    for name, axis in spec.design.axes.items()
                },
                "values": _values(spec.outcome, t.outcome),
                "state": t.state,
            }
            for t in _thinned(trials)
        ],
        "asked": len(trials),
        "told": told,
        "axes": [_axis(name, spec.label(name), axis) for name, axis in spec.design.axes.items()],
        "widths": _widths(experiment, prior, told),
    }


def _axis(name: str, label: str, axis: Axis) -> Plain:
    """Where values are drawn, and the names of levels that have room."""
    low, high = ends(axis)
    named = [] if axis.values is None else list(zip(*ticks(axis), strict=True))
    is_log = isinstance(axis, Log)
    return {"name": name, "label": label, "low": low, "high": high, "log": is_log, "ticks": named}


def _with_aim(experiment: Experiment) -> list[tuple[str, bool]]:
    """Every parameter, and whether the experiment aims at it."""
    names = [t for t in experiment.target if isinstance(t, str) and t != PREDICTIONS]
    labels = experiment.spec.parameters.labels
    aims = set(targeted(experiment.spec, names)) if names else set()
    return [(label, label in aims) for label in labels]


def _marginal(
    spec: Spec, prior: Marginal, posterior: Marginal, truth: float | None, is_target: bool
) -> Plain:
    if posterior.probabilities:
        return _bars(prior, posterior, truth, is_target)
    grid, is_log = _grid(prior, posterior)
    shown = (grid[0], grid[-1]) if is_log else close_up(prior, posterior, truth)
    # On a logarithmic axis a density is one of the logarithm, or its area would mislead.
    unit = grid if is_log else np.ones_like(grid)
    return {
        "name": prior.name,
        "label": spec.label(prior.name),
        "target": is_target,
        "log": is_log,
        "range": [float(end) for end in shown],
        "zoomed": not is_log and shown != prior.interval(SHOWN),
        "x": grid.tolist(),
        "prior": _finite(np.asarray(prior.pdf(grid)) * unit),
        "posterior": _finite(np.asarray(posterior.pdf(grid)) * unit),
        "mean": posterior.mean,
        "interval": list(posterior.interval(LEVEL)),
        "truth": truth,
    }


def _bars(prior: Marginal, posterior: Marginal, truth: float | None, is_target: bool) -> Plain:
    """A discrete parameter, as the outline of a bar for each value."""
    edges, sides = [-BAR - EDGE, -BAR, BAR, BAR + EDGE], [0.0, 1.0, 1.0, 0.0]
    labels = list(posterior.probabilities)
    heights = (
        [p * side for p in one.probabilities.values() for side in sides]
        for one in (prior, posterior)
    )
    before, after = heights
    return {
        "name": prior.name,
        "label": prior.name,
        "target": is_target,
        "log": False,
        "range": [-0.5, len(labels) - 0.5],
        "zoomed": False,
        "x": [place + edge for place in range(len(labels)) for edge in edges],
        "prior": before,
        "posterior": after,
        "mean": posterior.mean,
        "interval": list(posterior.interval(LEVEL)),
        "truth": truth,
        "ticks": list(enumerate(labels)),
        "words": posterior.in_words(),
    }


def _pairs(experiment: Experiment, truth: Mapping[str, float]) -> Plain | None:
    """Draws of parameters together and their correlations, where the model knows them."""
    posterior = experiment.posterior()
    if not has_pairs(posterior):
        return None
    names = paired(posterior, [name for name, is_target in _with_aim(experiment) if is_target])
    draws, correlation = scalar_draws(posterior, PAIR_DRAWS), posterior.correlation(PAIR_DRAWS)
    parameters = []
    for name in names:
        low, high = shown_range(draws[name], truth.get(name))
        inset = 1e-3 * (high - low)  # a density may be infinite at a bound
        grid = np.linspace(low + inset, high - inset, POINTS)
        parameters.append(
            {
                "name": name,
                "label": experiment.spec.label(name),
                "range": [low, high],
                "draws": _finite(draws[name][:PAIR_POINTS]),
                "density": _finite(np.asarray(posterior.pdf(name, grid))),
                "truth": truth.get(name),
            }
        )
    return {
        "parameters": parameters,
        "correlation": [[correlation[a][b] for b in names] for a in names],
    }


def _grid(prior: Marginal, posterior: Marginal) -> tuple[Any, bool]:
    """Values of a parameter that show prior and posterior, and whether they are logarithmic."""
    low, high = prior.interval(SHOWN)
    if low > 0 and high / low > 1000:
        return np.geomspace(low, high, POINTS), True
    a, b = posterior.interval(SHOWN)
    # Extra points where the posterior is, which may be far narrower than the prior.
    middle, half = (a + b) / 2, b - a
    near = np.linspace(max(middle - 4 * half, low), min(middle + 4 * half, high), 2 * POINTS)
    narrow = np.linspace(max(a, low), min(b, high), POINTS)
    return np.unique(np.concatenate([np.linspace(low, high, POINTS), near, narrow])), False


def close_up(prior: Marginal, posterior: Marginal, truth: float | None) -> tuple[float, float]:
    """The values to show: of the prior's, a window that is halved as the posterior narrows.

    Steps of two, so that the plot does not move with every trial.
    """
    low, high = prior.interval(SHOWN)
    seen = [*posterior.interval(LEVEL), *([] if truth is None else [truth])]
    first, last = max(min(seen), low), min(max(seen), high)
    halvings = int(math.log2(max((high - low) / max(ROOM * (last - first), 1e-12), 1)))
    if not halvings:
        return low, high
    width = (high - low) / 2**halvings
    step = width / 8
    start = low + step * math.floor(((first + last) / 2 - width / 2 - low) / step)
    start = min(max(start, low), high - width)
    return start, start + width


def _prediction(experiment: Experiment, observer: Observer | None) -> Plain | None:
    axes = len(experiment.spec.design)
    if axes == 1:
        return _curve(experiment, observer)
    return _plane(experiment) if axes == 2 and _is_plane(experiment.spec.design) else None


def _is_plane(space: Design) -> bool:
    """Whether axes are set apart from each other: the names of a pool's items are not."""
    kinds = space.axes.values()
    is_bank = space.points is not None and not all(axis.values for axis in kinds)
    return not (is_bank and any(axis.names for axis in kinds))


def _values(outcome: Outcome, plain: Any) -> dict[str, float] | None:
    """What a trial gave, each part as a number: that of a label is its place."""
    if plain is None:
        return None
    told = {
        name: part.from_plain([outcome.pick(plain, name)]) for name, part in outcome.parts.items()
    }
    return {name: float(value) for name, value in told.items()}


def _labels(outcome: Outcome) -> list[str]:
    """Of answers that are no numbers."""
    return [] if outcome.has_interval else list(outcome.labels)


def _curve(experiment: Experiment, observer: Observer | None) -> Plain:
    """The expected outcome along the only design axis, a panel for each part of it."""
    bands = _bands(experiment, along(experiment.spec.design, POINTS))
    space = experiment.spec.design
    x = along(space, POINTS)
    predictive = experiment.predict({space.names[0]: values_along(space, x)})
    truth = None if observer is None else true_curves(observer.task, observer.world, x)
    panels = [
        _panel(name, experiment.spec.outcome.parts[name], part, truth, bands.get(name))
        for name, part in predictive.parts.items()
    ]
    return {"kind": "curve", "x": drawn_along(space, x).tolist(), "panels": panels}


def _bands(experiment: Experiment, x: torch.Tensor) -> dict[str, Any]:
    """Where 95 % of the curves run that the posterior allows, where the task is a built-in one."""
    task = simulator_of(experiment.spec)
    if task is None or not has_response_function(task):
        return {}
    draws = experiment.posterior().sample((CURVES,), generator=torch.Generator().manual_seed(0))
    bands = bands_of_curves(task, experiment.spec.parameters.to_network(draws), x)
    return {part: next(iter(own.values())) for part, own in bands.items() if len(own) == 1}


def _panel(
    name: str,
    outcome: Outcome,
    predictive: Predictive,
    truth: Curves | None,
    band: torch.Tensor | None = None,
) -> Plain:
    """One part of the outcome: its curves, and the band of 95 % of them, or of its numbers."""
    low, high = (None, None)
    if band is not None:
        low, high = (end.tolist() for end in band)
    elif outcome.has_interval:
        low, high = (_finite(np.asarray(end)) for end in predictive.interval(LEVEL))
    return {
        "name": name,
        "axis": name if outcome.axis == "outcome" else outcome.axis,
        "labels": _labels(outcome),
        "curves": [
            {
                "name": label,
                "mean": mean.tolist(),
                "truth": None if truth is None else truth[name][label].tolist(),
            }
            for label, mean in predictive.curves.items()
        ],
        "low": low,
        "high": high,
    }


def _plane(experiment: Experiment) -> Plain:
    """The expected outcome over two design axes, row by row of the second; the first of several."""
    space = experiment.spec.design
    across, up = (_cells(axis) for axis in space.axes.values())
    x = torch.cartesian_prod(up, across).flip(-1)
    is_possible = space.allows(x)
    rows = [space.name_values(row) for row in space.to_user(x[is_possible]).tolist()]
    columns = {name: [row[name] for row in rows] for name in space.names}
    predictive = experiment.predict(columns)
    label, found = next(iter(next(iter(predictive.parts.values())).curves.items()))
    mean = torch.full(is_possible.shape, math.nan)
    mean[is_possible] = torch.as_tensor(found, dtype=mean.dtype)
    shape = {"columns": len(across), "rows": len(up)}
    return {"kind": "plane", **shape, "label": label, "mean": _finite(mean)}


def _cells(axis: Axis) -> torch.Tensor:
    """The middles of equal parts of an axis on the network's scale, or every value of a set."""
    count = SIDE if axis.values is None else len(axis.values)
    return axis.spread((torch.arange(count) + 0.5) / count)


def _widths(experiment: Experiment, prior: Posterior, told: int) -> Plain:
    """How much of the prior's uncertainty was left after so many observations."""
    lengths = _spaced(told)
    history = experiment.history(lengths)
    shares = {
        name: [_share(one[name].std, prior[name].std) for one in history] for name in prior.names
    }
    return {"x": lengths, "shares": shares}


def _thinned(trials: Sequence[Trial]) -> list[Trial]:
    """As many as a plot can show: evenly, with the last and all that are open."""
    every = _stride(len(trials), TRIALS)
    last = len(trials) - 1
    return [t for t in trials if (last - t.number) % every == 0 or t.state == "asked"]


def _spaced(last: int) -> list[int]:
    """Whole numbers from 0 to `last`, the fewer the larger they are: so are posteriors to compute.

    One more trial leaves all but the last as they were, so that what is known of them stays.
    """
    found, n = [], 0
    while n < last:
        found.append(n)
        step = 1 if n < WIDTHS else (1 << n.bit_length()) // (2 * OCTAVE)
        n = (n // step + 1) * step
    return [*found, last]


def _stride(count: int, most: int) -> int:
    """The power of two that leaves no more than `most` of `count`."""
    return 1 << max(0, math.ceil(math.log2(max(count, 1) / most)))


def _share(std: float, before: float) -> float | None:
    share = std / before if before > 0 else math.nan
    return share if math.isfinite(share) else None


def _finite(values: Any) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]
