"""An enzyme's speed at a chosen concentration: Michaelis and Menten, with relative noise."""

import torch
from torch.distributions import LogNormal, Normal

import aline


def speed(theta, design):
    """Of the reaction, without noise."""
    return theta["fastest"] * design["substrate"] / (theta["half"] + design["substrate"])


def spread(mean):
    """A twentieth of the speed, and a little."""
    return 0.05 * mean + 0.02


def simulate(theta, design, generator):
    """A measured speed."""
    mean = speed(theta, design)
    return mean + spread(mean) * torch.randn(mean.shape, generator=generator)


def log_likelihood(theta, design, outcome):
    """Normal."""
    mean = speed(theta, design)
    return Normal(mean, spread(mean)).log_prob(outcome)


task = aline.Task(
    parameters={"fastest": LogNormal(0.0, 0.5), "half": LogNormal(0.0, 1.0)},
    design=aline.Box(substrate=(0.01, 20.0)),
    outcome=aline.Real(),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=8,
)
