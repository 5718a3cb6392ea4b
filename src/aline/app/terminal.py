"""The user's terminal: lines out, its width, and how to call this program again."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

LONGEST = 110


def say(text: str = "", **style: Any) -> None:
    """A line on the terminal, in colour only where that is wanted."""
    typer.secho(text, color=False if os.environ.get("NO_COLOR") else None, **style)


def silent(text: str = "", **style: Any) -> None:
    """What stands in for `say` where the output is for a machine."""


def show(data: Any, lines: Iterable[str], as_json: bool) -> None:
    """The same result for a machine or for a reader."""
    say(json.dumps(data, indent=2) if as_json else "\n".join(lines).rstrip())


def suggest(title: str, commands: dict[str, str]) -> None:
    """Commands to try next, each with what it does."""
    say(f"\n{title}", bold=True)
    for command, what in commands.items():
        say(f"  # {what}", dim=True)
        say(f"  {program()} {command}")


def width() -> int:
    """How many columns to use; 100 where there is no terminal to ask."""
    return min(LONGEST, shutil.get_terminal_size((100, 24)).columns)


def program() -> str:
    """How to call this program from here: its name where the shell finds it, else its path."""
    if shutil.which("aline") or Path(sys.argv[0]).stem != "aline":
        return "aline"
    path, here = Path(sys.argv[0]).absolute(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def command() -> str:
    """The command that is running, as one would type it."""
    return f"aline {shlex.join(sys.argv[1:])}"
