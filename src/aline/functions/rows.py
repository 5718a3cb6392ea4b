"""Tensors that grow as an experiment goes on."""

from __future__ import annotations

import torch
from torch import Tensor


class Rows:
    """A tensor that grows along its third axis, without a copy for whoever comes first."""

    def __init__(self, first: Tensor, room: int = 0):
        shape = list(first.shape)
        self.used = shape[2]
        shape[2] += room
        self.buffer = first.new_empty(shape)
        self.buffer[:, :, : self.used] = first

    def append(self, known: int, more: Tensor) -> Rows:
        """With more rows behind the first `known`."""
        total = known + more.shape[2]
        if self.used == known and total <= self.buffer.shape[2]:
            self.buffer[:, :, known:total] = more
            self.used = total
            return self
        return Rows(torch.cat([self.buffer[:, :, :known], more], 2), room=total)
