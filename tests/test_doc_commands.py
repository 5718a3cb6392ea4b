"""The commands that README and docs show are commands: of aline, with options that it has."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from aline.app.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = ("bash", "text", "")  # the fences that hold them
PROGRAM = typer.main.get_command(app)


def fences(page: Path) -> Iterator[tuple[str, str]]:
    """The blocks of code of a page, with their languages."""
    pattern = r"^```(\w*)\n(.*?)^```$"
    yield from re.findall(pattern, page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def lines(page: Path) -> Iterator[str]:
    """The lines of its commands, whole where they go on below."""
    for language, code in fences(page):
        if language in COMMANDS:
            yield from code.replace("\\\n", " ").splitlines()


def spans(page: Path) -> Iterator[str]:
    """Commands within sentences, which may leave something out."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    for found in re.findall(r"`(aline [^`]*)`", prose):
        yield " ".join(found.split())


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that words name, and the words that are left for it."""
    command: Any = PROGRAM
    while words and words[0] in getattr(command, "commands", ()):
        command, words = command.commands[words[0]], words[1:]
    return command, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_can_be_typed(page: Path) -> None:
    for line in lines(page):
        if not re.search(r"(^|-m )aline ", line):
            continue
        words = shlex.split(line, comments=True)
        command, rest = command_of(words[words.index("aline") + 1 :])
        assert command is not PROGRAM, f"{page.name}: {line}"
        command.make_context(command.name, rest)  # reads options and arguments, and runs nothing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_in_sentences_are_there(page: Path) -> None:
    for span in spans(page):
        command, words = command_of([word.partition("=")[0] for word in span.split()[1:]])
        known = {name for option in command.params for name in option.opts + option.secondary_opts}
        asked = {word for word in words if word.startswith("--")} - {"--help"}
        assert command is not PROGRAM or asked, f"{page.name}: {span}"
        assert asked <= known, f"{page.name}: {span}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_scripts_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"(?<![\w/])((?:scripts|benchmarks|examples)/[\w/.-]*\w)", text)
    for name in named:
        assert (ROOT / name).exists(), f"{page.name}: {name}"
