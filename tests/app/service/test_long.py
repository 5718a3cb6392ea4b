"""An experiment of 5000 trials: opened, looked at and corrected without a wait."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

import aline
from aline.experiment import Experiment, Storage
from aline.experiment.storage import Addition, MemoryStorage
from aline.experiment.storage.base import to_text

TRIALS = 5000
API = "/api/v1/experiments/long"


def long_journal(trials: int) -> Storage:
    """As thousands of calls with a key each would have left it, without a network to choose."""
    storage, draw = MemoryStorage(), random.Random(0)
    Experiment(aline.load("psychometric"), storage=storage, name="long", horizon=2 * trials)
    events: list[dict[str, Any]] = []
    for number in range(trials):
        design = {"stimulus": draw.uniform(-5, 5)}
        outcome = float(draw.random() < 0.5 + 0.1 * design["stimulus"])
        same = {"trial": number, "time": "2026-01-01T00:00:00.000+00:00"}
        events.append({"event": "asked", "design": design, "key": f"ask {number}", **same})
        events.append({"event": "told", "outcome": outcome, "key": f"tell {number}", **same})
    assert storage.write([Addition("long", 1, [to_text(event) for event in events])]) == [None]
    return storage


@pytest.fixture(scope="module")
def storage() -> Storage:
    return long_journal(TRIALS)


def seconds(work: Callable[[], Any]) -> float:
    before = time.process_time()  # unlike the clock, it does not depend on the load
    work()
    return time.process_time() - before


def test_it_is_replayed_in_time(storage: Storage) -> None:
    replayed: list[Experiment] = []
    assert seconds(lambda: replayed.append(Experiment.resume(storage, "long"))) < 5
    (experiment,) = replayed
    assert len(experiment.trials) == TRIALS
    assert experiment.ask(key="ask 17").number == 17  # keys of long ago still count


def test_its_page_comes_in_time(open_client: Any, storage: Storage) -> None:
    client = open_client(storage)
    client.get(API)  # replays it, which has its own bar
    pages: dict[str, Any] = {}

    def look() -> None:
        pages["page"] = client.get("/experiments/long")
        pages["drawing"] = client.get(f"{API}/drawing")

    assert seconds(look) < 2
    assert f"The last 200 of {TRIALS} trials" in pages["page"].text
    assert len(pages["page"].content) < 50_000
    drawing = pages["drawing"].json()
    assert len(drawing["trials"]) <= 1000
    assert drawing["trials"][-1]["number"] == TRIALS - 1
    assert drawing["widths"]["x"][-1] == drawing["told"] == TRIALS
    assert len(drawing["widths"]["x"]) <= 101
    assert seconds(lambda: client.post(f"{API}/undo")) < 0.5
    after = client.get(f"{API}/drawing").json()  # one less observation, one open trial
    assert after["told"] == TRIALS - 1
    assert after["trials"][-1]["state"] == "asked"
