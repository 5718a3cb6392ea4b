"""How much less a reward is worth when it comes late (DAD): money now, or 100 later.

The delay is asked on a logarithmic axis, from a day to 10,000 days: people's 1/k spread over
four orders of magnitude. The outcome is whether the money now is taken.
"""

import math

import torch
from torch.distributions import HalfNormal, LogNormal

import aline

SLIP = 0.01


def advantage(theta, design):
    """How much better the money now is, in deviations of the choice's noise."""
    delay = 10.0 ** design["log10_days"]
    later = 100 / (1 + theta["k"] * delay)
    return math.sqrt(2) * (design["reward"] - later) / (1e-3 + theta["alpha"])


def probability(z):
    """Of a choice that is z better."""
    return SLIP + (1 - 2 * SLIP) * torch.special.ndtr(z)


def simulate(theta, design, generator):
    """Whether the money now is taken."""
    now = probability(advantage(theta, design))
    return torch.rand(now.shape, generator=generator) < now


def log_likelihood(theta, design, outcome):
    """Of the choice that was made."""
    z = advantage(theta, design)
    return probability(torch.where(outcome > 0.5, z, -z)).log()


task = aline.Task(
    parameters={"k": LogNormal(-4.25, 1.5), "alpha": HalfNormal(2.0)},
    design=aline.Box(reward=(0.0, 100.0), log10_days=(0.0, 4.0)),
    outcome=aline.Binary(),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=20,
)
