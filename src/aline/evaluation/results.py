"""The one layout of every result, for files, tables and figures alike."""

from __future__ import annotations

import hashlib
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from aline import __version__
from aline.evaluation.estimates import Estimate
from aline.training.run import machine

Row = dict[str, Any]

CHECKOUT = Path(__file__).parents[3]  # where aline runs from its sources
_NOT_RESULTS = ("--", ":(top)", ":(top,exclude)results")
PACKAGES = ("torch", "numpy", "scipy")  # whose versions numbers may depend on

# What the paper reports for the same task, target and metric (its figures, read off).
PUBLISHED = {
    ("psychometric", "threshold,slope", "posterior_rmse", 30): 0.57,
    ("psychometric", "guess,lapse", "posterior_rmse", 30): 0.175,
}


def row(
    task: str, method: str, target: str, metric: str, step: int | None, estimate: Estimate
) -> Row:
    """One measured number; `ci95` is the half width of its interval.

    >>> row("linear", "aline", "slope", "j", 10, Estimate(1.5, 0.1, 500))["value"]
    1.5
    """
    return {
        "task": task,
        "method": method,
        "target": target,
        "metric": metric,
        "step": step,
        "value": estimate.value,
        "ci95": estimate.ci95,
        "n": estimate.n,
        "published": PUBLISHED.get((task, target, metric, step)) if step is not None else None,
    }


def result(bench: str, rows: list[Row], seconds: float, **more: Any) -> dict[str, Any]:
    """Rows with what is needed to make them again.

    >>> sorted(result("mine", [], seconds=1.5))[:4]
    ['bench', 'command', 'commit', 'dirty']
    """
    return {
        "bench": bench,
        **provenance(),
        "seconds": round(seconds, 1),
        **more,
        "rows": rows,
    }


def provenance() -> dict[str, Any]:
    """What every result file says of how it was made: command, code, versions and machine."""
    return {
        "command": command(),
        "commit": commit(),
        "dirty": is_dirty(),
        "versions": {
            "aline": __version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in PACKAGES},
        },
        "processor": processor(),
        "machine": machine(),
    }


def made(result: Mapping[str, Any]) -> str:
    """How a result was made, in a line."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    dirty = " with changes" if result["dirty"] else ""
    return (
        f"Made by {result['command']}, commit {result['commit']}{dirty}, seed {result['seed']}; "
        f"{versions}; {result['processor']}; {result['seconds']} s."
    )


def processor() -> str:
    """The processor's name, as the system has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def is_dirty() -> bool | None:
    """Whether the code had changes that no commit has; None where there is no checkout.

    Files of results do not count: every benchmark changes one.
    """
    changed = _git("status", "--porcelain", "--untracked-files=no", *_NOT_RESULTS)
    return None if changed is None else bool(changed)


def command() -> str:
    """What is running, as one types it in the checkout: no path of this machine is in it."""
    program = Path(sys.argv[0])
    is_script = program.suffix == ".py" and program.name != "__main__.py"  # python -m aline
    first = ["python", _portable(str(program.absolute()))] if is_script else ["aline"]
    return shlex.join([*first, *map(_portable, sys.argv[1:])])


def _portable(argument: str) -> str:
    """An absolute path from the checkout or the working directory on; elsewhere its name."""
    option, _, path = argument.rpartition("=") if argument.startswith("--") else ("", "", argument)
    if not path.startswith("/"):
        return argument
    above = [one for one in (CHECKOUT, Path.cwd()) if Path(path).is_relative_to(one)]
    short = str(Path(path).relative_to(above[0])) if above else Path(path).name
    return f"{option}={short}" if option else short


@cache
def code_version() -> str:
    """The commit, and a digest of what was changed since; aline's version without a checkout."""
    changed = _git("diff", "HEAD", *_NOT_RESULTS)
    if changed is None:
        return __version__
    digest = f"+{hashlib.sha256(changed.encode()).hexdigest()[:12]}" if changed else ""
    return f"{commit()}{digest}"


def commit() -> str | None:
    """The commit of the checkout that aline runs from; None when it is installed elsewhere."""
    return _git("rev-parse", "--short", "HEAD")


def _git(*arguments: str) -> str | None:
    """What git says of the checkout that aline runs from."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
