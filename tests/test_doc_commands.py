"""The commands that README and docs show are commands: of aline, with options that it has."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
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


def parsed(words: list[str], parent: click.Context | None = None) -> click.Context:
    """A command of aline, read as the shell would have it and not run."""
    context = parent or PROGRAM.make_context("aline", [], resilient_parsing=True)
    command = context.command
    if not isinstance(command, click.Group):
        return context
    found = command.get_command(context, words[0])
    assert found is not None, words
    if isinstance(found, click.Group):
        inner = found.make_context(words[0], [], parent=context, resilient_parsing=True)
        return parsed(words[1:], inner)
    return found.make_context(words[0], words[1:], parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_can_be_typed(page: Path) -> None:
    for line in lines(page):
        if not re.search(r"(^|-m )aline ", line):
            continue
        words = shlex.split(line, comments=True)
        parsed(words[words.index("aline") + 1 :])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_in_sentences_are_there(page: Path) -> None:
    for span in spans(page):
        words = [word.partition("=")[0] for word in span.split()[1:]]
        command: click.Command = PROGRAM
        while isinstance(command, click.Group) and words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
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
