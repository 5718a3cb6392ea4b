"""One flush for all that wait, and each caller hears what became of its own."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from aline.app.service.scribe import Scribe
from aline.errors import StorageError, UserError
from aline.experiment.storage import Addition, Conflict, MemoryStorage


class SlowStorage(MemoryStorage):
    """Waits before each write until it is let go, and keeps how many came in each."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[int] = []
        self.go = threading.Event()

    def write(self, additions: Sequence[Addition]) -> list[UserError | None]:
        assert self.go.wait(10)
        self.groups.append(len(additions))
        return super().write(additions)


def storage_of(*names: str) -> SlowStorage:
    storage = SlowStorage()
    for name in names:
        storage.create(name, {"n": 0})
    return storage


async def start(scribe: Scribe, *additions: Addition) -> list["asyncio.Task[None]"]:
    tasks = [asyncio.create_task(scribe.write(one)) for one in additions]
    await asyncio.sleep(0)  # each is at the scribe
    return tasks


def test_what_waits_is_written_together() -> None:
    storage = storage_of("a", "b", "c")

    async def main() -> None:
        scribe = Scribe(storage)
        first = await start(scribe, Addition("a", 1, ["{}"]))
        await asyncio.sleep(0.01)  # it is on its way to the disk
        others = await start(scribe, Addition("b", 1, ["{}"]), Addition("c", 1, ["{}", "{}"]))
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in first + others)  # nothing is said before it is so
        storage.go.set()
        await asyncio.gather(*first, *others)
        scribe.close()

    asyncio.run(main())
    assert storage.groups == [1, 2]
    assert storage.lengths() == {"a": 2, "b": 2, "c": 3}


def test_each_hears_of_its_own() -> None:
    storage = storage_of("a", "b")
    storage.go.set()

    async def main() -> None:
        scribe = Scribe(storage)
        late, gone, good = await start(
            scribe,
            Addition("a", 5, ["{}"]),
            Addition("b", 1, ["{}"]),
            Addition("a", 1, ["{}"]),
        )
        gone.cancel()
        await good
        with pytest.raises(Conflict):
            await late
        scribe.close()

    asyncio.run(main())
    assert storage.lengths() == {"a": 2, "b": 1}  # who went away before is left out


def test_a_storage_that_fails_fails_all_and_is_tried_again() -> None:
    class Broken(SlowStorage):
        def write(self, additions: Sequence[Addition]) -> list[UserError | None]:
            if not self.go.is_set():
                raise StorageError("the disk is full")
            return super().write(additions)

    storage = Broken()
    storage.create("a", {"n": 0})

    async def main() -> None:
        scribe = Scribe(storage)
        for task in await start(scribe, Addition("a", 1, ["{}"]), Addition("a", 2, ["{}"])):
            with pytest.raises(StorageError, match="full"):
                await task
        storage.go.set()
        await scribe.write(Addition("a", 1, ["{}"]))
        scribe.close()

    asyncio.run(main())
    assert storage.lengths() == {"a": 2}


def test_who_was_told_to_try_again_is_not_written_later() -> None:
    storage = storage_of("a", "b")

    def give_up(written: "asyncio.Future[None]") -> None:
        asyncio.get_running_loop().call_later(0.05, end, written)

    def end(written: "asyncio.Future[None]") -> None:
        if not written.done():
            written.set_exception(StorageError("it stands still"))

    async def main() -> None:
        scribe = Scribe(storage, give_up)
        first = await start(scribe, Addition("a", 1, ["{}"]))
        await asyncio.sleep(0.01)  # it is on its way to the disk
        second = await start(scribe, Addition("b", 1, ["{}"]))
        for task in first + second:
            with pytest.raises(StorageError, match="stands still"):
                await task
        storage.go.set()
        await scribe.write(Addition("b", 1, ["{}"]))  # the same again
        scribe.close()

    asyncio.run(main())
    assert storage.lengths() == {"a": 2, "b": 2}
