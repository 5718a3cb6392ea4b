"""Risk and ambiguity: does a person avoid gambles, and gambles whose odds are hidden (Levy 2010)?

A person takes a lottery that wins a reward, or one that wins a smaller reference with probability
0.5. The first lottery's probability is known and below 0.5 (risk), or lies around 0.5 and a part
of it, the ambiguity, is hidden. Utilities are

    (probability - beta ambiguity / 2) reward^alpha   and   0.5 reference^alpha

and the choice is logistic in their difference times gamma. Probabilities and ambiguities are
Levy's, amounts and priors ADOpy's.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Uniform
from torch.nn import functional as F

from aline.spaces import Binary, Box, Design
from aline.tasks.task import Named, Task

EVEN = 0.5  # the probability of the reference, and of lotteries with hidden odds
REWARDS = [5, 9.5, 18, 26, 34, 50, 65, 95, 131, 181, 250]
REFERENCES = [5, 7, 10, 13, 18, 25, 34, 48, 66, 91, 125]
_SURE = 16.0  # log odds beyond which a choice is certain to seven digits


def log_odds(theta: Named, design: Named) -> Tensor:
    """Of taking the lottery, not the reference."""
    alpha = theta["alpha"]
    believed = design["probability"] - theta["beta"] * design["ambiguity"] / 2
    difference = believed * design["reward"] ** alpha - EVEN * design["reference"] ** alpha
    return (theta["gamma"] * difference).clamp(-_SURE, _SURE)


def simulate(theta: Named, design: Named, generator: torch.Generator) -> Tensor:
    """Whether the lottery is taken."""
    p = log_odds(theta, design).sigmoid()
    return torch.rand(p.shape, generator=generator) < p


def log_likelihood(theta: Named, design: Named, outcome: Tensor) -> Tensor:
    """Of the choice that was made."""
    odds = log_odds(theta, design)
    return F.logsigmoid(torch.where(outcome > 0.5, odds, -odds))


def lotteries() -> Design:
    """A larger reward with odds that are known and worse, or as good and partly hidden."""
    every = Box(
        probability=[0.13, 0.25, 0.38, EVEN],
        ambiguity=[0.0, 0.25, 0.5, 0.75],
        reward=REWARDS,
        reference=REFERENCES,
    )
    larger = every.where(lambda d: d["reward"] > d["reference"])
    return larger.where(lambda d: (d["probability"] < EVEN) == (d["ambiguity"] == 0))


def risk(horizon: int = 60) -> Task:
    """Attitudes to risk and to ambiguity, from choices between two lotteries."""
    every = ("alpha", "beta", "gamma")
    return Task(
        name="risk",
        parameters={
            "alpha": Uniform(0.0, 3.0),
            "beta": Uniform(-3.0, 3.0),
            "gamma": Uniform(0.0, 5.0),
        },
        design=lotteries(),
        outcome=Binary(),
        simulate=simulate,
        log_likelihood=log_likelihood,
        horizon=horizon,
        targets={every: 1.0, every[:2]: 1.0, ("alpha",): 0.5, ("beta",): 0.5},
        model={"priors": True},
        config={"horizon": horizon},
    )
