"""Photons of a fluorescent spot counted at a place: where it is, how wide and how bright."""

import torch
from torch.distributions import LogNormal, Poisson, Uniform

import aline

DARK = 1.0  # counts without any light


def rate(theta, design):
    """Expected counts."""
    away = (design["place"] - theta["centre"]) / theta["width"]
    return DARK + theta["brightness"] * torch.exp(-0.5 * away**2)


def simulate(theta, design, generator):
    """A count."""
    return torch.poisson(rate(theta, design), generator=generator)


def log_likelihood(theta, design, outcome):
    """Poisson."""
    return Poisson(rate(theta, design), validate_args=False).log_prob(outcome)


task = aline.Task(
    parameters={
        "centre": Uniform(-5.0, 5.0),
        "width": LogNormal(0.0, 0.4),
        "brightness": LogNormal(3.0, 0.7),
    },
    design=aline.Box(place=(-6.0, 6.0)),
    outcome=aline.Count(),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=15,
)
