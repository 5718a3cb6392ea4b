"""When to take blood after a dose (iDAD): a drug is absorbed and eliminated.

Absorption rate ka and elimination rate ke an hour, volume V in litres, dose 400 mg, time in hours,
concentration in mg/l with a relative and an absolute part of noise.
"""

import math

import torch
from torch.distributions import LogNormal, Normal

import aline

DOSE = 400.0
SPREAD = math.sqrt(0.05)


def concentration(theta, design):
    """Its mean and its standard deviation."""
    ka, ke, volume, time = theta["ka"], theta["ke"], theta["V"], design["time"]
    left = torch.exp(-ke * time) - torch.exp(-ka * time)
    mean = DOSE / volume * ka / (ka - ke) * left
    return mean, torch.sqrt(0.01 * mean**2 + 0.1)


def simulate(theta, design, generator):
    """A noisy concentration."""
    mean, std = concentration(theta, design)
    return mean + std * torch.randn(mean.shape, generator=generator)


def log_likelihood(theta, design, outcome):
    """Normal, with a spread that grows with the mean."""
    return Normal(*concentration(theta, design), validate_args=False).log_prob(outcome)


task = aline.Task(
    parameters={
        "ka": LogNormal(math.log(1.0), SPREAD),
        "ke": LogNormal(math.log(0.1), SPREAD),
        "V": LogNormal(math.log(20.0), SPREAD),
    },
    design=aline.Box(time=(0.0, 24.0)),
    outcome=aline.Real(),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=5,
)
