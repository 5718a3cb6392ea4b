"""A gamble or a safe amount? Risk attitude, and how consistent a person is."""

import torch
from torch.distributions import LogNormal, Uniform

import aline

WON = 100.0


def log_odds(theta, design):
    """Of taking the gamble."""
    alpha = theta["attitude"]
    gamble = design["chance"] ** (1 / alpha) * WON  # its safe equivalent
    return theta["consistency"] * (gamble - design["safe"]) / 10.0


def simulate(theta, design, generator):
    """Whether the gamble is taken."""
    return torch.bernoulli(torch.sigmoid(log_odds(theta, design)), generator=generator)


def log_likelihood(theta, design, outcome):
    """Logistic."""
    return torch.nn.functional.logsigmoid((2 * outcome - 1) * log_odds(theta, design))


task = aline.Task(
    parameters={"attitude": Uniform(0.2, 2.0), "consistency": LogNormal(0.0, 0.7)},
    design=aline.Box(chance=(0.05, 0.95), safe=(0.0, 100.0)),
    outcome=aline.Binary(),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=30,
)
