"""Live updates arrive at once from this process and soon from others."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.request import urlopen

import pytest
from serving import Connection, Nursery, Service

from aline.app.service.metrics import Metrics
from aline.app.service.streams import FullError, Streams
from aline.app.service.tokens import new_token
from aline.errors import StorageError
from aline.experiment.storage import MemoryStorage


async def take(stream: AsyncIterator[str]) -> str:
    return await asyncio.wait_for(anext(stream), 10)


def test_changes_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aline.app.service.streams.LOOK_SECONDS", 0.01)
    lengths = {"a": 1, "b": 1}

    async def look(names: list[str]) -> dict[str, int]:
        return {name: lengths[name] for name in names}

    async def main() -> None:
        streams = Streams(look, 2, Metrics())
        streams.start()
        seats = streams.take(), streams.take()
        one, two = streams.listen("a", 1, seats[0]), streams.listen("b", 1, seats[1])
        assert 'sequence": 1' in await take(one)
        await take(two)
        with pytest.raises(FullError, match="2 live updates are open"):
            streams.take()
        streams.changed("a", 2)
        lengths["a"] = 2
        assert "id: 2\nevent: changed" in await take(one)
        lengths["b"] = 7  # by another process
        assert "id: 7" in await take(two)
        await one.aclose()
        streams.leave(seats[0])
        streams.leave(streams.take())
        await streams.stop()
        with pytest.raises(StopAsyncIteration):
            await take(two)

    asyncio.run(main())


def test_quiet_streams_are_kept_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aline.app.service.streams.QUIET_SECONDS", 0.01)

    async def look(names: list[str]) -> dict[str, int]:
        return {}

    async def main() -> None:
        streams = Streams(look, 2, Metrics())
        streams.start()
        one = streams.listen("a", 1, streams.take())
        await take(one)
        assert (await take(one)).startswith(":")
        await one.aclose()
        await streams.stop()

    asyncio.run(main())


def test_over_http_between_two_processes(nursery: Nursery, service: Service) -> None:
    other = nursery.start(service.storage)

    async def post(port: int, path: str, body: dict[str, object] | None = None) -> None:
        connection = Connection(port)
        await connection.call("POST", path, body)
        connection.close()

    asyncio.run(post(service.port, "/experiments", {"model": "psychometric", "name": "watched"}))
    with urlopen(f"{service.url}/api/v1/experiments/watched/events", timeout=20) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert b"id: 1" in stream.readline()
        asyncio.run(post(service.port, "/experiments/watched/ask"))
        lines = iter(stream.readline, b"")
        assert next(line for line in lines if line.startswith(b"id:")) == b"id: 2\n"
        asyncio.run(post(other.port, "/experiments/watched/trials/0/tell", {"outcome": 1}))
        assert next(line for line in lines if line.startswith(b"id:")) == b"id: 3\n"
    other.kill()


def test_the_watcher_outlives_a_storage_that_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It died at the first failure, and changes of other processes were never seen again."""
    monkeypatch.setattr("aline.app.service.streams.LOOK_SECONDS", 0.01)
    answers: list[Exception | int] = [StorageError("down"), OSError("odd"), 5]

    async def look(names: list[str]) -> dict[str, int]:
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, Exception):
            raise found
        return dict.fromkeys(names, found)

    async def main() -> None:
        streams = Streams(look, 2, Metrics())
        streams.start()
        one = streams.listen("a", 1, streams.take())
        await take(one)
        assert "id: 5" in await take(one)
        await one.aclose()
        await streams.stop()

    asyncio.run(main())
    assert [line for line in caplog.messages if "live updates" in line] == [
        "live updates: cannot look (down)",
        "live updates: look again",
    ]


def test_as_many_as_there_may_be_and_not_one_more(serve_here: Any) -> None:
    """Many that came at once all passed, as the count was taken before something was awaited."""
    server = serve_here(streams=3)
    server.call("POST", "/api/v1/experiments", {"model": "psychometric", "name": "a"})
    request = b"GET /api/v1/experiments/a/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    open_ones = [server.connect() for _ in range(12)]
    for one in open_ones:
        one.sendall(request)
    codes = sorted(one.recv(65536)[9:12] for one in open_ones)
    assert codes == [b"200"] * 3 + [b"429"] * 9
    for one in open_ones:
        one.close()
    deadline = time.monotonic() + 5
    while b"aline_streams 0.0" not in server.call("GET", "/metrics")[2]:
        assert time.monotonic() < deadline  # every seat is given back
        time.sleep(0.02)
    assert server.call("GET", "/api/v1/experiments/none/events")[0] == 404
    assert b"aline_streams 0.0" in server.call("GET", "/metrics")[2]


def test_a_stream_ends_with_its_token(serve_here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aline.app.service.streams.LOOK_SECONDS", 0.05)
    monkeypatch.setattr("aline.app.service.tokens.FRESH", 0.1)
    storage = MemoryStorage()
    token = new_token(storage, "tablet")
    server = serve_here(storage, require_token=True)
    known = {"Authorization": f"Bearer {token}"}
    server.call("POST", "/api/v1/experiments", {"model": "psychometric", "name": "a"}, **known)
    head = b"GET /api/v1/experiments/a/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    with server.connect() as one:
        one.sendall(head + f"Authorization: Bearer {token}\r\n\r\n".encode())
        assert one.recv(65536).startswith(b"HTTP/1.1 200")
        storage.remove_token("tablet")
        one.settimeout(5)
        found = b""
        while not found.endswith(b"0\r\n\r\n"):  # the last piece
            found += one.recv(65536)
