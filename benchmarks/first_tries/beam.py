"""Where does a beam hit a plate, and how wide is it? Read at points of the plate; no likelihood."""

import torch
from torch.distributions import LogNormal, Uniform

import aline


def simulate(theta, design, generator):
    """Brightness at a point, with noise that grows with it."""
    square = (design["x"] - theta["x0"]) ** 2 + (design["y"] - theta["y0"]) ** 2
    bright = torch.exp(-0.5 * square / theta["width"] ** 2)
    noise = torch.randn(bright.shape, generator=generator)
    return bright * torch.exp(0.1 * noise) + 0.02 * torch.randn(bright.shape, generator=generator)


task = aline.Task(
    parameters={"x0": Uniform(-1.0, 1.0), "y0": Uniform(-1.0, 1.0), "width": LogNormal(-0.7, 0.3)},
    design=aline.Box(x=(-1.0, 1.0), y=(-1.0, 1.0)),
    outcome=aline.Real(),
    simulate=simulate,
    horizon=12,
)
