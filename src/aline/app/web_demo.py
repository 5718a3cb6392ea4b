"""`aline demo --web`: a page with a simulated participant, from a folder of static files."""

from __future__ import annotations

import http.server
import shutil
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from aline.app.web import export_web, library
from aline.errors import InputError
from aline.model import Model

SHOWN = "psychometric"  # the model whose participant the page simulates


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def write_demo(model: Model, folder: Path) -> Path:
    """The page, and the model beside it."""
    if model.spec.name != SHOWN:
        raise InputError(
            f"the page simulates a participant of {SHOWN}, got {model.spec.name}: "
            "docs/browser.md says how to make a page of your own"
        )
    shutil.copytree(library() / "demo", folder, dirs_exist_ok=True)
    export_web(model, folder / SHOWN)
    return folder


@contextmanager
def served(folder: Path, port: int = 0) -> Iterator[http.server.ThreadingHTTPServer]:
    """A server of static files on this machine; any free port by default."""
    handler = partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    try:
        yield server
    finally:
        server.server_close()


def run_web_demo(model: Model, say: Callable[[str], None], show: bool = True) -> None:
    """Open the page, and serve it until Ctrl-C."""
    with tempfile.TemporaryDirectory() as place:
        write_demo(model, Path(place))
        with served(Path(place)) as server:
            address = f"http://127.0.0.1:{server.server_port}/"
            say(f"The page is at {address} (Ctrl-C stops)")
            if show:
                webbrowser.open(address)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                say("Stopped")
