"""The command: what it refuses, and that it really serves."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from serving import free_port
from typer.testing import CliRunner

from aline.app.cli import app
from aline.app.service.serve import _free
from aline.experiment import open_storage
from aline.experiment.storage import shown


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.output


def test_another_host_without_a_token_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    code, text = run("serve", "--host", "0.0.0.0", "--storage", url)
    assert code == 2
    assert "aline token add NAME" in text


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, text = run("serve", "--port", port, "--storage", f"sqlite:///{tmp_path}/lab.db")
    assert code == 2
    assert "choose another with --port" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--storage", "mysql://lab"], "storage must be"),
        (["--storage", "memory://", "--workers", "2"], "several workers need a storage"),
        (["--storage", "memory://", "--model", "/nowhere"], "a model must be a folder"),
        (["--storage", "memory://", "--host", "not a host"], "token"),
    ],
)
def test_mistakes(arguments: list[str], words: str) -> None:
    code, text = run("serve", *arguments)
    assert code == 2
    assert words in " ".join(text.split())


def test_tokens_are_made_listed_and_removed(tmp_path: Path) -> None:
    storage = ["--storage", f"sqlite:///{tmp_path}/lab.db"]
    code, token = run("token", "add", "tablet", *storage)
    assert code == 0
    assert token.startswith("aline_")
    assert token.strip() not in str(open_storage(storage[1]).tokens())
    assert run("token", "list", *storage) == (0, "tablet\n")
    assert run("token", "add", "tablet", *storage)[0] == 2
    assert run("token", "remove", "tablet", *storage)[0] == 0
    assert run("token", "remove", "tablet", *storage)[0] == 2


def test_names_and_urls() -> None:
    assert _free("demo", []) == "demo"
    assert _free("demo", ["demo", "demo 2"]) == "demo 3"
    assert shown("postgresql://me:secret@host/db") == "postgresql://me:***@host/db"
    assert shown("sqlite:///lab.db?password=x") == "sqlite:///lab.db?password=x"  # a path


def test_it_serves_with_two_workers_and_stops(tmp_path: Path) -> None:
    port, url = free_port(), f"sqlite:///{tmp_path}/lab.db"
    program = "from aline.app.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", "--demo", "--no-browser", "--workers", "2"]
    process = subprocess.Popen(
        [*command, "--storage", url, "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"aline is at http://127.0.0.1:{port}/experiments/demo")
        page = _fetch(f"http://127.0.0.1:{port}/experiments/demo")
        assert "simulated" in page
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stdout.close()
    assert open_storage(url).names() == ["demo"]


def test_sigterm_leaves_everything_in_the_file(tmp_path: Path) -> None:
    """uvicorn ends the process by the signal itself, before Python closes anything."""
    port, url = free_port(), f"sqlite:///{tmp_path}/lab.db"
    program = "from aline.app.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", "--demo", "--no-browser"]
    process = subprocess.Popen(
        [*command, "--storage", url, "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert '"ok"' in _fetch(f"http://127.0.0.1:{port}/health")
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
    shutil.copy(tmp_path / "lab.db", tmp_path / "alone.db")
    copy = open_storage(f"sqlite:///{tmp_path}/alone.db", must_exist=True)
    assert copy.names() == ["demo"]
    copy.close()


def _fetch(url: str) -> str:
    deadline = time.monotonic() + 240
    while True:
        try:
            with urlopen(url, timeout=60) as reply:
                return str(reply.read().decode())
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
