"""What is in a cycle is freed when nobody calls, and never looked through while somebody does."""

import gc
import weakref

import pytest

from aline.app.service import garbage
from aline.app.service.garbage import Garbage


class Ring:
    """Garbage that only a search finds."""

    def __init__(self) -> None:
        self.me = self


def test_what_is_kept_is_looked_through_only_when_nobody_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "FULL_SECONDS", 0.0)
    try:
        one, found = Garbage(), Ring()
        watched = weakref.ref(found)
        one.collect()  # it is set aside
        assert gc.get_freeze_count() > 0
        del found
        gc.collect()
        one.called()
        one.collect()
        assert watched() is not None
        monkeypatch.setattr(garbage, "IDLE_SECONDS", -1.0)
        one.collect()
        assert watched() is None
    finally:
        gc.unfreeze()


def test_young_garbage_is_freed_at_once() -> None:
    try:
        found = Ring()
        watched = weakref.ref(found)
        del found
        Garbage().collect()
        assert watched() is None
    finally:
        gc.unfreeze()
