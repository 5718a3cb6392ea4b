"""The predicted landscape as one HTML file that needs nothing else."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from aline import __version__
from aline.app.landscape.findings import BAND, Effect, Findings, described, text_of
from aline.app.landscape.journal import Journal
from aline.app.pages import page
from aline.app.plots import Plate
from aline.app.plots.canvas import HALF, POSTERIOR, figure, styled
from aline.app.report import definitions, figure_block, html_table
from aline.files import write_atomically


def write_page(
    found: Findings, journal: Journal, path: Path, facts: dict[str, str], title: str
) -> Path:
    """Write it; `facts` say how it was made."""
    with styled():
        figures = "\n".join(figure_block(_plate(i, one)) for i, one in enumerate(found.effects))
    text = page(
        "landscape.html",
        title=title,
        heading=escape(title),
        kicker=escape(f"{len(journal.scores)} of {len(journal.candidates)} configurations scored"),
        explanation=f"<p>{escape(_said(found))}</p>",
        figures=figures,
        region=_regions(found),
        unsure=html_table(
            ["configuration", "expected score"],
            [
                [described({k: v for k, v in one.items() if k != "score"}), one["score"]]
                for one in found.unsure
            ],
        ),
        scores=_scores(journal),
        facts=definitions(facts),
        version=escape(__version__),
    )
    write_atomically(path, text.encode())
    return path


def _said(found: Findings) -> str:
    return (
        f"The best expected score is {found.best_mean:.4g}, between "
        f"{found.best_mean - BAND * found.best_std:.4g} and "
        f"{found.best_mean + BAND * found.best_std:.4g} with 90 % probability, at "
        f"{described(found.best)}. Most is at stake with {found.effects[0].name}. Of a "
        f"configuration that was not scored, the score is known to ± {BAND * found.spread:.2g} "
        "(90 %) on average."
    )


def _regions(found: Findings) -> str:
    rows = [
        [one.name, found.region[one.name], f"{one.size:.3g}", text_of(one.unsure)]
        for one in found.effects
    ]
    return html_table(["hyperparameter", "best region", "effect", "most unsure at"], rows)


def _scores(journal: Journal) -> str:
    rows = [
        [str(number), f"{score:.6g}", described({k: v for k, v in one.items() if v is not None})]
        for number, (row, score) in enumerate(journal.scores.items(), 1)
        for one in [journal.candidates[row]]
    ]
    return html_table(["number", "score", "configuration"], rows)


def _plate(number: int, effect: Effect) -> Plate:
    caption = (
        f"Expected score, averaged over the other settings; the band holds 90 % of single "
        f"configurations' uncertainty, widest at {text_of(effect.unsure)}."
    )
    return Plate(f"effect-{number}", effect.name, caption, _plot(effect), is_wide=False)


def _plot(effect: Effect) -> Figure:
    drawn = figure(HALF, 2.3)
    axes = drawn.subplots()
    mean, half = np.array(effect.mean), BAND * np.array(effect.std)
    if isinstance(effect.values[0], str):
        places = np.arange(len(mean))
        axes.errorbar(places, mean, half, fmt="o", color=POSTERIOR, capsize=3)
        axes.set_xticks(places, effect.values)
        axes.margins(x=0.2)
    else:
        axes.plot(effect.values, mean, color=POSTERIOR)
        axes.fill_between(effect.values, mean - half, mean + half, color=POSTERIOR, alpha=0.18)
        if effect.values[0] > 0 and effect.values[-1] > 100 * effect.values[0]:
            axes.set_xscale("log")
    axes.set_xlabel(effect.name)
    axes.set_ylabel("score")
    return drawn
