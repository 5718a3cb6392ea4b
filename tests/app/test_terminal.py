import os
import sys
from pathlib import Path

import pytest

from aline.app import terminal


def test_the_program_is_named_as_the_shell_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/aline")
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/aline", "demo"])
    assert terminal.program() == "aline"


def test_a_program_off_the_path_is_named_by_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / ".venv/bin/aline"), "demo"])
    assert terminal.program() == os.path.join(".venv", "bin", "aline")
    monkeypatch.setattr(sys, "argv", ["/elsewhere/aline", "demo"])
    assert terminal.program() == "/elsewhere/aline"


def test_the_command_can_be_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/x/aline", "demo", "my model", "--seed", "3"])
    assert terminal.command() == "aline demo 'my model' --seed 3"


def test_suggestions_say_what_they_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/aline")
    terminal.suggest("Try next", {"demo": "again", "tasks --json": "more"})
    assert capsys.readouterr().out.splitlines() == [
        "",
        "Try next",
        "  # again",
        "  aline demo",
        "  # more",
        "  aline tasks --json",
    ]
