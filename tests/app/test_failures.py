from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner, Result

from aline.app.failures import Commands
from aline.errors import InputError, InternalError

app = typer.Typer(cls=Commands, add_completion=False, pretty_exceptions_enable=False)
FAILURES: dict[str, Exception] = {
    "user": InputError("x must be positive,\n got -1: pass a positive x"),
    "ours": InternalError("the loss became nan"),
    "bug": KeyError("weights"),
    "silent": RuntimeError(),
    "file": PermissionError(13, "Permission denied", "/locked/report.html"),
    "stop": typer.Abort(),
    "leave": typer.Exit(5),
}


@app.callback()
def options(debug: bool = False) -> None:
    """A program that fails."""


@app.command()
def fail(how: str) -> None:
    """Fail in some way."""
    raise FAILURES[how]


@app.command()
def count(number: Annotated[int, typer.Option(min=1)]) -> None:
    """Count."""
    typer.echo(str(number))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), prog_name="aline")


@pytest.mark.parametrize(
    ("how", "code", "line"),
    [
        ("user", 2, "aline: x must be positive, got -1: pass a positive x"),
        ("file", 2, "aline: cannot use /locked/report.html: Permission denied"),
        ("ours", 1, "(InternalError: the loss became nan)"),
        ("bug", 1, "this is a bug in aline, please report it"),
        ("silent", 1, "(RuntimeError)"),
        ("stop", 1, "aline: stopped"),
    ],
)
def test_a_failure_is_one_line_and_an_exit_code(how: str, code: int, line: str) -> None:
    result = run("fail", how)
    assert result.exit_code == code
    assert result.stdout == ""
    assert line in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_command_may_choose_its_exit_code() -> None:
    result = run("fail", "leave")
    assert (result.exit_code, result.output) == (5, "")


@pytest.mark.parametrize("how", ["user", "bug"])
def test_debug_keeps_the_traceback(how: str) -> None:
    assert run("--debug", "fail", how).exception is FAILURES[how]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["count"], "Missing option '--number': see aline count --help"),
        (["count", "--number", "0"], "see aline count --help"),
        (["count", "--number", "two"], "see aline count --help"),
        (["count", "--numbers", "2"], "see aline count --help"),
        (["counts"], "Did you mean 'count'?"),
        ([], "Missing command: see aline --help"),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: list[str], line: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert line in result.stderr
    assert result.stderr.count("\n") == 1


def test_success_is_zero() -> None:
    result = run("count", "--number", "3")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "3\n", "")
