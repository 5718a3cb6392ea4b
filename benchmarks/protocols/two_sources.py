"""Two hidden sources in the plane, found by the log of their summed signal (DAD)."""

import torch
from torch.distributions import Normal

import aline

BACKGROUND, SOFTENING, NOISE = 0.1, 1e-4, 0.5


def log_intensity(theta, design):
    """The logarithm of what the background and two sources give at a point."""
    total = torch.tensor(BACKGROUND)
    for source in ("source1", "source2"):
        across = theta[f"{source}_x"] - design["x"]
        along = theta[f"{source}_y"] - design["y"]
        total = total + 1 / (SOFTENING + across**2 + along**2)
    return total.log()


def simulate(theta, design, generator):
    """A noisy log intensity."""
    mean = log_intensity(theta, design)
    return mean + NOISE * torch.randn(mean.shape, generator=generator)


def log_likelihood(theta, design, outcome):
    """Normal on the logarithmic scale."""
    return Normal(log_intensity(theta, design), NOISE, validate_args=False).log_prob(outcome)


task = aline.Task(
    parameters={
        "source1_x": Normal(0.0, 1.0),
        "source1_y": Normal(0.0, 1.0),
        "source2_x": Normal(0.0, 1.0),
        "source2_y": Normal(0.0, 1.0),
    },
    design=aline.Box(x=(-4.0, 4.0), y=(-4.0, 4.0)),
    outcome=aline.Real(),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=30,
)
