"""A yes/no observer's psychometric function: the built-in task psychometric, without its hints."""

import torch
from torch.distributions import Uniform

import aline


def responses(theta, design):
    """The probabilities of yes and of no."""
    z = (design["stimulus"] - theta["threshold"]) / theta["slope"]
    strength = 10.0 ** z.clamp(max=3.0)  # beyond this, nothing is missed
    guess, lapse = theta["guess"], theta["lapse"]
    yes = guess * lapse + (1 - lapse) * -torch.expm1(-strength)
    no = (1 - guess) * lapse + (1 - lapse) * torch.exp(-strength)
    return yes, no


def simulate(theta, design, generator):
    """Whether the observer says yes."""
    yes, _ = responses(theta, design)
    return torch.rand(yes.shape, generator=generator) < yes


def log_likelihood(theta, design, outcome):
    """Of the response that was given."""
    return torch.where(outcome > 0.5, *responses(theta, design)).clamp(min=1e-7).log()


task = aline.Task(
    parameters={
        "threshold": Uniform(-3.0, 3.0),
        "slope": Uniform(0.1, 2.0),
        "guess": Uniform(0.1, 0.9),
        "lapse": Uniform(0.0, 0.5),
    },
    design=aline.Box(stimulus=(-5.0, 5.0)),
    outcome=aline.Binary(),
    simulate=simulate,
    log_likelihood=log_likelihood,
    horizon=30,
)
