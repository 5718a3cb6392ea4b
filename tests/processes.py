"""Gaussian processes computed one at a time from their definition."""

import math
from typing import NamedTuple

import torch
from torch import Tensor


def kernel(kind: int, distance: Tensor) -> Tensor:
    """RBF, Matern 3/2 and 5/2 of unit variance, as textbooks write them."""
    if kind == 0:
        return (-0.5 * distance**2).exp()
    r = math.sqrt((3, 5)[kind - 1]) * distance
    return (1 + r + (r * r / 3 if kind == 2 else 0)) * (-r).exp()


class Process(NamedTuple):
    """A kernel with lengthscales [design] and the noise's variance over the function's."""

    kind: int
    lengthscale: Tensor
    noise: float

    def covariance(self, a: Tensor, b: Tensor) -> Tensor:
        return kernel(self.kind, ((a[:, None] - b[None]) / self.lengthscale).norm(dim=-1))

    def moments(self, x: Tensor, y: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Means, and what is left of the unit variance, noise included."""
        inverse = torch.linalg.inv(self.covariance(x, x) + self.noise * torch.eye(len(x)).double())
        cross = self.covariance(points, x)
        return cross @ inverse @ y, 1 + self.noise - (cross @ inverse * cross).sum(1)

    def evidence(self, x: Tensor, y: Tensor) -> tuple[float, float]:
        """The log scale, as if one more outcome had been of size one, and log evidence there."""
        own = self.covariance(x, x) + self.noise * torch.eye(len(x)).double()
        square = (float(y @ torch.linalg.inv(own) @ y) + 1) / (len(y) + 1)
        log_root = 0.5 * float(torch.logdet(own))
        return math.log(square) / 2, -(len(y) + 1) / 2 * math.log(square) - log_root

    def variance(self, x: Tensor, targets: Tensor) -> Tensor:
        """Of the function, summed over targets."""
        own = self.covariance(x, x) + self.noise * torch.eye(len(x)).double()
        cross = self.covariance(targets, x)
        return (1 - (cross @ torch.linalg.inv(own) * cross).sum(1)).sum()
