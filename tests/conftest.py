"""What tests of several folders share."""

from collections.abc import Iterator

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
