"""When to count the infected of an epidemic (iDAD): no likelihood, one trajectory a world.

Susceptible S and infected I of 500 people follow a stochastic differential equation. The trajectory
is drawn once for each world, and a measurement reads it without noise.
"""

import math

import torch
from torch.distributions import LogNormal

import aline

PEOPLE, FIRST_INFECTED = 500.0, 2.0
DAYS, STEP = 100.0, 0.1  # steps ten times longer than iDAD's
STEPS = round(DAYS / STEP)


def trajectory(theta, generator):
    """The infected over time, [batch, step], by Euler and Maruyama."""
    beta, gamma = theta["beta"][:, 0], theta["gamma"][:, 0]
    infected = torch.full_like(beta, FIRST_INFECTED)
    susceptible = PEOPLE - infected
    noise = torch.randn(STEPS, 2, len(beta), generator=generator)
    path = [infected]
    for caught_by_luck, healed_by_luck in noise:
        caught = change(beta * susceptible * infected / PEOPLE, caught_by_luck)
        healed = change(gamma * infected, healed_by_luck)
        infected = (infected + caught - healed).clamp(0.0, PEOPLE)
        susceptible = (susceptible - caught).clamp(0.0, PEOPLE)
        path.append(infected)
    return {"infected": torch.stack(path, 1)}


def change(rate, luck):
    """Within a step."""
    return rate * STEP + torch.sqrt(rate * STEP) * luck


def simulate(theta, design, generator):
    """The infected at a time, between two steps on the straight line."""
    position = design["day"] / STEP
    before = position.detach().long().clamp(0, STEPS - 1)
    start, end = (theta["infected"].gather(1, before + i) for i in (0, 1))
    return start + (position - before) * (end - start)


task = aline.Task(
    parameters={"beta": LogNormal(math.log(0.5), 0.5), "gamma": LogNormal(math.log(0.1), 0.5)},
    design=aline.Box(day=(0.0, DAYS)),
    outcome=aline.Real(limits=(0.0, PEOPLE)),
    simulate=simulate,
    latent=trajectory,
    horizon=5,
)
