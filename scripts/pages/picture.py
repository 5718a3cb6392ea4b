"""The README's moving picture: thirty trials of a simulated observer, closing in.

.venv/bin/python scripts/pages/picture.py docs/images/trials.gif
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from aline.app.demo import Demo, Step, run_demo
from aline.app.plots.canvas import MUTED, PAPER, figure, styled
from aline.app.plots.curve import draw_curve
from aline.app.plots.marginals import draw_marginal
from aline.app.subject import open_subject
from aline.experiment import Experiment

AIMS = ("threshold", "slope")
SIZE, DOTS = (8.2, 3.1), 100  # inches; dots an inch
COLOURS = 48
FIRST, EACH, LAST = 900, 300, 4000  # milliseconds that a frame stands


def main(path: Path) -> None:
    """Run the demonstration and draw every trial of it."""
    subject = open_subject("psychometric")
    demo = run_demo(subject, target=AIMS)
    again = Experiment(subject.model, target=list(AIMS))
    frames = [frame(demo, again, demo.steps[:1])]
    for step in demo.steps[1:]:
        again.tell(again.ask(), step.outcome)
        frames.append(frame(demo, again, demo.steps[: step.number + 1]))
    durations = [FIRST, *[EACH] * (len(frames) - 2), LAST]
    # One palette for all, or colours would flicker.
    palette = frames[-1].quantize(COLOURS, dither=Image.Dither.NONE)
    first, *others = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in frames]
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0)


def frame(demo: Demo, experiment: Experiment, steps: tuple[Step, ...]) -> Image.Image:
    """What is known after some of the trials."""
    now = Demo(experiment, demo.task, demo.target, steps, demo.subject, demo.observer, demo.seed)
    with styled():
        drawn = figure(*SIZE)
        drawn.set_facecolor(PAPER)
        panels = drawn.subplot_mosaic("aab;aac")
        draw_curve([panels["a"]], now)
        panels["a"].set_ylim(-0.4, 1.4)
        panels["a"].get_legend().remove()
        title = f"trial {now.last.number} of {demo.last.number}: what the network expects"
        panels["a"].set_title(title, color=MUTED)
        for letter, name in zip("bc", AIMS, strict=True):
            _draw_belief(panels[letter], now, name)
    return _image(drawn)


def _draw_belief(axes: Any, demo: Demo, name: str) -> None:
    draw_marginal(axes, demo.experiment.posterior(), name, True, demo.truth[name])
    axes.set_title(name, color=MUTED)
    axes.set_xlabel("")


def _image(drawn: Figure) -> Image.Image:
    buffer = io.BytesIO()
    with styled():
        drawn.savefig(buffer, format="png", dpi=DOTS)
    return Image.open(buffer).convert("RGB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
