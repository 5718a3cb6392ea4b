"""The built-in tasks and the shipped models, as data and as text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from aline import zoo
from aline.app.card import design_text, facts_of, priors_text
from aline.app.tables import aligned
from aline.tasks import BUILT_IN, PREDICTIONS, get

NAME_WIDTH = 24
LONGEST_KEY = 16  # that stands beside its value


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
    """One row a shipped model."""
    return [model_row(name) for name in zoo.shipped()]


def model_row(name: str) -> dict[str, Any]:
    """A model's name, its facts in words and its whole card."""
    model = zoo.load(name)
    return {"model": name, "facts": facts_of(model), "card": model.card()}


def task_blocks(rows: list[dict[str, Any]], width: int) -> list[str]:
    """Tasks as lines of text."""
    lines: list[str] = []
    for row in rows:
        facts = {
            key: _text(row[key]) for key in ("parameters", "design", "outcome", "trials", "model")
        }
        lines += _block(row["task"], row["description"], facts, width)
    return lines


def model_lines(rows: list[dict[str, Any]], width: int) -> list[str]:
    """Models, a line each: in how many trials it learns what, from what."""
    if not rows:
        return []
    cells = []
    for row in rows:
        task, facts = row["card"]["task"], row["facts"]
        trained = facts.get("trained", "").partition(",")[0]
        learns = ", ".join(task["parameters"]) or PREDICTIONS
        cells.append([row["model"], str(task["horizon"]), facts["outcome"], trained, learns])
    table = aligned(["model", "trials", "outcome", "trained", "learns"], cells, left=5)
    return [line if len(line) <= width else f"{line[: width - 1]}…" for line in table]


def model_block(row: dict[str, Any], width: int) -> list[str]:
    """One model's card as lines of text."""
    return _block(row["model"], "", row["facts"], width, side=2)


def _text(value: Any) -> str:
    return "; ".join(value) if isinstance(value, list) else str(value)


def _block(
    name: str, headline: str, facts: Mapping[str, str], width: int, side: int = NAME_WIDTH
) -> list[str]:
    """A name, then its facts one a line, wrapped beside their names; under those that are long."""
    margin = " " * side
    lines = textwrap.wrap(headline, width, initial_indent=margin, subsequent_indent=margin)
    lines = lines or [margin]
    lines[0] = f"{name:<{side}}{lines[0][side:]}".rstrip()
    key_width = max(len(key) for key in facts if len(key) <= LONGEST_KEY) + 2
    indent = " " * (side + key_width)
    for key, value in facts.items():
        first = f"{margin}{key:<{key_width}}"
        if len(key) > LONGEST_KEY:
            lines += textwrap.wrap(key, width, initial_indent=margin, subsequent_indent=margin)
            first = indent
        for part in value.split("; "):
            lines += textwrap.wrap(part, width, initial_indent=first, subsequent_indent=indent)
            first = indent
    return [*lines, ""]
