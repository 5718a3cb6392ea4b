"""Linear-Gaussian regression, the reference with a closed-form posterior."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Normal

from aline.spaces import Box, Real
from aline.tasks.task import Named, Task

NOISE = 0.5
_PEAK = -math.log(NOISE * math.sqrt(2 * math.pi))


def _mean(theta: Named, design: Named) -> Tensor:
    return theta["intercept"] + theta["slope"] * design["x"]


def _simulate(theta: Named, design: Named, generator: torch.Generator) -> Tensor:
    mean = _mean(theta, design)
    return mean + NOISE * torch.randn(mean.shape, generator=generator)


def _log_likelihood(theta: Named, design: Named, outcome: Tensor) -> Tensor:
    z = (outcome - _mean(theta, design)) / NOISE
    return -0.5 * z * z + _PEAK


def linear(horizon: int = 10) -> Task:
    """Intercept and slope of a line, measured with known Gaussian noise."""
    return Task(
        name="linear",
        parameters={"intercept": Normal(0.0, 1.0), "slope": Normal(0.0, 1.0)},
        design=Box(x=(-1.0, 1.0)),
        outcome=Real(loc=0.0, scale=1.5),
        simulate=_simulate,
        log_likelihood=_log_likelihood,
        log_peak=lambda theta, design, outcome: torch.tensor(_PEAK * outcome.shape[-1]),
        horizon=horizon,
        start=0,
        config={"horizon": horizon},
    )


def exact_posterior(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Mean [batch, 2] and covariance [batch, 2, 2] after designs x and outcomes y [batch, n]."""
    features = torch.stack([torch.ones_like(x), x], -1)
    precision = torch.eye(2, dtype=x.dtype) + features.mT @ features / NOISE**2
    covariance = torch.linalg.inv(precision)
    mean = covariance @ (features.mT @ y[..., None]) / NOISE**2
    return mean[..., 0], covariance


def exact_information_gain(x: Tensor) -> Tensor:
    """Nats gained about both parameters by measuring at x [batch, n]: half log det precision."""
    features = torch.stack([torch.ones_like(x), x], -1)
    precision = torch.eye(2, dtype=x.dtype) + features.mT @ features / NOISE**2
    return 0.5 * torch.logdet(precision)
