"""Tastes from ratings of two baskets of three goods: the built-in task ces, without its hints.

The outcome is the logit of the rating, cut off where the rating is 2^-22 from 0 or 1.
"""

import math

import torch
from torch.distributions import Dirichlet, LogNormal, Normal, Uniform

import aline

GOODS, LEAST, TAU = 3, 0.01, 0.005
LIMIT = math.log(2.0**22 - 1)
BASKETS = [[f"{which}_{good}" for good in range(1, GOODS + 1)] for which in ("first", "second")]


def utility(theta, basket):
    """U(z) = (sum_k alpha_k z_k^rho)^(1/rho)."""
    rho = theta["rho"][..., None]
    terms = theta["alpha"].log() + rho * basket.clamp(min=LEAST).log()
    return (terms.logsumexp(-1) / theta["rho"]).exp()


def preference(theta, design):
    """The mean and the standard deviation of the logit."""
    first, second = (torch.stack([design[good] for good in basket], -1) for basket in BASKETS)
    exact = {name: value.double() for name, value in theta.items()}  # digits, where rho is small
    better = utility(exact, first.double()) - utility(exact, second.double())
    # The root of exactly nothing has no gradient.
    apart = ((first - second) ** 2).sum(-1).add(1e-12).sqrt()
    return theta["u"] * better.to(apart.dtype), theta["u"] * TAU * (1 + apart)


def simulate(theta, design, generator):
    """A noisy logit, cut off."""
    mean, std = preference(theta, design)
    return (mean + std * torch.randn(mean.shape, generator=generator)).clamp(-LIMIT, LIMIT)


def log_likelihood(theta, design, outcome):
    """Normal between the limits; at a limit, the probability beyond it."""
    mean, std = preference(theta, design)
    beyond = torch.special.log_ndtr(outcome.sign() * (mean - outcome) / std)
    inside = Normal(mean, std, validate_args=False).log_prob(outcome)
    return torch.where(outcome.abs() > LIMIT - 1e-4, beyond, inside)


task = aline.Task(
    parameters={
        "rho": Uniform(0.01, 1.0),
        "alpha": Dirichlet(torch.ones(GOODS)),
        "u": LogNormal(1.0, 3.0),
    },
    design=aline.Box(**{good: (0.0, 100.0) for basket in BASKETS for good in basket}),
    outcome=aline.Real(limits=(-LIMIT, LIMIT)),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=10,
)
