"""Left or right, from two cues: how much each counts, which way a person leans, and slips."""

import torch
from torch.distributions import Beta, LogNormal, Normal

import aline


def share_right(theta, design):
    """The probability of "right"."""
    drive = theta["first"] * design["first"] + theta["second"] * design["second"] + theta["lean"]
    return theta["slips"] / 2 + (1 - theta["slips"]) * torch.sigmoid(drive)


def simulate(theta, design, generator):
    """An answer."""
    return torch.bernoulli(share_right(theta, design), generator=generator)


def log_likelihood(theta, design, outcome):
    """Bernoulli."""
    right = share_right(theta, design)
    return torch.where(outcome > 0.5, right, 1 - right).log()


task = aline.Task(
    parameters={
        "first": LogNormal(0.5, 0.7),
        "second": Normal(0.0, 2.0),
        "lean": Normal(0.0, 1.0),
        "slips": Beta(1.0, 10.0),
    },
    design=aline.Box(first=(-2.0, 2.0), second=(-2.0, 2.0)),
    outcome=aline.Binary(),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=40,
)
