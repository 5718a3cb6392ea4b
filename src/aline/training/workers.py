"""More than one process on one training: PyTorch's DistributedDataParallel, started by torchrun.

Every worker plays its share of the batch and gradients are averaged, so the global batch, and with
it the learning curve, is that of one process. The first worker alone writes, shows and keeps time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from aline.errors import InputError


@dataclass(frozen=True)
class Workers:
    """The processes of a training, and which of them this is."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """The one that writes."""
        return self.rank == 0

    def share_of(self, batch: int) -> int:
        """This worker's part of a batch."""
        if batch % self.count:
            raise InputError(
                f"the batch must be a multiple of the number of workers, got a batch of {batch} "
                f"and {self.count} workers"
            )
        return batch // self.count

    def agree(self, value: float) -> float:
        """The first worker's number, for all: clocks differ, decisions must not."""
        if self.count == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64)
        distributed.broadcast(shared, src=0)
        return float(shared.item())

    def together(self, module: nn.Module) -> nn.Module:
        """The module with its gradients averaged over all workers."""
        if self.count == 1:
            return module
        # Some updates leave the policy, or before the joint phase a head, without a gradient.
        return DistributedDataParallel(module, find_unused_parameters=True)


def launched() -> Workers:
    """What torchrun says about this process; one worker where it was started plainly."""
    if not distributed.is_torchelastic_launched():
        return Workers()
    return Workers(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))


def was_restarted() -> bool:
    """Whether torchrun started this group of workers again after losing one."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextmanager
def joined() -> Iterator[Workers]:
    """The workers of this training, connected while it runs."""
    workers = launched()
    if workers.count == 1 or distributed.is_initialized():
        yield workers
        return
    distributed.init_process_group("gloo")
    try:
        yield workers
    finally:
        distributed.destroy_process_group()
