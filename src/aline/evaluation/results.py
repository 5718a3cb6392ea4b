"""The one layout of every result, for files, tables and figures alike."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from aline.evaluation.estimates import Estimate
from aline.training.run import machine

Row = dict[str, Any]

# What the paper reports for the same task, target and metric (its figures, read off).
_PUBLISHED = {
    ("psychometric", "threshold,slope", "posterior_rmse", 30): 0.57,
    ("psychometric", "guess,lapse", "posterior_rmse", 30): 0.175,
}


def row(
    task: str, method: str, target: str, metric: str, step: int | None, estimate: Estimate
) -> Row:
    """One measured number; `ci95` is the half width of its interval."""
    return {
        "task": task,
        "method": method,
        "target": target,
        "metric": metric,
        "step": step,
        "value": estimate.value,
        "ci95": estimate.ci95,
        "n": estimate.n,
        "published": _PUBLISHED.get((task, target, metric, step)) if step is not None else None,
    }


def result(bench: str, rows: list[Row], seconds: float, **more: Any) -> dict[str, Any]:
    """Rows with what is needed to make them again."""
    return {
        "bench": bench,
        "command": shlex.join([_program(), *sys.argv[1:]]),
        "commit": commit(),
        "machine": machine(),
        "seconds": round(seconds, 1),
        **more,
        "rows": rows,
    }


def _program() -> str:
    name = Path(sys.argv[0]).name
    return "aline" if name == "__main__.py" else name  # python -m aline


def commit() -> str | None:
    """The commit of the checkout that aline runs from; None when it is installed elsewhere."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
