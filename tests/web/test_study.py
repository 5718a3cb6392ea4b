"""The study page in real Chromium: static files, no network, a reload, the same as Python."""

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser, find, press, static_files, text, until, value
from web.models import Folders, model_named

import aline

ROOT = Path(__file__).parents[2]
TRIALS, RELOADED = 30, 12


@pytest.fixture(scope="module")
def site(folders: Folders, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a web host has it."""
    client = ROOT / "clients" / "js"
    if not (client / "example" / "node_modules" / "jspsych").is_dir():
        pytest.skip("jsPsych is not installed: npm install in clients/js/example")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(client, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.map"))
    shutil.copytree(folders("detection"), folder / "example" / "detection")
    return folder


def answer(browser: Browser, first: int, last: int) -> None:
    """Press keys for trials from the first to before the last."""
    for number in range(first, last):
        find(browser, f".aline-stimulus[data-trial='{number}'] canvas")
        press(browser, "f" if number % 3 else "j")


def linked(browser: Browser, link: str) -> str:
    """What a link on the page gives to whoever follows it."""
    until(lambda: value(browser, f"document.querySelector('{link}').href"))
    script = "const done = arguments[0]; fetch(document.querySelector('LINK').href)"
    return str(
        browser.execute_async_script(
            script.replace("LINK", link) + ".then((r) => r.text()).then(done)"
        )
    )


@pytest.fixture(scope="module")
def finished(browser: Browser, site: Path) -> Browser:
    """The page after all trials; the server is gone from the first key on."""
    with static_files(site) as origin:
        browser.get(f"{origin}/example/?trials={TRIALS}")
        until(lambda: "Which one is brighter" in browser.page_source)
        until(lambda: value(browser, "document.documentElement.dataset.offline") == "true")
    press(browser, " ")
    answer(browser, 0, RELOADED)
    find(browser, f".aline-stimulus[data-trial='{RELOADED}'] canvas")
    browser.refresh()
    answer(browser, RELOADED, TRIALS)
    assert "Your threshold" in text(browser, "#result")
    return browser


def test_trials_and_posterior_are_those_of_python(finished: Browser) -> None:
    found: dict[str, Any] = json.loads(linked(finished, "#file"))
    trials = found["experiment"]["trials"]
    assert [trial["state"] for trial in trials] == ["told"] * TRIALS
    model = model_named("detection").in_units(stimulus=(-42.0, 0.0))
    experiment = aline.Experiment(model, "threshold", horizon=TRIALS, known={"guess": 0.5})
    restricted = next(one for one in found["journal"] if one["event"] == "restricted")
    experiment.restrict(restricted["candidates"])
    for trial in trials:
        asked = experiment.ask()
        assert asked.design == pytest.approx(trial["design"], abs=1e-4)
        experiment.tell(asked, trial["outcome"])
    known = experiment.posterior()
    for name, marginal in found["posterior"]["parameters"].items():
        assert marginal["mean"] == pytest.approx(known[name].mean, abs=1e-4)
        assert marginal["interval"] == pytest.approx(list(known[name].interval()), abs=1e-4)


def test_data_are_in_the_format_of_jspsych(finished: Browser) -> None:
    """With the trials from before the reload, and the posterior on the last."""
    rows = list(csv.DictReader(io.StringIO(linked(finished, "#data"))))
    told = [row for row in rows if row["trial_type"] == "aline"]
    assert [int(row["trial"]) for row in told] == list(range(TRIALS))
    assert {row["response"] for row in told} == {"left", "right"}
    assert all(float(row["rt"]) > 0 for row in told)
    assert set(json.loads(told[-1]["posterior"])) == {"threshold", "slope", "guess", "lapse"}
    assert "NetworkError" not in json.dumps(finished.get_log("browser"))


def test_a_finger_answers_as_well(browser: Browser, site: Path) -> None:
    with static_files(site) as origin:
        browser.get(f"{origin}/example/?trials=2&participant=touch")
        until(lambda: "Which one is brighter" in browser.page_source)
        browser.find_element("css selector", "body").click()
        for number in range(2):
            find(browser, f".aline-stimulus[data-trial='{number}'] canvas")
            find(browser, ".aline-choices button").click()
        assert "Your threshold" in text(browser, "#result")


def test_a_folder_that_is_not_there_is_said(browser: Browser, site: Path) -> None:
    """In the page, to whoever sits there."""
    shutil.move(site / "example" / "detection", site / "elsewhere")
    try:
        with static_files(site) as origin:
            browser.get(f"{origin}/example/?participant=2")
            assert "model.json is not there (404)" in text(browser, "#problem")
    finally:
        shutil.move(site / "elsewhere", site / "example" / "detection")
