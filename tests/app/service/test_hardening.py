"""Attacks on a service, each as it was made once, and that they come to nothing.

benchmarks/attack.py makes the heavy ones larger, and measures.
"""

import json
import logging
import os
import random
import shutil
import signal
import socket
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from postgresql import Server as PostgreSQL
from serving import Nursery

import aline
from aline.app.service import crowd, desk, lately, protocol, tokens
from aline.app.service.guard import is_for_another, printable
from aline.app.service.lab import Lab
from aline.app.service.replies import to_json
from aline.app.service.tokens import new_token
from aline.app.service.weight import weigh
from aline.errors import InputError, StateError, StorageError
from aline.experiment import Experiment, open_storage
from aline.experiment.storage import MemoryStorage

API = "/api/v1/experiments"
HOST = b"Host: 127.0.0.1\r\n"
Serve = Callable[..., Any]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def points(count: int) -> list[float]:
    chance = random.Random(count)
    return [round(chance.uniform(-4.0, 4.0), 3) for _ in range(count)]


# 1. Large work.


def test_a_first_ask_with_much_data_holds_up_nobody(serve_here: Serve) -> None:
    """It took the event loop: a second with these few, a minute with a thousand."""
    server = serve_here()
    ordinary = {"model": "psychometric", "name": "ordinary", "horizon": 1000}
    server.call("POST", API, ordinary)
    server.call("POST", f"{API}/ordinary/ask")
    server.call("POST", API, {"model": "gp1d", "name": "large"})
    data = {"designs": {"x": points(120)}, "outcomes": points(120)}
    assert server.call("POST", f"{API}/large/attach", data)[0] == 200
    with ThreadPoolExecutor(1) as aside:
        slow = aside.submit(server.call, "POST", f"{API}/large/ask")
        waits, asked = [], 0
        while not slow.done():
            began = time.perf_counter()
            assert server.call("GET", "/health")[0] == 200
            asked += server.call("POST", f"{API}/ordinary/ask")[0] == 201
            waits.append(time.perf_counter() - began)
            time.sleep(0.01)
        assert slow.result()[0] in (201, 409)  # 409: more memory than it may take
    assert asked == len(waits) > 5
    assert sorted(waits)[len(waits) // 2] < 0.2  # most of them: others use this machine too


def test_what_takes_too_long_is_ended_and_said(serve_here: Serve) -> None:
    server = serve_here(work_seconds=0.001)
    server.call("POST", API, {"model": "gp1d", "name": "large"})
    server.call(
        "POST", f"{API}/large/attach", {"designs": {"x": points(120)}, "outcomes": [0] * 120}
    )
    status, _, content = server.call("POST", f"{API}/large/ask")
    assert status == 409
    assert "takes more than 0.001 s" in json.loads(content)["detail"]
    assert server.call("POST", f"{API}/large/ask")[0] == 409  # no trial is open: nothing happened


def test_what_takes_too_much_memory_is_ended_and_said(serve_here: Serve) -> None:
    server = serve_here(work_bytes=5_000_000)
    server.call("POST", API, {"model": "gp1d", "name": "large"})
    server.call(
        "POST", f"{API}/large/attach", {"designs": {"x": points(150)}, "outcomes": [0] * 150}
    )
    status, _, content = server.call("GET", f"{API}/large/posterior")
    assert status == 409
    assert "takes more than 5 MB" in json.loads(content)["detail"]


def test_a_large_choice_is_the_one_that_the_library_makes(serve_here: Serve) -> None:
    storage = MemoryStorage()
    server = serve_here(storage)
    server.call("POST", API, {"model": "psychometric", "name": "a", "seed": 3})
    data = {"designs": {"stimulus": points(150)}, "outcomes": [0, 1] * 75}
    server.call("POST", f"{API}/a/attach", data)
    asked = json.loads(server.call("POST", f"{API}/a/ask")[2])
    twin = MemoryStorage()
    twin.create("a", storage.read("a")[0])
    twin.append("a", 1, storage.read("a")[1])
    assert asked["design"] == pytest.approx(Experiment.resume(twin, "a").ask().design, abs=1e-5)


def test_too_many_points_to_aim_at(client: Any) -> None:
    """They took eight seconds an ask, and a gigabyte."""
    target = [{"predictions": {"x": points(1000)}}] * 100
    reply = client.post(API, json={"model": "gp1d", "target": target})
    assert reply.status_code == 422
    assert "at most 5000 points" in reply.json()["detail"]
    client.post(API, json={"model": "gp1d", "name": "a"})
    assert client.patch(f"{API}/a", json={"target": target}).status_code == 422


def test_refined_posteriors_hold_up_nobody_and_end(serve_here: Serve) -> None:
    server = serve_here(work_seconds=0.15)
    server.call("POST", API, {"model": "psychometric", "name": "long"})
    data = {"designs": {"stimulus": points(1000)}, "outcomes": [0, 1] * 500}
    server.call("POST", f"{API}/long/attach", data)
    with ThreadPoolExecutor(12) as pool:
        asked = [
            pool.submit(server.call, "GET", f"{API}/long/posterior?refined=true") for _ in range(12)
        ]
        time.sleep(0.1)
        began = time.perf_counter()
        assert server.call("GET", "/health")[0] == 200
        assert time.perf_counter() - began < 0.5
        found = [one.result() for one in asked]
    statuses = {status for status, _, _ in found}
    assert statuses <= {200, 409, 503}
    busy = [headers for status, headers, _ in found if status == 503]
    assert all(headers["retry-after"] == "1" for headers in busy)
    assert len(busy) >= 3  # one at a time, eight may wait


# 2. Memory by trailers, and what else comes before it is known who sends it.


def resident_megabytes() -> float:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1000 for line in status if line.startswith("VmRSS"))


def send_all(one: socket.socket, data: bytes, times: int) -> int:
    """How often it could be sent before the service hung up."""
    for sent in range(times):
        try:
            one.sendall(data)
        except OSError:
            return sent
    return times


def read_all(one: socket.socket) -> bytes:
    found = b""
    try:
        while more := one.recv(65536):
            found += more
    except OSError:
        pass
    return found


def test_endless_trailers_are_not_kept(serve_here: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """30 MB of them were 700 MB, though the request had been answered with 401."""
    server = serve_here(require_token=True)
    head = b"POST /api/v1/experiments HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    before = resident_megabytes()
    with server.connect() as one:
        one.sendall(head + b"0\r\n")
        sent = send_all(one, b"".join(b"x-%d: y\r\n" % n for n in range(5000)), 400)
        assert sent < 400
        assert read_all(one).startswith(b"HTTP/1.1 40") or sent > 0
    assert resident_megabytes() - before < 50
    time.sleep(0.1)
    assert "write_eof" not in caplog.text  # nobody replies to who was refused already


def test_trailers_of_somebody_known_are_not_kept_either(serve_here: Serve) -> None:
    server = serve_here()
    head = b"POST /api/v1/experiments HTTP/1.1\r\n" + HOST
    head += b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    before = resident_megabytes()
    for endless in (b"x-one: two\r\n" * 5000, b"x" * 50_000):
        with server.connect() as one:
            one.sendall(head + b"2\r\n{}\r\n0\r\n" + b"x-long: ")
            assert send_all(one, endless, 400) < 400
    assert resident_megabytes() - before < 50


def test_a_refusal_with_an_unfinished_body_ends_the_connection(serve_here: Serve) -> None:
    server = serve_here(require_token=True)
    head = b"POST /api/v1/experiments HTTP/1.1\r\n" + HOST + b"Content-Length: 900000\r\n\r\n"
    with server.connect() as one:
        one.sendall(head + b"{")
        reply = read_all(one)  # which ends
    assert reply.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in reply
    with server.connect() as one:  # while one that was sent whole goes on
        whole = b"POST /api/v1/experiments HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\n{}"
        for _ in range(2):
            one.sendall(whole)
            assert one.recv(65536).startswith(b"HTTP/1.1 401")


def test_heads_of_many_lines_and_many_requests_at_once_are_cut_off(serve_here: Serve) -> None:
    server = serve_here()
    for attack in (
        b"GET /health HTTP/1.1\r\n" + HOST + b"a:b\r\n" * 5000 + b"\r\n",
        (b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n") * 3000,
    ):
        with server.connect() as one:
            send_all(one, attack, 1)
            assert b"HTTP/1.1 400" in read_all(one)
    assert server.call("GET", "/health")[0] == 200


def test_a_login_is_short(serve_here: Serve) -> None:
    """A megabyte each was kept of 256 connections of an address, by whoever can reach it."""
    server = serve_here(require_token=True)
    head = b"POST /login HTTP/1.1\r\n" + HOST
    with server.connect() as one:
        one.sendall(head + b"Content-Length: 100000\r\n\r\ntoken=")
        reply = read_all(one)
    assert reply.startswith(b"HTTP/1.1 413")
    assert b"at most 4096 bytes" in reply
    with server.connect() as one:
        one.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        one.sendall((b"1000\r\n" + b"x" * 4096 + b"\r\n") * 2)
        assert read_all(one).startswith(b"HTTP/1.1 413")
    token = new_token(server.storage, "tablet")
    with server.connect() as one:
        body = b"token=" + token.encode()
        one.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert one.recv(65536).startswith(b"HTTP/1.1 303")


def test_connections_have_a_bound_wherever_files_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "file_limit", lambda: 10**6)
    many = [Guest(f"10.0.{n // 250}.{n % 250}") for n in range(crowd.MOST + 10)]
    room = crowd.Crowd()
    for one in many:
        room.enter(one)
    assert sum(one.has_gone for one in many) == 10


class Guest:
    """A connection that was never used."""

    has_spoken = has_gone = False

    def __init__(self, address: str):
        self.address = address

    def hang_up(self) -> None:
        self.has_gone = True


# 4. A storage that is down, or stands still.


def test_storage_down_with_tokens_on(serve_here: Serve, postgresql: PostgreSQL) -> None:
    """It was a bug in aline, with 500."""
    url = postgresql.emptied()
    storage = open_storage(url)
    token = new_token(storage, "tablet")
    server = serve_here(storage, require_token=True)
    assert server.call("GET", API, **bearer(token))[0] == 200
    postgresql.execute("ALTER SCHEMA aline RENAME TO away")
    for headers in (bearer(token), bearer("aline_never_seen")):
        status, found, content = server.call("GET", API, **headers)
        assert status == 503 or (status == 401 and headers != bearer(token))
        assert found.get("retry-after") == "1" or status == 401
        assert "bug" not in json.loads(content)["detail"]
    assert server.call("GET", "/static/page.css")[0] == 200
    postgresql.execute("ALTER SCHEMA away RENAME TO aline")
    deadline = time.monotonic() + 20
    while server.call("GET", API, **bearer(token))[0] == 503:  # where the machine is busy
        assert time.monotonic() < deadline
    server.stop()
    storage.close()


def test_storage_that_stands_still(
    serve_here: Serve, postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even /static hung."""
    import psycopg

    monkeypatch.setattr(lately, "STUCK_SECONDS", 0.3)
    monkeypatch.setattr(desk, "STORAGE_SECONDS", 0.5)
    monkeypatch.setattr(desk, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(tokens, "FRESH", 0.1)
    url = postgresql.emptied()
    storage = open_storage(url)
    token = new_token(storage, "tablet")
    server = serve_here(storage, require_token=True)
    server.call("POST", API, {"model": "psychometric", "name": "a"}, **bearer(token))
    server.call("POST", f"{API}/a/ask", **bearer(token))
    with psycopg.connect(postgresql.url) as held:
        held.execute("LOCK TABLE aline.events, aline.experiments, aline.tokens")
        time.sleep(0.6)
        for path in ("/static/page.css", "/login", "/health", f"{API}/a"):
            began = time.perf_counter()
            status, headers, _ = server.call("GET", path, **bearer(token))
            assert time.perf_counter() - began < 0.6
            assert (status, headers.get("retry-after")) in ((200, None), (503, "1"))
        told = server.call(
            "POST",
            f"{API}/a/trials/0/tell",
            {"outcome": 1},
            **bearer(token),
            **{"Idempotency-Key": "k"},
        )
        assert told[0] == 503
        held.rollback()
    time.sleep(0.3)
    for _ in range(2):
        told = server.call(
            "POST",
            f"{API}/a/trials/0/tell",
            {"outcome": 1},
            **bearer(token),
            **{"Idempotency-Key": "k"},
        )
        assert told[0] == 200
    assert [one["event"] for one in storage.read("a")] == ["created", "asked", "told"]
    server.stop()
    storage.close()


# 6. A file that holds everything.


def test_after_sigterm_the_file_alone_holds_everything(nursery: Nursery, tmp_path: Path) -> None:
    service = nursery.start(f"sqlite:///{tmp_path}/lab.db")
    from urllib.request import Request, urlopen

    body = json.dumps({"model": "psychometric", "name": "a"}).encode()
    kind = {"Content-Type": "application/json"}
    urlopen(Request(f"{service.url}{API}", body, kind), timeout=20).close()
    os.kill(service.pid, signal.SIGTERM)
    deadline = time.monotonic() + 20
    while Path(f"/proc/{service.pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    shutil.copy(tmp_path / "lab.db", tmp_path / "alone.db")
    copy = open_storage(f"sqlite:///{tmp_path}/alone.db", must_exist=True)
    assert copy.names() == ["a"]
    copy.close()


def test_a_closed_storage_is_in_its_file_whoever_else_reads(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    one, other = open_storage(url), open_storage(url)
    one.create("a", {"event": "created"})
    assert other.names() == ["a"]
    one.close()  # the other stays open, so SQLite would leave the log as it is
    shutil.copy(tmp_path / "lab.db", tmp_path / "alone.db")
    copy = open_storage(f"sqlite:///{tmp_path}/alone.db", must_exist=True)
    assert copy.names() == ["a"]
    copy.close()
    other.close()


# 9. Who sends nothing.


def test_half_sent_heads_lock_out_nobody(
    serve_here: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(crowd, "CLIENT_WAITS", 20)
    server = serve_here()
    kept = server.connect()  # somebody who was served before stays
    kept.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
    assert kept.recv(65536).startswith(b"HTTP/1.1 200")
    slow = []
    with caplog.at_level(logging.WARNING, "aline.service"):
        for _ in range(60):
            slow.append(server.connect())
            slow[-1].sendall(b"GET /health HTTP/1.1\r\n" + HOST)
        assert server.call("GET", "/health")[0] == 200
    kept.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
    assert kept.recv(65536).startswith(b"HTTP/1.1 200")
    assert sum(read_all(one) == b"" for one in slow[:35]) == 35  # the oldest have gone
    said = [line for line in caplog.messages if "hung up on 127.0.0.1" in line]
    assert len(said) == 1  # and not one for each
    for one in (kept, *slow):
        one.close()


@pytest.mark.parametrize(
    "part", [b"", b"GET /hea", b"POST /login HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\nto"]
)
def test_who_is_slow_is_hung_up_on(
    serve_here: Serve, monkeypatch: pytest.MonkeyPatch, part: bytes
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(protocol, "BODY_SECONDS", 0.3)
    server = serve_here()
    with server.connect() as one:
        one.sendall(part)
        began = time.perf_counter()
        assert read_all(one) == b""
        assert 0.1 < time.perf_counter() - began < 2


def test_more_connections_than_files(monkeypatch: pytest.MonkeyPatch, serve_here: Serve) -> None:
    monkeypatch.setattr(crowd, "file_limit", lambda: crowd.SPARE_FILES + 10)
    server = serve_here()
    many = [server.connect() for _ in range(30)]
    assert server.call("GET", "/health")[0] == 200
    for one in many:
        one.close()


# 10. Behind a proxy.


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "203.0.113.7"},
        {"X-Forwarded-For": "127.0.0.1, 203.0.113.7"},
        {"X-Forwarded-For": "203.0.113.7, 127.0.0.1"},
        {"X-Real-IP": "203.0.113.7"},
        {"Forwarded": 'for="[2001:db8::1]:4711";proto=https'},
        {"Via": "1.1 proxy"},
        {"X-Forwarded-For": "unknown"},
        {"X-Forwarded-Proto": "https"},
        {"CF-Connecting-IP": "203.0.113.7", "CF-Ray": "1"},
        {"True-Client-IP": "203.0.113.7", "X-Forwarded-For": "127.0.0.1"},
    ],
)
def test_who_comes_through_a_proxy_needs_a_token(open_client: Any, headers: dict[str, str]) -> None:
    storage = MemoryStorage()
    token = new_token(storage, "tablet")
    client = open_client(storage)
    assert client.get(API).status_code == 200
    assert client.get(API, headers=headers).status_code == 401
    assert client.get(API, headers={**headers, **bearer(token)}).status_code == 200


def test_this_machine_through_a_proxy_needs_none() -> None:
    assert not is_for_another({})
    assert not is_for_another({"x-forwarded-for": "127.0.0.1"})
    assert not is_for_another({"forwarded": 'for="[::1]:80", for=127.0.0.1'})
    assert is_for_another({"x-forwarded-for": "127.0.0.1, 10.0.0.1"})


def test_the_rate_is_not_evaded_by_made_up_addresses(serve_here: Serve) -> None:
    server = serve_here(requests_per_second=0.01)
    codes = [
        server.call("GET", "/health", **{"X-Forwarded-For": f"10.0.0.{n}"})[0] for n in range(14)
    ]
    assert codes[-1] == 429


# 12. One that is damaged hides no other.


def test_metadata_is_bounded(client: Any) -> None:
    deep: Any = 1
    for _ in range(946):
        deep = {"x": deep}
    # As text: Python itself would not write so deep a thing from within a deep stack.
    for metadata in ('{"x":' * 946 + "1" + "}" * 946, '{"x": "' + "y" * 70_000 + '"}'):
        body = f'{{"model": "psychometric", "metadata": {metadata}}}'
        reply = client.post(API, content=body, headers={"content-type": "application/json"})
        assert reply.status_code == 422
        assert "metadata must" in reply.json()["detail"]
    model = aline.load("psychometric")
    with pytest.raises(InputError, match="nested at most 20 deep"):
        aline.Experiment(model, metadata=deep)


def test_damaged_journals_hide_no_other(open_client: Any, tmp_path: Path) -> None:
    storage = open_storage(f"sqlite:///{tmp_path}/lab.db")
    client = open_client(storage)
    for name in ("well", "no json", "no event", "too deep"):
        client.post(API, json={"model": "psychometric", "name": name})
        client.post(f"{API}/{name}/ask")
    broken = {
        "no json": ("{", 1),
        "no event": ("{}", 1),
        "too deep": ('{"event":"created","metadata":' + '{"x":' * 990 + "1" + "}" * 991, 0),
    }
    with sqlite3.connect(tmp_path / "lab.db") as connection:
        for name, (text, number) in broken.items():
            connection.execute(
                "UPDATE events SET event = ? WHERE experiment = ? AND sequence = ?",
                (text, name, number),
            )
    listed = {one["name"]: one for one in client.get(API).json()["experiments"]}
    assert listed["well"]["problem"] is None
    assert listed["well"]["horizon"] > 0
    assert all(listed[name]["problem"] for name in broken)
    page = client.get("/")
    assert page.status_code == 200
    assert "well" in page.text
    storage.close()


# 13. The cache counts bytes.


def test_large_experiments_are_let_go_first() -> None:
    lab = Lab(MemoryStorage())
    lab.create("gp1d", key=None, name="large", target=None)
    place = lab.at_hand("large")
    assert place is not None
    light = weigh(place.experiment)
    place.experiment.attach({"x": points(150)}, points(150))
    place.experiment.posterior()
    heavy = weigh(place.experiment)
    assert heavy > 5 * light
    lab.create("psychometric", key=None, name="small", target=None)
    lab.tidy(heavy // 2)
    assert lab.at_hand("large") is None
    assert lab.at_hand("small") is not None
    assert lab.look("large").observations == 150


def test_weighing_many_takes_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred at once kept requests waiting for Python's lock for most of a second."""
    storage = MemoryStorage()
    lab = Lab(storage)
    for name in "abcdef":
        lab.create("psychometric", key=None, name=name, target=None)
        place = lab.at_hand(name)
        assert place is not None
        place.experiment.tell(place.experiment.ask(), 1)
    weighed: list[str] = []

    def slow(experiment: Experiment) -> int:
        weighed.append(experiment.name)
        time.sleep(0.004)
        return 1000

    monkeypatch.setattr("aline.app.service.lab.weigh", slow)
    lab.tidy(10**9)
    assert 1 <= len(weighed) < 6
    for _ in range(6):
        lab.tidy(10**9)
    assert sorted(weighed) == list("abcdef")


# 14. /health waits for nobody.


def test_health_does_not_wait_for_drawings(serve_here: Serve) -> None:
    server = serve_here()
    server.call("POST", API, {"model": "psychometric", "name": "a"})
    data = {"designs": {"stimulus": points(200)}, "outcomes": [0, 1] * 100}
    server.call("POST", f"{API}/a/attach", data)
    with ThreadPoolExecutor(6) as pool:
        slow = [pool.submit(server.call, "GET", f"{API}/a/drawing") for _ in range(6)]
        waits = []
        while not all(one.done() for one in slow):
            began = time.perf_counter()
            assert server.call("GET", "/health")[0] == 200
            waits.append(time.perf_counter() - began)
            time.sleep(0.02)
        assert all(one.result()[0] == 200 for one in slow)
    assert sorted(waits)[len(waits) // 2] < 0.05


# 16. Smaller.


def test_lines_of_the_log_stay_lines(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "aline.service"):
        client.get("/x%0a2026-01-01 forged POST /admin 200%1b[2J")
    (line,) = caplog.messages
    assert line.isprintable()
    assert "\\n2026" in line
    assert printable("a\u2028b\x7f\x9b") == "a\\u2028b\\x7f\\x9b"


def test_our_own_faults_are_json_too(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(lab: object) -> None:
        raise ArithmeticError("no numbers")

    monkeypatch.setattr("aline.app.service.shapes.models", fail)
    reply = client.get("/api/v1/models")
    assert reply.status_code == 500
    assert "bug in aline" in reply.json()["detail"]
    assert reply.json()["request_id"] == reply.headers["x-request-id"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "json"])
def test_bodies_of_another_type_are_415(client: Any, kind: str) -> None:
    client.post(API, json={"model": "psychometric", "name": "a"})
    client.post(f"{API}/a/ask")
    for path, body in (
        (API, b'{"model": "psychometric"}'),
        (f"{API}/a/trials/0/tell", b'{"outcome": 1}'),
    ):
        reply = client.post(path, content=body, headers={"Content-Type": kind})
        assert reply.status_code == 415, reply.text
    assert client.post(API).status_code == 422


def test_a_key_that_made_another_experiment_is_refused(client: Any) -> None:
    key = {"Idempotency-Key": "k"}
    body = {"model": "psychometric", "target": ["threshold"], "seed": 1}
    first = client.post(API, json=body, headers=key)
    assert first.status_code == 201
    assert client.post(API, json=body, headers=key).json()["name"] == first.json()["name"]
    for other in (
        {"seed": 2},
        {"target": ["slope"]},
        {"horizon": 7},
        {"metadata": {"x": 1}},
        {"model": "location", "target": None},
    ):
        reply = client.post(API, json={**body, **other}, headers=key)
        assert reply.status_code == 409, other
        assert "give every call a key of its own" in reply.json()["detail"]
    assert client.get(API).json()["total"] == 1


NAMED = {"model": "detection", "name": "a", "target": ["threshold"]}


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"name": "b"}, "name"),
        ({"name": None}, "name"),
        ({"known": {"guess": 0.5}}, "known or prior"),
        ({"name": "b", "units": {"stimulus": [0.0, 9.0]}}, "units"),
        ({"name": None, "model": "psychometric"}, "model"),
    ],
)
def test_a_key_makes_one_experiment_whatever_its_name(
    open_client: Any, tmp_path: Path, other: dict[str, Any], what: str
) -> None:
    """Also for another worker, and after a restart."""
    key, url = {"Idempotency-Key": "k"}, f"sqlite:///{tmp_path}/lab.db"
    maker, worker = open_client(url), open_client(url)
    assert worker.get(API).json()["total"] == 0
    assert maker.post(API, json=NAMED, headers=key).status_code == 201
    for client in (maker, worker, open_client(url)):
        reply = client.post(API, json={**NAMED, **other}, headers=key)
        assert reply.status_code == 409, reply.text
        assert f"the key 'k' has made experiment 'a' with another {what}:" in reply.json()["detail"]
        assert client.post(API, json=NAMED, headers=key).json()["name"] == "a"
        assert client.get(API).json()["total"] == 1


def test_a_key_of_damaged_and_older_journals(tmp_path: Path) -> None:
    """What cannot be read keeps nobody from starting anything."""
    storage = open_storage(f"sqlite:///{tmp_path}/lab.db")
    for name in ("damaged", "old", "older"):
        storage.create(name, {"event": "created"})
    with sqlite3.connect(tmp_path / "lab.db") as connection:
        damage = "UPDATE events SET event = ? WHERE experiment = ?"
        connection.execute(damage, ('{"key": "k', "damaged"))
        connection.execute(damage, ('{"key": "k"}', "old"))
        connection.execute(damage, ('{"key": "k"}', "older"))  # as could be until now
    lab = Lab(open_storage(f"sqlite:///{tmp_path}/lab.db"))
    with pytest.raises(StateError, match="the key 'k' has made experiment 'old' with another"):
        lab.create("psychometric", key="k", name="new", target=None)
    assert lab.create("psychometric", key="new", name="new", target=None).name == "new"


def test_database_files_are_their_owners(tmp_path: Path) -> None:
    storage = open_storage(f"sqlite:///{tmp_path}/lab.db")
    storage.create("a", {"event": "created"})
    files = list(tmp_path.iterdir())
    assert len(files) > 1  # the log is there, too
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o600 for one in files)
    storage.close()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:topsecret@/lab?host=/nowhere",
        "postgresql:///lab?host=/nowhere&user=me&password=topsecret",
        "postgresql:///lab?host=/nowhere&PassWord=topsecret",
        "postgresql:///lab?host=/nowhere&pass%77ord=topsecret",
        "postgresql:///lab?host=/nowhere&sslpassword=topsecret",
        "mysql://me:topsecret@host/lab",
        "mysql://host/lab?password=topsecret",
        "postgresql://me:topsecret@host:port/lab",
    ],
)
def test_passwords_are_shown_nowhere(url: str) -> None:
    with pytest.raises(StorageError) as raised:
        open_storage(url)
    assert "topsecret" not in str(raised.value)


# Data without end.


def test_an_experiment_takes_no_more_data_than_it_can_be_opened_with(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aline.app.service.schemas.OBSERVATIONS", 50)
    client.post(API, json={"model": "psychometric", "name": "a"})

    def attach(count: int, **headers: str) -> Any:
        body = {"designs": {"stimulus": points(count)}, "outcomes": [1] * count}
        return client.post(f"{API}/a/attach", json=body, headers=headers)

    assert attach(50, **{"Idempotency-Key": "k"}).status_code == 200
    refused = attach(1)
    assert refused.status_code == 409
    assert "at most 50 observations" in refused.json()["detail"]
    assert attach(50, **{"Idempotency-Key": "k"}).status_code == 200  # a repeat adds nothing
    assert len(client.get(f"{API}/a").json()["trials"]) == 50


def test_a_long_experiment_is_made_json_where_nobody_waits(
    open_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 20,000 trials that is half a second, and the event loop did it."""
    threads: list[threading.Thread] = []

    def noted(content: Any) -> bytes:
        threads.append(threading.current_thread())
        return to_json(content)

    monkeypatch.setattr("aline.app.service.replies.to_json", noted)
    monkeypatch.setattr("aline.app.service.api.to_json", noted)
    client = open_client()
    client.post(API, json={"model": "psychometric", "name": "a"})
    threads.clear()
    for path in (API, f"{API}/a", f"{API}/a/drawing"):
        assert client.get(path).status_code == 200
    assert len(threads) == 3
    assert all(one.name.startswith(("quick", "slow", "drawing")) for one in threads)


# Models in units of somebody's own.


def test_units_cost_no_network_and_no_runner_each(client: Any) -> None:
    """Each experiment had its own copy of the weights, and of ONNX Runtime's session."""
    lab = client.app._app._app.state.desk.lab
    for name, low in (("a", -40.0), ("b", -40.0), ("c", -50.0)):
        body = {"model": "detection", "name": name, "units": {"stimulus": [low, 0.0]}}
        assert client.post(API, json=body).status_code == 201
    a, b, c = (lab.at_hand(name).experiment for name in "abc")
    assert a.model is b.model
    assert a.model is not c.model
    assert a._state.engine.runner is c._state.engine.runner
    weights = [next(one.model.network.parameters()).data_ptr() for one in (a, c)]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    "units",
    [
        {"self": [0, 1]},
        {"stimulus": [0, 1e-320]},
        {"stimulus": [0, 1e300]},
        {"stimulus": [-1.7e308, 1.7e308]},
        {"stimulus": [1e9, 1e9 + 1]},
        {"stimulus": [1, 1]},
        {"stimulus": [0, 1], "other": [0, 1]},
    ],
)
def test_units_that_mean_nothing_are_refused(client: Any, units: dict[str, Any]) -> None:
    reply = client.post(API, json={"model": "detection", "units": units})
    assert reply.status_code == 422, reply.text


def test_a_simulated_participant_has_the_units_and_what_is_known(client: Any) -> None:
    """It refused every design, and guessed as often as it liked."""
    body = {"model": "detection", "name": "a", "metadata": {"simulated": 1}}
    body |= {"units": {"stimulus": [-40.0, 0.0]}, "known": {"guess": 0.5}}
    assert client.post(API, json=body).status_code == 201
    for _ in range(3):
        told = client.post(f"{API}/a/simulate")
        assert told.status_code == 200, told.text
        assert -40 <= told.json()["design"]["stimulus"] <= 0
    drawn = {one["name"]: one for one in client.get(f"{API}/a/drawing").json()["parameters"]}
    assert drawn["guess"]["truth"] == pytest.approx(0.5)
    assert -40 <= drawn["threshold"]["truth"] <= 0
