"""Work in a process of its own, and what calls cost."""

import asyncio
import ctypes
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import aline
from aline.app.service.aside import Aside, _data_bytes, free_cached_properties
from aline.app.service.costs import Costs
from aline.app.service.lab import Lab
from aline.app.service.lately import Lately
from aline.app.service.pools import BusyError, Pool
from aline.app.service.weight import weigh
from aline.engine import runner_for
from aline.errors import InputError, StateError, StorageError
from aline.experiment import Experiment
from aline.experiment.state import State
from aline.experiment.storage import MemoryStorage


def run(work: Callable[[], Any], **limits: Any) -> Any:
    async def main() -> Any:
        one = Aside(
            "test",
            most_bytes=limits.get("most_bytes", 100_000_000),
            seconds=limits.get("seconds", 10),
            waiting=2,
        )
        try:
            return (await one.run(work))[0]
        finally:
            one.close()

    return asyncio.run(main())


def test_it_is_another_process_and_this_one_gets_the_result() -> None:
    here = os.getpid()
    assert run(lambda: [os.getppid(), {"a": [1.5]}]) == [here, {"a": [1.5]}]
    for found in (b"", b'{"x":\n1}\n\n\x00\xff', None, ""):
        assert run(lambda found=found: found) == found


def test_mistakes_come_back_as_they_are() -> None:
    def refuse() -> None:
        raise InputError("x must be small, got 7")

    def fail() -> None:
        raise ArithmeticError("no numbers")

    with pytest.raises(InputError, match="got 7"):
        run(refuse)
    with pytest.raises(RuntimeError, match="ArithmeticError: no numbers"):
        run(fail)


def test_too_long_and_too_large_end() -> None:
    with pytest.raises(StateError, match=r"more than 0\.2 s"):
        run(lambda: time.sleep(60), seconds=0.2)
    for work in (
        lambda: torch.zeros(10**9).sum(),
        lambda: np.ones(10**9).sum(),
        lambda: os._exit(1),
    ):
        with pytest.raises(StateError, match="more than 50 MB"):
            run(work, most_bytes=50_000_000)


@pytest.fixture
def no_large_holes() -> Iterator[None]:
    """Hold what malloc keeps of freed memory in blocks of 64 MiB: all larger ones are new memory.

    Other threads' heaps are no larger than that.
    """
    libc, held, known = ctypes.CDLL(None), [], 0
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    while not held or _data_bytes() == known:
        known = _data_bytes()
        held.append(libc.malloc(1 << 26))
    yield
    for block in held:
        libc.free(block)


DOCUMENTED = b"\x32\x80\x80\x80\x20" + bytes(1 << 26)  # a doc_string, field 6 of ONNX's files


@pytest.mark.usefixtures("no_large_holes")
@pytest.mark.parametrize(
    ("observed", "more"), [(10, DOCUMENTED), (30_000, b"")], ids=["to begin a session", "to run"]
)
def test_onnx_runtime_without_memory_is_too_large_too(observed: int, more: bytes) -> None:
    """20,000 observations were a bug in aline: its error is none that Python knows.

    It wants 67 MB twice, or 96 MB at once. (A bound of 1 MB may be no bound, as a process that has
    lived for long has freed much, which its forks use first.)
    """
    experiment = Experiment(aline.load("psychometric"))
    experiment.attach({"stimulus": [0.0] * observed}, [0, 1] * (observed // 2))
    runner_for(experiment.model)._graph += more  # type: ignore[attr-defined]
    with pytest.raises(StateError, match="more than 90 MB"):
        run(lambda: experiment.posterior().mean, most_bytes=90_000_000)


def test_it_begins_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """That would take longer than the work itself, and count as what the work costs."""
    model = Lab(MemoryStorage()).model("psychometric")
    posterior = Experiment(model).posterior()

    def fail(graph: bytes) -> None:
        raise AssertionError("a session was begun")

    monkeypatch.setattr("aline.engine.runners._session", fail)
    assert run(lambda: Experiment(model).posterior().mean) == pytest.approx(posterior.mean)


def test_a_graph_weighs_on_no_experiment() -> None:
    """All with a model share it."""
    experiment = Experiment(aline.load("psychometric"))
    experiment.ask()
    graph = runner_for(experiment.model)._graph  # type: ignore[attr-defined]
    assert weigh(experiment) < len(graph)


def test_it_ends_with_the_service(tmp_path: Path) -> None:
    """It stayed when the service was killed, and held its terminal; what waits has no CPU time."""

    def wait() -> None:
        (tmp_path / "part").write_text(str(os.getpid()))
        (tmp_path / "part").rename(tmp_path / "helper")
        time.sleep(60)

    service = os.fork()
    if service == 0:
        run(wait, seconds=60)
        os._exit(0)
    eventually((tmp_path / "helper").exists)
    helper = int((tmp_path / "helper").read_text())
    os.kill(service, signal.SIGKILL)
    os.waitpid(service, 0)
    eventually(lambda: not is_running(helper))


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_what_others_lock_is_free_in_it() -> None:
    """Python 3.11 has one lock a cached property; a fork would find it locked for ever."""
    free_cached_properties()
    for one in vars(State).values():
        if isinstance(one, cached_property) and hasattr(one, "lock"):
            assert not isinstance(one.lock, type(threading.RLock()))


def test_a_pool_takes_no_more_than_it_bears() -> None:
    go = threading.Event()

    async def main() -> None:
        pool = Pool("few", 1, 2)
        taken = [asyncio.ensure_future(pool.run(go.wait, 10)) for _ in range(3)]
        await asyncio.sleep(0.01)
        with pytest.raises(BusyError, match="2 requests of this kind wait"):
            await pool.run(print)
        go.set()
        await asyncio.gather(*taken)
        await asyncio.sleep(0.01)
        assert await pool.run(int, "7") == 7
        pool.close()

    asyncio.run(main())


def test_a_pool_does_not_wait_for_ever() -> None:
    go = threading.Event()

    async def main() -> None:
        asked = Lately(lambda: go.wait(10), fresh=0.0, silent=0.1)  # a storage that stands still
        pool = Pool("short", 1, 2, asked.watch)
        began = time.perf_counter()
        with pytest.raises(StorageError, match=r"did not answer within 0\.\d+ s"):
            await pool.run(go.wait, 10)
        assert time.perf_counter() - began < 0.5
        go.set()
        pool.close()

    asyncio.run(main())


def test_costs_are_never_guessed_too_low() -> None:
    costs = Costs()
    assert costs.guess("ask", 5) == math.inf
    costs.learn("ask", 10, 0.003)
    assert costs.guess("ask", 10) == costs.guess("ask", 2) == pytest.approx(0.003)
    assert costs.guess("ask", 12) < 0.006
    assert costs.guess("ask", 1000) > 60  # a thousand points may take a minute
    assert costs.guess("tell", 10) == math.inf
    costs.learn("ask", 1000, 0.009)
    assert costs.guess("ask", 900) == pytest.approx(0.009)


def test_one_cheap_call_does_not_mislead() -> None:
    costs = Costs()
    costs.learn("ask", 100, 1.0)
    costs.learn("ask", 100, 0.0)  # it found its work done
    assert costs.guess("ask", 100) == 0.5
