"""Functions drawn from Gaussian processes, and their hyperparameters (appendix C.1).

A function is a sum of random waves with the kernel's spectral density (random Fourier features):
once drawn, it answers any point at any time at a cost linear in the number of points. The
frequencies of a function are a randomly shifted lattice instead of independent draws, so that its
own covariance is the kernel's up to a percent (tests/tasks/test_gp.py), not only on average.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor
from torch.distributions import Uniform
from torch.nn import functional as F

from aline.errors import InputError
from aline.functions.kernels import KINDS
from aline.spaces import Box, Real
from aline.tasks.spec import PREDICTIONS
from aline.tasks.task import Named, Task

NOISE = 0.01
DEGREES = (math.inf, 3, 5)  # of freedom of a kernel's Student-t spectrum
WAVES = 256
HALF = 5.0  # inputs lie in [-5, 5]


def gp(dimensions: int = 1, horizon: int = 30, isotropic: float = 0.5, waves: int = WAVES) -> Task:
    """Learn an unknown function, or the lengthscales and output scale behind it.

    The kernel (RBF, Matern 3/2 or 5/2) is drawn with the function and is never named;
    `isotropic` is the share of functions with one lengthscale for all axes.
    """
    if not (isinstance(dimensions, int) and dimensions >= 1):
        raise InputError(f"dimensions must be a whole number, at least 1, got {dimensions!r}")
    axes = axis_names(dimensions)
    unit = math.sqrt(dimensions)
    ones = torch.ones(dimensions)

    def latent(theta: Named, generator: torch.Generator) -> dict[str, Tensor]:
        lengthscale = theta["lengthscale"][:, 0]
        batch = len(lengthscale)
        kernel = torch.randint(len(KINDS), (batch,), generator=generator)
        hidden = draw_waves(kernel, dimensions, waves, generator)
        hidden["noise"] = torch.full((batch, 1), NOISE)
        hidden["kernel"] = kernel
        if dimensions > 1:
            same = torch.rand(batch, 1, generator=generator) < isotropic
            tied = torch.where(same, lengthscale[:, :1], lengthscale)
            hidden["lengthscale"] = tied[:, None]
        return hidden

    def simulate(theta: Named, design: Named, generator: torch.Generator) -> Tensor:
        x = torch.stack([design[name] for name in axes], -1)
        f = theta["output_scale"] * waves_at(theta, x / theta["lengthscale"])
        return f + theta["noise"] * torch.randn(f.shape, generator=generator)

    return Task(
        name=f"gp{dimensions}d",
        parameters={
            "lengthscale": Uniform(0.1 * unit * ones, 2.0 * unit * ones),
            "output_scale": Uniform(0.1, 1.0),
        },
        design=Box(**dict.fromkeys(axes, (-HALF, HALF))),
        outcome=Real(loc=0.0, scale=0.6),
        simulate=simulate,
        latent=latent,
        horizon=horizon,
        targets={(PREDICTIONS,): 0.5, ("lengthscale", "output_scale"): 0.5},
        scaled=("output_scale",),
        start=1,
        resolution=0.016,
        config={
            "dimensions": dimensions,
            "horizon": horizon,
            "isotropic": isotropic,
            "waves": waves,
        },
        # A proposed point cannot be in all the places that are equally unknown; kernels say in
        # closed form what attention over observations of a function would have to approximate.
        model={
            "policy": "plugin",
            "plugin": "functions",
            "plugin_settings": {
                "kernels": 12 if dimensions == 1 else 18,
                "hypotheses": 128 if dimensions == 1 else 256,
            },
        },
        training={"points": 8, "updates": 8, "batch": 100 if dimensions == 1 else 50, "pool": 64},
    )


def gp1d(horizon: int = 30, **config: float) -> Task:
    """Functions of one input."""
    return gp(**{"dimensions": 1, "horizon": horizon, **config})  # type: ignore[arg-type]


def gp2d(horizon: int = 50, **config: float) -> Task:
    """Functions of two inputs."""
    return gp(**{"dimensions": 2, "horizon": horizon, **config})  # type: ignore[arg-type]


def axis_names(dimensions: int) -> list[str]:
    """The design axes: x, or x1, x2, ..."""
    return ["x"] if dimensions == 1 else [f"x{i + 1}" for i in range(dimensions)]


def draw_waves(
    kernel: Tensor, dimensions: int, waves: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """Functions of unit lengthscale and unit variance, for kernels [batch] of KINDS.

    Given its frequencies a function is exactly Gaussian: both weights of a wave are normal.
    """
    frequencies, power = draw_frequencies(kernel, dimensions, waves, generator)
    weights = torch.randn(len(kernel), 2, waves, generator=generator) * power.sqrt()[:, None]
    return {"frequencies": frequencies, "weights": weights}


def draw_frequencies(
    kernel: Tensor, dimensions: int, waves: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Where the waves of functions lie, [batch, wave, design], and their variance [batch, wave].

    Half of all waves lie in the highest quarter of the spectrum. Few waves there would make one
    function rougher than the next, at the scale at which data tell of kernels and lengthscales.
    """
    shift = torch.rand(len(kernel), 1, dimensions + 1, generator=generator)
    u = ((lattice(waves, dimensions + 1) + shift) % 1).clamp(1e-6, 1 - 1e-6)
    direction = F.normalize(torch.special.ndtri(u[..., :-1]), dim=-1)
    tail = u[..., -1]
    radius = radii_at(kernel, tail.square(), dimensions)
    return direction * radius[..., None], 2 * tail / waves


def waves_at(hidden: Named, x: Tensor) -> Tensor:
    """The functions' values [batch, count] at x [batch, count, design], in lengthscales."""
    angle = x @ hidden["frequencies"].mT
    cosine, sine = hidden["weights"].unbind(1)
    return (angle.cos() @ cosine[..., None] + angle.sin() @ sine[..., None]).squeeze(-1)


@cache
def lattice(count: int, dimensions: int) -> Tensor:
    """Points [count, dimensions] that fill the unit cube evenly (Roberts' R sequence)."""
    root = 2.0
    for _ in range(40):  # the fixed point of x = (1 + x)^(1 / (d + 1))
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = torch.tensor([root ** -(i + 1) for i in range(dimensions)], dtype=torch.float64)
    return ((torch.arange(count, dtype=torch.float64)[:, None] * steps) % 1).float()


@cache
def radii(dimensions: int) -> Tensor:
    """How far out frequencies are [kernel, 1201]: quantiles, even in probits from -6 to 6.

    A Matern kernel's spectrum is Student's t, the RBF's is normal.
    """
    from scipy import stats  # takes half a second

    beyond = stats.norm.sf(torch.linspace(-6.0, 6.0, 1201, dtype=torch.float64).numpy())
    rows = [
        stats.chi2(dimensions).isf(beyond)
        if df == math.inf
        else dimensions * stats.f(dimensions, df).isf(beyond)
        for df in DEGREES
    ]
    return torch.stack([torch.tensor(row).sqrt().float() for row in rows])


def radii_at(kernel: Tensor, beyond: Tensor, dimensions: int) -> Tensor:
    """Where a share `beyond` [batch, wave] of the spectrum of kernels [batch] lies further out."""
    place = ((6 - torch.special.ndtri(beyond.double())) * 100).clamp(0, 1199.99).float()
    left, part = place.long(), place.frac()
    table, row = radii(dimensions), kernel[:, None]
    radius: Tensor = table[row, left] * (1 - part) + table[row, left + 1] * part
    return radius
