"""Many at once, and SIGKILL in their midst: nothing lost, nothing doubled.

benchmarks/service.py measures the same with larger numbers.
"""

import asyncio
from pathlib import Path

import postgresql as postgresql_server
from serving import Connection, Nursery, Service, kill_under_load, load, losses

from aline.experiment import open_storage

NOTHING = {"lost": 0, "doubled": 0, "wrong": 0}
KILLS = 5


def test_experiments_at_the_same_time(service: Service) -> None:
    people = asyncio.run(load([service.port], experiments=20, trials=6))
    assert all(len(one.acknowledged) == 6 for one in people)
    assert sum(one.retries for one in people) == 0
    assert losses(open_storage(service.storage), people) == NOTHING


def test_two_workers_on_one_postgresql(
    nursery: Nursery, postgresql: postgresql_server.Server
) -> None:
    url = postgresql.emptied()
    workers = [nursery.start(url), nursery.start(url)]
    people = asyncio.run(load([one.port for one in workers], experiments=10, trials=6))
    storage = open_storage(url)
    assert losses(storage, people) == NOTHING
    storage.close()
    for one in workers:
        one.kill()


def test_concurrent_asks_never_get_the_same_number(nursery: Nursery, service: Service) -> None:
    """Two processes on one file, many connections on one experiment."""
    other = nursery.start(service.storage)

    async def ask(port: int) -> list[int]:
        connection, numbers = Connection(port), []
        for _ in range(5):
            status, trial = await connection.call("POST", "/experiments/contested/ask")
            assert status == 201, trial
            numbers.append(trial["number"])
        connection.close()
        return numbers

    async def main() -> list[list[int]]:
        connection = Connection(service.port)
        body = {"model": "psychometric", "name": "contested", "horizon": 100}
        await connection.call("POST", "/experiments", body)
        connection.close()
        ports = [service.port, other.port] * 3
        return await asyncio.gather(*map(ask, ports))

    numbers = [number for some in asyncio.run(main()) for number in some]
    assert sorted(numbers) == list(range(30))
    other.kill()


def test_killed_under_load(nursery: Nursery, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    first = nursery.start(url)
    people, interrupted = asyncio.run(kill_under_load(nursery, first, 6, KILLS, seconds=0.1))
    assert interrupted > 0  # calls were really cut off
    assert sum(len(one.acknowledged) for one in people) > KILLS
    assert losses(open_storage(url), people) == NOTHING
