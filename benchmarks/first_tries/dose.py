"""How much does a dose do? A sigmoid of the logarithm of the dose, and noise of unknown size."""

import torch
from torch.distributions import LogNormal, Normal, Uniform

import aline


def effect(theta, design):
    """Without noise: the Hill equation above a baseline."""
    steps = theta["hill"] * torch.log(design["dose"] / theta["half"])
    return theta["baseline"] + theta["most"] * torch.sigmoid(steps)


def simulate(theta, design, generator):
    """A measured effect."""
    mean = effect(theta, design)
    return mean + theta["noise"] * torch.randn(mean.shape, generator=generator)


def log_likelihood(theta, design, outcome):
    """Normal."""
    return Normal(effect(theta, design), theta["noise"], validate_args=False).log_prob(outcome)


task = aline.Task(
    parameters={
        "baseline": Normal(0.0, 1.0),
        "most": LogNormal(1.0, 0.5),
        "half": LogNormal(0.0, 1.5),
        "hill": Uniform(0.5, 3.0),
        "noise": LogNormal(-1.5, 0.5),
    },
    design=aline.Box(dose=aline.Log(0.01, 100.0)),
    outcome=aline.Real(),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=20,
)
