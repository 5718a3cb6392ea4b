"""Small untrained models, one of each kind an experiment meets."""

from functools import cache

import torch
from torch.distributions import Dirichlet, LogNormal, Normal, Uniform

from aline.model import Model, ModelConfig, fresh
from aline.spaces import Binary, Box, Pool, Real
from aline.tasks import Task

SIZES = {"width": 16, "heads": 2, "layers": 2, "feedforward": 32, "components": 3}


def _answer(theta, design, generator):
    raise AssertionError("an experiment never simulates")


def small_task(**changes) -> Task:
    settings = {
        "name": "small",
        "parameters": {"threshold": Uniform(-3.0, 3.0), "slope": LogNormal(0.0, 0.5)},
        "design": Box(stimulus=(-5.0, 5.0)),
        "outcome": Binary(),
        "simulate": _answer,
        "horizon": 6,
    }
    return Task(**{**settings, **changes})


TASKS = {
    "binary-box": small_task(),
    "real-box": small_task(
        parameters={"a": Normal(1.0, 2.0), "w": Dirichlet(torch.ones(3))},
        design=Box(x=(0.0, 1.0), time=(0.0, 10.0)),
        outcome=Real(loc=100.0, scale=5.0),
    ),
    "pool": small_task(design=Pool(dose=[0.1, 0.3, 1.0, 3.0, 10.0])),
    "predictions-only": small_task(parameters={}, outcome=Real(loc=0.0, scale=1.0)),
}


@cache
def small(kind: str = "binary-box", policy: str = "pool", context: str = "independent") -> Model:
    """An untrained model; the same object every time."""
    config = ModelConfig(policy=policy, context=context, **SIZES)
    network = fresh(TASKS[kind].spec, config, torch.Generator().manual_seed(0))
    return Model(network.eval().requires_grad_(False))


KINDS = [
    ("binary-box", "pool", "independent"),
    ("binary-box", "pool", "full"),
    ("real-box", "box", "independent"),
    ("pool", "pool", "independent"),
    ("pool", "box", "independent"),
    ("predictions-only", "pool", "independent"),
]
"""Task, policy and context of every kind of model."""
