"""Importance weights that stay spread over enough draws."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST_LOG = -25.0  # of a power of weights
HALVINGS = 16  # of the interval in which it is sought


def tempering_power(log_weight: Tensor, least: float) -> Tensor:
    """The power [batch, 1], at most 1, of weights [batch, n] that leaves `least` effective ones."""
    # What cannot be is very unlikely: minus infinity times nothing is no number.
    log_weight = (log_weight - log_weight.amax(1, keepdim=True)).clamp_min(-1e9)
    low, high = torch.full_like(log_weight[:, :1], LEAST_LOG), torch.zeros_like(log_weight[:, :1])
    log_power = high
    for _ in range(HALVINGS):
        effective = 1 / (log_power.exp() * log_weight).softmax(1).square().sum(1, keepdim=True)
        enough = effective >= least
        low, high = torch.where(enough, log_power, low), torch.where(enough, high, log_power)
        log_power = torch.where(low == 0, low, 0.5 * (low + high))
    return low.exp()


def tempered(log_weight: Tensor, least: float) -> Tensor:
    """Weights [batch, n] that leave at least `least` effective draws.

    Where few of many draws fit the data, their weights are raised to a power below one.
    """
    return (tempering_power(log_weight, least) * log_weight).softmax(1)
