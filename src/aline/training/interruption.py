"""Ctrl-C, held back until a round of training is done."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interruption:
    """Within, the first Ctrl-C is only noted, so that what is saved is a whole round.

    The second one stops at once. Where Ctrl-C goes nowhere, as in a thread or in a job in the
    background, nothing is held back.
    """

    came = False

    def __enter__(self) -> Interruption:
        self._before: Any = None
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None):
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True
