"""One training at a time in a folder."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from aline.errors import StateError
from aline.training.claim import LOCK, claimed

HOLD = """
import sys, time
from pathlib import Path
from aline.training.claim import claimed
with claimed(Path(sys.argv[1])):
    print("claimed", flush=True)
    time.sleep(60)
"""


def test_another_process_is_refused_until_it_is_dead(tmp_path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    with other.stdout:
        assert other.stdout.readline() == "claimed\n"
    with pytest.raises(StateError, match=rf"trained into by process {other.pid} on .*: wait"):
        claimed(tmp_path).__enter__()
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert (tmp_path / LOCK).exists()  # left by the dead, and nobody's
    with claimed(tmp_path):
        assert str(os.getpid()) in (tmp_path / LOCK).read_text()
    assert list(tmp_path.iterdir()) == []


def test_who_has_a_folder_may_claim_it_again_and_another_thread_may_not(tmp_path: Path) -> None:
    refused: list[StateError] = []

    def intrude() -> None:
        try:
            claimed(tmp_path).__enter__()
        except StateError as error:
            refused.append(error)

    with claimed(tmp_path):
        with claimed(tmp_path / "." / "x" / ".."):
            thread = threading.Thread(target=intrude)
            thread.start()
            thread.join()
        assert (tmp_path / LOCK).exists()
    assert len(refused) == 1
