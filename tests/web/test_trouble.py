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
from web.models import Folders

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
def heard(cut: str, folders: Folders, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    names = {"folder": "psychometric", "other": "location", "detection": "detection"}
    given = {what: str(folders(name)) for what, name in names.items()}
    found: dict[str, Any] = node.run(
        "trouble.mjs", given | {"cut": cut}, tmp_path_factory.mktemp("trouble")
    )
    return found


SENTENCES = {
    "html": "is no JSON",
    "foreign": "is not what aline export MODEL --web writes",
    "newer": "in format 99, and this aline.js reads format 1",
    "mixed": "is not the file that model.json was written with",
    "short": "is not the file that model.json was written with (1000 of",
    "interrupted": "could not be downloaded",
    "colour": "an experiment has the settings",
    "no count": "trials must be a whole number, at least 1, got NaN",
    "not trained for it": "was trained with the task's own priors alone",
    "no other units": "units are for a task whose axis may have any range",
    "unknown name": '(threshold, slope, guess, lapse), got "gues": use one of these',
    "outside": "guess must lie in [0, 0.6], got 0.95: pass parameter values in the task's units",
    "no number": 'a known value is a number, got "half" for guess',
    "no names": "known maps names to what is known, { guess: 0.5 }, got 0.5",
    "no prior": "a prior is a distribution, such as aline.Normal(-1, 0.4), got 0.5 for slope",
    "no family": "the prior of slope must be one of Uniform, Normal,",
    "no distribution": "the prior of slope is no distribution",
    "prior outside": "of its mass outside [0.02, 0.4], where the model knows nothing",
    "both": "guess has a prior and is known: give one of them",
    "known target": "guess is known, so there is nothing to learn of it: leave it out",
    "all known": "every parameter is known: leave out one to learn something of",
    "known later": "threshold is known, so there is nothing to learn of it: leave it out",
    "backwards": "a range goes from low to high, got [0,-40] for stimulus",
    "edge": "The prior of threshold lies at the edge of what the model was trained for",
    "shape": "The prior of slope is taken as the normal on the network's scale",
    "full": "this browser could not store the last answers (QuotaExceededError)",
    "taken": 'an experiment "one" is there already',
    "nobody": 'there is no experiment "nobody" in this browser',
    "tabs": "goes on in another tab",
    "later": 'experiment "one" was written by a newer aline: use a newer aline.js',
    "damaged": 'the experiment "one" in this browser\'s storage is damaged: start another one',
    "off": "this browser stores nothing for this page",
}


@pytest.mark.parametrize("trouble", SENTENCES)
def test_a_sentence(trouble: str, heard: dict[str, Any]) -> None:
    assert SENTENCES[trouble] in heard[trouble]


def test_a_refusal_changes_nothing(heard: dict[str, Any]) -> None:
    assert heard["knownAfterRefusal"] == {"guess": 0.5}


def test_the_earlier_posterior_is_the_next_prior(heard: dict[str, Any]) -> None:
    """On the network's scale, where its moments are exact."""
    assert heard["earlierMean"] == pytest.approx(heard["nextMean"], abs=0.02)


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
