"""A small task with a discrete parameter: does the answer rise with x, fall, or neither?"""

import torch
from torch.distributions import Uniform

from aline.spaces import Binary, Box, Categorical, Only
from aline.tasks import Task

TRENDS, PROBS = ("rises", "falls", "neither"), (0.5, 0.3, 0.2)


def log_odds(theta, design):
    """Of a yes."""
    sign = torch.tensor([1.0, -1.0, 0.0])[theta["trend"]]
    return theta["bias"] + 3 * sign * theta["slope"] * design["x"]


def simulate(theta, design, generator):
    p = log_odds(theta, design).sigmoid()
    return torch.rand(p.shape, generator=generator) < p


def log_likelihood(theta, design, outcome):
    logit = log_odds(theta, design)
    return torch.nn.functional.logsigmoid(torch.where(outcome > 0.5, logit, -logit))


def trend_task(**changes) -> Task:
    settings = {
        "name": "trend",
        "parameters": {
            "trend": Categorical(TRENDS, PROBS),
            "slope": Only(Uniform(0.2, 2.0), trend="rises"),
            "bias": Uniform(-1.0, 1.0),
        },
        "design": Box(x=(-1.0, 1.0)),
        "outcome": Binary(),
        "simulate": simulate,
        "log_likelihood": log_likelihood,
        "horizon": 6,
    }
    return Task(**{**settings, **changes})
