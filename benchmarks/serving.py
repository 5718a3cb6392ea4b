"""Services to put under load, and the load: what the tests and benchmarks of `aline serve` share.

A service runs in a process of its own that can be killed at any moment. Processes are forked from
one that has torch loaded (`Nursery`), so that killing and starting again takes no seconds. The
load is one coroutine a participant over its own connection, with no more HTTP than is needed: on
a small machine a heavier client would measure itself.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

Json = dict[str, Any]
ECHO = "echo"  # in place of a storage: a service that does nothing


class Nursery:
    """Forks services that have nothing left to import."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def start(self, storage: str, port: int | None = None, **settings: Any) -> Service:
        """A service that answers."""
        settings = {"storage": storage, "port": port or free_port(), **settings}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(settings) + "\n")
        self._process.stdin.flush()
        service = Service(int(self._process.stdout.readline()), settings["port"], storage)
        service.wait()
        return service

    def close(self) -> None:
        """End; services that run go on."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()


@dataclass(frozen=True)
class Service:
    """A running service."""

    pid: int
    port: int
    storage: str

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """SIGKILL, and wait until its port is free."""
        os.kill(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while _connects(self.port) and time.monotonic() < deadline:
            time.sleep(0.005)

    def wait(self) -> None:
        """Until it takes connections."""
        deadline = time.monotonic() + 120
        while not _connects(self.port):
            assert time.monotonic() < deadline, "the service did not start"
            time.sleep(0.01)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _connects(port: int) -> bool:
    with socket.socket() as one:
        one.settimeout(1.0)
        return one.connect_ex(("127.0.0.1", port)) == 0


def _raise_services() -> None:
    """The nursery: fork a service for every line of settings."""
    import logging

    import uvicorn

    from aline.app.service.app import create_app
    from aline.app.service.serve import options
    from aline.app.service.settings import Settings

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that die
    for line in sys.stdin:
        given = json.loads(line)
        is_echo = given["storage"] == ECHO
        settings = Settings(**{**given, "storage": "memory://"} if is_echo else given)
        child = os.fork()
        if child:
            print(child, flush=True)
            continue
        os.close(0)
        os.close(1)
        logging.disable(logging.INFO)
        app = echo if is_echo else create_app(settings)
        uvicorn.run(app, **{**options(settings), "log_level": "error"})
        os._exit(0)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """A service that reads a call and answers like ours, and does nothing else."""
    if scope["type"] != "http":
        return
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    status = 200 if scope["path"].endswith("/tell") else 201
    trial = {"number": 0, "state": "asked", "source": "asked", "design": {"stimulus": 0.25}}
    body = json.dumps({**trial, "proposed": None, "outcome": None, "note": None}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Connection:
    """One HTTP/1.1 connection that stays open, and opens again when it was lost."""

    def __init__(self, port: int):
        self.port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def call(
        self, method: str, path: str, body: Json | None = None, key: str | None = None
    ) -> tuple[int, Json]:
        """Status and reply; OSError or EOFError if none came."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        assert self._reader is not None
        content = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} /api/v1{path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        head += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        head += [f"Idempotency-Key: {key}"] if key else []
        try:
            self._writer.write("\r\n".join([*head, "", ""]).encode() + content)
            await self._writer.drain()
            return await self._read(self._reader)
        except (OSError, EOFError):
            self.close()
            raise

    @staticmethod
    async def _read(reader: asyncio.StreamReader) -> tuple[int, Json]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        length = next(int(h[15:]) for h in head if h.lower().startswith("content-length:"))
        body = await reader.readexactly(length)
        return int(head[0].split()[1]), json.loads(body)

    def close(self) -> None:
        """Let the connection go."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


@dataclass
class Participant:
    """One experiment of a load: what was asked, told and acknowledged, and how long it took."""

    name: str
    acknowledged: dict[int, float] = field(default_factory=dict)  # trial -> outcome
    asks: list[float] = field(default_factory=list)  # seconds
    tells: list[float] = field(default_factory=list)
    retries: int = 0

    async def run(
        self,
        ports: list[int],
        trials: int,
        think: float = 0.0,
        together: asyncio.Barrier | None = None,
    ) -> None:
        """Tell so many trials, through each port in turn, repeating what got no reply.

        Where experiments begin together, the first trial waits until all of them exist.
        """
        with ExitStack() as opened:  # closed even when the load is called off
            connections = [opened.enter_context(closing(Connection(port))) for port in ports]
            await self._create(connections[0], trials)
            if together is not None:
                await together.wait()
            await self._answer(connections, trials, think)

    async def _create(self, connection: Connection, trials: int) -> None:
        create = {"model": "psychometric", "name": self.name, "horizon": trials}
        await self._insist(connection, "/experiments", create, 201)

    async def _answer(self, connections: list[Connection], trials: int, think: float) -> None:
        path = f"/experiments/{quote(self.name, safe='')}"
        chance = random.Random(self.name)  # people do not answer in step
        await asyncio.sleep(think * chance.uniform(0.0, 2.0))
        for turn in range(trials):
            one = connections[turn % len(connections)]
            trial, seconds = await self._insist(one, f"{path}/ask", None, 201)
            self.asks.append(seconds)
            await asyncio.sleep(think * chance.uniform(0.5, 1.5))
            number, outcome = trial["number"], float(trial["number"] % 3 == 0)
            one = connections[(turn + 1) % len(connections)]
            _, seconds = await self._insist(
                one, f"{path}/trials/{number}/tell", {"outcome": outcome}, 200
            )
            self.tells.append(seconds)
            self.acknowledged[number] = outcome

    async def _insist(
        self, connection: Connection, path: str, body: Json | None, expected: int
    ) -> tuple[Json, float]:
        """Call until there is a reply, always with the same key; the last try's seconds."""
        key = uuid.uuid4().hex
        while True:
            began = time.perf_counter()
            try:
                status, reply = await connection.call("POST", path, body, key)
            except (OSError, EOFError):
                status, reply = 503, {}
            if status == 503:
                self.retries += 1
                await asyncio.sleep(0.02)
                continue
            assert status == expected, (status, reply)
            return reply, time.perf_counter() - began


async def load(
    ports: list[int],
    experiments: int,
    trials: int,
    think: float = 0.0,
    prefix: str = "load",
    hopping: bool = True,
) -> list[Participant]:
    """Run experiments at the same time; their trials begin when all of them exist.

    Participants are spread over the ports, or each hops from port to port with every call.
    """
    gc.collect()
    gc.freeze()  # or looks through all that was imported would count as the service's time
    people = [Participant(f"{prefix} {number}") for number in range(experiments)]
    together = asyncio.Barrier(experiments)
    mine = [ports if hopping else [ports[i % len(ports)]] for i in range(experiments)]
    await asyncio.gather(
        *(one.run(p, trials, think, together) for one, p in zip(people, mine, strict=True))
    )
    return people


def write_long_journal(storage: Any, trials: int) -> None:
    """An experiment "long", as thousands of calls with a key each would have left it."""
    import aline
    from aline.experiment.storage import Addition
    from aline.experiment.storage.base import to_text

    chance = random.Random(0)
    aline.Experiment(aline.load("psychometric"), storage=storage, name="long", horizon=2 * trials)
    events: list[Json] = []
    for number in range(trials):
        stimulus = chance.uniform(-5, 5)
        outcome = float(chance.random() < 0.5 + 0.1 * stimulus)
        same = {"trial": number, "time": "2026-01-01T00:00:00.000+00:00"}
        asked = {"event": "asked", "design": {"stimulus": stimulus}, "key": f"ask {number}"}
        told = {"event": "told", "outcome": outcome, "key": f"tell {number}"}
        events += [{**asked, **same}, {**told, **same}]
    assert storage.write([Addition("long", 1, [to_text(one) for one in events])]) == [None]


async def kill_under_load(
    nursery: Nursery, service: Service, experiments: int, kills: int, seconds: float
) -> tuple[list[Participant], int]:
    """Load a service and kill it again and again, each time after `seconds` at work.

    Returns the participants, and how many kills hit while calls were being made.
    """
    trials = 10**4  # more than there is time for
    people = [Participant(f"killed {number}") for number in range(experiments)]
    tasks = [asyncio.create_task(one.run([service.port], trials)) for one in people]
    for _ in range(kills):
        before = sum(len(one.acknowledged) for one in people)
        while sum(len(one.acknowledged) for one in people) == before:  # it is at work again
            await asyncio.sleep(0.005)
            for task in tasks:
                if task.done():
                    task.result()
        await asyncio.sleep(seconds)
        await asyncio.to_thread(service.kill)
        service = await asyncio.to_thread(nursery.start, service.storage, service.port)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    service.kill()
    return people, sum(one.retries for one in people)


def losses(storage: Any, people: Iterable[Participant]) -> dict[str, int]:
    """What a storage lost or holds twice of what was acknowledged: all zero is right."""
    lost = wrong = doubled = 0
    for one in people:
        told: dict[int, list[float]] = {}
        asked: list[int] = []
        for event in storage.read(one.name):
            if event["event"] == "told":
                told.setdefault(event["trial"], []).append(event["outcome"])
            elif event["event"] == "asked":
                asked.append(event["trial"])
        doubled += sum(len(outcomes) - 1 for outcomes in told.values())
        doubled += len(asked) - len(set(asked))
        lost += sum(number not in told for number in one.acknowledged)
        wrong += sum(
            number in told and told[number][0] != outcome
            for number, outcome in one.acknowledged.items()
        )
    return {"lost": lost, "doubled": doubled, "wrong": wrong}


if __name__ == "__main__" and sys.argv[1:] == ["nursery"]:
    _raise_services()
