"""The built-in tasks and the shipped models, as data and as text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from aline import zoo
from aline.app.card import design_text, facts_of, priors_text
from aline.tasks import BUILT_IN, get

NAME_WIDTH = 24


def task_rows() -> list[dict[str, Any]]:
    """One row a built-in task."""
    rows = []
    for name, make in BUILT_IN.items():
        spec = get(name).spec
        rows.append(
            {
                "task": name,
                "description": (make.__doc__ or "").strip().splitlines()[0],
                "parameters": priors_text(spec.parameters),
                "design": design_text(spec.design),
                "outcome": spec.outcome.words(),
                "trials": spec.horizon,
                "targets": [list(names) for names, _ in spec.targets],
                "model": "shipped" if name in zoo.shipped() else f"none yet: aline train {name}",
            }
        )
    return rows


def model_rows() -> list[dict[str, Any]]:
    """One row a shipped model: its name, its facts in words and its whole card."""
    rows = []
    for name in zoo.shipped():
        model = zoo.load(name)
        rows.append({"model": name, "facts": facts_of(model), "card": model.card()})
    return rows


def task_blocks(rows: list[dict[str, Any]], width: int) -> list[str]:
    """Tasks as lines of text."""
    lines: list[str] = []
    for row in rows:
        facts = {
            key: _text(row[key]) for key in ("parameters", "design", "outcome", "trials", "model")
        }
        lines += _block(row["task"], row["description"], facts, width)
    return lines


def model_blocks(rows: list[dict[str, Any]], width: int) -> list[str]:
    """Models as lines of text."""
    lines: list[str] = []
    for row in rows:
        lines += _block(row["model"], "", row["facts"], width)
    return lines


def _text(value: Any) -> str:
    return "; ".join(value) if isinstance(value, list) else str(value)


def _block(name: str, headline: str, facts: Mapping[str, str], width: int) -> list[str]:
    """A name, then its facts one a line, wrapped beside their names."""
    side = " " * NAME_WIDTH
    lines = textwrap.wrap(headline, width, initial_indent=side, subsequent_indent=side) or [side]
    lines[0] = f"{name:<{NAME_WIDTH}}{lines[0][NAME_WIDTH:]}".rstrip()
    key_width = max(len(key) for key in facts) + 2
    indent = " " * (NAME_WIDTH + key_width)
    for key, value in facts.items():
        first = f"{side}{key:<{key_width}}"
        for part in value.split("; "):
            lines += textwrap.wrap(part, width, initial_indent=first, subsequent_indent=indent)
            first = indent
    return [*lines, ""]
