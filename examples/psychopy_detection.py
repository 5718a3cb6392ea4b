"""Yes/no detection of a grating under PsychoPy, with levels chosen by aline.

Run it where PsychoPy is installed (`pip install psychopy aline`):

    python psychopy_detection.py observer1

Thirty times a grating is shown and the observer presses y (seen) or n (not seen); escape stops.
The first half aims at threshold and slope, the second at the guess and lapse rates. Every answer
is on disk (data/observer1.db) before the next trial, and a table is written at the end.
"""

import sys
from pathlib import Path

from psychopy import core, event, visual

from aline.psychopy import AlineHandler


def contrast(level: float) -> float:
    """The model's stimuli run from -5 to 5: here, steps of a quarter of a log unit of contrast."""
    return 10 ** (-1.5 + 0.25 * level)


def main(observer: str) -> None:
    """Run one observer."""
    Path("data").mkdir(exist_ok=True)
    window = visual.Window(fullscr=True, units="deg", monitor="testMonitor")
    grating = visual.GratingStim(window, mask="gauss", size=4, sf=2)
    question = visual.TextStim(window, "seen?   y / n")
    handler = AlineHandler(
        "psychometric",
        nTrials=30,
        target=["threshold", "slope"],
        storage=f"sqlite:///data/{observer}.db",
        extraInfo={"observer": observer},
        name="detection",
    )
    clock = core.Clock()
    for level in handler:
        grating.contrast = contrast(level)
        grating.draw()
        window.flip()
        core.wait(0.2)
        question.draw()
        window.flip()
        clock.reset()
        key = event.waitKeys(keyList=["y", "n", "escape"])[0]
        if key == "escape":
            break
        handler.addResponse(key == "y")
        handler.addOtherData("seconds", clock.getTime())
        if len(handler.responses) == 15:
            handler.target = ["guess", "lapse"]  # goals may change while it runs
    handler.saveAsText(f"data/{observer}")
    handler.saveAsJson(f"data/{observer}")
    print(handler.posterior)
    window.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "observer")
