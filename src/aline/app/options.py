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


def split_names(text: str | None) -> list[str] | None:
    """Names that an option lists, separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
