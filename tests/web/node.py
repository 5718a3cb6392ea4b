"""Node, to run the JavaScript that pages run."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from aline.app.web import library


def run(script: str, data: Any, folder: Path, *more: str) -> Any:
    """What a script of this folder prints, as JSON, of data; a skip where there is no Node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed: apt-get install nodejs")
    (folder / "given.json").write_text(json.dumps(data))
    path = Path(__file__).parent / script
    command = [node, str(path), str(library()), str(folder / "given.json"), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
