"""Services to talk to: in this process for most, and a real one where processes matter."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from serving import Nursery, Service
from starlette.testclient import TestClient

from aline.app.service.app import create_app
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
