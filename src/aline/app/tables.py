"""Numbers and columns as text."""

from __future__ import annotations

from collections.abc import Sequence

from aline.spaces import Axis
from aline.spaces.axes import Value
from aline.spaces.text import decimals, number

__all__ = ["aligned", "decimals", "design_cell", "duration", "number", "short", "typeset"]


def typeset(value: float, span: float) -> str:
    """A number for a page or a figure, with a true minus sign."""
    return number(value, span).replace("-", "−")


def design_cell(axis: Axis, value: Value) -> str:
    """A value of a design axis for a page: a name as it is, a number with a true minus sign."""
    text = axis.text(value)
    return text if isinstance(value, str) else text.replace("-", "−")


def short(value: float) -> str:
    """A value in four digits or fewer."""
    return f"{value:.4g}"


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Lines with the first `left` columns flush left and the others flush right."""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    lines = []
    for row in (header, ["─" * width for width in widths], *rows):
        cells = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
