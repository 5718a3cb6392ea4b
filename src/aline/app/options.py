"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same run.")]
OwnTask = Annotated[
    str | None,
    typer.Option("--task", metavar="FILE.PY:OBJECT", help="The task, if it is one of your own."),
]
