"""Delay discounting: how much less is money worth when it comes late?

A person takes a reward now, or 100 after a number of days. What 100 are worth by then falls as a
hyperbola (Mazur 1987) or exponentially, at a rate of k a day:

    hyperbolic 100 / (1 + k days), exponential 100 exp(-k days)

Choices are those of the DAD paper (Foster et al. 2021), which has the hyperbola alone: one in a
hundred is a slip either way, the others follow the difference between the two, with noise alpha.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import HalfNormal, Normal

from aline.spaces import Binary, Box, Categorical, Log
from aline.tasks.task import Named, Task

MODELS = ("hyperbolic", "exponential")
LATER = 100.0  # the later reward, of which the one now is a share
SLIP = 0.01  # of choices go against a difference however large
LEAST_NOISE = 1e-3


def worth(theta: Named, design: Named) -> Tensor:
    """What the later reward is worth now."""
    passed = theta["log_k"].exp() * design["days"]
    is_hyperbolic = theta["model"] == MODELS.index("hyperbolic")
    return LATER * torch.where(is_hyperbolic, 1 / (1 + passed), torch.exp(-passed))


def advantage(theta: Named, design: Named) -> Tensor:
    """How much better the reward now is, in standard deviations of the choice's noise."""
    difference = design["reward"] - worth(theta, design)
    return math.sqrt(2) * difference / (LEAST_NOISE + theta["alpha"])


def probability(z: Tensor) -> Tensor:
    """Of the choice that is z better."""
    share: Tensor = torch.special.ndtr(z)
    return SLIP + (1 - 2 * SLIP) * share


def simulate(theta: Named, design: Named, generator: torch.Generator) -> Tensor:
    """Whether the reward now is taken."""
    now = probability(advantage(theta, design))
    return torch.rand(now.shape, generator=generator) < now


def log_likelihood(theta: Named, design: Named, outcome: Tensor) -> Tensor:
    """Of the choice that was made."""
    z = advantage(theta, design)
    return probability(torch.where(outcome > 0.5, z, -z)).log()


def discounting(horizon: int = 20) -> Task:
    """How fast money loses worth with delay, and whether as a hyperbola or exponentially."""
    every = ("model", "log_k", "alpha")
    return Task(
        name="discounting",
        parameters={
            "model": Categorical(MODELS),
            # Wide, for priors that are chosen at run time: N(-4.25, 1.5) of DAD, or all of ADOpy's
            # 1e-5 to 1 a week, which is -13.5 to -1.9 here.
            "log_k": Normal(-7.0, 3.5),
            "alpha": HalfNormal(2.0),
        },
        design=Box(reward=(0.0, LATER), days=Log(1.0, 10_000.0)),
        outcome=Binary(),
        simulate=simulate,
        log_likelihood=log_likelihood,
        horizon=horizon,
        targets={every: 1.0, every[1:]: 1.0, ("model",): 1.0, ("log_k",): 1.0},
        resolution=0.02,  # the noise of most choices is about 1 in 100
        model={"priors": True},
        config={"horizon": horizon},
        units={"reward": f"of {LATER:g}", "log_k": "ln per day", "alpha": f"of {LATER:g}"},
    )
