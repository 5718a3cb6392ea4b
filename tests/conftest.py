"""What tests of several folders share."""

from collections.abc import Iterator

import chromium
import postgresql as postgresql_server
import pytest


@pytest.fixture(scope="session")
def postgresql() -> Iterator[postgresql_server.Server]:
    """A PostgreSQL server, or a skip with the reason."""
    if postgresql_server.find_program("initdb") is None:
        pytest.skip(postgresql_server.REASON)
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    server = postgresql_server.Server()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Browser]:
    """Chromium, or a skip with the reason."""
    with chromium.started(tmp_path_factory.mktemp("downloads")) as one:
        yield one
