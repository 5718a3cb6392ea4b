"""Faults under load, tokens on, through the client that users have: nothing lost, nothing doubled.

benchmarks/survival.py does the same with larger numbers.
"""

import os
from pathlib import Path

import pytest
from postgresql import REASON, find_program
from serving import Nursery
from survival import PARTS


@pytest.mark.parametrize("part", list(PARTS))
def test_programs_go_on_and_nothing_is_lost(part: str, nursery: Nursery, tmp_path: Path) -> None:
    if part == "full_disks" and os.getuid() != 0:
        pytest.skip("to mount a small file system one must be root")
    if part == "restarts" and find_program("initdb") is None:
        pytest.skip(REASON)
    times = 3
    rows = PARTS[part](nursery, tmp_path, times, 4)
    found = {one["metric"]: one["value"] for one in rows}
    assert found.pop("acknowledged") >= 4 * times
    assert part == "kills" or found.pop("refused_calls") > 0  # it was really out of order
    assert set(found.values()) == {0}, found
