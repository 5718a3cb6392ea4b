"""What `aline serve` survives under load: SIGKILL, a full disk, restarts of its database.

    python benchmarks/survival.py --output results/survival.json

Ten programs run experiments through clients/python/aline_client.py, as users do, each with a token,
while the service is killed 100 times, its disk is full 20 times (a small file system of its own,
for which one must be root), and its PostgreSQL is restarted 20 times. Afterwards every program
finishes the trial that it is at. What was acknowledged must be in the journals, once and as it was
told; no trial may be there that no program asked for; and no program may have seen an error. Parts
can be run by themselves, `--parts kills`; the rows of others stay. About four minutes in all.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from serving import Nursery, Service, losses

from aline.app.service.tokens import new_token
from aline.evaluation.results import commit, result
from aline.experiment import open_storage

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "clients" / "python")]
import postgresql  # noqa: E402
from aline_client import Client  # noqa: E402

TIMES = {"kills": 100, "full_disks": 20, "restarts": 20}
DISK_BYTES = 16_000_000
WORK_SECONDS = 0.3  # at work between two faults
MOST_SECONDS = 30.0  # for the programs to go on after one
Rows = list[dict[str, Any]]


@dataclass
class Program:
    """One experiment through the client, and what it was told of it."""

    name: str
    acknowledged: dict[int, float] = field(default_factory=dict)  # trial -> outcome
    error: BaseException | None = None

    def run(self, client: Client, is_over: threading.Event) -> None:
        """Ask and tell until it is over; the last trial is finished."""
        try:
            experiment = client.create("psychometric", name=self.name, horizon=10_000)
            while not is_over.is_set():
                trial = experiment.ask()
                outcome = float(trial.number % 3 == 0)
                experiment.tell(trial, outcome)
                self.acknowledged[trial.number] = outcome
        except BaseException as error:
            self.error = error


class Crew:
    """Programs at work."""

    def __init__(self, service: Service, token: str, count: int, prefix: str):
        self.service, self._token = service, token
        self.programs = [Program(f"{prefix} {number}") for number in range(count)]
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(
                target=one.run, args=(Client(service.url, token), self._is_over), daemon=True
            )
            for one in self.programs
        ]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Meanwhile they work; afterwards each finishes its trial."""
        for one in self._threads:
            one.start()
        self.wait()
        try:
            yield
        finally:
            self._is_over.set()
            for one in self._threads:
                one.join(2 * MOST_SECONDS)
        assert not any(one.is_alive() for one in self._threads)

    def wait(self) -> None:
        """Until every program has told another trial."""
        before = [len(one.acknowledged) for one in self.programs]
        deadline = time.monotonic() + MOST_SECONDS
        while any(
            len(one.acknowledged) == count for one, count in zip(self.programs, before, strict=True)
        ):
            failed = [one.error for one in self.programs if one.error is not None]
            assert not failed, failed
            assert time.monotonic() < deadline, "the programs did not go on"
            time.sleep(0.005)

    def refused(self) -> float:
        """How many calls this process of the service has refused with 503."""
        request = Request(f"{self.service.url}/metrics")
        request.add_header("Authorization", f"Bearer {self._token}")
        with urlopen(request, timeout=20) as reply:
            lines = reply.read().decode().splitlines()
        ours = [line for line in lines if line.startswith("aline_requests_total")]
        return sum(float(line.split()[-1]) for line in ours if 'status="503"' in line)


def survive_kills(nursery: Nursery, folder: Path, times: int, programs: int) -> Rows:
    """SIGKILL in the midst of calls."""
    url = f"sqlite:///{folder}/kills.db"
    token = _token(url)
    service = nursery.start(url, require_token=True, requests_per_second=1e6)
    crew = Crew(service, token, programs, "killed")
    with crew.at_work():
        for _ in range(times):
            time.sleep(WORK_SECONDS)
            service.kill()
            service = nursery.start(url, service.port, require_token=True, requests_per_second=1e6)
            crew.wait()
    service.kill()
    return judged("kills", times, url, crew)


def survive_full_disks(nursery: Nursery, folder: Path, times: int, programs: int) -> Rows:
    """No space is left, until some is."""
    with small_disk(folder / "disk") as disk:
        url = f"sqlite:///{disk}/full.db"
        token = _token(url)
        service = nursery.start(url, require_token=True, requests_per_second=1e6)
        crew, refused = Crew(service, token, programs, "full"), 0.0
        with crew.at_work():
            for _ in range(times):
                time.sleep(WORK_SECONDS)
                before = crew.refused()
                fill(disk / "balloon")
                deadline = time.monotonic() + MOST_SECONDS
                while crew.refused() == before and time.monotonic() < deadline:
                    fill(disk / "balloon")  # what became free meanwhile
                    time.sleep(0.02)
                refused += crew.refused() - before
                (disk / "balloon").unlink()
                crew.wait()
        service.kill()
        rows = judged("full_disks", times, url, crew)
    return [*rows, row("full_disks", "refused_calls", refused, times)]


def survive_restarts(nursery: Nursery, folder: Path, times: int, programs: int) -> Rows:
    """The database is stopped and started."""
    server = postgresql.Server()
    try:
        token = _token(server.url)
        service = nursery.start(server.url, require_token=True, requests_per_second=1e6)
        crew = Crew(service, token, programs, "restarted")
        with crew.at_work():
            for _ in range(times):
                time.sleep(WORK_SECONDS)
                server.halt()
                server.start()
                crew.wait()
        refused = crew.refused()
        service.kill()
        rows = judged("restarts", times, server.url, crew)
    finally:
        server.stop()
    return [*rows, row("restarts", "refused_calls", refused, times)]


PARTS: dict[str, Callable[[Nursery, Path, int, int], Rows]] = {
    "kills": survive_kills,
    "full_disks": survive_full_disks,
    "restarts": survive_restarts,
}


def _token(url: str) -> str:
    storage = open_storage(url)
    token = new_token(storage, "tablet")
    storage.close()
    return token


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own; PermissionError without the right to mount one."""
    folder.mkdir()
    if os.getuid() != 0:
        raise PermissionError("to mount a small file system one must be root")
    options = f"size={DISK_BYTES}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(file: Path) -> None:
    """Leave no byte free."""
    with file.open("ab", buffering=0) as balloon:
        for size in (2**20, 2**12, 1):
            try:
                while balloon.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


def judged(part: str, times: int, url: str, crew: Crew) -> Rows:
    """What is in the journals, beside what was acknowledged; all but the first is to be zero."""
    storage = open_storage(url)
    found = losses(storage, crew.programs)
    asked = sum(
        event["event"] == "asked" for one in crew.programs for event in storage.read(one.name)
    )
    storage.close()
    told = sum(len(one.acknowledged) for one in crew.programs)
    found["trials_nobody_asked_for"] = asked - told
    found["programs_with_an_error"] = sum(one.error is not None for one in crew.programs)
    rows = [row(part, "acknowledged", told, times)]
    return rows + [row(part, what, count, times) for what, count in found.items()]


def row(part: str, metric: str, value: float, times: int) -> dict[str, Any]:
    """One number in the layout of every result; `n` is how many faults there were."""
    return {
        "task": "psychometric",
        "method": "aline",
        "target": "threshold,slope,guess,lapse",
        "metric": metric,
        "step": None,
        "value": value,
        "ci95": None,
        "n": times,
        "published": None,
        "part": part,
        "commit": commit(),
    }


def kept(file: Path, parts: list[str]) -> Rows:
    """What an earlier run measured of other parts; each row says at which commit."""
    if not file.exists():
        return []
    found: Rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return [one for one in found if one["part"] not in parts]


def main() -> None:
    """Harm, count, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--programs", type=int, default=10)
    arguments = parser.parse_args()
    began, nursery, rows = time.perf_counter(), Nursery(), []
    with tempfile.TemporaryDirectory() as folder:
        for part in arguments.parts:
            rows += PARTS[part](nursery, Path(folder), TIMES[part], arguments.programs)
    nursery.close()
    for one in rows:
        print(f"{one['part']:12} {one['metric']:26} {one['value']:8g}  n = {one['n']}")
    if arguments.output:
        rows += kept(arguments.output, arguments.parts)
        found = result("survival", rows, time.perf_counter() - began)
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
