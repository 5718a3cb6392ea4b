"""What `aline serve` bears: many experiments at once, and very long ones.

    python benchmarks/service.py --output results/service.json

Experiments of 30 trials at the same time on loopback: 200 and 50 on one worker with SQLite, whose
participants take half a second to answer, give or take a quarter, which is quick for people; 50
without any pause, where each caller waits for the 49 others; and 50 on two workers that share a
PostgreSQL, where that is installed. There a participant keeps its connection, and with it its
worker, as browsers do, or hops from worker to worker with every call, so that each worker must
catch up with what the other did. The same calls at the same pace then go to a service that does
nothing (`method=echo`): `metric=ratio` is ours over that. Trials begin when all experiments exist.
`long` is an experiment of 5000 trials: replayed, looked at for the first time, and corrected.
Every case can be measured by itself, `--cases 200`; the rows of others stay. Measure on an idle
machine: the load runs on the same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from serving import ECHO, Nursery, Participant, Service, load, losses, write_long_journal

from aline.evaluation.results import commit, result
from aline.experiment import Experiment, open_storage

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import postgresql

THINK = 0.5  # seconds that a participant takes to answer
TRIALS, LONG = 30, 5000
API = "/api/v1/experiments"
LONG_BARS = {"replay": 5.0, "first_page": 2.0, "undo": 0.5}  # seconds
Rows = list[dict[str, Any]]


class Case(NamedTuple):
    """A load."""

    storage: str
    workers: int
    experiments: int
    think: float
    hopping: bool = False
    bar: float | None = None  # seconds, the 99th percentile of ask and of tell


LOADS = {
    "200": Case("sqlite", 1, 200, THINK, bar=0.1),
    "50": Case("sqlite", 1, 50, THINK, bar=0.1),
    "50-without-pause": Case("sqlite", 1, 50, 0.0, bar=0.08),
    "postgresql": Case("postgresql", 2, 50, THINK),
    "postgresql-without-pause": Case("postgresql", 2, 50, 0.0),
    "hopping": Case("postgresql", 2, 50, THINK, hopping=True),
    "hopping-without-pause": Case("postgresql", 2, 50, 0.0, hopping=True),
}


def row(case: str, method: str, metric: str, value: float, n: int, **more: Any) -> dict[str, Any]:
    """One number in the layout of every result."""
    return {
        "task": "psychometric",
        "method": method,
        "target": "threshold,slope,guess,lapse",
        "metric": metric,
        "step": None,
        "value": value,
        "ci95": None,
        "n": n,
        "published": None,
        "case": case,
        "commit": commit(),
        **more,
    }


def measure_load(nursery: Nursery, name: str, folder: Path, server: Any) -> Rows:
    """Latency under load, beside a service that does nothing; and what was lost or doubled."""
    case = LOADS[name]
    url = server.url if case.storage == "postgresql" else f"sqlite:///{folder}/{name}.db"
    people, seconds = run_load(nursery, name, case, url)
    storage = open_storage(url)
    found = losses(storage, people)
    storage.close()
    told = sum(len(one.tells) for one in people)
    more = case._asdict()
    rows = latency_rows(name, "aline", people, more)
    rows.append(row(name, "aline", "trials_per_second", told / seconds, told, **more))
    found["repeated_calls"] = sum(one.retries for one in people)
    rows += [row(name, "aline", what, count, told, **more) for what, count in found.items()]
    idle, _ = run_load(nursery, name, case, ECHO)
    return rows + compared(name, rows, latency_rows(name, "echo", idle, more), more)


def run_load(nursery: Nursery, name: str, case: Case, url: str) -> tuple[list[Participant], float]:
    """The participants after their trials, and the seconds that they took together."""
    services = [nursery.start(url, requests_per_second=1e6) for _ in range(case.workers)]
    ports = [one.port for one in services]
    asyncio.run(load(ports, 2, 5, prefix=f"warm {name}"))
    began = time.perf_counter()
    people = asyncio.run(load(ports, case.experiments, TRIALS, case.think, name, case.hopping))
    seconds = time.perf_counter() - began
    for one in services:
        one.kill()
    return people, seconds


def latency_rows(name: str, method: str, people: list[Participant], more: dict[str, Any]) -> Rows:
    """Quantiles of ask and tell."""
    calls = {
        "ask": [s for p in people for s in p.asks],
        "tell": [s for p in people for s in p.tells],
    }
    return [
        row(name, method, "seconds_per_call", float(np.quantile(seconds, level)), len(seconds),
            part=part, quantile=level, **more)
        for part, seconds in calls.items()
        for level in (0.5, 0.99)
    ]  # fmt: skip


def compared(name: str, ours: Rows, echo: Rows, more: dict[str, Any]) -> Rows:
    """What an echo takes, and our times over its."""
    ratios = [
        row(name, "aline", "ratio", one["value"] / other["value"], one["n"],
            part=one["part"], quantile=one["quantile"], **more)
        for one, other in zip(ours, echo, strict=False)
    ]  # fmt: skip
    return [*echo, *ratios]


def measure_long(nursery: Nursery, folder: Path) -> Rows:
    """An experiment of 5000 trials."""
    url = f"sqlite:///{folder}/long.db"
    storage = open_storage(url)
    write_long_journal(storage, LONG)
    found = {"replay": seconds(lambda: Experiment.resume(storage, "long"))}
    storage.close()
    service = nursery.start(url)
    found["first_page_of_a_new_process"] = seconds(lambda: look(service))  # replays it, too
    service.kill()
    service = nursery.start(url)
    call(service, "GET", f"{API}/long")  # it is in memory, and nothing of it is computed
    found["first_page"] = seconds(lambda: look(service))
    found["undo"] = seconds(lambda: call(service, "POST", f"{API}/long/undo"))
    found["page_after_undo"] = seconds(lambda: look(service))
    service.kill()
    return [
        row("long", "aline", f"{what}_seconds", value, LONG, bar=LONG_BARS.get(what))
        for what, value in found.items()
    ]


def look(service: Service) -> None:
    """What a browser fetches of an experiment."""
    call(service, "GET", "/experiments/long")
    call(service, "GET", f"{API}/long/drawing")


def call(service: Service, method: str, path: str, body: Any = None) -> None:
    """One call, on a connection of its own."""
    one = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
    headers = {} if body is None else {"Content-Type": "application/json"}
    one.request(method, path, None if body is None else json.dumps(body), headers)
    reply = one.getresponse()
    content = reply.read()
    one.close()
    assert reply.status in (200, 201), content


def seconds(work: Callable[[], Any]) -> float:
    """How long something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def show(rows: Rows) -> None:
    """Print what was measured."""
    for one in rows:
        value, bar = one["value"], one.get("bar")
        is_judged = one["metric"].endswith("_seconds") or (
            one["metric"] == "seconds_per_call" and one["method"] == "aline"
            and one["quantile"] == 0.99
        )  # fmt: skip
        verdict = f"bar {1e3 * bar:g} ms: {'met' if value <= bar else 'MISSED'}" if bar else ""
        what = f"{one['method']} {one['metric']} {one.get('part', '')} {one.get('quantile', '')}"
        number = (
            f"{1e3 * value:9.1f} ms" if "seconds" in one["metric"].split("_") else f"{value:9.2f}"
        )
        print(f"{one['case']:25} {what:40} {number}  {verdict if is_judged else ''}")


def kept(file: Path, cases: list[str]) -> Rows:
    """What an earlier run measured of other cases; each row says at which commit."""
    if not file.exists():
        return []
    found: Rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return [one for one in found if one.get("case", cases[0]) not in cases]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    names = [*LOADS, "long"]
    parser.add_argument("--cases", nargs="+", choices=names, default=names)
    arguments = parser.parse_args()
    cases = arguments.cases
    if postgresql.find_program("initdb") is None:
        print(postgresql.REASON)
        cases = [one for one in cases if one == "long" or LOADS[one].storage == "sqlite"]
    began, nursery, rows = time.perf_counter(), Nursery(), []
    needs_server = any(one != "long" and LOADS[one].storage == "postgresql" for one in cases)
    server = postgresql.Server() if needs_server else None
    with tempfile.TemporaryDirectory() as folder:
        for name in cases:
            is_long = name == "long"
            where = Path(folder)
            rows += (
                measure_long(nursery, where) if is_long
                else measure_load(nursery, name, where, server)
            )  # fmt: skip
    if server is not None:
        server.stop()
    nursery.close()
    show(rows)
    if arguments.output:
        found = result("service", rows + kept(arguments.output, cases), time.perf_counter() - began)
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
