"""Seven functions that active learning is measured on, scaled as the paper's authors do.

Each is seen through the inputs of the GP tasks: [-5, 5] in one dimension, [-4, 4] in two, mapped
linearly onto the function's own domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from aline.errors import InputError, NotFoundError
from aline.functions.task import NOISE
from aline.tasks import Spec


@dataclass(frozen=True)
class Function:
    """A function of inputs [..., design] in its own domain, the same interval on every axis."""

    name: str
    dimensions: int
    domain: tuple[float, float]
    formula: Callable[[Tensor], Tensor] = field(repr=False)

    @property
    def half(self) -> float:
        """The inputs that a GP task's user sees span [-half, half]."""
        return 5.0 if self.dimensions == 1 else 4.0

    def __call__(self, x: Tensor) -> Tensor:
        """Values [...] at x [..., design] in the GP task's units."""
        low, high = self.domain
        return self.formula(low + (x + self.half) / (2 * self.half) * (high - low))

    def sample(self, spec: Spec, batch: int, count: int, generator: torch.Generator) -> Tensor:
        """Uniform inputs [batch, count, design] of its domain, on the network's scale."""
        x = torch.rand(batch, count, self.dimensions, generator=generator) * 2 - 1
        return spec.design.to_network(self.half * x)


def _gramacy1d(x: Tensor) -> Tensor:
    (x,) = x.unbind(-1)
    return ((10 * math.pi * x).sin() / (2 * x) + (x - 1) ** 4) / 3


def _higdon(x: Tensor) -> Tensor:
    (x,) = x.unbind(-1)
    wave = (math.pi * x / 5).sin() + 0.2 * (4 * math.pi * x / 5).cos()
    return torch.where(x < 10, wave, x / 10 - 1)


def _branin(x: Tensor) -> Tensor:
    a, b = x.unbind(-1)
    valley = b - 5.1 / (4 * math.pi**2) * a**2 + 5 / math.pi * a - 6
    return (valley**2 + 10 * (1 - 1 / (8 * math.pi)) * a.cos() + 10 - 44.81) / 51.95


def _gramacy2d(x: Tensor) -> Tensor:
    a, b = x.unbind(-1)
    return a * (-(a**2) - b**2).exp()


def _goldstein_price(x: Tensor) -> Tensor:
    a, b = x.unbind(-1)
    first = (a + b + 1) ** 2 * (19 - 14 * a + 3 * a**2 - 14 * b + 6 * a * b + 3 * b**2)
    second = (2 * a - 3 * b) ** 2 * (18 - 32 * a + 12 * a**2 + 48 * b - 36 * a * b + 27 * b**2)
    return (((1 + first) * (30 + second)).log() - 6) / 4


def _ackley(x: Tensor) -> Tensor:
    distance = x.square().mean(-1).sqrt()
    ripple = (2 * math.pi * x).cos().mean(-1)
    return (-20 * (-0.2 * distance).exp() - ripple.exp() + 20 + math.e) / 5


def _three_hump_camel(x: Tensor) -> Tensor:
    a, b = x.unbind(-1)
    return 2 * a**2 - 1.05 * a**4 + a**6 / 6 + a * b + b**2


FUNCTIONS = {
    function.name: function
    for function in (
        Function("gramacy1d", 1, (0.5, 2.5), _gramacy1d),
        Function("higdon", 1, (0.0, 20.0), _higdon),
        Function("branin", 2, (0.0, 15.0), _branin),
        Function("gramacy2d", 2, (-2.0, 6.0), _gramacy2d),
        Function("goldstein_price", 2, (-2.0, 2.0), _goldstein_price),
        Function("ackley", 2, (-2.0, 2.0), _ackley),
        Function("three_hump_camel", 2, (-2.0, 2.0), _three_hump_camel),
    )
}


def function_named(name: str) -> Function:
    """A benchmark function."""
    if name not in FUNCTIONS:
        raise NotFoundError(f"functions are {', '.join(FUNCTIONS)}, got {name!r}: use one of these")
    return FUNCTIONS[name]


@dataclass(frozen=True)
class FunctionWorld:
    """One function for every episode of a batch, answered as a GP task's world would."""

    function: Function
    spec: Spec  # of the GP task whose model asks
    batch: int
    noise: float = NOISE

    def __post_init__(self) -> None:
        if len(self.spec.design) != self.function.dimensions:
            raise InputError(
                f"{self.function.name} has {self.function.dimensions} inputs, but the task "
                f"{self.spec.name} {len(self.spec.design)}: use gp{self.function.dimensions}d"
            )

    is_recorded: ClassVar[bool] = False

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Designs [batch, count, design] anywhere in the function's domain."""
        return self.function.sample(self.spec, self.batch, count, generator)

    @property
    def theta(self) -> Tensor:
        """No function was drawn with these parameters: not a number."""
        return torch.full((self.batch, len(self.spec.parameters)), math.nan)

    def answer(self, designs: Tensor, generator: torch.Generator) -> Tensor:
        """Noisy values on the network's scale."""
        values = self.function(self.spec.design.to_user(designs))
        noise = self.noise * torch.randn(values.shape, generator=generator)
        return self.spec.outcome.to_network(values + noise)

    def branches(self, designs: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """One draw."""
        outcomes = self.answer(designs, generator)[..., None]
        return outcomes, torch.ones_like(outcomes)
