"""Experiments in a database: every event is on disk before its call returns.

An SQLite file for one machine, PostgreSQL where several share experiments; SQLAlchemy speaks to
both. Any number of processes may have one database open.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from aline.errors import StorageError, UserError
from aline.experiment.storage import base
from aline.experiment.storage.base import Addition, Event, Storage
from aline.experiment.storage.creations import Creations, take_turn
from aline.experiment.storage.upgrade import HEAD, upgrade
from aline.experiment.storage.url import shown

SQLITE = "sqlite:///"
APPLICATION = 0x414C494E  # "ALIN", how we know our own SQLite files
FORMATS = (1, int(HEAD))  # of SQLite files: the first aline's, and the last that this one reads
BUSY_SECONDS = 30.0  # how long to wait for another process's write
CONNECTIONS = 20  # of one process to one PostgreSQL
ANSWER_SECONDS = 0.1  # of it: others may have stopped it, while a file is as quick as its disk

_EVENTS = sa.table("events", sa.column("experiment"), sa.column("sequence"), sa.column("event"))
_EXPERIMENTS = sa.table("experiments", sa.column("number"), sa.column("name"))
_TOKENS = sa.table("tokens", sa.column("name"), sa.column("digest"))

# One statement finds the journal's end and writes behind it, or does nothing. Of two that find
# the same end at once, the primary key lets one through.
_APPEND = sa.text("""
INSERT INTO events (experiment, sequence, event)
SELECT CAST(:name AS TEXT), CAST(:sequence AS INTEGER), CAST(:event AS TEXT)
WHERE :sequence = (SELECT MAX(sequence) + 1 FROM events WHERE experiment = :name)
""")
_READ = (
    sa.select(_EVENTS.c.sequence, _EVENTS.c.event)
    .where(_EVENTS.c.experiment == sa.bindparam("name"))
    .where(_EVENTS.c.sequence >= sa.bindparam("start"))
    .order_by(_EVENTS.c.sequence)
)
_LENGTHS = sa.select(
    _EXPERIMENTS.c.name,
    sa.select(sa.func.max(_EVENTS.c.sequence) + 1)
    .where(_EVENTS.c.experiment == _EXPERIMENTS.c.name)
    .scalar_subquery(),
).order_by(_EXPERIMENTS.c.number)


class DatabaseStorage(Storage):
    """Journals in one table of a database."""

    def __init__(self, url: str, *, must_exist: bool = False):
        """`url` is sqlite:///path or postgresql://user:password@host/name."""
        if url.startswith(SQLITE):
            self._where = url.removeprefix(SQLITE)  # as it is: a path may hold ? and %
            with self._explained():
                self._engine = _open_sqlite(Path(self._where), must_exist)
            # SQLite takes one write at a time; its own way to wait is to sleep and try again.
            self._turn: contextlib.AbstractContextManager[Any] = threading.Lock()
        else:
            parsed = _parse(url)
            self._where = shown(url)
            self._engine = _open_postgresql(parsed)
            self.answer_seconds = ANSWER_SECONDS
            self._turn = contextlib.nullcontext()
        self._creations = Creations()
        self._is_open = True
        self._finalizer = weakref.finalize(self, self._engine.dispose)
        with self._explained():
            upgrade(self._engine, self._where)

    def create(self, name: str, event: Event) -> None:
        """Start a journal."""
        text, key = base.to_text(event), event.get("key")
        if key is not None:
            with self._explained(), self._engine.connect() as connection:
                self._creations.find(connection, key)  # now, as it may take long: below others wait
        with self._explained(), self._turn, self._engine.begin() as connection:
            if key is not None:
                self._check_key(connection, key, name)
            try:
                connection.execute(sa.insert(_EXPERIMENTS), {"name": name})
                row = {"experiment": name, "sequence": 0, "event": text}
                connection.execute(sa.insert(_EVENTS), row)
            except exc.IntegrityError:
                raise base.taken(name) from None

    def _check_key(self, connection: sa.Connection, key: str, name: str) -> None:
        """Refuse a key that made another experiment, whoever creates at the same moment."""
        take_turn(connection)
        made = self._creations.find(connection, key)
        if made is not None and made != name:
            raise base.UsedKeyError(key, made)

    def write(self, additions: Sequence[Addition]) -> list[UserError | None]:
        """Add to several journals."""
        # By name, as two transactions that take the same places in different orders would wait
        # for each other for ever.
        ordered = sorted(additions, key=lambda one: one.name)
        if self._is_written(ordered):
            return [None] * len(additions)
        # Others were first in some of the journals; the rest still goes in at once.
        ends = self.lengths(one.name for one in ordered)
        fitting = [one for one in ordered if ends.get(one.name) == one.sequence]
        rest = bool(fitting) and len(fitting) < len(ordered) and self._is_written(fitting)
        return [self._problem(one, ends.get(one.name), rest) for one in additions]

    def _problem(self, addition: Addition, end: int | None, is_written: bool) -> UserError | None:
        """What kept one addition out of a journal that ended at `end`, unless it `is_written`."""
        if end is None:
            return base.missing(addition.name, self.names())
        if end == addition.sequence and (is_written or self._is_written([addition])):
            return None
        return base.conflict(addition.name, addition.sequence)

    def _is_written(self, additions: Sequence[Addition]) -> bool:
        """Whether all was written in one transaction; nothing is if some could not be."""
        rows = [
            {"name": name, "sequence": sequence, "event": text}
            for name, first, texts in additions
            for sequence, text in enumerate(texts, first)
        ]
        with self._explained(), self._turn, self._engine.connect() as connection:
            try:
                is_whole = connection.execute(_APPEND, rows).rowcount == len(rows)
            except exc.IntegrityError:
                return False
            if is_whole:
                connection.commit()
            return is_whole

    def read(self, name: str, start: int = 0) -> list[dict[str, Any]]:
        """The events from `start` on."""
        with self._explained(), self._engine.connect() as connection:
            rows = connection.execute(_READ, {"name": name, "start": start}).all()
        if not rows:
            self._check_exists(name)
        if [sequence for sequence, _ in rows] != list(range(start, start + len(rows))):
            raise StorageError(
                f"events of experiment {name!r} are missing from {self._where}: "
                "restore it from a copy"
            )
        return [base.from_text(text, name, sequence) for sequence, text in rows]

    def lengths(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """How many events each experiment has."""
        query = _LENGTHS
        if names is not None:
            query = query.where(_EXPERIMENTS.c.name.in_(list(names)))
        with self._explained(), self._engine.connect() as connection:
            return {name: length or 0 for name, length in connection.execute(query)}

    def names(self) -> list[str]:
        """The experiments, the oldest first."""
        query = sa.select(_EXPERIMENTS.c.name).order_by(_EXPERIMENTS.c.number)
        with self._explained(), self._engine.connect() as connection:
            return list(connection.scalars(query))

    def count(self) -> int:
        """How many experiments there are."""
        query = sa.select(sa.func.count()).select_from(_EXPERIMENTS)
        with self._explained(), self._engine.connect() as connection:
            return int(connection.scalar(query) or 0)

    def tokens(self) -> dict[str, str]:
        """The digests of access tokens."""
        query = sa.select(_TOKENS.c.name, _TOKENS.c.digest).order_by(_TOKENS.c.name)
        with self._explained(), self._engine.connect() as connection:
            return {row.name: row.digest for row in connection.execute(query)}

    def add_token(self, name: str, digest: str) -> None:
        """Keep an access token's digest."""
        with self._explained(), self._engine.begin() as connection:
            try:
                connection.execute(sa.insert(_TOKENS), {"name": name, "digest": digest})
            except exc.IntegrityError:
                raise base.token_taken(name) from None

    def remove_token(self, name: str) -> None:
        """Forget an access token."""
        with self._explained(), self._engine.begin() as connection:
            found = connection.execute(sa.delete(_TOKENS).where(_TOKENS.c.name == name)).rowcount
        if not found:
            raise base.token_missing(name, self.tokens())

    def _check_exists(self, name: str) -> None:
        if not self.lengths([name]):
            raise base.missing(name, self.names())

    def close(self) -> None:
        """Close the connections; an SQLite file then holds everything by itself."""
        if self._is_open and self._engine.dialect.name == "sqlite":
            self._settle()
        self._is_open = False
        self._finalizer()

    def _settle(self) -> None:
        """Move what is in the write-ahead log into the file, whoever else has it open."""
        with contextlib.suppress(exc.SQLAlchemyError), self._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout = 1000")  # not as long as a trial may
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what a database says into our errors."""
        if not getattr(self, "_is_open", True):
            raise StorageError(f"{self._where} is closed: open the storage again")
        try:
            yield
        except exc.DBAPIError as error:
            raise StorageError(f"{self._where}: {_remedy(error.orig)}") from None
        except exc.TimeoutError:
            raise StorageError(
                f"{self._where}: all {CONNECTIONS} connections are in use: try again later"
            ) from None


def _open_sqlite(path: Path, must_exist: bool) -> sa.Engine:
    if must_exist and not path.exists():
        raise StorageError(f"no database at {path}: check the path after sqlite:///")
    if not path.parent.is_dir():
        raise StorageError(f"no folder {path.parent}: create it, or give another path")
    # What participants did is for its owner's eyes; the log beside it gets the same permissions.
    # Only if it is new: to close a file that SQLite has open would end its locks.
    with contextlib.suppress(OSError):  # which SQLite explains
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(path)), connect_args={"timeout": BUSY_SECONDS}
    )

    # With WAL and a full sync there is one flush a commit, readers never wait, and a killed
    # process leaves either the whole event or nothing of it.
    @sa.event.listens_for(engine, "connect")
    def sync_every_commit(connection: sqlite3.Connection, _: Any) -> None:
        connection.execute("PRAGMA synchronous = FULL").close()

    try:
        with engine.connect() as connection:
            _check_ours(connection, path)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    except BaseException:
        engine.dispose()
        raise
    return engine


def _check_ours(connection: sa.Connection, path: Path) -> None:
    """Refuse a file of another program before anything in it changes."""

    def number(query: str) -> int:
        return int(connection.exec_driver_sql(query).scalar_one())

    # In this order, as another process may be writing all three in one transaction.
    tables, version = number("SELECT COUNT(*) FROM sqlite_schema"), number("PRAGMA user_version")
    is_ours = number("PRAGMA application_id") == APPLICATION
    if not is_ours and (tables or version):
        raise StorageError(f"{path} is a database of another program: give another path")
    if version > FORMATS[-1]:
        raise StorageError(
            f"{path} has format {version}, this aline reads up to {FORMATS[-1]}: upgrade aline"
        )


def _parse(url: str) -> sa.URL:
    try:
        return sa.make_url(url)
    except (exc.ArgumentError, ValueError):
        # Without the URL, which holds a password.
        raise StorageError(
            "storage must be postgresql://user:password@host:port/database, got something else: "
            "check the URL"
        ) from None


def _open_postgresql(url: sa.URL) -> sa.Engine:
    try:
        # In a schema of our own, as a lab's database may have tables called events or tokens.
        return sa.create_engine(
            url.set(drivername="postgresql+psycopg"),
            connect_args={"options": "-csearch_path=aline", "connect_timeout": 10},
            pool_size=5,
            max_overflow=CONNECTIONS - 5,
            pool_pre_ping=True,
        )
    except ModuleNotFoundError:
        raise StorageError("PostgreSQL needs its driver: pip install aline[postgresql]") from None


def _remedy(error: BaseException | None) -> str:
    if not isinstance(error, sqlite3.Error):
        first = str(error).strip().splitlines()[:1]
        return f"the database refused ({''.join(first)}): check that it runs, and the URL"
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"another process keeps it locked ({error}): try again when that is done"
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return f"damaged, or no SQLite database ({error}): restore it, or give another path"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        return f"cannot be opened for writing ({error}): check its permissions"
    return f"the database refused ({error})"
