"""Tasks with designs as labs have them: every kind of axis, a condition, an item bank."""

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Normal, Uniform

from aline.spaces import Binary, Box, Log, Pool, Real
from aline.tasks import Task

FRAMES = ["gain", "loss", "none"]


def _yes(theta: Any, design: Any) -> Tensor:
    shift = torch.tensor([0.0, 1.0, -1.0])[design["frame"]]
    worth = design["amount"] / 100 / (1 + theta["rate"] * design["delay"])
    return torch.sigmoid(3 * (worth - design["cost"] + theta["bias"] * shift))


def _choose(theta: Any, design: Any, generator: torch.Generator) -> Tensor:
    p = _yes(theta, design)
    return torch.rand(p.shape, generator=generator) < p


def _log_likelihood(theta: Any, design: Any, outcome: Tensor) -> Tensor:
    p = _yes(theta, design).clamp(1e-6, 1 - 1e-6)
    return torch.where(outcome > 0.5, p.log(), (1 - p).log())


def choice_task() -> Task:
    """Every kind of axis at once, and a condition between them."""
    box = Box(amount=(10, 790), delay=[1, 7, 30, 180], frame=FRAMES, cost=Log(0.01, 3))
    return Task(
        name="choice",
        parameters={"rate": Uniform(0.001, 0.2), "bias": Uniform(-1.0, 1.0)},
        design=box.where(lambda d: (d["amount"] > 100 * d["cost"]) & (d["frame"] != "none")),
        outcome=Binary(),
        simulate=_choose,
        log_likelihood=_log_likelihood,
        horizon=4,
        units={"amount": "$", "delay": "days"},
    )


def side_task() -> Task:
    """Only one of three sides tells anything."""

    def mean(theta: Any, design: Any) -> Tensor:
        return theta["size"] * (design["side"] == 1)

    return Task(
        name="side",
        parameters={"size": Normal(0.0, 1.0)},
        design=Box(side=["left", "middle", "right"]),
        outcome=Real(),
        simulate=lambda theta, design, generator: (
            mean(theta, design) + 0.3 * torch.randn(design["side"].shape, generator=generator)
        ),
        log_likelihood=lambda theta, design, outcome: (
            -0.5 * ((outcome - mean(theta, design)) / 0.3) ** 2
        ),
        horizon=2,
        targets={("size",): 1.0},
    )


def sweep_task() -> Task:
    """A log axis and a set of numbers, which make a plane."""
    return Task(
        name="sweep",
        parameters={"gain": Uniform(0.5, 2.0)},
        design=Box(dose=Log(0.01, 10), hours=[1, 2, 24, 100]),
        outcome=Real(),
        simulate=lambda theta, design, generator: (
            theta["gain"] * design["dose"].log() / design["hours"]
            + 0.1 * torch.randn(design["dose"].shape, generator=generator)
        ),
        horizon=4,
        units={"dose": "mg"},
    )


def item_task(count: int = 6, horizon: int = 5) -> Task:
    """An item bank whose items are used once."""
    return Task(
        name="items",
        parameters={"ability": Normal(0.0, 1.0)},
        design=Pool(
            item=[f"q{i + 1}" for i in range(count)],
            difficulty=torch.linspace(-2, 2, count).tolist(),
            repeats=False,
        ),
        outcome=Binary(),
        simulate=lambda theta, design, generator: (
            torch.rand(design["difficulty"].shape, generator=generator)
            < torch.sigmoid(theta["ability"] - design["difficulty"])
        ),
        log_likelihood=lambda theta, design, outcome: torch.nn.functional.logsigmoid(
            (2 * outcome - 1) * (theta["ability"] - design["difficulty"])
        ),
        horizon=horizon,
    )
