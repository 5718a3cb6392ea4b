"""Intervals that do not trust a kernel too soon.

A function in a user's units is smooth here and rough there, or has a period that few observations
miss: no stationary kernel is right. Evidence then settles on the kernel that is least wrong, long
before its intervals hold what they say. The remedy is that for posteriors of wrong models, a power
of the likelihood (Grunwald's SafeBayes). Predictions stay, but intervals become wider where they
would be so if an observation, beyond the first few, told `KEPT` of what it does about kernels. How
much, by `WIDTH`, was chosen on seven functions and measured on other runs of these; what it does to
coverage is in docs/notes/functions.md.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from aline.functions.ensemble import Posterior
from aline.functions.smooth import SmoothProcess
from aline.spaces.outcomes import Mixture

KEPT = 0.45  # of an observation's evidence about kernels
WIDTH = (0.95, 1.6)  # an interval's factor: of the deviations' ratio a multiple and a power
FIRST = 3  # observations an axis whose evidence counts fully: they settle on nothing yet


def power_of_evidence(count: int, axes: int) -> float:
    """What the log evidence of so many observations is multiplied by."""
    first: int = min(count, FIRST**axes)
    return (first + KEPT * (count - first)) / max(count, 1)


def cautious(
    belief: Mixture, points: Tensor, state: Posterior, smooth: SmoothProcess, share: Tensor
) -> Mixture:
    """A belief [batch, n] about standardised outcomes at points, widened where it is too sure.

    `state` is the task's own ensemble, and `share` [batch] the weight of smooth functions.
    """
    power = power_of_evidence(state.count, points.shape[-1])
    middle, std = belief.moments()
    theirs = smooth.variance_about(middle, points, power)
    weight = share.to(theirs.dtype)[:, None]
    variance = weight * theirs + (1 - weight) * _variance_about(middle, points, state, power)
    times, exponent = WIDTH
    return widened(belief, (times * (variance.sqrt() / std) ** exponent).clamp_min(1))


def _variance_about(middle: Tensor, points: Tensor, state: Posterior, power: float) -> Tensor:
    """By the task's own kernels, [batch, n]."""
    mean, left = (part[:, :, 0] for part in state.moments(points))
    log_scale, log_density, _ = state.evidence
    weight = (power * log_density[:, 0]).softmax(-1)[..., None]
    own = left * (2 * log_scale[:, 0]).exp()[..., None]
    variance: Tensor = (weight * (own + (mean - middle[:, None]).square())).sum(1)
    return variance


def widened(belief: Mixture, factor: Tensor) -> Mixture:
    """All deviations from the mean times a factor [batch, n]."""
    middle = belief.moments()[0][..., None]
    factor = factor.to(belief.std.dtype)[..., None]
    mean = middle + factor * (belief.mean - middle)
    return replace(belief, mean=mean, std=factor * belief.std)
