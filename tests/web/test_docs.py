"""The examples of docs/browser.md run."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from chromium import static_files
from web.models import Folders

import aline
from aline.experiment import open_storage

PAGE = (Path(__file__).parents[2] / "docs" / "browser.md").read_text(encoding="utf-8")

# What the Builder has: a loop of routines, a response, and a table of data. Its modules are strict.
BUILDER = """
globalThis.location = {{ href: "{origin}/" }};
{declared}
const stored = new Map();
globalThis.localStorage = {{
  getItem: (key) => stored.get(key) ?? null, setItem: (key, text) => stored.set(key, text),
}};
const rows = [], expInfo = {{ participant: "7" }}, trials = {{ finished: false }};
const psychoJS = {{ experiment: {{ addData: (name, value) => rows.push([name, value]) }} }};
let response;
async function beginExperiment() {{
  {begin_experiment}
}}
await beginExperiment();
while (!trials.finished) {{
  if (rows.length === 2) await beginExperiment(); // a reload
  {begin_routine}
  response = {{ corr: intensity > 0 ? 1 : 0, rt: 0.4 }};
  {end_routine}
}}
console.log(JSON.stringify({{ rows, status: await adaptive.status() }}));
"""


def declared(lines: str) -> str:
    """What the Builder makes of them: it knows nothing but `name = ...` at a statement's start."""
    assert not re.search(r"\?\?|\?\.", lines)  # it does not read these, and declares nothing then
    names = re.findall(r"^(?:if \(.*?\) )?(\w+) = ", lines, re.MULTILINE)
    return f"var {', '.join(dict.fromkeys(names))};"


# What a page and its author have around the other examples.
AROUND = """
globalThis.location = { href: "ORIGIN/" };
const answers = (stimulus) => stimulus > 0;
const heard = [];
{
  const respond = async (stimulus) => { heard.push(stimulus); return answers(stimulus); };
  STUDY
}
const aline = await import("./psychometric/aline/aline.js");
{
  const model = await aline.load("./detection/");
  KNOWN
  heard.push(await experiment.ask());
}
{
  const model = await aline.load("./psychometric/");
  NAMED
  heard.push((await experiment.status()).told);
  class JsPsychAline {}
  const draw = (element, stimulus) => stimulus;
  PLUGIN
  heard.push(trial.outcome("left", {}, "left"), trial.show(null, { stimulus: 0.5 }));
  heard.push(block.loop_function({ values: () => [{ finished: true }] }));
}
console.log(JSON.stringify(heard));
"""


def test_the_other_examples_of_the_page(folders: Folders, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("Node is not installed: apt-get install nodejs")
    (study,) = re.findall(r'```html\n<script type="module">\n(.*?)</script>', PAGE, re.DOTALL)
    study = study.replace("import * as aline from", "const aline = await import(")
    study = study.replace('aline.js";', 'aline.js");').replace("trials: 30", "trials: 3")
    known, on_service, named, plugin, _ = re.findall(r"```js\n(.*?)```", PAGE, re.DOTALL)
    assert "aline.Client(" in on_service  # tests/app/service/test_docs.py runs it
    for name in ("psychometric", "detection"):
        shutil.copytree(folders(name), tmp_path / name)
    parts = {"STUDY": study, "KNOWN": known, "NAMED": named, "PLUGIN": plugin}
    with static_files(tmp_path) as origin:
        script = AROUND.replace("ORIGIN", origin)
        for place, code in parts.items():
            script = script.replace(f"  {place}\n", code)
        (tmp_path / "study.mjs").write_text(script)
        done = subprocess.run(
            ["node", str(tmp_path / "study.mjs")], capture_output=True, text=True, timeout=200
        )
    assert done.returncode == 0, done.stderr
    posterior, heard = done.stdout.splitlines()[0], json.loads(done.stdout.splitlines()[-1])
    assert re.match(r"-?[\d.]+ \[", posterior)
    *stimuli, trial, told, outcome, shown, goes_on = heard
    assert len(stimuli) == 3
    assert -40 <= trial["design"]["stimulus"] <= 0
    assert [told, outcome, shown, goes_on] == [0, 1, 0.5, False]


def test_the_lines_for_psychojs(folders: Folders, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("Node is not installed: apt-get install nodejs")
    (code,) = re.findall(r"```js\n(// Begin Experiment.*?)```", PAGE, re.DOTALL)
    names = ("begin_experiment", "begin_routine", "end_routine")
    parts = re.split(r"// (?:Begin Experiment|Begin Routine|End Routine)\n", code)[1:]
    shutil.copytree(folders("psychometric"), tmp_path / "psychometric")
    with static_files(tmp_path) as origin:
        lines = dict(zip(names, parts, strict=True))
        script = BUILDER.format(origin=origin, declared=declared(code), **lines)
        (tmp_path / "study.mjs").write_text(script.replace("trials: 30", "trials: 4"))
        done = subprocess.run(
            ["node", str(tmp_path / "study.mjs")], capture_output=True, text=True, timeout=200
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["status"]["told"] == 4
    assert [row[0] for row in found["rows"]] == ["intensity"] * 4
    assert [trial["note"] for trial in found["status"]["trials"]] == [{"rt": 0.4}] * 4
    assert found["status"]["finished"]


def test_the_lines_for_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the events that a page has; that its file is read is in test_local.py."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    model, storage = (
        aline.load("detection").in_units(stimulus=(-42.0, 0.0)),
        open_storage("memory://"),
    )
    live = aline.Experiment(model, "threshold", storage=storage, name="a", known={"guess": 0.5})
    for outcome in (1, 0, 1):
        live.tell(live.ask(), outcome)
    written = {"experiment": {"name": "a"}, "journal": storage.read("a")}
    (tmp_path / "brightness-7.json").write_text(json.dumps(written))
    monkeypatch.chdir(tmp_path)
    found: dict[str, aline.Experiment] = {}
    exec(code, {"aline": aline}, found)  # type: ignore[arg-type]
    assert found["experiment"].posterior().mean == live.posterior().mean
