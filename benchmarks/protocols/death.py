"""When to count the infected (DAD's death process): 50 people, each infected at one rate.

The rate is N(1, 1), truncated to positive values: `rank` is its quantile. Time in [0, 10].
"""

import math

import torch
from torch.distributions import Uniform

import aline

PEOPLE = 50
BELOW = torch.special.ndtr(torch.tensor(-1.0))  # of N(1, 1) below 0


def exposure(theta, design):
    """Rate times time."""
    # From the upper tail, which keeps its digits.
    above = (1 - theta["rank"]) * (1 - BELOW)
    rate = 1 - torch.special.ndtri(above.clamp(min=1e-7))
    return rate.clamp(min=0.0) * design["time"]


def simulate(theta, design, generator):
    """How many of the people are infected by then."""
    share = -torch.expm1(-exposure(theta, design))
    return torch.binomial(torch.full_like(share, PEOPLE), share, generator=generator)


def log_likelihood(theta, design, outcome):
    """Binomial."""
    exposed = exposure(theta, design)
    share, healthy = -torch.expm1(-exposed), PEOPLE - outcome
    ways = math.lgamma(PEOPLE + 1) - torch.lgamma(outcome + 1) - torch.lgamma(healthy + 1)
    return ways + torch.xlogy(outcome, share) - healthy * exposed


task = aline.Task(
    parameters={"rank": Uniform(0.0, 1.0)},
    design=aline.Box(time=(0.0, 10.0)),
    outcome=aline.Count(maximum=PEOPLE),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=4,
)
