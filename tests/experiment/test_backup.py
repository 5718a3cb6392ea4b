"""Copies of databases that are in use."""

import stat
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aline.app.cli import app
from aline.errors import InputError, StorageError
from aline.experiment import open_storage
from aline.experiment.storage.backup import back_up


def test_a_copy_while_somebody_writes_is_whole(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    storage = open_storage(url)
    storage.create("a", {"event": "created"})
    done = threading.Event()

    def write() -> None:
        number = 1
        while not done.is_set():
            storage.append("a", number, {"event": "counted", "number": number})
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    lengths = []
    for number in range(5):
        assert back_up(url, tmp_path / f"copy {number}.db") == 1
        copy = open_storage(f"sqlite:///{tmp_path}/copy {number}.db", must_exist=True)
        lengths.append(len(copy.read("a")))  # which checks that none is missing
        copy.close()
    done.set()
    writer.join()
    assert lengths == sorted(lengths)
    assert lengths[-1] <= len(storage.read("a"))
    storage.close()


def test_tokens_are_copied_and_the_file_is_its_owners(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    storage = open_storage(url)
    storage.add_token("tablet", "digest")
    back_up(url, tmp_path / "copy.db")
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    copy = open_storage(f"sqlite:///{tmp_path}/copy.db")
    assert copy.tokens() == {"tablet": "digest"}
    copy.close()
    storage.close()


def test_mistakes(tmp_path: Path) -> None:
    url, copy = f"sqlite:///{tmp_path}/lab.db", tmp_path / "copy.db"
    with pytest.raises(StorageError, match="no database at"):
        back_up(url, copy)
    with pytest.raises(InputError, match="pg_dump") as raised:
        back_up("postgresql://me:topsecret@host/lab", copy)
    assert "topsecret" not in str(raised.value)
    (tmp_path / "lab.db").write_text("no database, but long enough to be taken for one")
    with pytest.raises(StorageError, match="cannot be copied"):
        back_up(url, copy)
    assert [one.name for one in tmp_path.iterdir()] == ["lab.db"]
    copy.write_text("mine")
    with pytest.raises(InputError, match="there already"):
        back_up(url, copy)
    assert copy.read_text() == "mine"


def test_the_command(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    storage = open_storage(url)
    storage.create("a", {"event": "created"})
    done = CliRunner().invoke(app, ["backup", str(tmp_path / "copy.db"), "--storage", url])
    assert done.exit_code == 0
    assert "1 experiment copied to" in done.output
    storage.close()
