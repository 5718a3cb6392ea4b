"""The paper's four-parameter psychometric function (appendix C.3.1)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Uniform

from aline.spaces import Binary, Box
from aline.tasks.task import Named, Task


def _detected(theta: Named, design: Named) -> Tensor:
    """F((x - threshold) / slope) with F(z) = 1 - exp(-10^z)."""
    z = (design["stimulus"] - theta["threshold"]) / theta["slope"]
    # 10^z overflows far above threshold, where F is 1 to machine precision anyway.
    return -torch.expm1(-torch.pow(10.0, z.clamp(max=3.0)))


def response_probability(theta: Named, design: Named) -> Tensor:
    """P(yes | stimulus) = guess * lapse + (1 - lapse) F((x - threshold) / slope)."""
    return theta["guess"] * theta["lapse"] + (1 - theta["lapse"]) * _detected(theta, design)


def _simulate(theta: Named, design: Named, generator: torch.Generator) -> Tensor:
    probability = response_probability(theta, design)
    return torch.rand(probability.shape, generator=generator) < probability


def _log_likelihood(theta: Named, design: Named, outcome: Tensor) -> Tensor:
    # The response's probability as guessed and as detected, before the two are mixed: a "no" then
    # loses no digits to 1 - p, and on a grid all but the mixture is computed on small axes.
    yes, detected = outcome > 0.5, _detected(theta, design)
    guessed = torch.where(yes, theta["guess"], 1 - theta["guess"])
    seen = torch.where(yes, detected, 1 - detected)
    probability = theta["lapse"] * guessed + (1 - theta["lapse"]) * seen
    return probability.clamp_min(1e-7).log()


def psychometric(horizon: int = 30) -> Task:
    """Threshold, slope, guess rate and lapse rate of a yes/no observer."""
    return Task(
        name="psychometric",
        parameters={
            "threshold": Uniform(-3.0, 3.0),
            "slope": Uniform(0.1, 2.0),
            "guess": Uniform(0.1, 0.9),
            "lapse": Uniform(0.0, 0.5),
        },
        design=Box(stimulus=(-5.0, 5.0)),
        outcome=Binary(),
        simulate=_simulate,
        log_likelihood=_log_likelihood,
        horizon=horizon,
        targets={("threshold", "slope"): 0.5, ("guess", "lapse"): 0.5},
        start=1,
        config={"horizon": horizon},
    )
