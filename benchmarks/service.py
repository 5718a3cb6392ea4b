"""What `aline serve` bears: latency under load, and SIGKILL under load.

    python benchmarks/service.py --output results/service.json

50 experiments of 30 trials at the same time on loopback, on one worker with SQLite, and on two with
PostgreSQL where that is installed (two processes on one database; a participant keeps its
connection, and with it its worker, as browsers do). Participants take half a second to answer, give
or take a quarter, which is quick for people; then the same without any pause, where each caller
waits for the 49 others. Then participants hop from worker to worker with every call, so that each
worker must catch up with what the other did.
Trials begin when all experiments exist: before, there would be fewer than 50.
Last, a service is killed 50 times while 10 experiments run. Measure on an idle machine: the load
runs on the same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from serving import Nursery, Participant, kill_under_load, load, losses

from aline.evaluation.results import result
from aline.experiment import open_storage

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import postgresql

BAR = 0.1  # seconds, the 99th percentile of ask and of tell
STORES = ["sqlite", "postgresql"]
THINK = 0.5  # seconds that a participant takes to answer


def row(storage: str, metric: str, value: float, n: int, **more: Any) -> dict[str, Any]:
    """One number in the layout of every result."""
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
        "storage": storage,
        **more,
    }


def latency_rows(name: str, people: list[Participant], **more: Any) -> list[dict[str, Any]]:
    """Quantiles of ask and tell."""
    calls = {
        "ask": [s for p in people for s in p.asks],
        "tell": [s for p in people for s in p.tells],
    }
    return [
        row(
            name,
            "seconds_per_call",
            float(np.quantile(seconds, level)),
            len(seconds),
            part=part,
            quantile=level,
            **more,
        )
        for part, seconds in calls.items()
        for level in (0.5, 0.99)
    ]


def measure_load(
    nursery: Nursery,
    url: str,
    name: str,
    workers: int,
    think: float,
    hopping: bool,
    arguments: argparse.Namespace,
) -> list[dict[str, Any]]:
    """Latency under load, and that nothing was lost or doubled."""
    services = [nursery.start(url, requests_per_second=1e6) for _ in range(workers)]
    ports = [one.port for one in services]
    prefix = f"{name} {think} {hopping}"
    asyncio.run(load(ports, 2, 5, prefix=f"warm {prefix}"))
    began = time.perf_counter()
    size = arguments.experiments, arguments.trials
    people = asyncio.run(load(ports, *size, think, prefix, hopping))
    seconds = time.perf_counter() - began
    for one in services:
        one.kill()
    storage = open_storage(url)
    found = losses(storage, people)
    told = sum(len(storage.read(one.name)) for one in people)
    storage.close()
    more = {"workers": workers, "experiments": arguments.experiments, "think": think}
    more["hopping"] = hopping
    rows = latency_rows(name, people, **more)
    rows.append(
        row(name, "trials_per_second", len(people) * arguments.trials / seconds, told, **more)
    )
    return rows + [row(name, what, count, len(people), **more) for what, count in found.items()]


def measure_kills(nursery: Nursery, url: str, kills: int) -> list[dict[str, Any]]:
    """What survives SIGKILL in the midst of calls."""
    service = nursery.start(url, requests_per_second=1e6)
    people, interrupted = asyncio.run(kill_under_load(nursery, service, 10, kills, 0.3))
    storage = open_storage(url)
    found = losses(storage, people)
    storage.close()
    acknowledged = sum(len(one.acknowledged) for one in people)
    rows = [row("sqlite", f"kill_{what}", count, acknowledged) for what, count in found.items()]
    return [*rows, row("sqlite", "kill_interrupted_calls", interrupted, kills)]


def show(rows: list[dict[str, Any]]) -> None:
    """Print what was measured."""
    for one in rows:
        value = one["value"]
        if one["metric"] == "seconds_per_call":
            verdict = f"bar {BAR * 1e3:.0f} ms: {'met' if value < BAR else 'MISSED'}"
            tail = verdict if one["quantile"] == 0.99 and not one["hopping"] else ""
            what, number = f"{one['part']} p{one['quantile'] * 100:.0f}", f"{value * 1e3:8.1f} ms"
        else:
            what, number, tail = one["metric"], f"{value:8.1f}   ", f"n = {one['n']}"
        pause = f"answers after {one['think']:g} s" if "think" in one else ""
        pause += ", hopping" if one.get("hopping") else ""
        print(f"{one['storage']:11} {pause:29} {what:24} {number}  {tail}")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    parser.add_argument("--experiments", type=int, default=50)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument(
        "--think", type=float, nargs="+", default=[THINK, 0.0], help="seconds between ask and tell"
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument(
        "--storage", nargs="+", choices=STORES, default=STORES, help="where experiments are kept"
    )
    arguments = parser.parse_args()
    began, nursery, rows = time.perf_counter(), Nursery(), []
    with tempfile.TemporaryDirectory() as folder:
        stores, server = [], None
        if "sqlite" in arguments.storage:
            stores.append(("sqlite", f"sqlite:///{folder}/load.db", 1))
        if "postgresql" in arguments.storage and postgresql.find_program("initdb") is None:
            print(postgresql.REASON)
        elif "postgresql" in arguments.storage:
            server = postgresql.Server()
            stores.append(("postgresql", server.url, 2))
        for hopping in (False, True):
            for think in arguments.think:
                for name, url, workers in stores:
                    if workers > 1 or not hopping:
                        case = name, workers, think, hopping
                        rows += measure_load(nursery, url, *case, arguments)
        if server is not None:
            server.stop()
        if arguments.kills:
            rows += measure_kills(nursery, f"sqlite:///{folder}/kill.db", arguments.kills)
    nursery.close()
    show(rows)
    if arguments.output:
        found = result("service", rows, time.perf_counter() - began)
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
