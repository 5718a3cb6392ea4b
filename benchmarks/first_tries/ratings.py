"""How pleasant, from 1 to 5? A stimulus has an ideal level, and people have scales of their own."""

import torch
from torch.distributions import LogNormal, Normal, Uniform

import aline

CUTS = torch.tensor([-1.5, -0.5, 0.5, 1.5])


def shares(theta, design):
    """Probabilities [..., 5] of the ratings."""
    away = (design["level"] - theta["ideal"]) / theta["tolerance"]
    pleasure = theta["mildness"] + 2.0 - away**2
    below = torch.special.ndtr(CUTS - pleasure[..., None])
    edges = torch.cat(
        [torch.zeros_like(below[..., :1]), below, torch.ones_like(below[..., :1])], -1
    )
    return edges.diff(dim=-1).clamp_min(1e-6)


def simulate(theta, design, generator):
    """A rating, 1 to 5."""
    every = shares(theta, design)
    drawn = torch.multinomial(every.flatten(0, -2), 1, generator=generator)
    return 1.0 + drawn.view(every.shape[:-1])


def log_likelihood(theta, design, outcome):
    """Of ordered levels."""
    every, chosen = shares(theta, design), outcome.long() - 1
    return sum(torch.where(chosen == k, every[..., k], 0.0) for k in range(5)).log()


task = aline.Task(
    parameters={
        "ideal": Uniform(0.0, 10.0),
        "tolerance": LogNormal(0.5, 0.4),
        "mildness": Normal(0.0, 0.7),
    },
    design=aline.Box(level=(0.0, 10.0)),
    outcome=aline.Ordinal(5),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=25,
)
