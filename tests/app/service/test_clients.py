"""One conversation that every client has with a service, and a page with itself."""

import ast
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aline_client import AlineError, Client
from faulty import faulty
from outcome_kinds import KINDS
from serving import Nursery, Service

from aline import load
from aline.app.service.tokens import new_token
from aline.app.web import export_web
from aline.experiment import open_storage
from aline.spaces import Categorical, Count, Outcomes
from aline.tasks import Task

ROOT = Path(__file__).parents[3]
CONVERSATION = Path(__file__).parent / "conversation.json"
ANSWERS = Outcomes(colour=Categorical(["red", "green", "blue"]), clicks=Count(loc=1.0, scale=0.8))
SURVEY = KINDS["real"].task(name="survey", outcome=ANSWERS, log_likelihood=None)

PYTHON = """
import json, sys
sys.path.insert(0, sys.argv[1])
import aline_client
client = aline_client.Client(sys.argv[2], token=sys.argv[3] or None, timeout=60)
kept, heard = {}, []

def plain(value):
    if isinstance(value, aline_client.Trial):
        return vars(value)
    if isinstance(value, aline_client.Experiment):
        return value.name
    if isinstance(value, (bytes, bytearray)):
        return value.decode()
    return [plain(one) for one in value] if isinstance(value, list) else value

for step in json.load(open(sys.argv[4])):
    on = client if step["on"] == "client" else kept[step["on"]]
    arguments = [kept[a[1:]] if str(a).startswith("$") else a for a in step["with"]]
    try:
        if step["do"] == "change":
            for name, value in arguments[0].items():
                on.set_prior(value) if name == "prior" else setattr(on, name, value)
            found = None
        elif step["do"] == "restrict":
            found = on.restrict(**arguments[0])
        elif step["do"] == "create":
            found = on.create(arguments[0], **arguments[1])
        else:
            found = getattr(on, step["do"])(*arguments)
    except aline_client.AlineError as error:
        heard.append({"status": error.status, "detail": str(error)})
        continue
    if "as" in step:
        kept[step["as"]] = found
    heard.append(None if step["do"] in ("change", "close") else plain(found))
print(json.dumps(heard))
"""


# A program with its options, the file that it runs, and the client.
LANGUAGES = {
    "javascript": (["node"], "converse.mjs", "js"),
    "r": (["Rscript", "--vanilla"], "converse.R", "r"),
    "octave": (["octave-cli", "--norc", "--quiet"], "converse.m", "octave"),
}


def converse(language: str, url: str, token: str, steps: list[Any], folder: Path) -> list[Any]:
    """What a client hears in the conversation."""
    if language == "python":
        command = [sys.executable, "-I", "-c", PYTHON, str(ROOT / "clients" / "python")]
    else:
        (name, *options), file, client = LANGUAGES[language]
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed: scripts/system")
        script = CONVERSATION.parent / file
        command = [name, *options, str(script), str(ROOT / "clients" / client)]
    (folder / "steps.json").write_text(json.dumps(steps))
    done = subprocess.run(
        [*command, url, token, str(folder / "steps.json")],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    heard: list[Any] = json.loads(done.stdout)
    return heard


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    """What the first client heard where all must hear the same: the seed alone decides."""
    return {}


@pytest.mark.parametrize("language", ["python", "javascript", "r", "octave"])
def test_the_conversation(
    language: str,
    nursery: Nursery,
    save: Callable[[Task, Path], Path],
    tmp_path: Path,
    reference: dict[str, Any],
) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    token = new_token(open_storage(url), "test")
    survey = save(SURVEY, tmp_path / "survey")
    service = nursery.start(url, require_token=True, models=[str(survey)])
    steps = json.loads(CONVERSATION.read_text())
    heard = converse(language, service.url, token, steps, tmp_path)
    service.kill()
    compare(language, steps, heard, reference, 1e-12)


def test_the_conversation_of_a_page_with_itself(
    save: Callable[[Task, Path], Path], tmp_path: Path, reference: dict[str, Any]
) -> None:
    """Without a service: all but the list of models, of which a service has more."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    steps = [step for step in json.loads(CONVERSATION.read_text()) if not step.get("remote")]
    for name in ("psychometric", "detection"):
        export_web(load(name), tmp_path / name)
    export_web(load(save(SURVEY, tmp_path / "saved")), tmp_path / "survey")
    heard = converse("javascript", str(tmp_path), "", steps, tmp_path)
    compare("local", steps, heard, reference, 1e-4)


ONE_LINE = """
const [, , folder, place] = process.argv;
const { Client, load, LocalExperiment } = await import(`${folder}/aline.js`);
const { readFileSync } = await import("node:fs");
const read = (name) => new Uint8Array(readFileSync(`${place}/${name}`));
const given = { target: ["threshold"], known: { guess: 0.5 }, units: { stimulus: [-40, 0] } };
const settings = { ...given, trials: 6, seed: 3 };
const experiment = place.startsWith("http")
  ? await new Client(place).create("detection", settings)
  : new LocalExperiment(await load(place, { read }), settings);
const heard = [];
for (const outcome of [1, 0, 1]) heard.push(await experiment.tell(await experiment.ask(), outcome));
await experiment.change({ target: ["slope"], trials: 8 });
const { told, horizon, target } = await experiment.status();
heard.push({ told, horizon, target }, await experiment.undo(), await experiment.posterior(0.9));
heard.push(await experiment.predict({ stimulus: [-30, -10] }));
console.log(JSON.stringify(heard));
"""


def test_local_or_remote_is_one_line(service: Service, tmp_path: Path) -> None:
    """The same settings and calls in a page and on a service, and the same numbers."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    export_web(load("detection"), tmp_path / "detection")
    places = (str(tmp_path / "detection"), service.url)
    here, there = (json.loads(_run_node(ONE_LINE, tmp_path, place)) for place in places)
    assert _close(_unwrapped(here), _unwrapped(there), 1e-4), (here, there)


def compare(
    language: str, steps: list[Any], heard: list[Any], reference: dict[str, Any], close: float
) -> None:
    """With what is to be heard, and with what others heard."""
    assert len(heard) == len(steps)
    for step, got in zip(steps, heard, strict=True):
        for path, expected in step.get("hears", {}).items():
            assert _find(got, path) == pytest.approx(expected), (step, got)
        if step.get("same"):
            first = reference.setdefault(json.dumps(step), got)
            assert _close(_unwrapped(got), _unwrapped(first), close), (language, step, got, first)


def _unwrapped(value: Any) -> Any:
    """Lists of one entry as the entry, which is all that some languages have; none as None."""
    if isinstance(value, dict):
        return {name: _unwrapped(one) for name, one in value.items()}
    if isinstance(value, list):
        return {0: None, 1: _unwrapped(value[0]) if value else None}.get(
            len(value), [_unwrapped(one) for one in value]
        )
    return value


def _close(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return all(_close(a.get(n), b.get(n), tolerance) for n in {*a, *b})
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_close(x, y, tolerance) for x, y in zip(a, b, strict=True))
    is_number = isinstance(a, int | float) and isinstance(b, int | float)
    return bool(a == pytest.approx(b, abs=tolerance, rel=tolerance)) if is_number else a == b


def _find(value: Any, path: str) -> Any:
    """Follow "trials.0.state" into plain data; "" is the value, "length" counts."""
    for part in filter(None, path.split(".")):
        if part == "length":
            value = len(value) if isinstance(value, list | dict) else 1
        else:
            value = value[int(part)] if isinstance(value, list) else value.get(part)
    return None if value == [] else value


def test_clients_survive_a_restart(nursery: Nursery, tmp_path: Path) -> None:
    """A call made while the service is down is answered when it is back, and counts once."""
    service = nursery.start(f"sqlite:///{tmp_path}/lab.db")
    experiment = Client(service.url).create("psychometric")
    trial = experiment.ask()
    service.kill()
    told: list[Any] = []
    teller = threading.Thread(target=lambda: told.append(experiment.tell(trial, 1)))
    teller.start()
    again = nursery.start(service.storage, service.port)
    teller.join(30)
    assert told[0].state == "told"
    assert experiment.status()["told"] == 1
    again.kill()


JAVASCRIPT_TRIAL = """
const [, , folder, url, name] = process.argv;
const { Client } = await import(`${folder}/aline.js`);
const experiment = await new Client(url).create("psychometric", { name });
await experiment.tell(await experiment.ask(), 1);
console.log(JSON.stringify(await experiment.status()), await experiment.export("csv"));
"""


@pytest.mark.parametrize("language", ["python", "javascript"])
@pytest.mark.parametrize("fault", ["cut", "silent", 502, 504])
def test_a_reply_that_a_proxy_spoils_is_asked_for_again(
    language: str, fault: Any, service: Service, tmp_path: Path
) -> None:
    """Every call is done by the service and its reply lost, once; nothing is done twice."""
    name = f"{language}-{fault}"
    with faulty(service.port, fault, methods=("GET", "POST")) as proxy:
        if language == "python":
            experiment = Client(proxy.url).create("psychometric", name=name)
            experiment.tell(experiment.ask(), 1)
            assert experiment.status()["told"] == 1
            assert b"told,asked" in experiment.export("csv")
        else:
            _run_node(JAVASCRIPT_TRIAL, tmp_path, proxy.url, name)
        assert set(proxy.tries.values()) == {2}
    events = [event["event"] for event in open_storage(service.storage).read(name)]
    assert events == ["created", "asked", "told"]


def _run_node(script: str, folder: Path, *arguments: str) -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed: apt-get install nodejs")
    file = folder / "script.mjs"
    file.write_text(script)
    command = [node, str(file), str(ROOT / "clients" / "js"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_refusal_is_not_repeated(service: Service) -> None:
    with faulty(service.port) as proxy, pytest.raises(AlineError, match="got 'nothing'"):
        Client(proxy.url).create("nothing")
    assert set(proxy.tries.values()) == {1}


def test_the_python_client_is_python_3_8() -> None:
    text = (ROOT / "clients" / "python" / "aline_client.py").read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=(3, 8))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
        )
    }
    assert imported <= sys.stdlib_module_names


def test_refusals_carry_their_status(service: Service) -> None:
    with pytest.raises(AlineError, match="got 'nobody'") as refused:
        Client(service.url).open("nobody")
    assert refused.value.status == 404
