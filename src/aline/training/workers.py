"""More than one process on one training: PyTorch's DistributedDataParallel.

Every worker plays its share of the batch and gradients are averaged, so the global batch, and with
it the learning curve, is that of one process. The first worker alone writes, shows and keeps time.
Workers on one machine are started by `accompanied`, those of a cluster by torchrun. A core does
more as a worker than as a thread: most operations here are too small to be shared.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from aline.errors import InputError, UserError

MOST = 4  # workers where nothing is said: the batch is shared, and a small share is not quicker
WORKER = "ALINE_WORKER"  # rank, count and meeting place of a worker that `accompanied` started
# Where workers of one machine talk to each other: a laptop's own name often leads nowhere.
LOOPBACK = {"linux": "lo", "darwin": "lo0"}


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
        # Some updates leave the policy, or before the joint phase a head, without a gradient; and
        # torch warns of an update that does not.
        module.register_parameter("never_used", nn.Parameter(torch.zeros(())))
        with warnings.catch_warnings():  # later versions call the last one by another name
            warnings.simplefilter("ignore", FutureWarning)
            return DistributedDataParallel(
                module,
                find_unused_parameters=True,
                gradient_as_bucket_view=True,
                broadcast_buffers=False,  # which are constants
            )


def launched() -> Workers:
    """What this process was started as; one worker where it was started plainly."""
    if WORKER in os.environ:
        rank, count, _ = os.environ[WORKER].split(" ", 2)
        return Workers(int(rank), int(count))
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
    if WORKER in os.environ:
        place = Path(os.environ[WORKER].split(" ", 2)[2])
        _marker(place, workers.rank).touch()
        distributed.init_process_group(
            "gloo", init_method=place.as_uri(), rank=workers.rank, world_size=workers.count
        )
    else:
        distributed.init_process_group("gloo")
    try:
        yield workers
    except RuntimeError as error:
        # What gloo says when the other end of a connection is gone.
        if any(words in str(error) for words in ("Connection", "closed by peer", "Timed out")):
            raise UserError("a worker of this training was lost: go on with --resume") from None
        raise
    finally:
        distributed.destroy_process_group()


def usual_count(batch: int) -> int:
    """As many workers as this process may use cores, where the batch can be shared so."""
    if sys.platform not in LOOPBACK:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return next(n for n in range(min(cores or 1, MOST), 0, -1) if batch % n == 0)


@contextmanager
def accompanied(count: int, arguments: Sequence[str]) -> Iterator[None]:
    """Make this process the first of so many workers, the others started as `aline ARGUMENTS`."""
    if count == 1:
        yield
        return
    before, threads = dict(os.environ), torch.get_num_threads()
    if sys.platform in LOOPBACK:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK[sys.platform])
    with ExitStack() as opened:
        opened.callback(os.environ.update, before)
        opened.callback(os.environ.clear)
        opened.callback(torch.set_num_threads, threads)
        place = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="aline-"))) / "meeting"
        children = {}
        for rank in range(1, count):
            child = children[rank] = subprocess.Popen(
                [sys.executable, "-m", "aline", *arguments],
                env={**os.environ, WORKER: f"{rank} {count} {place}", "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the first worker, which ends the others
            )
            opened.callback(child.wait)
            opened.callback(child.kill)
        for rank, child in children.items():
            _wait_for(child, _marker(place, rank))
        os.environ[WORKER] = f"0 {count} {place}"
        torch.set_num_threads(1)
        yield


def _marker(place: Path, rank: int) -> Path:
    """A file that says that a worker has come so far as to join."""
    return place.with_name(f"worker-{rank}")


def _wait_for(child: subprocess.Popen[bytes], marker: Path) -> None:
    """Until a worker is there; the first would wait in vain for one that cannot start."""
    while not marker.exists():
        if child.poll() is not None:
            raise UserError("a worker could not start: --workers 1 shows why")
        time.sleep(0.02)
