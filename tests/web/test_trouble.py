"""What goes wrong in a page is said in a sentence, and no answer is lost."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small import SIZES, seeded
from torch.distributions import Uniform
from web import node

import aline
from aline.app.web import export_web
from aline.errors import InputError
from aline.model import Model, ModelConfig, fresh
from aline.spaces import Box, Design, Log, Pool, Real
from aline.tasks import Task

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


class CutOff(http.server.BaseHTTPRequestHandler):
    """Promises more than it sends."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "100000")
        self.end_headers()
        self.wfile.write(b"{")

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def cut() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), CutOff)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def heard(cut: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("trouble")
    for name in ("psychometric", "location"):
        export_web(aline.load(name), folder / name)
    given = {"folder": str(folder / "psychometric"), "other": str(folder / "location"), "cut": cut}
    found: dict[str, Any] = node.run("trouble.mjs", given, folder)
    return found


SENTENCES = {
    "html": "is no JSON",
    "foreign": "is not what aline export MODEL --web writes",
    "newer": "in format 99, and this aline.js reads format 1",
    "mixed": "is not the file that model.json was written with",
    "short": "is not the file that model.json was written with (1000 of",
    "interrupted": "could not be downloaded",
    "known": "takes no known yet: leave it out",
    "prior": "takes no prior yet: leave it out",
    "units": "takes no units yet: leave it out",
    "colour": "an experiment has the settings",
    "full": "this browser could not store the last answers (QuotaExceededError)",
    "taken": 'an experiment "one" is there already',
    "nobody": 'there is no experiment "nobody" in this browser',
    "tabs": "goes on in another tab",
    "off": "this browser stores nothing for this page",
}


@pytest.mark.parametrize("trouble", SENTENCES)
def test_a_sentence(trouble: str, heard: dict[str, Any]) -> None:
    assert SENTENCES[trouble] in heard[trouble]


def test_no_answer_is_lost(heard: dict[str, Any]) -> None:
    assert heard["inMemory"] == 2  # though the storage was full
    assert heard["afterwards"] is None
    assert heard["resumed"] == 3  # all of them are stored once there is room
    assert heard["unnamed"] is None


@pytest.mark.parametrize("name", ["gp1d", "gp2d", "ces"])
def test_models_that_need_python_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^{name} .* which is Python: run it with `aline serve`"):
        export_web(aline.load(name), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "design",
    [
        Box(dose=Log(0.01, 10)),
        Box(dose=[1, 2, 24]),
        Box(dose=(0, 1)).where(lambda d: d["dose"] < 0.5),
        Pool(dose=[0.1, 0.2, 0.3], repeats=False),
    ],
)
def test_designs_that_a_page_would_read_wrongly_are_refused(design: Design, tmp_path: Path) -> None:
    task = Task(
        name="dose",
        parameters={"gain": Uniform(0.5, 2.0)},
        design=design,
        outcome=Real(),
        simulate=lambda theta, design, generator: theta["gain"] * design["dose"],
        horizon=2,
    )
    model = Model(fresh(task.spec, ModelConfig(**SIZES), seeded(0)))
    with pytest.raises(InputError, match=r"^dose has designs that pages do not know yet"):
        export_web(model, tmp_path)
    assert not list(tmp_path.iterdir())
