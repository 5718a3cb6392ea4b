"""Numbers as text, as precise as what they are about asks for."""

from __future__ import annotations

import math


def decimals(span: float) -> int:
    """How many decimals show a thousandth or so of a span."""
    if not (math.isfinite(span) and span > 0):
        return 3
    return max(0, 2 - math.floor(math.log10(0.99 * span)))


def number(value: float, span: float) -> str:
    """A value as text, as precise as its span asks for."""
    text = f"{value:.{decimals(span)}f}"
    return text.lstrip("-") if float(text) == 0 else text
