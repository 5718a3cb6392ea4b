"""How figures look: one palette for light and dark pages, thin axes, and figures as inline SVG.

Figures are drawn in the light palette. In the SVG each of its colours becomes a CSS variable, so a
page shows the same figure in its own light or dark colours.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

# Role: (on a light page, on a dark page).
PALETTE = {
    "ink": ("#1f2328", "#e6edf3"),
    "muted": ("#68717b", "#929ba6"),
    "faint": ("#e3e7ec", "#2b323b"),
    "paper": ("#fffffe", "#12171e"),
    "posterior": ("#2f6bd0", "#74aaff"),
    "yes": ("#178a66", "#3ecf9f"),
    "no": ("#d05a22", "#ff9a62"),
}
INK, MUTED, FAINT, PAPER, POSTERIOR, YES, NO = (light for light, _ in PALETTE.values())

# Shades of an outcome, none of them lost on a white or on a black page.
SHADES = LinearSegmentedColormap.from_list("outcome", ["#4c6fd6", "#9b7fd1", "#e07b6a", "#f2b134"])
DATA = NO  # measurements of a real outcome
TRUTH: dict[str, Any] = {"color": INK, "linewidth": 1.1, "linestyle": (0, (4, 2.5))}

WIDE, HALF = 9.0, 4.4  # inches; at the report's scale an inch is 100 pixels

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: selectable, and set in the page's font
    "svg.hashsalt": "aline",  # the same figure gives the same file
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.handlelength": 1.6,
    "legend.borderaxespad": 0,
    "figure.facecolor": "none",
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in this style within the block; matplotlib's settings are left as they were."""
    with matplotlib.rc_context(_STYLE):
        yield


def figure(width: float, height: float, gap: float = 0.02) -> Figure:
    """An empty figure that lays itself out, its panels a share `gap` apart; in no global state."""
    layout = ConstrainedLayoutEngine(wspace=gap, hspace=gap)
    return Figure(figsize=(width, height), layout=layout)


def draw_truth(axes: Axes, value: float | None, *, across: bool = False, name: bool = True) -> None:
    """A dashed line at the true value, where someone knows it."""
    if value is not None:
        line = axes.axhline if across else axes.axvline
        line(value, **TRUTH, label="truth" if name else None)


def ruled(axes: Axes) -> None:
    """Faint horizontal lines behind the data."""
    axes.grid(axis="y", color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)


def legend_above(axes: Axes, columns: int) -> None:
    """A legend in a row above the axes, where no data can be; nothing if nothing is labelled."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0, 1.02),
            ncols=columns,
            columnspacing=1.4,
            borderpad=0,
        )


LINES = (POSTERIOR, NO, YES, INK, MUTED)  # for several curves or labels, from the first on again


def label_colour(labels: Sequence[str], place: int) -> str:
    """Of two labels the first is that of a no; of more each has the colour of its curve."""
    return (NO, YES)[place] if len(labels) == 2 else LINES[place % len(LINES)]


def draw_responses(
    axes: Axes, x: Any, y: Any, label: str, colour: str, is_filled: bool = True
) -> None:
    """Yes as filled and no as open circles, so that they differ without colour too."""
    axes.scatter(
        x,
        y,
        s=22,
        facecolor=colour if is_filled else PAPER,
        edgecolor=colour,
        linewidth=1.2,
        zorder=3,
        label=label,
        clip_on=False,
    )


def to_svg(drawn: Figure) -> str:
    """The figure as an SVG element to put inside a page."""
    buffer = io.StringIO()
    with styled():
        drawn.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for pattern, replacement in _TO_PAGE:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    for role, (light, _) in PALETTE.items():
        text = text.replace(light, f"var(--{role})")
    return text


# What a figure of its own needs and one within a page does not.
_TO_PAGE = (
    (r"<metadata>.*?</metadata>", ""),
    (r"<style[^>]*>.*?</style>", ""),  # the page's own style takes its place
    (r'<g id="[^"]*">', "<g>"),  # these ids repeat between the figures of a page
    (r'(?<=<svg)([^>]*?) width="[^"]*"', r"\1"),  # the page sets the size
    (r'(?<=<svg)([^>]*?) height="[^"]*"', r"\1"),
    (r'font-family: [^;"]*', "font-family: var(--font)"),
)


def css_variables(dark: bool) -> str:
    """The palette as CSS declarations."""
    return " ".join(f"--{role}: {pair[dark]};" for role, pair in PALETTE.items())
