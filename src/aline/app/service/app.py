"""The application: the API, the page and their guard, around one storage."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import torch
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from aline import __version__
from aline.app.service import pages, schemas
from aline.app.service.api import api, desk_of, trials
from aline.app.service.aside import free_cached_properties
from aline.app.service.desk import Desk
from aline.app.service.guard import Guard, bug
from aline.app.service.lab import Lab
from aline.app.service.metrics import Metrics
from aline.app.service.pools import BusyError
from aline.app.service.replies import Json
from aline.app.service.settings import Settings
from aline.app.service.shortcut import Shortcut
from aline.app.service.streams import FullError
from aline.app.service.tokens import Tokens
from aline.errors import (
    InputError,
    NotFoundError,
    StateError,
    StorageError,
    UserError,
)
from aline.experiment import Storage, open_storage

_STATUS: dict[type[Exception], int] = {
    InputError: 422,
    NotFoundError: 404,
    StateError: 409,
    StorageError: 503,
    BusyError: 503,
    FullError: 429,
    UserError: 400,
}
HEALTH_SECONDS = 0.03  # for the storage to say something new
START_SECONDS = 2.0  # for it to say anything
_DESCRIPTION = """\
Adaptive experiments: create one, then `ask` for a trial's design, measure, and `tell` the outcome;
the posterior is up to date at once. Designs, outcomes and parameters are in the task's units.

Every reply is on disk before it is sent. Mark calls that change something with an
`Idempotency-Key` and repeat them with the same key when no reply came: they count once.
"""


def create_app(settings: Settings, storage: Storage | None = None) -> ASGIApp:
    """The service as an ASGI application."""
    torch.set_num_threads(1)  # trials are many tiny operations: a second thread only costs time
    sys.setswitchinterval(0.001)  # a thread that computes must not keep requests waiting for 5 ms
    kept, metrics = storage or open_storage(settings.storage), Metrics()
    free_cached_properties()
    pages.prepare()
    desk = Desk(Lab(kept, settings.models), settings, metrics)
    tokens = Tokens(kept)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        desk.start()
        with suppress(StorageError):  # of which /health will tell
            await desk.count.get(START_SECONDS)
        yield
        await desk.stop()
        await tokens.close()
        if storage is None:
            kept.close()  # here, as a signal may end the process before anything else is done

    app = FastAPI(
        title="aline",
        version=__version__,
        summary="Adaptive experiments over HTTP.",
        description=_DESCRIPTION,
        license_info={"name": "MIT", "identifier": "MIT"},
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        default_response_class=Json,
        # Not include_router, which looks for a route twice: half of what a small call costs.
        routes=[*trials.routes, *api.routes, *pages.pages.routes],
    )
    app.state.desk, app.state.settings, app.state.tokens = desk, settings, tokens
    app.mount("/static", StaticFiles(packages=[("aline.app.service", "static")]), "static")
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(UserError, _mistaken)
    app.add_exception_handler(Exception, _failed)
    _add_watching(app, metrics)
    quick = Shortcut(app, trials.routes, _mistaken)
    return Guard(quick, settings, tokens, metrics)


def from_environment() -> ASGIApp:
    """The service of a worker process."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    return create_app(Settings.from_environment())


def _add_watching(app: FastAPI, metrics: Metrics) -> None:
    @app.get(
        "/health",
        response_model=schemas.Health,
        responses={503: {"model": schemas.Failure, "description": "The database is away."}},
        tags=["watching"],
    )
    async def health(request: Request) -> Response:
        """Whether the service and its storage answer."""
        found = desk_of(request).count
        count = await found.get(HEALTH_SECONDS)
        if found.problem is not None:
            raise found.problem
        return Json({"status": "ok", "version": __version__, "experiments": count})

    @app.get("/metrics", response_class=PlainTextResponse, tags=["watching"])
    async def show_metrics() -> Response:
        """Counters for Prometheus, of the process that answers."""
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")


async def _refused(request: Request, error: Any) -> Response:
    return _failure(request, error.status_code, str(error.detail), error.headers)


async def _invalid(request: Request, error: Any) -> Response:
    first = error.errors()[0]
    kind = request.headers.get("content-type", "")
    if first["loc"] == ("body",) and first["type"] != "missing" and not _is_json(kind):
        detail = f"a body must say that it is application/json, got {kind[:100]!r}: set its type"
        return _failure(request, 415, detail)
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    given = f", got {str(first['input'])[:100]!r}" if first["type"] != "missing" else ""
    status = 400 if first["type"] == "json_invalid" else 422
    return _failure(request, status, f"{where}: {first['msg']}{given}")


async def _mistaken(request: Request, error: Any) -> Response:
    status = next(code for kind, code in _STATUS.items() if isinstance(error, kind))
    headers = {"retry-after": "1"} if status in (429, 503) else None
    return _failure(request, status, str(error), headers)


async def _failed(request: Request, error: Any) -> Response:
    return _failure(request, 500, bug(request.state.request_id))


def _is_json(kind: str) -> bool:
    main = kind.partition(";")[0].strip().lower()
    return main == "application/json" or (main.startswith("application/") and main[-5:] == "+json")


def _failure(request: Request, status: int, detail: str, headers: Any = None) -> Response:
    body = {"detail": detail[:1000], "request_id": request.state.request_id}
    return Json(body, status, headers)
