"""What a user sees when something goes wrong: one line and an exit code, never a traceback."""

from __future__ import annotations

import errno
import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from aline.errors import UserError

USER, OURS = 2, 1
"""Exit codes: the user's mistake, and ours."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

# Typer keeps click's exceptions to itself; a base of a public one is the way to them.
_ClickError: type[Exception] = typer.BadParameter.__mro__[2]


class Commands(TyperGroup):
    """A group of commands that turns every error into one line and an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run, and exit as the command line promises."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except _ClickError as error:
            _stop(_usage(error), USER)
        except typer.Abort:
            _stop("stopped", OURS)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; with --debug, errors keep their traceback."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, _ClickError):
            raise
        except Exception as error:
            if ctx.params.get("debug") or _is_broken_pipe(error):
                raise
            _stop(*_explain(error))


def _explain(error: Exception) -> tuple[str, int]:
    if isinstance(error, UserError):
        return str(error), USER
    if isinstance(error, OSError) and error.errno in _FULL:
        where = "the disk" if error.filename is None else error.filename
        return f"cannot write {where}: {error.strerror}: free some space and try again", USER
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot use {error.filename}: {error.strerror}", USER
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return (
        f"this is a bug in aline, please report it with what `aline --debug …` shows ({what})",
        OURS,
    )


def _is_broken_pipe(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EPIPE


def _usage(error: Any) -> str:
    """A mistake in the command line itself, with where to read on."""
    message = error.format_message()
    if error.__class__.__name__ == "NoArgsIsHelpError":
        return str(message)
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "aline"
    return f"{message.rstrip('.')}: see {path} --help"


def _stop(message: str, code: int) -> NoReturn:
    typer.secho(f"aline: {' '.join(message.split())}", err=True, fg="red" if code else None)
    sys.exit(code)
