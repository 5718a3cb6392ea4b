"""Location finding: hidden sources, found by measuring their summed signal (appendix C.2.1)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Uniform

from aline.spaces import Box, Real
from aline.tasks.task import Named, Task

BACKGROUND, SOFTENING, NOISE = 0.1, 1e-4, 0.5
_PEAK = -math.log(NOISE * math.sqrt(2 * math.pi))
_AXES = "xyzuvw"


def location(sources: int = 1, dimensions: int = 2, horizon: int = 30) -> Task:
    """Where `sources` emitters lie in the unit box; the outcome is the log intensity."""
    axes = _AXES[:dimensions]
    names = [
        [f"source{k + 1}_{a}" if sources > 1 else f"source_{a}" for a in axes]
        for k in range(sources)
    ]

    def log_intensity(theta: Named, design: Named) -> Tensor:
        total = torch.full_like(design[axes[0]], BACKGROUND)
        for source in names:
            parts = zip(source, axes, strict=True)
            distance = sum(((theta[n] - design[a]) ** 2 for n, a in parts), start=torch.zeros(()))
            total = total + 1 / (SOFTENING + distance)
        return total.log()

    def simulate(theta: Named, design: Named, generator: torch.Generator) -> Tensor:
        mean = log_intensity(theta, design)
        return mean + NOISE * torch.randn(mean.shape, generator=generator)

    def log_likelihood(theta: Named, design: Named, outcome: Tensor) -> Tensor:
        z = (outcome - log_intensity(theta, design)) / NOISE
        return -0.5 * z * z + _PEAK

    def explore(theta: Named, count: int, generator: torch.Generator) -> Named:
        """Around a random source, at distances spread over the scales that matter."""
        batch = theta[names[0][0]].shape[0]
        pick = torch.randint(sources, (batch, count), generator=generator)
        radius = torch.pow(10.0, -2.3 * torch.rand(batch, count, generator=generator))
        near = {}
        for i, axis in enumerate(axes):
            centre = torch.cat([theta[source[i]] for source in names], 1).gather(1, pick)
            offset = radius * torch.randn(batch, count, generator=generator)
            near[axis] = (centre + 0.5 * offset).clamp(0.0, 1.0)
        return near

    return Task(
        name="location",
        parameters={name: Uniform(0.0, 1.0) for source in names for name in source},
        design=Box(**dict.fromkeys(axes, (0.0, 1.0))),
        outcome=Real(loc=2.0, scale=2.0),
        simulate=simulate,
        log_likelihood=log_likelihood,
        log_peak=lambda theta, design, outcome: torch.tensor(_PEAK * outcome.shape[-1]),
        explore=explore,
        horizon=horizon,
        targets={tuple(name for source in names for name in source): 1.0},
        start=1,
        resolution=0.004,
        budget="90min",
        # The data soon rule out every other draw from the prior: none could stand in for the truth.
        training={"possible_truths": 0},
        model={"policy": "box"},  # learned by gradient, from `explore` on
        config={"sources": sources, "dimensions": dimensions, "horizon": horizon},
    )
