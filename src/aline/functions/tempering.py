"""Weights that would leave too few effective draws are raised to a power below one."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST_LOG = -25.0  # of a power
HALVINGS = 16  # of the interval in which it is sought


def tempering_power(log_weight: Tensor, effective: float) -> Tensor:
    """The power [batch, 1], at most one, that leaves so many effective weights [batch, n]."""
    # Minus infinity times zero would be no number.
    log_weight = (log_weight - log_weight.amax(1, keepdim=True)).clamp_min(-1e9)
    low, high = torch.full_like(log_weight[:, :1], LEAST_LOG), torch.zeros_like(log_weight[:, :1])
    log_power = high
    for _ in range(HALVINGS):
        found = 1 / (log_power.exp() * log_weight).softmax(1).square().sum(1, keepdim=True)
        enough = found >= effective
        low, high = torch.where(enough, log_power, low), torch.where(enough, high, log_power)
        log_power = torch.where(low == 0, low, 0.5 * (low + high))
    return low.exp()
