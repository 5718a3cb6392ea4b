"""What is refused before anything else sees it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from aline.app.service.guard import Buckets
from aline.app.service.settings import Settings, is_loopback
from aline.app.service.tokens import Tokens, digest, new_token
from aline.errors import InputError
from aline.experiment.storage import MemoryStorage

API = "/api/v1/experiments"
NEW = {"model": "psychometric", "name": "a"}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_other_hosts_demand_a_token(open_client: Any) -> None:
    storage = MemoryStorage()
    token = new_token(storage, "tablet")
    client = open_client(storage, host="0.0.0.0")
    for headers in ({}, bearer("aline_wrong"), bearer(""), {"Authorization": token}):
        refused = client.post(API, json=NEW, headers=headers)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
    assert client.get(f"{API}?token={token}").status_code == 401
    assert client.get("/metrics").status_code == 401
    assert client.get("/api/v1/openapi.json").status_code == 401
    assert client.get("/health").status_code == 200
    assert storage.names() == []
    assert client.post(API, json=NEW, headers=bearer(token)).status_code == 201


def test_a_browser_logs_in_with_a_cookie_that_scripts_cannot_read(open_client: Any) -> None:
    storage = MemoryStorage()
    token = new_token(storage, "tablet")
    client = open_client(storage, require_token=True)
    sent = client.get("/", headers={"Accept": "text/html"})
    assert (sent.status_code, sent.headers["location"]) == (303, "/login")
    assert client.get("/login").status_code == 200
    wrong = client.post("/login", data={"token": "no"})
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    entered = client.post("/login", data={"token": token})
    assert entered.status_code == 303
    assert {"HttpOnly", "SameSite=strict"} <= set(entered.headers["set-cookie"].split("; "))
    assert client.get("/", headers={"Accept": "text/html"}).status_code == 200


def test_tokens_are_digested_at_rest_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    token = new_token(storage, "tablet")
    assert token not in str(storage.tokens())
    assert storage.tokens() == {"tablet": digest(token)}
    monkeypatch.setattr("aline.app.service.tokens.FRESH", 0.05)

    async def main() -> None:
        tokens = Tokens(storage)
        assert await tokens.owner(token) == "tablet"
        assert await tokens.owner(token[:-1]) is None
        assert await tokens.owner(None) is None
        storage.remove_token("tablet")
        await asyncio.sleep(0.1)
        await tokens.owner(token)  # which makes it read them again
        await asyncio.sleep(0.05)
        assert await tokens.owner(token) is None
        await tokens.close()

    asyncio.run(main())
    with pytest.raises(InputError, match="printable"):
        new_token(storage, "a\nb")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": "https://localhost"},
        {"Origin": "http://localhost:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_elsewhere_cannot_post(client: TestClient, headers: dict[str, str]) -> None:
    reply = client.post(API, json=NEW, headers=headers)
    assert reply.status_code == 403
    assert "may not call this service" in reply.json()["detail"]
    assert "access-control-allow-origin" not in reply.headers
    assert client.get(API).json()["total"] == 0


def test_our_own_page_and_allowed_sites_can_post(open_client: Any) -> None:
    site = "https://lab.example"
    client = open_client(origins=(site,))
    own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert client.post(API, json=NEW, headers=own).status_code == 201
    asked = {"Origin": site, "Access-Control-Request-Method": "POST"}
    preflight = client.options(API, headers=asked)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == site
    headers = {"Origin": site, "Sec-Fetch-Site": "cross-site"}
    reply = client.post(f"{API}/a/ask", headers=headers)
    assert reply.status_code == 201
    assert reply.headers["access-control-allow-origin"] == site
    other = {**asked, "Origin": "https://evil.example"}
    assert client.options(API, headers=other).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "a b", "[::1", "1"])
def test_names_that_were_made_to_point_here_are_refused(client: TestClient, host: str) -> None:
    assert client.get("/health", headers={"Host": host}).status_code in (400, 421)


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:8000"])
def test_this_machines_names_are_ours(client: TestClient, host: str) -> None:
    assert client.get("/health", headers={"Host": host}).status_code == 200


def test_oversized_bodies(open_client: Any) -> None:
    client = open_client(body_bytes=1000)
    body = b'{"model":"psychometric","metadata":{"x":"' + b"x" * 2000 + b'"}}'
    kind = {"Content-Type": "application/json"}
    assert client.post(API, content=body, headers=kind).status_code == 413
    # Without a length in advance, as pieces.
    assert client.post(API, content=iter([body[:900], body[900:]]), headers=kind).status_code == 413
    assert client.get(API).json()["total"] == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"7",
        b'"psychometric"',
        b"\xff\xfe",
        b'{"model": NaN}',
        b'{"model": "psychometric", "seed": 1.5}',
        b'{"model": "psychometric", "seed": 1e400}',
        b'{"model": "psychometric", "seed": "0"}',
        b'{"model": "psychometric", "seed": true}',
        b'{"model": "psychometric", "horizon": Infinity}',
        b'{"model": "psychometric", "stop": {"threshold": NaN}}',
        b'{"model": "psychometric", "metadata": {"x": NaN}}',
        b'{"model": "psychometric", "metadata": {"x": "\\ud800"}}',
        b'{"model": "psychometric", "name": "\\ud800"}',
        b'{"model": "psychometric", "name": "a\\u0000b"}',
        b'{"model": "psychometric", "target": "threshold"}',
        b'{"model": "psychometric", "target": [[]]}',
        b'{"model": ["psychometric"]}',
        b'{"model": "psychometric", "metadata": ' + b'{"x":' * 5000 + b"1" + b"}" * 5001,
    ],
)
def test_malformed_bodies(client: TestClient, body: bytes) -> None:
    reply = client.post(API, content=body, headers={"Content-Type": "application/json"})
    assert 400 <= reply.status_code < 500, reply.text
    assert reply.json()["detail"]
    assert client.get(API).json()["total"] == 0


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_bodies_must_say_that_they_are_json(client: TestClient, kind: str) -> None:
    """A page elsewhere can post plain text without asking; it must not be taken for JSON."""
    body = b'{"model": "psychometric"}'
    reply = client.post(API, content=body, headers={"Content-Type": kind})
    assert 400 <= reply.status_code < 500
    assert client.get(API).json()["total"] == 0


@pytest.mark.parametrize(
    "outcome", [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"1" + b"0" * 400, b"{}", b"[1]"]
)
def test_outcomes_that_are_no_numbers(client: TestClient, outcome: bytes) -> None:
    client.post(API, json={"model": "location", "name": "a"})
    client.post(f"{API}/a/ask")
    body = b'{"outcome": ' + outcome + b"}"
    kind = {"Content-Type": "application/json"}
    reply = client.post(f"{API}/a/trials/0/tell", content=body, headers=kind)
    assert reply.status_code == 422, reply.text
    assert client.get(f"{API}/a").json()["told"] == 0


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/%2fetc%2fpasswd",
        "/static/....//app.py",
        "/api/v1/experiments/..%2f..%2fetc",
        "/api/v1/experiments/%00",
        "/api/v1/experiments/" + "x" * 500,
        "/api/v1/experiments/a/trials/-1/tell",
        "/api/v1/experiments/a/trials/99999999999999999999/tell",
        "/experiments/%3Cscript%3E",
    ],
)
def test_path_tricks(client: TestClient, path: str) -> None:
    for method in ("GET", "POST"):
        reply = client.request(method, path)
        assert 400 <= reply.status_code < 500
        assert "def create_app" not in reply.text


def test_too_many_requests_wait(open_client: Any) -> None:
    client = open_client(requests_per_second=0.01)
    codes = [client.get("/health").status_code for _ in range(12)]
    assert codes[:10] == [200] * 10
    assert codes[-1] == 429
    assert 0 < int(client.get("/health").headers["retry-after"]) <= 100


def test_buckets_refill(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("aline.app.service.guard.time.monotonic", lambda: now)
    buckets = Buckets(10.0)
    assert [buckets.take("a") for _ in range(20)] == [0.0] * 20
    assert buckets.take("a") == 1.0
    assert buckets.take("b") == 0.0
    now = 100.15
    assert [buckets.take("a") > 0 for _ in range(2)] == [False, True]


def test_request_ids_come_back_and_hostile_ones_do_not(client: TestClient) -> None:
    assert (
        client.get("/health", headers={"X-Request-ID": "lab-7"}).headers["x-request-id"] == "lab-7"
    )
    for hostile in ("a b", "x" * 100, "<script>"):
        got = client.get("/health", headers={"X-Request-ID": hostile}).headers["x-request-id"]
        assert got != hostile
        assert len(got) == 16


def test_every_reply_keeps_browsers_careful(client: TestClient) -> None:
    for path in ("/", "/health", "/static/page.css", "/nowhere"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in headers["content-security-policy"]


def test_settings_travel_through_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ALINE_SERVICE", "{}")
    settings = Settings(storage="sqlite:///x.db", origins=("https://a.example",), port=9000)
    settings.to_environment()
    assert Settings.from_environment() == settings


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.2", "lab.example", "")))
