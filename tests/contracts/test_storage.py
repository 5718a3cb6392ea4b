"""What every storage does, and what databases add."""

import contextlib
import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from postgresql import Server

from aline.errors import AlineError, NotFoundError, StateError, StorageError
from aline.experiment.storage import (
    Addition,
    Conflict,
    MemoryStorage,
    Storage,
    UsedKeyError,
    open_storage,
)
from aline.experiment.storage.base import to_text
from aline.experiment.storage.database import DatabaseStorage

Open = Callable[[], Storage]


def sqlite(path: Path) -> DatabaseStorage:
    return DatabaseStorage(f"sqlite:///{path}")


def execute(storage: DatabaseStorage, sql: str) -> list[Any]:
    """Run SQL behind a storage's back."""
    with storage._engine.begin() as connection:
        result = connection.exec_driver_sql(sql)
        return [row[0] for row in result] if result.returns_rows else []


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same storage again and again; memory is one object that everybody shares."""
    if request.param == "memory":
        memory = MemoryStorage()
        yield lambda: memory
        return
    url = f"sqlite:///{tmp_path}/lab.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql").emptied()
    opened: list[Storage] = []

    def open_again() -> Storage:
        opened.append(open_storage(url))
        return opened[-1]

    yield open_again
    for storage in opened:
        storage.close()


def event(number: int) -> dict[str, object]:
    return {"event": "counted", "number": number, "design": {"x": 0.1}, "none": None, "yes": True}


def test_starts_empty(reopen: Open) -> None:
    assert reopen().names() == []


def test_reads_what_was_written(reopen: Open) -> None:
    storage = reopen()
    storage.create("a", event(0))
    for number in range(1, 5):
        storage.append("a", number, event(number))
    assert storage.read("a") == [event(number) for number in range(5)]
    assert storage.read("a", 3) == [event(3), event(4)]
    assert storage.read("a", 5) == []


def test_another_reader_sees_the_same(reopen: Open) -> None:
    writer, reader = reopen(), reopen()
    writer.create("a", event(0))
    writer.append("a", 1, event(1))
    assert reader.read("a") == [event(0), event(1)]
    assert reopen().names() == ["a"]


def test_numbers_keep_every_digit(reopen: Open) -> None:
    numbers = {"third": 1 / 3, "tiny": 5e-324, "big": 2**60 + 1}
    reopen().create("a", numbers)
    assert reopen().read("a") == [numbers]


def test_experiments_do_not_mix_and_keep_their_order(reopen: Open) -> None:
    storage = reopen()
    for name in ("zebra", "ape", "a'; DROP TABLE events; --", "ünï çødé"):
        storage.create(name, {"name": name})
        storage.append(name, 1, event(1))
    assert storage.names() == ["zebra", "ape", "a'; DROP TABLE events; --", "ünï çødé"]
    assert storage.read("ape") == [{"name": "ape"}, event(1)]


def test_a_name_is_taken_once(reopen: Open) -> None:
    reopen().create("a", event(0))
    with pytest.raises(StateError, match=r"named 'a' is in this storage already.*resume"):
        reopen().create("a", event(7))
    assert reopen().read("a") == [event(0)]


def test_a_key_makes_one_experiment(reopen: Open) -> None:
    one, two = reopen(), reopen()
    one.create("a", {"key": "k"})
    one.create("b", {"key": "another"})
    for storage in (one, two, reopen()):  # who knows of it, who does not yet, who was not there
        with pytest.raises(UsedKeyError, match="the key 'k' has made experiment 'a'") as raised:
            storage.create("c", {"key": "k"})
        assert raised.value.name == "a"
        with pytest.raises(StateError, match="named 'a' is in this storage already"):
            storage.create("a", {"key": "k"})
    two.create("c", {"key": "K"})
    two.create("d", {"metadata": {"key": "k"}})
    assert one.names() == ["a", "b", "c", "d"]


def test_a_key_makes_one_experiment_whoever_is_first(reopen: Open) -> None:
    storages = [reopen() for _ in range(4)]
    ready = threading.Barrier(len(storages))

    def create(number: int, turn: int) -> str:
        ready.wait()
        try:
            storages[number].create(f"{turn}-{number}", {"key": f"k{turn}"})
        except UsedKeyError as error:
            return error.name
        return f"{turn}-{number}"

    with ThreadPoolExecutor(len(storages)) as pool:
        for turn in range(10):
            made = list(pool.map(create, range(len(storages)), [turn] * len(storages)))
            assert len(set(made)) == 1
    assert len(reopen().names()) == 10


@pytest.mark.parametrize("sequence", [0, 1, 3, -1])
def test_only_the_next_place_is_free(reopen: Open, sequence: int) -> None:
    storage = reopen()
    storage.create("a", event(0))
    storage.append("a", 1, event(1))
    with pytest.raises(Conflict, match=f"event {sequence} is not the next of experiment 'a'"):
        storage.append("a", sequence, event(9))
    assert storage.read("a") == [event(0), event(1)]


def test_of_two_writers_the_first_wins(reopen: Open) -> None:
    one, two = reopen(), reopen()
    one.create("a", event(0))
    one.append("a", 1, event(1))
    with pytest.raises(Conflict):
        two.append("a", 1, event(2))
    two.append("a", 2, event(2))
    assert one.read("a", 1) == [event(1), event(2)]


def test_an_unknown_experiment_is_named(reopen: Open) -> None:
    storage = reopen()
    storage.create("a", event(0))
    with pytest.raises(NotFoundError, match="the storage holds 'a', got 'b'"):
        storage.read("b")
    with pytest.raises(NotFoundError, match="got 'b'"):
        storage.append("b", 1, event(1))
    assert storage.names() == ["a"]


def addition(name: str, sequence: int, count: int = 1) -> Addition:
    return Addition(name, sequence, [to_text(event(sequence + n)) for n in range(count)])


def test_several_journals_are_written_in_one_go(reopen: Open) -> None:
    storage = reopen()
    for name in ("b", "a"):
        storage.create(name, event(0))
    assert storage.write([addition("b", 1, 2), addition("a", 1)]) == [None, None]
    assert reopen().read("b") == [event(0), event(1), event(2)]
    assert reopen().read("a") == [event(0), event(1)]


def test_what_cannot_be_written_keeps_nothing_else_out(reopen: Open) -> None:
    storage = reopen()
    for name in ("a", "b", "c"):
        storage.create(name, event(0))
    storage.append("b", 1, event(7))
    late = [addition("a", 1), addition("b", 1, 2), addition("nowhere", 1), addition("c", 1)]
    problems = storage.write(late)
    assert [type(one) for one in problems] == [type(None), Conflict, NotFoundError, type(None)]
    assert storage.lengths() == {"a": 2, "b": 2, "c": 2}
    assert storage.read("b") == [event(0), event(7)]


def test_groups_in_any_order_do_not_wait_for_each_other(reopen: Open) -> None:
    """Two writers at the same places: each place is taken once, and nobody is stuck."""
    writers, names = [reopen(), reopen()], [f"e{n}" for n in range(6)]
    for name in names:
        writers[0].create(name, event(0))

    def write(who: int) -> list[list[bool]]:
        order = names[:: 1 if who else -1]
        found = []
        for sequence in range(1, 11):
            problems = writers[who].write([addition(name, sequence) for name in order])
            found.append([one is None for one in problems][:: 1 if who else -1])
        return found

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(write, (0, 1))
    for first, second in zip(one, two, strict=True):
        assert not any(a and b for a, b in zip(first, second, strict=True))
    lengths = writers[0].lengths()
    assert all(
        lengths[name] == 1 + sum(row[n] for row in one) + sum(row[n] for row in two)
        for n, name in enumerate(names)
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_what_is_no_json_is_refused_whole(reopen: Open, value: object) -> None:
    storage = reopen()
    storage.create("a", event(0))
    with pytest.raises(StorageError, match="plain JSON"):
        storage.append("a", 1, {"value": value})
    with pytest.raises(StorageError, match="plain JSON"):
        storage.create("b", {"value": value})
    assert storage.read("a") == [event(0)]
    assert storage.names() == ["a"]


def test_lengths_count_events_in_order(reopen: Open) -> None:
    storage = reopen()
    for name in ("b", "a", "c"):
        storage.create(name, event(0))
    reopen().append("a", 1, event(1))
    assert list(storage.lengths().items()) == [("b", 1), ("a", 2), ("c", 1)]
    assert storage.lengths(["c", "a", "nowhere"]) == {"a": 2, "c": 1}
    assert storage.lengths([]) == {}


def test_tokens_are_kept_by_name(reopen: Open) -> None:
    storage = reopen()
    assert storage.tokens() == {}
    storage.add_token("tablet", "12ab")
    with pytest.raises(StateError, match="a token named 'tablet' is there already"):
        storage.add_token("tablet", "34cd")
    assert reopen().tokens() == {"tablet": "12ab"}
    with pytest.raises(NotFoundError, match="tokens are tablet, got 'phone'"):
        storage.remove_token("phone")
    storage.remove_token("tablet")
    assert reopen().tokens() == {}


def test_threads_that_write_together(reopen: Open) -> None:
    """Of many writers at one place exactly one gets it, whatever thread they are in."""
    storage, writers = reopen(), 4
    storage.create("a", event(0))

    def write(who: int) -> int:
        conflicts = 0
        for number in range(10):
            while True:
                try:
                    storage.append("a", len(storage.read("a")), {"who": who, "n": number})
                    break
                except Conflict:
                    conflicts += 1
        return conflicts

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    events = storage.read("a")[1:]
    for who in range(writers):
        assert [e["n"] for e in events if e["who"] == who] == list(range(10))


def test_what_was_read_can_be_changed_without_harm(reopen: Open) -> None:
    storage, mine = reopen(), {"list": [1]}
    storage.create("a", mine)
    mine["list"].append(2)
    storage.read("a")[0]["list"].append(3)
    assert storage.read("a") == [{"list": [1]}]


@pytest.mark.parametrize(
    "url",
    [
        "postgres://lab",
        "postgresql://",
        "sqlite://",
        "sqlite:///",
        "sqlite:/lab.db",
        "lab.db",
        "memory",
        "",
        None,
        3,
    ],
)
def test_other_urls_are_explained(url: object) -> None:
    with pytest.raises(StorageError, match=r'storage must be "memory://".*got'):
        open_storage(url)


class TestSqlite:
    def test_relative_and_absolute_paths(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        open_storage("sqlite:///here.db").create("a", event(0))
        assert (tmp_path / "here.db").is_file()
        assert open_storage(f"sqlite:///{tmp_path}/here.db").names() == ["a"]

    def test_every_event_is_synced_to_disk(self, tmp_path: Path) -> None:
        storage = sqlite(tmp_path / "lab.db")
        assert execute(storage, "PRAGMA synchronous") == [2]  # FULL
        assert execute(storage, "PRAGMA journal_mode") == ["wal"]

    def test_a_copy_of_the_files_holds_every_event(self, tmp_path: Path) -> None:
        """As after a crash: nothing was closed, and what is on disk is all there is."""
        storage = sqlite(tmp_path / "lab.db")
        storage.create("a", event(0))
        storage.append("a", 1, event(1))
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        for file in tmp_path.glob("lab.db*"):
            shutil.copy(file, crashed)
        assert sqlite(crashed / "lab.db").read("a") == [event(0), event(1)]

    def test_must_exist(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError, match=r"no database at .*typo\.db: check the path"):
            open_storage(f"sqlite:///{tmp_path}/typo.db", must_exist=True)
        assert not list(tmp_path.iterdir())

    def test_folder_must_exist(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError, match=r"no folder .*: create it"):
            open_storage(f"sqlite:///{tmp_path}/nowhere/lab.db")

    def test_a_folder_is_no_database(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError, match="cannot be opened"):
            sqlite(tmp_path)

    def test_newer_file(self, tmp_path: Path) -> None:
        storage = sqlite(tmp_path / "lab.db")
        execute(storage, "PRAGMA user_version = 99")
        with pytest.raises(StorageError, match="has format 99, this aline reads up to 2: upgrade"):
            sqlite(tmp_path / "lab.db")

    def test_newer_steps(self, tmp_path: Path) -> None:
        storage = sqlite(tmp_path / "lab.db")
        execute(storage, "UPDATE alembic_version SET version_num = '0099'")
        with pytest.raises(StorageError, match="has format 0099, this aline reads up to 0002"):
            sqlite(tmp_path / "lab.db")

    def test_the_first_alines_files_are_upgraded_with_all_they_hold(self, tmp_path: Path) -> None:
        write_first_format(tmp_path / "lab.db", {"zebra": [event(0), event(1)], "ape": [event(2)]})
        storage = sqlite(tmp_path / "lab.db")
        assert storage.names() == ["zebra", "ape"]
        assert storage.read("zebra") == [event(0), event(1)]
        storage.append("zebra", 2, event(2))
        storage.create("new", event(0))
        assert sqlite(tmp_path / "lab.db").lengths() == {"zebra": 3, "ape": 1, "new": 1}
        with pytest.raises(StateError, match="named 'ape' is in this storage already"):
            storage.create("ape", event(0))

    def test_a_failed_upgrade_leaves_the_file_as_it_was(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_first_format(tmp_path / "lab.db", {"a": [event(0)]})
        from alembic.migration import MigrationContext

        def fail(*_: object) -> None:
            raise RuntimeError("power cut")

        with monkeypatch.context() as patch:
            patch.setattr(MigrationContext, "stamp", fail)
            with pytest.raises(RuntimeError, match="power cut"):
                sqlite(tmp_path / "lab.db")
        connection = sqlite3.connect(tmp_path / "lab.db")
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema")]
        connection.close()
        assert "experiments" not in tables
        assert sqlite(tmp_path / "lab.db").names() == ["a"]

    def test_paths_with_signs_that_mean_something_in_urls(self, tmp_path: Path) -> None:
        path = tmp_path / "what? 100%20.db"
        sqlite(path).create("a", event(0))
        assert path.is_file()

    def test_foreign_database_is_left_alone(self, tmp_path: Path) -> None:
        connection = sqlite3.connect(tmp_path / "other.db")
        connection.execute("CREATE TABLE theirs (a)")
        connection.commit()
        connection.close()
        before = (tmp_path / "other.db").read_bytes()
        with pytest.raises(StorageError, match="a database of another program"):
            sqlite(tmp_path / "other.db")
        assert (tmp_path / "other.db").read_bytes() == before

    def test_no_database_at_all(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("threshold was 0.3 " * 100)
        with pytest.raises(StorageError, match="damaged, or no SQLite database"):
            sqlite(tmp_path / "notes.txt")

    def test_damaged_file(self, tmp_path: Path) -> None:
        storage = sqlite(tmp_path / "lab.db")
        for number in range(50):
            storage.create(f"experiment {number}", {"text": "x" * 1000})
        storage.close()
        content = bytearray((tmp_path / "lab.db").read_bytes())
        content[4096 : len(content) - 4096] = os.urandom(len(content) - 8192)
        (tmp_path / "lab.db").write_bytes(content)
        with pytest.raises(StorageError, match=r"lab\.db: damaged"):
            sqlite(tmp_path / "lab.db").names()

    @pytest.mark.parametrize(
        ("sql", "message"),
        [
            ("DELETE FROM events WHERE sequence = 1", "events of experiment 'a' are missing"),
            ("UPDATE events SET event = '{' WHERE sequence = 1", "event 1 .* is damaged"),
            ("UPDATE events SET event = '7' WHERE sequence = 1", "event 1 .* is damaged"),
            ("DROP TABLE events", "no such table"),
        ],
    )
    def test_damaged_journal(self, tmp_path: Path, sql: str, message: str) -> None:
        storage = sqlite(tmp_path / "lab.db")
        storage.create("a", event(0))
        storage.append("a", 1, event(1))
        storage.append("a", 2, event(2))
        execute(storage, sql)
        with pytest.raises(StorageError, match=message):
            storage.read("a")

    def test_locked_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("aline.experiment.storage.database.BUSY_SECONDS", 0.05)
        storage = sqlite(tmp_path / "lab.db")
        storage.create("a", event(0))
        other = sqlite3.connect(tmp_path / "lab.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="another process keeps it locked"):
            storage.append("a", 1, event(1))
        other.execute("ROLLBACK")
        storage.append("a", 1, event(1))
        other.close()

    def test_closed_storage(self, tmp_path: Path) -> None:
        storage = sqlite(tmp_path / "lab.db")
        storage.close()
        storage.close()
        with pytest.raises(StorageError, match="closed"):
            storage.names()

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_processes_that_start_and_write_together(self, tmp_path: Path) -> None:
        """Each opens a file that is not there yet and appends; no event is lost or doubled."""
        path, writers, each = tmp_path / "lab.db", 4, 15
        children = [_fork(lambda who=who: _write(path, who, each)) for who in range(writers)]
        statuses = [os.waitpid(child, 0)[1] for child in children]
        assert statuses == [0] * writers
        events = sqlite(path).read("shared")[1:]
        assert len(events) == writers * each
        for who in range(writers):
            assert [e["n"] for e in events if e["who"] == who] == list(range(each))


class TestPostgresql:
    def test_our_tables_stay_out_of_the_way(self, postgresql: Server) -> None:
        """A lab's database may have tables called events and tokens of its own."""
        url = postgresql.emptied()
        postgresql.execute("CREATE TABLE public.events (theirs int)")
        storage = open_storage(url)
        storage.create("a", event(0))
        assert open_storage(url).names() == ["a"]
        postgresql.execute("INSERT INTO public.events VALUES (1)")
        storage.close()

    def test_errors_show_no_password(self, postgresql: Server) -> None:
        url = postgresql.url.replace("aline@/postgres", "someone:secret@/nowhere")
        with pytest.raises(
            StorageError, match=r"the database refused .* check that it runs"
        ) as one:
            open_storage(url)
        assert "secret" not in str(one.value)

    def test_a_malformed_url_shows_no_password(self) -> None:
        with pytest.raises(StorageError, match="check the URL") as one:
            open_storage("postgresql://someone:secret@host:port/x")
        assert "secret" not in str(one.value)

    def test_lost_connections_are_opened_again(self, postgresql: Server) -> None:
        url = postgresql.emptied()
        storage = open_storage(url)
        storage.create("a", event(0))
        postgresql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()",
        )
        storage.append("a", 1, event(1))
        assert storage.read("a") == [event(0), event(1)]
        storage.close()


def write_first_format(path: Path, journals: dict[str, list[dict[str, object]]]) -> None:
    """A file as the first aline wrote it, before there were SQLAlchemy and Alembic."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript("""
        PRAGMA journal_mode = WAL;
        BEGIN IMMEDIATE;
        CREATE TABLE IF NOT EXISTS events (
            experiment TEXT NOT NULL,
            sequence INTEGER NOT NULL,
            event TEXT NOT NULL,
            PRIMARY KEY (experiment, sequence)
        );
        PRAGMA application_id = 1095518542;
        PRAGMA user_version = 1;
        COMMIT;
    """)
    for name, events in journals.items():
        for sequence, one in enumerate(events):
            row = (name, sequence, json.dumps(one))
            connection.execute("INSERT INTO events VALUES (?, ?, ?)", row)
    connection.close()


def _write(path: Path, who: int, count: int) -> None:
    storage = sqlite(path)
    with contextlib.suppress(StateError):  # another was first
        storage.create("shared", {})
    for number in range(count):
        while True:
            try:
                storage.append("shared", len(storage.read("shared")), {"who": who, "n": number})
                break
            except Conflict:
                continue


def _fork(work: Callable[[], None]) -> int:
    """Run something in a child process; it exits with 0 if nothing was raised."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except AlineError as error:
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(status)
