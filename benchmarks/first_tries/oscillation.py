"""A damped oscillation read at chosen times: frequency, damping and amplitude."""

import torch
from torch.distributions import Normal, Uniform

import aline

NOISE = 0.1


def signal(theta, design):
    """Without noise."""
    time = design["time"]
    return (
        theta["amplitude"] * torch.exp(-theta["damping"] * time) * torch.cos(theta["omega"] * time)
    )


def simulate(theta, design, generator):
    """A reading."""
    mean = signal(theta, design)
    return mean + NOISE * torch.randn(mean.shape, generator=generator)


def log_likelihood(theta, design, outcome):
    """Normal."""
    return Normal(signal(theta, design), NOISE).log_prob(outcome)


task = aline.Task(
    parameters={
        "omega": Uniform(0.5, 4.0),
        "damping": Uniform(0.05, 0.5),
        "amplitude": Uniform(0.5, 2.0),
    },
    design=aline.Box(time=(0.0, 10.0)),
    outcome=aline.Real(),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=12,
)
