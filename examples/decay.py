"""An experiment of one's own, in one screen: `aline train examples/decay.py:task --budget 5min`."""

import torch
from torch.distributions import Uniform

import aline


def simulate(theta, design, generator):
    """A signal that decays with time, measured with noise."""
    signal = theta["amplitude"] * torch.exp(-theta["rate"] * design["time"])
    return signal + 0.1 * torch.randn(signal.shape, generator=generator)


task = aline.Task(
    name="decay",
    parameters={"rate": Uniform(0.1, 2.0), "amplitude": Uniform(0.5, 5.0)},
    design=aline.Box(time=(0.0, 10.0)),
    outcome=aline.Real(),
    simulate=simulate,
    horizon=20,
    units={"rate": "1/s", "amplitude": "V", "time": "s"},
)
