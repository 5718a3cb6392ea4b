"""Two equal lamps somewhere along a corridor, and a light meter: which is which cannot be told."""

import torch
from torch.distributions import Normal, Uniform

import aline

NOISE = 0.2


def log_light(theta, design):
    """The logarithm of the light at a place."""
    away = [(theta[name] - design["place"]) ** 2 for name in ("one", "other")]
    return torch.log(0.1 + 0.05 / (0.05 + away[0]) + 0.05 / (0.05 + away[1]))


def simulate(theta, design, generator):
    """A reading."""
    mean = log_light(theta, design)
    return mean + NOISE * torch.randn(mean.shape, generator=generator)


def log_likelihood(theta, design, outcome):
    """Normal."""
    return Normal(log_light(theta, design), NOISE).log_prob(outcome)


task = aline.Task(
    parameters={"one": Uniform(-2.0, 2.0), "other": Uniform(-2.0, 2.0)},
    design=aline.Box(place=(-2.0, 2.0)),
    outcome=aline.Real(),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=12,
)
