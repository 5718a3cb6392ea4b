"""aline in a PsychoPy script: the protocol of PsychoPy's staircase and QuestPlus handlers.

    from aline.psychopy import AlineHandler

    handler = AlineHandler("psychometric", nTrials=30, target=["threshold", "slope"])
    for level in handler:
        ...                                   # show a stimulus of this level, wait for a key
        handler.addResponse(key == "y")       # or addResponse(…, intensity=what was really shown)
    print(handler.paramEstimate)
    handler.saveAsText("data/observer1")

Without a model, `AlineHandler(nAFC=2, range=(-40, 0))` takes the shipped model "detection", for a
choice among two and stimuli in dB. `AlineHandler.resume` goes on after a crash, and `MultiAline`
interleaves several handlers.

It needs no PsychoPy: it is a `data` handler like PsychoPy's own, and may be given to an
ExperimentHandler with `addLoop`. Names are PsychoPy's, so they are in its style.
"""

from aline.psychopy.handler import AlineHandler
from aline.psychopy.multi import MultiAline

__all__ = ["AlineHandler", "MultiAline"]
