"""The calls that every trial makes, past FastAPI, which sees only what is wrong with them.

FastAPI describes these calls, and explains each mistake in them. Its way to one that has none takes
longer than to store a trial, so that is walked here, with the same declarations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, get_type_hints

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from aline.errors import UserError

KEY = "Idempotency-Key"

Explain = Callable[[Request, UserError], Awaitable[Response]]


class Shortcut:
    """To endpoints of a `request`, parts of the path, perhaps a `key` and perhaps a `body`."""

    def __init__(self, app: FastAPI, routes: list[Any], explain: Explain):
        self._app, self._explain = app, explain
        self._calls = [FastRoute.of(route) for route in routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        for call in self._calls if scope["type"] == "http" else ():
            parts = call.parts(scope)
            if parts is not None:
                await self._answer(call, parts, scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _answer(
        self, call: FastRoute, parts: dict[str, Any], scope: Scope, receive: Receive, send: Send
    ) -> None:
        scope["app"], scope["route"] = self._app, call.route
        request = Request(scope, receive)
        try:
            arguments = await call.read(request, parts)
        except ValidationError:
            arguments = None
        except ClientDisconnect:  # there is nobody to answer
            return
        if arguments is None:
            try:
                body = await request.body()
            except ClientDisconnect:
                return
            await self._app(scope, _again(body, receive), send)
            return
        try:
            reply = await call.route.endpoint(request, **arguments)
        except UserError as error:
            reply = await self._explain(request, error)
        await reply(scope, receive, send)


class FastRoute(NamedTuple):
    """A route, and what its endpoint takes."""

    route: APIRoute
    kinds: dict[str, TypeAdapter[Any]]

    @classmethod
    def of(cls, route: APIRoute) -> FastRoute:
        """As the endpoint declares it."""
        hints = get_type_hints(route.endpoint, include_extras=True)
        kinds = {n: TypeAdapter(h) for n, h in hints.items() if n not in ("request", "return")}
        return cls(route, kinds)

    def parts(self, scope: Scope) -> dict[str, Any] | None:
        """The parts of a request's path; None if it is another's."""
        found = self.route.path_regex.match(scope["path"])
        if found is None or scope["method"] not in (self.route.methods or ()):
            return None
        return found.groupdict()

    async def read(self, request: Request, parts: dict[str, Any]) -> dict[str, Any] | None:
        """The endpoint's arguments; None for a body in a form that FastAPI must look at."""
        parts["key"] = request.headers.get(KEY)
        read = {n: kind.validate_python(parts[n]) for n, kind in self.kinds.items() if n != "body"}
        if "body" in self.kinds:
            if request.headers.get("content-type") != "application/json":
                return None
            read["body"] = self.kinds["body"].validate_json(await request.body())
        return read


def _again(body: bytes, receive: Receive) -> Receive:
    """Receive a body that was read already, and then what comes next."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_one() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_one
