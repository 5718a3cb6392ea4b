"""An experiment of 5000 trials: opened, looked at and corrected without a wait."""

import itertools
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
from serving import write_long_journal

from aline.app.service.weight import weigh
from aline.experiment import Experiment, Storage
from aline.experiment.storage import MemoryStorage

TRIALS = 5000
API = "/api/v1/experiments/long"


@pytest.fixture(scope="module")
def storage() -> Storage:
    storage = MemoryStorage()
    write_long_journal(storage, TRIALS)
    return storage


def seconds(work: Callable[[], Any]) -> float:
    before = computed()
    work()
    return computed() - before


def computed() -> float:
    """Unlike the clock, it does not depend on the load; a page is drawn by a child."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def test_it_is_replayed_in_time(storage: Storage) -> None:
    replayed: list[Experiment] = []
    assert seconds(lambda: replayed.append(Experiment.resume(storage, "long"))) < 5
    (experiment,) = replayed
    assert len(experiment.trials) == TRIALS
    assert experiment.ask(key="ask 17").number == 17  # keys of long ago still count


def test_it_is_weighed_in_time(storage: Storage) -> None:
    """Every piece of it took a second, in which requests waited for Python's lock."""
    experiment = Experiment.resume(storage, "long")
    weights = [weigh(experiment) for _ in range(3)]
    assert max(weights) < 1.2 * min(weights)
    trials = experiment._state.trials
    assert min(weights) > TRIALS * (sys.getsizeof(trials[0]) + sys.getsizeof(trials[0].design))
    assert seconds(lambda: weigh(experiment)) < 0.3


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
    x = drawing["widths"]["x"]
    assert x[:101] == list(range(101))  # the fewer, the more is known already
    assert len(x) < 150
    assert all(b - a <= b / 8 for a, b in itertools.pairwise(x[100:]))
    assert seconds(lambda: client.post(f"{API}/undo")) < 0.5
    after = client.get(f"{API}/drawing").json()  # one less observation, one open trial
    assert after["told"] == TRIALS - 1
    assert after["trials"][-1]["state"] == "asked"
