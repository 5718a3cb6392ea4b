"""Which way do dots move, and how soon is that seen? Evidence drifts to a bound; no likelihood."""

import torch
from torch.distributions import LogNormal, Uniform

import aline

STEP, STEPS = 0.02, 150  # seconds; what is not decided by then is a guess


def simulate(theta, design, generator):
    """Whether the answer is right, and its reaction time in seconds."""
    drift, bound = theta["skill"] * design["coherence"], theta["caution"]
    shape = torch.broadcast_shapes(drift.shape, bound.shape)
    evidence = answer = torch.zeros(shape)
    taken = torch.full(shape, STEP * STEPS)
    is_open = torch.ones(shape, dtype=torch.bool)
    for step in range(STEPS):
        evidence = evidence + STEP * drift + STEP**0.5 * torch.randn(shape, generator=generator)
        ends = is_open & (evidence.abs() > bound)
        taken = torch.where(ends, STEP * (step + 1), taken)
        answer = torch.where(is_open, evidence, answer)
        is_open = is_open & ~ends
    return {"right": (answer > 0).float(), "rt": theta["delay"] + taken}


task = aline.Task(
    parameters={
        "skill": LogNormal(1.0, 0.7),
        "caution": Uniform(0.4, 1.4),
        "delay": Uniform(0.1, 0.6),
    },
    design=aline.Box(coherence=(0.0, 1.0)),
    outcome=aline.Outcomes(right=aline.Binary(), rt=aline.Real()),
    simulate=simulate,
    horizon=30,
)
