"""Retention: does memory fade as a power of time or exponentially (Cavagnaro et al. 2010)?

At each stage ten items are asked for after a delay, and so many of them are recalled. The delays
that tell the two models apart are not those that tell a model's own parameters best.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Beta

from aline.spaces import Categorical, Count, Grid, Only
from aline.tasks.task import Named, Task

MODELS = ("power", "exponential")
ITEMS, LONGEST = 10, 100  # asked for at a stage; the longest delay
_SURE = 1e-6  # a rate of exactly 0 or 1 has no logarithm


def recall(theta: Named, design: Named) -> Tensor:
    """The probability that an item is recalled."""
    time = design["time"]
    power = (time + 1) ** -theta["b_power"]
    exponential = torch.exp(-theta["b_exponential"] * time)
    is_power = theta["model"] == MODELS.index("power")
    return (theta["a"] * torch.where(is_power, power, exponential)).clamp(_SURE, 1 - _SURE)


def simulate(theta: Named, design: Named, generator: torch.Generator) -> Tensor:
    """How many of the items are recalled."""
    rate = recall(theta, design)
    return torch.binomial(torch.full_like(rate, ITEMS), rate, generator=generator)


def log_likelihood(theta: Named, design: Named, outcome: Tensor) -> Tensor:
    """Binomial."""
    rate, missed = recall(theta, design), ITEMS - outcome
    ways = torch.lgamma(torch.tensor(ITEMS + 1.0)) - torch.lgamma(outcome + 1)
    chance = outcome * rate.log() + missed * torch.log1p(-rate)
    return ways - torch.lgamma(missed + 1) + chance


def retention(horizon: int = 10) -> Task:
    """Which law memory follows, power or exponential, and its parameters."""
    return Task(
        name="retention",
        parameters={
            "model": Categorical(MODELS),
            "a": Beta(2.0, 1.0),
            "b_power": Only(Beta(1.0, 4.0), model="power"),
            "b_exponential": Only(Beta(1.0, 80.0), model="exponential"),
        },
        design=Grid(time=range(LONGEST + 1)),
        outcome=Count(maximum=ITEMS),
        simulate=simulate,
        log_likelihood=log_likelihood,
        horizon=horizon,
        config={"horizon": horizon},
    )
