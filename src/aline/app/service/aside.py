"""Large work in a process of its own: it holds up nobody, and it ends.

A thread would share Python's lock, and the memory, with all requests. A fork has the experiment as
it is for nothing, computes on its own, sends back what it found, and can be stopped. Where forks
are not safe beside threads (anywhere but on Linux) a thread must do.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any, NoReturn, TypeVar

from aline import errors
from aline.app.service.pools import BusyError, Pool
from aline.errors import StateError, UserError

Result = TypeVar("Result")
Found = tuple[Any, float]  # what work returned or raised, and its seconds

MEGABYTE = 1_000_000
CAN_FORK = sys.platform == "linux"
PR_SET_PDEATHSIG = 1  # of prctl(2), which Python lacks
_LIBC = ctypes.CDLL(None) if CAN_FORK else None  # here: in a fork loading might wait for a lock
# Without memory Python raises MemoryError; torch and ONNX Runtime raise errors of their own.
_NO_MEMORY = ("can't allocate memory", "Failed to allocate memory", "bad_alloc")


class Aside:
    """Does large work, one after the other."""

    def __init__(self, name: str, *, most_bytes: int, seconds: float, waiting: int):
        self._seconds, self._most_bytes = seconds, most_bytes
        self._pool = Pool(name, 1, waiting)
        self._children: set[int] = set()
        self._is_open = True
        # Python warns that locks which other threads hold stay held in a fork: ours takes none.
        warnings.filterwarnings("ignore", r"This process .* is multi-threaded, use of fork")

    async def run(self, work: Callable[..., Result], *arguments: Any) -> tuple[Result, float]:
        """What `work` returns, JSON data or bytes, and the seconds that it computed for."""
        found, seconds = await self._pool.run(self._do, functools.partial(work, *arguments))
        if isinstance(found, Exception):
            raise found
        return found, seconds

    def _do(self, work: Callable[[], Any]) -> Found:
        return self._in_a_fork(work) if CAN_FORK else timed(work)

    def _in_a_fork(self, work: Callable[[], Any]) -> Found:
        reading, writing = os.pipe()
        service, child = os.getpid(), os.fork()
        if child == 0:
            _end_with(service)
            _be_the_child(work, writing, self._seconds, self._most_bytes)
        os.close(writing)
        self._children.add(child)
        try:
            return self._understood(_read(reading, self._seconds))
        finally:
            os.close(reading)
            self._children.discard(child)
            _end(child)

    def _understood(self, data: bytes | None) -> Found:
        if data:
            return _decoded(data)
        if not self._is_open:
            return BusyError("the service is stopping: try again"), 0.0
        return self._too_large(is_late=data is None), self._seconds

    def _too_large(self, is_late: bool) -> StateError:
        bound = f"{self._seconds:g} s" if is_late else f"{self._most_bytes // MEGABYTE} MB"
        remedy = "" if is_late else "give aline serve more --memory, "
        return StateError(
            f"this takes more than {bound} with so much data: {remedy}begin an experiment with "
            "fewer observations, or compute it in Python, Experiment.resume(storage, name)"
        )

    def close(self) -> None:
        """Stop what is being done."""
        self._is_open = False
        self._pool.close()
        for child in list(self._children):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def timed(work: Callable[..., Any], *arguments: Any) -> Found:
    """What work returns, and the seconds that it computed for, however busy the machine is."""
    began = time.thread_time()
    return work(*arguments), time.thread_time() - began


def _end_with(service: int) -> None:
    """Die when the service is killed: it can end nothing then, and this may wait for ever."""
    assert _LIBC is not None
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != service:  # it was killed a moment ago
        os._exit(1)


def _be_the_child(
    work: Callable[[], Any], writing: int, seconds: float, most_bytes: int
) -> NoReturn:
    """Compute, answer, and leave without a trace: nothing here is this process's own."""
    try:
        # Sockets that stay open here would keep clients waiting that the service hung up on.
        os.closerange(3, writing)
        os.closerange(writing + 1, 65536)
        _bound(seconds, most_bytes)
        _write(writing, _encoded(*_outcome(work)))
    finally:
        os._exit(0)


def _bound(seconds: float, most_bytes: int) -> None:
    import resource  # which Windows lacks

    wanted = {
        resource.RLIMIT_CPU: int(seconds) + 1,
        resource.RLIMIT_DATA: _data_bytes() + most_bytes,
    }
    for what, most in wanted.items():
        hard = resource.getrlimit(what)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (allowed, hard))


def _data_bytes() -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmData"))


def _outcome(work: Callable[[], Any]) -> Found:
    try:
        return timed(work)
    except UserError as error:
        return error, 0.0
    except Exception as error:
        if isinstance(error, MemoryError) or any(one in str(error) for one in _NO_MEMORY):
            raise  # no answer means too large
        return RuntimeError(f"{type(error).__name__}: {error}"), 0.0


def _encoded(found: Any, seconds: float) -> bytes:
    """What a child found, as a line of JSON, and bytes as they are: nothing of it can run."""
    if isinstance(found, bytes):
        return json.dumps({"seconds": seconds}).encode() + b"\n" + found
    if isinstance(found, Exception):
        plain = {"error": type(found).__name__, "message": str(found)}
    else:
        plain = {"value": found}
    return json.dumps({**plain, "seconds": seconds}).encode() + b"\n"


def _decoded(data: bytes) -> Found:
    line, _, found = data.partition(b"\n")
    plain = json.loads(line)
    seconds = plain["seconds"]
    if "error" in plain:
        kind = getattr(errors, plain["error"], RuntimeError)
        return kind(plain["message"]), seconds
    return plain.get("value", found), seconds


def _write(writing: int, data: bytes) -> None:
    while data:
        data = data[os.write(writing, data) :]


def _read(reading: int, seconds: float) -> bytes | None:
    """All that the child wrote; None if it did not end in time."""
    deadline = time.monotonic() + seconds
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        part = os.read(reading, 65536)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _end(child: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    with suppress(ChildProcessError):  # where nobody wants to hear of children, they are gone
        os.waitpid(child, 0)


def free_cached_properties() -> None:
    """Let threads compute cached properties of different objects at the same time.

    Until Python 3.12 each such property has one lock for all objects of its class: a large
    experiment's posterior would keep every other one waiting, and a fork might find it locked for
    ever. Without it, as in later versions, at worst the same is computed twice.
    """
    for one in _cached_properties():
        if hasattr(one, "lock"):
            one.lock = nullcontext()


def _cached_properties() -> Iterator[Any]:
    ours = [module for name, module in list(sys.modules.items()) if name.startswith("aline.")]
    classes = {one for module in ours for one in vars(module).values() if isinstance(one, type)}
    found = (one for kind in classes for one in vars(kind).values())
    return (one for one in found if isinstance(one, functools.cached_property))
