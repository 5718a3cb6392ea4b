"""How long a training lasts: a time on the clock, or a number of rounds."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aline.errors import InputError

WORTH_JUDGING = 60.0  # seconds of training from which on its end says how well it did
_SECONDS = {"s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds in "90s", "5min" or "1.5h"."""
    if not isinstance(text, str) or re.fullmatch(r"\s*\d+(\.\d+)?\s*", text):
        number = str(text).strip()
        raise InputError(
            f'a budget must be a time with its unit, got {text!r}: write "{number}min" or '
            f'"{number}s"'
            if re.fullmatch(r"\d+(\.\d+)?", number)
            else f'a budget must be a time such as "90s", "5min" or "1.5h", got {text!r}'
        )
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|sec|min|m|h)\s*", text)
    if not match or float(match[1]) <= 0:
        raise InputError(f'a budget must be a time such as "90s", "5min" or "1.5h", got {text!r}')
    return float(match[1]) * _SECONDS[match[2]]


@dataclass(frozen=True)
class Budget:
    """Rounds if given (then a seed repeats the run exactly), else seconds."""

    seconds: float | None = None
    rounds: int | None = None

    @classmethod
    def of(cls, budget: str, rounds: int | None) -> Budget:
        """From a user's words; rounds win over time."""
        if rounds is None:
            return cls(seconds=parse_duration(budget))
        if rounds < 1:
            raise InputError(f"rounds must be at least 1, got {rounds}")
        return cls(rounds=rounds)

    @property
    def is_long(self) -> bool:
        """Whether it is worth to see what came of it."""
        return self.seconds is not None and self.seconds >= WORTH_JUDGING

    def progress(self, done: int, elapsed: float) -> float:
        """The share spent, in [0, 1], after some rounds and seconds."""
        if self.rounds is not None:
            return min(1.0, done / self.rounds)
        assert self.seconds is not None
        return min(1.0, elapsed / self.seconds)
