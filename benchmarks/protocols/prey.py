"""How many prey to offer a predator: its attack rate a and its handling time Th.

dN/dt = -a N^2 / (1 + a Th N^2) for 24 hours from N0 prey; the outcome is how many were eaten.
"""

import torch
from torch.distributions import LogNormal

import aline

HOURS, MOST = 24.0, 300


def log_shares(theta, design):
    """Logarithms of the share eaten, e, and of the share left, both without losing digits.

    Integrated, the equation is e / (1 - e) + c e = d, with c = a Th N0^2 and d = a N0 24 h.
    """
    a, offered = theta["a"], design["prey"]
    c, d = a * theta["Th"] * offered**2, a * offered * HOURS
    root = torch.sqrt((c - d) ** 2 + 2 * (c + d) + 1)
    eaten = 2 * d / (1 + c + d + root)
    left = torch.where(d > c, 2 / (1 + (d - c).clamp(min=0) + root), 1 - eaten)
    return eaten.log(), left.log()


def simulate(theta, design, generator):
    """How many of the prey are eaten."""
    eaten = log_shares(theta, design)[0].exp().clamp(max=1.0)
    return torch.binomial(design["prey"].round().expand_as(eaten), eaten, generator=generator)


def log_likelihood(theta, design, outcome):
    """Binomial."""
    offered = design["prey"].round()
    left = offered - outcome
    ways = torch.lgamma(offered + 1) - torch.lgamma(outcome + 1) - torch.lgamma(left + 1)
    log_eaten, log_left = log_shares(theta, design)
    return ways + outcome * log_eaten + left * log_left


task = aline.Task(
    parameters={"a": LogNormal(-1.4, 1.35), "Th": LogNormal(-1.4, 1.35)},
    design=aline.Grid(prey=range(1, MOST + 1)),
    outcome=aline.Count(maximum=MOST),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=10,
)
