"""Live updates arrive at once from this process and soon from others."""

import asyncio
from collections.abc import AsyncIterator
from urllib.request import urlopen

import pytest
from serving import Connection, Nursery, Service

from aline.app.service.metrics import Metrics
from aline.app.service.streams import FullError, Streams


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
