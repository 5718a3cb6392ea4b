"""Services to talk to: in this process for most, and a real one where processes matter."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import uvicorn
from serving import Nursery, Service, free_port
from starlette.testclient import TestClient

from aline.app.service.app import create_app
from aline.app.service.serve import options
from aline.app.service.settings import Settings
from aline.experiment import Storage, open_storage

Open = Callable[..., TestClient]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def open_client() -> Iterator[Open]:
    """Clients of services in this process, each around a storage."""
    clients: list[TestClient] = []

    def start(storage: Storage | str = "memory://", **settings: Any) -> TestClient:
        kept = open_storage(storage)
        client = TestClient(
            create_app(Settings(**settings), kept), "http://localhost", follow_redirects=False
        )
        clients.append(client.__enter__())
        return client

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(open_client: Open) -> TestClient:
    return open_client()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    one = Nursery()
    yield one
    one.close()


@pytest.fixture(scope="module")
def service(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service in a process of its own."""
    folder = tmp_path_factory.mktemp("service")
    one = nursery.start(f"sqlite:///{folder}/lab.db")
    yield one
    one.kill()


class Here:
    """A real server on a real port, in a thread of this process: its bounds can be set lower."""

    def __init__(self, storage: Storage | str, **settings: Any):
        self.port = free_port()
        all_settings = Settings(port=self.port, **settings)
        self.storage = open_storage(storage)
        app = create_app(all_settings, self.storage)
        ours = {**options(all_settings), "timeout_graceful_shutdown": 1}
        self._server = uvicorn.Server(uvicorn.Config(app, **ours, log_config=None))
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)

    def connect(self) -> socket.socket:
        """A connection, on which nothing was said yet."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def call(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content of a reply."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        content = None if body is None else json.dumps(body)
        sent = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, content, {**sent, **headers})
        reply = connection.getresponse()
        found = reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read()
        connection.close()
        return found

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)


@pytest.fixture
def serve_here() -> Iterator[Callable[..., Here]]:
    """Starts servers in this process."""
    servers: list[Here] = []

    def start(storage: Storage | str = "memory://", **settings: Any) -> Here:
        servers.append(Here(storage, **settings))
        return servers[-1]

    yield start
    for one in servers:
        one.stop()
