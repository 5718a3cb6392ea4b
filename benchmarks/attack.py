"""What `aline serve` bears from somebody who means harm.

    python benchmarks/attack.py --output results/attack.json

Every attack has a service of its own, a process on loopback. While it lasts, one who behaves runs
an ordinary experiment beside it and looks at /health: both should be answered within 200 ms, the
service should keep under 600 MB (its own resident memory, and what its helpers have beside it), and
nothing that was acknowledged may be lost. Where the attack is on the database, an ask cannot
succeed: then what counts is how soon it is refused. Attacks are bounded in count and time: about
five minutes in all. Measure on an idle machine: attacker and witness run on the same cores.
"""

from __future__ import annotations

import argparse
import gc
import http.client
import json
import os
import random
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from serving import Nursery, Service, losses

from aline.app.service.tokens import new_token
from aline.evaluation.results import commit, result
from aline.experiment import open_storage

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import postgresql

API = "/api/v1/experiments"
BAR_SECONDS, BAR_MEGABYTES = 0.2, 600.0
PAUSE = 0.05  # seconds between looks of the one who behaves
HEADS, TRAILERS, DRAWINGS, GOALS = 1100, 8, 8, 12
Rows = list[dict[str, Any]]


@dataclass
class Target:
    """A service under attack."""

    service: Service
    token: str | None = None
    database: postgresql.Server | None = None

    def call(
        self, method: str, path: str, body: Any = None, seconds: float = 90.0
    ) -> tuple[int, Any]:
        """Status and reply, on a connection of its own."""
        one = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=seconds)
        try:
            content = None if body is None else json.dumps(body)
            one.request(method, path, content, self.headers(body is not None))
            reply = one.getresponse()
            found = reply.read()
        finally:
            one.close()
        is_json = "json" in reply.headers.get("content-type", "")
        return reply.status, json.loads(found) if is_json else found

    def headers(self, has_body: bool) -> dict[str, str]:
        """What a request says of itself."""
        kind = {"Content-Type": "application/json"} if has_body else {}
        return kind if self.token is None else {**kind, "Authorization": f"Bearer {self.token}"}

    def connect(self) -> socket.socket:
        """A connection on which nothing was said yet."""
        return socket.create_connection(("127.0.0.1", self.service.port), timeout=10)


@dataclass
class Witness:
    """One who behaves, and notes how long it takes."""

    target: Target
    name: str = "ordinary"
    acknowledged: dict[int, float] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    refused: int = 0
    megabytes: float = 0.0
    _is_over: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        """Start the experiment, and go through a few trials."""
        body = {"model": "psychometric", "name": self.name, "horizon": 10_000}
        assert self.target.call("POST", API, body)[0] == 201
        for _ in range(5):
            self._look()
        self.seconds = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look again and again, meanwhile."""
        gc.freeze()  # or our own looks for garbage would count as the service's time
        threads = [threading.Thread(target=one) for one in (self._watch, self._weigh)]
        for one in threads:
            one.start()
        try:
            yield
        finally:
            self._is_over.set()
            for one in threads:
                one.join()

    def _watch(self) -> None:
        while not self._is_over.is_set():
            self._look()
            time.sleep(PAUSE)

    def _look(self) -> None:
        self._timed("health", "GET", "/health")
        path = f"{API}/{self.name}"
        status, trial = self._timed("ask", "POST", f"{path}/ask")
        if status != 201:
            self.refused += 1
            return
        outcome = float(trial["number"] % 3 == 0)
        tell = f"{path}/trials/{trial['number']}/tell"
        status, _ = self._timed("tell", "POST", tell, {"outcome": outcome})
        if status == 200:
            self.acknowledged[trial["number"]] = outcome

    def _timed(self, what: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        began = time.perf_counter()
        try:
            return self.target.call(method, path, body)
        except OSError:
            return 0, None
        finally:
            self.seconds.setdefault(what, []).append(time.perf_counter() - began)

    def _weigh(self) -> None:
        while not self._is_over.wait(0.1):
            with suppress(OSError):
                self.megabytes = max(self.megabytes, weight(self.target.service.pid))


def weight(pid: int) -> float:
    """Megabytes of a process, and of its children what only they have."""
    own = _status(pid, "status", ("VmRSS",))
    children = Path(f"/proc/{pid}/task").glob("*/children")
    pids = [int(one) for file in children for one in file.read_text().split()]
    private = ("Private_Clean", "Private_Dirty")
    return own + sum(_status(one, "smaps_rollup", private) for one in pids)


def _status(pid: int, file: str, names: tuple[str, ...]) -> float:
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:  # it has ended
        return 0.0
    return sum(int(line.split()[1]) / 1024 for line in lines if line.split(":")[0] in names)


def points(count: int) -> list[float]:
    """Anywhere."""
    chance = random.Random(count)
    return [round(chance.uniform(-4.0, 4.0), 3) for _ in range(count)]


# The attacks.


def first_ask(target: Target) -> str:
    """A first ask with 1000 attached points."""
    target.call("POST", API, {"model": "gp1d", "name": "large"})
    data = {"designs": {"x": points(1000)}, "outcomes": points(1000)}
    attached, _ = target.call("POST", f"{API}/large/attach", data)
    status, reply = target.call("POST", f"{API}/large/ask")
    return f"attach {attached}, ask {status} {reply.get('detail', '')}"


def prediction_targets(target: Target) -> str:
    """100 x 1000 prediction targets, and as many as are allowed."""
    goal = [{"predictions": {"x": points(1000)}}]
    refused, _ = target.call("POST", API, {"model": "gp1d", "target": goal * 100})
    target.call("POST", API, {"model": "gp1d", "name": "most", "target": goal * 5})
    asked = [target.call("POST", f"{API}/most/ask")[0] for _ in range(3)]
    return f"100000 points {refused}, 5000 points {asked}"


def huge_goals(target: Target) -> str:
    """Many experiments with as many points as are allowed, all kept in use."""
    goal = [{"predictions": {"x": points(1000)}}] * 5
    names = [f"goal {number}" for number in range(GOALS)]
    asked = []
    for name in names:
        target.call("POST", API, {"model": "gp1d", "name": name, "target": goal})
        path = f"{API}/{name.replace(' ', '%20')}"
        asked.append(target.call("POST", f"{path}/ask")[0])
        target.call("POST", f"{path}/trials/0/tell", {"outcome": 0.5})
        target.call("GET", f"{path}/posterior")
    return f"asks {sorted(set(asked))}"


def trailers(target: Target) -> str:
    """Trailers without end, behind a request that lacks its token."""
    lines = b"".join(b"x-%d: y\r\n" % number for number in range(5000))
    with ThreadPoolExecutor(TRAILERS) as pool:
        sent = list(pool.map(lambda _: _send_trailers(target, lines, 500), range(TRAILERS)))
    time.sleep(1.0)
    return f"{sum(sent) * len(lines) / 1e6:.1f} MB taken from {TRAILERS} connections"


def _send_trailers(target: Target, lines: bytes, times: int) -> int:
    head = f"POST {API} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    with target.connect() as one:
        one.sendall(head.encode())
        for sent in range(times):
            try:
                one.sendall(lines)
            except OSError:
                return sent
    return times


def half_heads(target: Target) -> str:
    """1100 connections that send half a head, and then a line now and then."""
    many = []
    for _ in range(HEADS):
        with suppress(OSError):
            many.append(target.connect())
            many[-1].sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    deadline = time.monotonic() + 12
    while time.monotonic() < deadline:
        for one in many:
            with suppress(OSError):
                one.sendall(b"X: y\r\n")
        time.sleep(1.0)
    for one in many:
        one.close()
    return f"{len(many)} connections were made"


def slow_drawings(target: Target) -> str:
    """Drawings of a long experiment, as many as can wait."""
    target.call("POST", API, {"model": "psychometric", "name": "long"})
    data = {"designs": {"stimulus": points(1000)}, "outcomes": [0, 1] * 500}
    target.call("POST", f"{API}/long/attach", data)
    with ThreadPoolExecutor(DRAWINGS) as pool:
        codes = list(
            pool.map(lambda _: target.call("GET", f"{API}/long/drawing")[0], range(DRAWINGS))
        )
    return f"drawings {sorted(set(codes))}"


def refined_posteriors(target: Target) -> str:
    """Refined posteriors of 3000 trials."""
    target.call("POST", API, {"model": "psychometric", "name": "long"})
    data = {"designs": {"stimulus": points(1000)}, "outcomes": [0, 1] * 500}
    for _ in range(3):
        target.call("POST", f"{API}/long/attach", data)
    path = f"{API}/long/posterior?refined=true"
    with ThreadPoolExecutor(12) as pool:
        codes = list(pool.map(lambda _: _status_of(target, path), range(12)))
    return f"posteriors {sorted(set(codes))}"


def _status_of(target: Target, path: str) -> int:
    """What comes within half a minute; 0 if nothing does."""
    try:
        return target.call("GET", path, seconds=30)[0]
    except OSError:
        return 0


def storage_down(target: Target) -> str:
    """The database is stopped for a while."""
    assert target.database is not None
    time.sleep(1.0)
    target.database.halt()
    found = _during(target, 4.0)
    target.database.start()
    time.sleep(3.0)
    return found


def storage_frozen(target: Target) -> str:
    """The database takes connections, and answers nothing."""
    assert target.database is not None
    time.sleep(1.0)
    pids = target.database.processes()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        return _during(target, 8.0)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(3.0)


def _during(target: Target, seconds: float) -> str:
    """What a page's parts answer, and how long the slowest took."""
    deadline, longest, codes = time.monotonic() + seconds, 0.0, set()
    while time.monotonic() < deadline:
        for path in ("/static/page.css", "/login"):
            began = time.perf_counter()
            codes.add(target.call("GET", path)[0])
            longest = max(longest, time.perf_counter() - began)
        time.sleep(0.05)
    return f"page {sorted(codes)} within {1e3 * longest:.0f} ms"


Attack = Callable[[Target], str]
ATTACKS: dict[str, Attack] = {
    one.__name__: one
    for one in (
        first_ask,
        prediction_targets,
        huge_goals,
        trailers,
        half_heads,
        slow_drawings,
        refined_posteriors,
        storage_down,
        storage_frozen,
    )
}
ON_STORAGE = {"storage_down", "storage_frozen"}
WITH_TOKEN = {"trailers", *ON_STORAGE}


def measure(nursery: Nursery, folder: Path, name: str) -> Rows:
    """One attack on a service of its own."""
    database = postgresql.Server() if name in ON_STORAGE else None
    url = database.url if database is not None else f"sqlite:///{folder}/{name}.db"
    storage = open_storage(url)
    token = new_token(storage, "witness") if name in WITH_TOKEN else None
    service = nursery.start(url, requests_per_second=1e6, require_token=token is not None)
    target = Target(service, token, database)
    witness = Witness(target)
    witness.begin()
    # From another process: an attacker in this one would keep the witness waiting.
    with ProcessPoolExecutor(1, get_context("fork")) as attacker:
        attacker.submit(int).result()  # it is forked now, before there are threads
        began = time.perf_counter()
        with witness.watching():
            said = attacker.submit(ATTACKS[name], target).result()
    seconds = time.perf_counter() - began
    answers = target.call("GET", "/health")[0] == 200
    service.kill()
    lost = losses(storage, [witness])  # type: ignore[list-item]
    storage.close()
    if database is not None:
        database.stop()
    print(f"{name:20} {seconds:5.1f} s  {said}", flush=True)
    return rows_of(name, witness, lost, answers, seconds)


def rows_of(
    name: str, witness: Witness, lost: dict[str, int], answers: bool, seconds: float
) -> Rows:
    """What was measured, in the layout of every result."""
    more = {"attack": name, "seconds": round(seconds, 1), "refused": witness.refused}
    rows = [
        row(f"{what}_seconds", float(np.quantile(found, level)), len(found), quantile=level, **more)
        for what, found in witness.seconds.items()
        for level in (0.5, 0.99, 1.0)
    ]
    count = len(witness.acknowledged)
    rows.append(row("peak_megabytes", round(witness.megabytes, 1), 1, **more))
    rows += [row(what, number, count, **more) for what, number in lost.items()]
    return [*rows, row("answers_afterwards", float(answers), 1, **more)]


def row(metric: str, value: float, n: int, **more: Any) -> dict[str, Any]:
    """One number."""
    return {
        "task": "psychometric",
        "method": "aline",
        "target": "threshold,slope,guess,lapse",
        "metric": metric,
        "step": None,
        "value": value,
        "ci95": None,
        "n": n,
        "published": None,
        "commit": commit(),
        **more,
    }


def show(rows: Rows) -> None:
    """Print what was measured, and what is over its bar."""
    for one in rows:
        metric, value = one["metric"], one["value"]
        if metric.endswith("_seconds"):
            verdict = "" if value <= BAR_SECONDS else f"over {BAR_SECONDS * 1e3:.0f} ms"
            shown = f"{metric[:-8]} q{one['quantile']:g} {value * 1e3:8.1f} ms"
        else:
            is_over = metric == "peak_megabytes" and value > BAR_MEGABYTES
            verdict = f"over {BAR_MEGABYTES:.0f}" if is_over else ""
            shown = f"{metric} {value:g}"
        print(f"{one['attack']:20} {shown:32} n = {one['n']:<6} {verdict}")


def kept(file: Path, names: list[str]) -> Rows:
    """What an earlier run measured of other attacks; each row says at which commit."""
    if not file.exists():
        return []
    found: Rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return [one for one in found if one["attack"] not in names]


def main() -> None:
    """Attack, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    parser.add_argument("--attacks", nargs="+", choices=list(ATTACKS), default=list(ATTACKS))
    arguments = parser.parse_args()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(files, 4096), files))  # for our own sockets
    names = arguments.attacks
    if postgresql.find_program("initdb") is None:
        print(postgresql.REASON)
        names = [name for name in names if name not in ON_STORAGE]
    began, rows = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as folder:
        nursery = Nursery()
        for name in names:
            rows += measure(nursery, Path(folder), name)
        nursery.close()
    show(rows)
    if arguments.output:
        rows += kept(arguments.output, names)
        found = result("attack", rows, time.perf_counter() - began)
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
