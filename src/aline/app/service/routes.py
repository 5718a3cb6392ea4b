"""A route for the calls that every trial makes: FastAPI reads only what is wrong with them.

FastAPI describes these calls, and explains each mistake in them. To read a call that has none it
takes longer than to store a trial, so that is done here, with the same declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, get_type_hints

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

KEY = "Idempotency-Key"

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class TrialRoute(APIRoute):
    """For endpoints of a `request`, parts of the path, perhaps a `key` and perhaps a `body`."""

    def get_route_handler(self) -> Handler:
        """What answers a request."""
        explain, endpoint = super().get_route_handler(), self.endpoint
        hints = get_type_hints(endpoint, include_extras=True)
        kinds = {n: TypeAdapter(h) for n, h in hints.items() if n not in ("request", "return")}

        async def handle(request: Request) -> Response:
            try:
                arguments = await _read(request, kinds)
            except ValidationError:
                arguments = None
            if arguments is None:
                return await explain(request)
            reply: Response = await endpoint(request, **arguments)
            return reply

        return handle


async def _read(request: Request, kinds: dict[str, TypeAdapter[Any]]) -> dict[str, Any] | None:
    """An endpoint's arguments; None for a body in a form that FastAPI must look at."""
    parts: dict[str, Any] = {**request.path_params, "key": request.headers.get(KEY)}
    read = {n: kind.validate_python(parts[n]) for n, kind in kinds.items() if n != "body"}
    if "body" in kinds:
        if request.headers.get("content-type") != "application/json":
            return None
        read["body"] = kinds["body"].validate_json(await request.body())
    return read
