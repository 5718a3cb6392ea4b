"""Start the service: check what was asked for, make the demo, run until stopped."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import uvicorn

from aline.app.service.app import create_app
from aline.app.service.crowd import raise_file_limit
from aline.app.service.lab import Lab
from aline.app.service.protocol import Protocol
from aline.app.service.settings import Settings
from aline.errors import InputError, UserError
from aline.experiment import Storage, open_storage
from aline.experiment.storage import shown

DEMO_SEED = 0  # the participant of `aline demo`


def serve(
    settings: Settings, *, workers: int, demo: bool, browse: bool, say: Callable[[str], None]
) -> None:
    """Run the service until it is stopped."""
    storage = open_storage(settings.storage)
    _check(settings, storage, workers)
    path = f"/experiments/{quote(_demo(storage), safe='')}" if demo else "/"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    here = "localhost" if settings.host in ("0.0.0.0", "::") else host
    url = f"http://{here}:{settings.port}{path}"
    say(f"aline is at {url} (Ctrl-C stops it)")
    say(f"Experiments are kept in {shown(settings.storage)}")
    if browse and _has_screen():
        threading.Timer(1.5, webbrowser.open, [url]).start()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    raise_file_limit()
    if workers == 1:
        _close_when_ended(storage)
        try:
            uvicorn.run(create_app(settings, storage), **options(settings))
        finally:
            storage.close()
        return
    storage.close()
    settings.to_environment()
    name = "aline.app.service.app:from_environment"
    uvicorn.run(name, factory=True, workers=workers, **options(settings))


def options(settings: Settings) -> dict[str, Any]:
    """How uvicorn is to serve."""
    return {
        "host": settings.host,
        "port": settings.port,
        "access_log": False,  # the guard's lines say more
        "log_level": "warning",
        "timeout_graceful_shutdown": 3,
        "timeout_worker_healthcheck": 60,  # a worker that is busy or starts slowly is not dead
        "server_header": False,
        "http": Protocol,
        "ws": "none",
        "proxy_headers": False,  # the guard reads them
    }


def _check(settings: Settings, storage: Storage, workers: int) -> None:
    if workers > 1 and settings.storage == "memory://":
        raise InputError(
            "several workers need a storage they share: add --storage sqlite:///lab.db"
        )
    if settings.needs_token and not storage.tokens():
        kept = shown(settings.storage)
        raise UserError(
            f"{settings.host} can be reached by others, so every request needs a token and there "
            f"is none yet: make one with aline token add NAME --storage {kept}"
        )
    for folder in settings.models:
        Lab(storage, (folder,))
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as test:
        test.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            test.bind((settings.host, settings.port))
        except OSError as error:
            raise InputError(
                f"port {settings.port} of {settings.host} cannot be used ({error.strerror}): "
                "choose another with --port"
            ) from None


def _demo(storage: Storage) -> str:
    """A new experiment with a simulated participant."""
    lab = Lab(storage)
    demo = lab.create(
        "psychometric",
        key=None,
        name=_free("demo", storage.names()),
        target=["threshold", "slope"],
        metadata={"simulated": DEMO_SEED},
    )
    return demo.name


def _free(name: str, taken: list[str]) -> str:
    numbers = (f"{name} {n}" for n in range(2, len(taken) + 3))
    return next(one for one in (name, *numbers) if one not in taken)


def _close_when_ended(storage: Storage) -> None:
    """Close a storage when SIGTERM ends the process, which it does before Python can tidy up."""

    def end(number: int, _: object) -> None:
        storage.close()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    signal.signal(signal.SIGTERM, end)


def _has_screen() -> bool:
    """Whether a browser could be shown; without one, Python may start a text browser instead."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
