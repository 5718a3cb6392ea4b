"""Quick CSF: how faint a grating is seen, by spatial frequency (Lesmes et al. 2010).

Sensitivity S, one over the threshold contrast, is a parabola of log frequency, which below its peak
falls by no more than the truncation:

    log10 S = log10 peak - log10(2) ((log10 f - log10 f_peak) / (b' / 2))^2

Here b' = log10(2^bandwidth), so that the bandwidth is what its name says: the width in octaves at
half the peak sensitivity. Lesmes's paper and QuickCSF write b' = log10(2 b) instead; then the
width at half height is 1 + log2(b) octaves, so that their 1 to 10 are bandwidths of 1 to 4.3 here.
QuickCSF also never lets S fall below 1; here what is not seen at full contrast stays unseen.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Uniform

from aline.spaces import Binary, Box, Log
from aline.tasks.task import Named, Task

SPREAD = 0.25  # of the logistic psychometric function, in log10 contrast
_CURVE = ("log10_peak_sensitivity", "log10_peak_frequency", "log10_bandwidth", "truncation")
_UNSEEN = 1e-7  # the probability of what cannot be: it has no logarithm


def log10_sensitivity(theta: Named, design: Named) -> Tensor:
    """The contrast sensitivity function at a frequency."""
    peak = theta["log10_peak_sensitivity"]
    away = design["frequency"].log10() - theta["log10_peak_frequency"]
    half_width = 10 ** theta["log10_bandwidth"] * math.log10(2) / 2
    parabola = peak - math.log10(2) * (away / half_width) ** 2
    truncated = torch.maximum(parabola, peak - theta["truncation"])
    return torch.where(away < 0, truncated, parabola)


def _visibility(theta: Named, design: Named) -> Tensor:
    """How far a grating lies above threshold, in spreads."""
    return (log10_sensitivity(theta, design) + design["contrast"].log10()) / SPREAD


def probability(theta: Named, design: Named) -> Tensor:
    """Of a right answer."""
    seen = torch.sigmoid(_visibility(theta, design))
    return theta["guess"] + (1 - theta["guess"] - theta["lapse"]) * seen


def simulate(theta: Named, design: Named, generator: torch.Generator) -> Tensor:
    """Whether the answer is right."""
    right = probability(theta, design)
    return torch.rand(right.shape, generator=generator) < right


def log_likelihood(theta: Named, design: Named, outcome: Tensor) -> Tensor:
    """Of a right or a wrong answer."""
    # The end's probability before it is mixed: a wrong answer then loses no digits to 1 - p.
    is_right, guess, lapse = outcome > 0.5, theta["guess"], theta["lapse"]
    visibility = _visibility(theta, design)
    towards = torch.sigmoid(torch.where(is_right, visibility, -visibility))
    found = torch.where(is_right, guess, lapse) + (1 - guess - lapse) * towards
    return found.clamp_min(_UNSEEN).log()


def csf(horizon: int = 50) -> Task:
    """Contrast sensitivity by spatial frequency, for any number of alternatives."""
    rates = ("guess", "lapse")
    return Task(
        name="csf",
        parameters={
            "log10_peak_sensitivity": Uniform(math.log10(2), 3.0),
            "log10_peak_frequency": Uniform(math.log10(0.2), math.log10(20)),
            "log10_bandwidth": Uniform(0.0, 1.0),
            "truncation": Uniform(0.02, 2.0),
            "guess": Uniform(0.0, 0.6),
            "lapse": Uniform(0.0, 0.1),
        },
        design=Box(contrast=Log(0.001, 1.0), frequency=Log(0.2, 36.0)),
        outcome=Binary(),
        simulate=simulate,
        log_likelihood=log_likelihood,
        horizon=horizon,
        targets={_CURVE: 2.0, _CURVE[:2]: 1.0, (*_CURVE, *rates): 1.0},
        model={"priors": True},
        config={"horizon": horizon},
        units={
            "contrast": "Michelson",
            "frequency": "cycles per degree",
            "log10_peak_frequency": "log10 cycles per degree",
            "log10_bandwidth": "log10 octaves",
            "truncation": "log10 units",
        },
    )
