"""The study page in real Chromium: static files, no network, a reload, the same as Python."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser, find, press, static_files, text, until, value
from web.models import model_named
from web.study import answer, linked

import aline

TRIALS, RELOADED = 30, 12
WORKER = """
const done = arguments[0], file = "./detection/aline/local/worker.js";
const worker = new Worker(file, { type: "module" });
worker.onmessage = () => done("runs");
worker.onerror = () => done("does not start");
"""
PLACES = """Array.from(document.querySelectorAll(".aline-stimulus canvas, .aline-choices button"))
  .map((one) => one.getBoundingClientRect())
  .map((one) => [one.left, one.top, one.right, one.bottom])"""


@pytest.fixture(scope="module")
def finished(browser: Browser, site: Path) -> Browser:
    """The page after all trials; the server is gone from the first key on."""
    with static_files(site) as origin:
        browser.get(f"{origin}/?trials={TRIALS}")
        until(lambda: "Which one is brighter" in browser.page_source)
        until(lambda: value(browser, "document.documentElement.dataset.offline") == "true")
    press(browser, " ")
    answer(browser, 0, RELOADED)
    find(browser, f".aline-stimulus[data-trial='{RELOADED}'] canvas")
    browser.execute_cdp_cmd("Network.clearBrowserCache", {})  # it may hold files, or not
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


def test_the_network_has_its_worker_without_a_connection(finished: Browser) -> None:
    """Else it would run on the page's own thread, and hold it up."""
    assert finished.execute_async_script(WORKER) == "runs"


def test_data_are_in_the_format_of_jspsych(finished: Browser) -> None:
    """With the trials from before the reload, and the posterior on the last."""
    check_data(finished)
    finished.refresh()  # after the last trial, too
    check_data(finished)
    assert "NetworkError" not in json.dumps(finished.get_log("browser"))


def check_data(browser: Browser) -> None:
    rows = list(csv.DictReader(io.StringIO(linked(browser, "#data"))))
    told = [row for row in rows if row["trial_type"] == "aline"]
    assert [int(row["trial"]) for row in told] == list(range(TRIALS))
    assert {row["response"] for row in told} == {"left", "right"}
    assert all(float(row["rt"]) > 0 for row in told)
    assert [row["finished"] for row in told] == ["false"] * (TRIALS - 1) + ["true"]
    assert set(json.loads(told[-1]["posterior"])) == {"threshold", "slope", "guess", "lapse"}
    assert {row["participant"] for row in rows} == {"1"}
    assert value(browser, "document.querySelector('#data').download") == "brightness-1.csv"


@pytest.mark.parametrize(("width", "height"), [(360, 640), (640, 320), (1280, 700)])
def test_all_of_a_trial_fits_the_screen(
    width: int, height: int, browser: Browser, site: Path
) -> None:
    """Discs and buttons, on a phone either way up."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 1000}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        with static_files(site) as origin:
            browser.get(f"{origin}/?trials=2&participant={width}")
            until(lambda: "Which one is brighter" in browser.page_source)
            press(browser, " ")
            find(browser, ".aline-stimulus canvas")
            shown = value(browser, PLACES)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    for left, top, right, bottom in shown:
        assert 0 <= left < right <= width, shown
        assert 0 <= top < bottom <= height, shown
    left, top, right, bottom = shown[0]
    assert (right - left) / (bottom - top) == pytest.approx(2, abs=0.02)  # discs stay round


def test_a_finger_answers_as_well(browser: Browser, site: Path) -> None:
    with static_files(site) as origin:
        browser.get(f"{origin}/?trials=2&participant=touch")
        until(lambda: "Which one is brighter" in browser.page_source)
        browser.find_element("css selector", "body").click()
        for number in range(2):
            find(browser, f".aline-stimulus[data-trial='{number}'] canvas")
            find(browser, ".aline-choices button").click()
        assert "Your threshold" in text(browser, "#result")
