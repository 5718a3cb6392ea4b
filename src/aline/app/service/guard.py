"""What every request passes before anything else sees it, as one plain ASGI layer.

In this order: a request id; a host that is ours; no more requests than the limit; an origin that is
ours (a page elsewhere must not drive a lab's experiment through a visitor's browser); a body of
bearable size; the token. Each reply then gets its id, its headers, a line in the log and its place
in the metrics.
"""

from __future__ import annotations

import json
import logging
import math
import random
import re
import time
from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aline.app.service.metrics import Metrics
from aline.app.service.protocol import UNREAD
from aline.app.service.settings import Settings, is_loopback
from aline.app.service.tokens import Tokens
from aline.errors import StorageError

COOKIE = "aline_token"
OPEN_PATHS = {"/health", "/login"}  # what needs no token
OPEN_BYTES = 4096  # of a body that comes before it is known who sends it: a token is shorter
_READING = {"GET", "HEAD", "OPTIONS"}
_REQUEST_ID = re.compile(r"[\w.-]{1,64}")
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?")


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


def _decoded(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name; the values of one that comes several times, as HTTP says, in a list."""
    found: dict[str, str] = {}
    for name, value in headers:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


_HEADERS = _encoded(
    {
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "content-security-policy": (
            "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
            "frame-ancestors 'none'; form-action 'self'"
        ),
    }
)
# What the headers that proxies add begin with, and those that list addresses.
_PROXY = ("x-forwarded", "x-real-ip", "forwarded", "via", "x-client-ip", "true-client-ip", "cf-")
_LISTING = ("x-forwarded-for", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip")
_FOR = re.compile(r'for=("[^"]*"|[^;,]+)', re.IGNORECASE)
logger = logging.getLogger("aline.service")


class Refusal(HTTPException):
    """A request that goes no further."""


class Guard:
    """Lets requests through to `app`, or answers them itself."""

    def __init__(self, app: ASGIApp, settings: Settings, tokens: Tokens, metrics: Metrics):
        self._app, self._settings, self._tokens, self._metrics = app, settings, tokens, metrics
        self._buckets = Buckets(settings.requests_per_second)
        self._chance = random.Random()  # of request ids, which tell requests apart and no more

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        call = Call(scope, self._metrics, send, f"{self._chance.getrandbits(64):016x}")
        try:
            await self._check(scope, call)
            if call.is_preflight:
                await call.reply(204, b"")
                return
            await self._app(scope, _limited(receive, self._most_bytes(scope)), call.send)
        except Refusal as refusal:
            if call.status is None:
                await call.refuse(refusal)
        except StorageError as error:
            if call.status is None:
                await call.refuse(Refusal(503, str(error), {"retry-after": "1"}))
        except Exception:
            logger.exception("request %s failed", call.id)
            if call.status is None:
                await call.refuse(Refusal(500, bug(call.id)))
        finally:
            call.record()

    async def _check(self, scope: Scope, call: Call) -> None:
        # A proxy on this machine speaks for others, who are not this machine's own.
        is_guarded = self._settings.needs_token or is_for_another(call.headers)
        owner = self._tokens.known_owner(call.token) if is_guarded else None
        self._check_host(call.headers.get("host", ""))
        # By who is known or connected: what a header says of its sender, its sender chose.
        client = (scope.get("client") or ("unknown", 0))[0]
        self._check_rate(client if owner is None else f"token {owner}")
        self._check_origin(scope, call)
        _check_length(call.headers.get("content-length"), self._most_bytes(scope))
        if is_guarded and not call.is_preflight:
            await self._check_token(scope, call)

    def _most_bytes(self, scope: Scope) -> int:
        """Of a request's body."""
        return OPEN_BYTES if _is_open(scope["path"]) else self._settings.body_bytes

    def _check_host(self, host: str) -> None:
        """Refuse names that are not ours: another site's name may be made to point here."""
        name = urlsplit(f"//{host}").hostname if _is_host(host) else None
        if name is None or (is_loopback(self._settings.host) and not is_loopback(name)):
            raise Refusal(
                421,
                f"this service answers to localhost, got {host[:100]!r}: a proxy must pass on its "
                "own Host (docs/service.md)",
            )

    def _check_rate(self, client: str) -> None:
        wait = self._buckets.take(client)
        if wait > 0:
            limit = f"{self._settings.requests_per_second:g} requests a second"
            raise Refusal(
                429, f"at most {limit}: wait and try again", {"retry-after": f"{math.ceil(wait)}"}
            )

    def _check_origin(self, scope: Scope, call: Call) -> None:
        origin = call.headers.get("origin")
        is_ours = origin is None or origin == call.own_origin
        if not is_ours and origin in self._settings.origins:
            call.allow(origin)
            return
        site = call.headers.get("sec-fetch-site", "same-origin")
        is_elsewhere = not is_ours or site not in ("same-origin", "none")
        if is_elsewhere and (scope["method"] not in _READING or call.is_preflight):
            raise Refusal(
                403,
                f"pages of {(origin or 'another site')[:100]} may not call this service: "
                "allow them with aline serve --origin",
            )

    async def _check_token(self, scope: Scope, call: Call) -> None:
        if _is_open(scope["path"]):
            return
        if await self._tokens.owner(call.token) is not None:
            scope["state"]["token"] = call.token  # for what goes on after the token is taken back
            return
        if scope["method"] == "GET" and "text/html" in call.headers.get("accept", ""):
            raise Refusal(303, "log in first", {"location": "/login"})
        what = "is not known" if call.token else "is missing"
        raise Refusal(
            401,
            f"the token {what}: send Authorization: Bearer TOKEN, made with aline token add",
            {"www-authenticate": "Bearer"},
        )


class Call:
    """One request and its reply."""

    def __init__(self, scope: Scope, metrics: Metrics, send: Send, new_id: str):
        self.headers = _decoded(scope["headers"])
        given = self.headers.get("x-request-id", "")
        self.id = given if _REQUEST_ID.fullmatch(given) else new_id
        self.status: int | None = None
        self._scope, self._metrics, self._send = scope, metrics, send
        self._extra: dict[str, str] = {}
        self._began = time.perf_counter()
        self._seconds = 0.0
        scope.setdefault("state", {})["request_id"] = self.id
        if self.headers.get("x-forwarded-proto", "").strip() == "https":
            scope["scheme"] = "https"  # a proxy has it from there; it makes cookies stricter

    @property
    def own_origin(self) -> str:
        """What a browser says of a page that came from here."""
        return f"{self._scope['scheme']}://{self.headers.get('host', '')}"

    @property
    def is_preflight(self) -> bool:
        """Whether a browser only asks if it may."""
        return (
            self._scope["method"] == "OPTIONS" and "access-control-request-method" in self.headers
        )

    @property
    def token(self) -> str | None:
        """The token sent, in the header or by a browser's cookie."""
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and token.strip():
            return token.strip()
        try:
            morsel = SimpleCookie(self.headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return None
        return None if morsel is None else str(morsel.value)

    def allow(self, origin: str) -> None:
        """Tell a browser that a page of another site may call."""
        self._extra |= {
            "access-control-allow-origin": origin,
            "access-control-allow-methods": "GET, POST, PATCH",
            "access-control-allow-headers": "authorization, content-type, idempotency-key",
            "access-control-expose-headers": "x-request-id",
            "vary": "origin",
        }

    async def send(self, message: Message) -> None:
        """Pass a reply on, with our headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._seconds = time.perf_counter() - self._began
            ours = [*_HEADERS, *_encoded({"x-request-id": self.id, **self._extra})]
            if self._scope.get("extensions", {}).get(UNREAD, _nothing)():
                ours.append((b"connection", b"close"))  # nobody wants the rest of the body
            message = {**message, "headers": [*message.get("headers", []), *ours]}
        await self._send(message)

    async def reply(self, status: int, body: bytes, headers: Mapping[str, str] = {}) -> None:
        """Answer without asking the application."""
        pairs = {"content-length": str(len(body)), **headers}
        start = {"type": "http.response.start", "status": status, "headers": _encoded(pairs)}
        await self.send(start)
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with the reason."""
        body = json.dumps({"detail": refusal.detail, "request_id": self.id}).encode()
        headers = {"content-type": "application/json", **(refusal.headers or {})}
        await self.reply(refusal.status_code, body, headers)

    def record(self) -> None:
        """A line in the log, and the metrics."""
        route: Any = self._scope.get("route")
        path = getattr(route, "path", "none")  # with {name}, not each experiment's own
        method, status = self._scope["method"], self.status or 499
        known = method if method in (*_READING, "POST", "PATCH", "PUT", "DELETE") else "other"
        self._metrics.answered(known, path, status, self._seconds)
        logger.info(
            "%s %s %s %d %.1f ms",
            self.id,
            method,
            printable(self._scope["path"]),
            status,
            1e3 * self._seconds,
        )


def bug(request_id: str) -> str:
    """What to say when it is our fault."""
    return f"this is a bug in aline: report it with the log of request {request_id}"


def printable(text: str) -> str:
    """Text that cannot end a line of a log, or change how a terminal shows it."""
    text = text[:300]
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def is_for_another(headers: Mapping[str, str]) -> bool:
    """Whether a proxy passes a request on for somebody who is not on this machine.

    One that says nothing of for whom may do so for anybody.
    """
    if not any(name.startswith(_PROXY) for name in headers):
        return False
    listed = [headers[name] for name in _LISTING if name in headers]
    found = [one for text in listed for one in text.split(",")]
    found += _FOR.findall(headers.get("forwarded", ""))
    return not found or not all(is_loopback(_address(one)) for one in found)


def _address(text: str) -> str:
    """An address without its port."""
    found = _HOST.fullmatch(text.strip().strip('"'))
    return text.strip() if found is None else found[1].strip("[]")


def _nothing() -> bool:
    return False


class Buckets:
    """How many requests each client may still make, refilled as time passes."""

    def __init__(self, rate: float):
        self._rate, self._burst = rate, max(2 * rate, 10.0)
        self._levels: dict[str, tuple[float, float]] = {}  # client -> level, when

    def take(self, client: str) -> float:
        """Take one; the seconds to wait if there is none."""
        now = time.monotonic()
        level, then = self._levels.get(client, (self._burst, now))
        level = min(self._burst, level + (now - then) * self._rate)
        if len(self._levels) > 10_000:
            self._levels.clear()
        self._levels[client] = (max(level - 1, 0.0) if level >= 1 else level, now)
        return 0.0 if level >= 1 else max(1.0, (1 - level) / self._rate)


def _is_open(path: str) -> bool:
    """Whether anybody may call it, with a token or without."""
    return path in OPEN_PATHS or path.startswith("/static/")


def _is_host(host: str) -> bool:
    return _HOST.fullmatch(host) is not None


def _check_length(given: str | None, most: int) -> None:
    if given is not None and given.isdecimal() and int(given[:20]) > most:
        raise Refusal(413, f"a request must have at most {most} bytes, got {given[:20]}")


def _limited(receive: Receive, most: int) -> Receive:
    """Receive no more than so many bytes, whatever was announced."""
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most:
            raise Refusal(413, f"a request must have at most {most} bytes")
        return message

    return counted
