"""A person at the page, in real Chromium: keyboard, reload, a killed server, exports."""

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aline_client import Client
from chromium import Browser, click, find, press, static_files, text, until, value
from faulty import faulty
from outcome_kinds import KINDS
from serving import Nursery, Service

from aline.app.service import app
from aline.app.web import copy_library
from aline.experiment import Experiment, open_storage
from aline.tasks import Task

ROOT = Path(__file__).parents[3]


def told(browser: Browser) -> int:
    return int(value(browser, "document.querySelector('.next progress').value"))


def is_busy(browser: Browser) -> bool:
    return bool(value(browser, "document.getElementById('panel').hasAttribute('aria-busy')"))


def wait_for(browser: Browser, count: int) -> None:
    """Until so many trials are told and the next is on show."""
    state = "document.querySelector('.next')?.dataset"
    until(
        lambda: (
            told(browser) == count
            and value(browser, f"{state}.open !== '' || {state}.finished === 'yes'")
            and not is_busy(browser)
        )
    )


def picture(browser: Browser, selector: str) -> str:
    """A plot's pixels."""
    return str(value(browser, f"document.querySelector('{selector} canvas').toDataURL()"))


def drawn(browser: Browser) -> None:
    """Until the plots show what the panel does."""
    until(
        lambda: value(
            browser,
            "document.getElementById('experiment').dataset.drawn === "
            "document.querySelector('.next').dataset.sequence",
        )
    )


def answer(browser: Browser, number: int) -> None:
    press(browser, "y" if number % 3 else "n")
    wait_for(browser, number + 1)


@pytest.mark.timeout(900)  # thirty trials, each with its plots, take long on a busy machine
def test_an_experiment_from_start_to_end(
    browser: Browser, nursery: Nursery, tmp_path: Path
) -> None:
    service = nursery.start(f"sqlite:///{tmp_path}/lab.db")
    browser.get(service.url)
    click(browser, "#model option[value=psychometric]")
    find(browser, "#name").send_keys("Participant 1")
    until(lambda: value(browser, "document.getElementById('horizon').value") == "30")
    click(browser, "#new button[type=submit]")
    until(lambda: browser.current_url.endswith("/experiments/Participant%201"))
    find(browser, "[data-action=ask]")
    press(browser, " ")
    wait_for(browser, 0)
    drawn(browser)
    assert value(
        browser,
        "[...document.querySelectorAll('.marginal')].every("
        "(box) => box.querySelector('canvas').clientWidth <= box.clientWidth)",
    )
    before = picture(browser, "#marginals"), picture(browser, "#prediction")
    for number in range(8):
        answer(browser, number)
    drawn(browser)
    after = picture(browser, "#marginals"), picture(browser, "#prediction")
    assert before[0] != after[0]
    assert before[1] != after[1]

    # Another target, from the page.
    for name in ("threshold", "slope"):
        click(browser, f"input[name=target][value={name}]")
        until(lambda: not is_busy(browser))
    # (at least one stays chosen)
    api = f"{service.url}/api/v1/experiments/Participant%201"
    click(browser, "input[name=target][value=lapse]")
    until(lambda: "lapse" in _get(browser, api)["target"])

    # A reload in the midst, with the same trial open.
    design = text(browser, ".large")
    browser.refresh()
    assert text(browser, ".large") == design
    wait_for(browser, 8)
    for number in range(8, 15):
        answer(browser, number)

    # The server dies; an answer given meanwhile is kept and sent when it is back.
    service.kill()
    press(browser, "y")
    until(lambda: value(browser, "!document.getElementById('notice').hidden"))
    service = nursery.start(service.storage, service.port)
    wait_for(browser, 16)
    for number in range(16, 29):
        answer(browser, number)
    # A slip of the finger is taken back.
    press(browser, "u")
    wait_for(browser, 28)
    for number in (28, 29):
        answer(browser, number)
    until(lambda: "Finished" in text(browser, "#next-title"))

    # Everything told is in the journal, once.
    experiment = Experiment.resume(open_storage(service.storage), "Participant 1")
    outcomes = [trial.outcome for trial in experiment.trials if trial.state == "told"]
    assert len(outcomes) == 30
    assert outcomes[:15] == [float(number % 3 != 0) for number in range(15)]

    # And can be taken away.
    click(browser, "a[href*='format=csv']")
    file = until(lambda: list(browser.downloads.glob("*.csv")))[0]
    assert file.read_text().count("told,asked") == 30
    _check_console(browser)
    service.kill()


def _get(browser: Browser, url: str) -> Any:
    return browser.execute_async_script(
        "const done = arguments[1]; fetch(arguments[0]).then((r) => r.json()).then(done)", url
    )


def _check_console(browser: Browser) -> None:
    """No script failed; what a dead server leaves in the console is no fault."""
    entries = [one["message"] for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    assert [e for e in entries if not re.search("ERR_|Failed to load resource", e)] == []


def test_a_number_is_typed_and_two_pages_follow_each_other(
    browser: Browser, service: Service
) -> None:
    browser.get(service.url)
    click(browser, "#model option[value=location]")
    find(browser, "#name").send_keys("Field 1")
    click(browser, "#new button[type=submit]")
    click(browser, "[data-action=ask]")
    box = find(browser, "#outcome")
    box.send_keys("0.5\n")
    wait_for(browser, 1)
    # Somebody else tells the next; this page hears of it.
    url = f"{service.url}/api/v1/experiments/Field%201"
    number = value(browser, "document.querySelector('.next').dataset.open")
    browser.execute_async_script(
        "const done = arguments[2]; fetch(`${arguments[0]}/trials/${arguments[1]}/tell`, {"
        "method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{\"outcome\": 1.5}'"
        "}).then(() => done())",
        url,
        number,
    )
    until(lambda: told(browser) == 2)
    _check_console(browser)


def test_labels_have_keys_and_several_outcomes_a_form(
    browser: Browser, nursery: Nursery, save: Callable[[Task, Path], Path], tmp_path: Path
) -> None:
    kinds = {"rating": KINDS["labelled ordinal"], "both": KINDS["choice and time"]}
    folders = [str(save(kind.task(name=name), tmp_path / name)) for name, kind in kinds.items()]
    service = nursery.start(f"sqlite:///{tmp_path}/lab.db", models=folders)
    for name in kinds:
        browser.get(service.url)
        click(browser, f"#model option[value={name}]")
        find(browser, "#name").send_keys(name)
        click(browser, "#new button[type=submit]")
        click(browser, "[data-action=ask]")
        wait_for(browser, 0)
        if name == "rating":
            press(browser, "4")
            wait_for(browser, 1)
            click(browser, "[data-outcome='\"always\"']")
        else:
            click(browser, "[data-key=n]")  # a label of its own field, by mouse or by key
            value(browser, "document.activeElement.blur()")
            press(browser, "y")
            find(browser, "input[name=rt]").send_keys("0.75\n")
            wait_for(browser, 1)
            click(browser, "[data-key=n]")
            find(browser, "input[name=rt]").send_keys("-0.5\n")
        wait_for(browser, 2)
        drawn(browser)
    storage = open_storage(service.storage)
    told = {
        name: [trial["outcome"] for trial in storage.read(name) if trial["event"] == "told"]
        for name in kinds
    }
    assert told["rating"] == ["mostly", "always"]
    assert told["both"] == [{"choice": 1.0, "rt": 0.75}, {"choice": 0.0, "rt": -0.5}]
    _check_console(browser)
    service.kill()


def test_the_demo_runs_by_itself_at_the_sliders_pace(browser: Browser, service: Service) -> None:
    browser.get(service.url)
    click(browser, "#model option[value=psychometric]")
    click(browser, "#simulated")
    find(browser, "#horizon").clear()
    find(browser, "#horizon").send_keys("12")
    click(browser, "#new button[type=submit]")
    until(lambda: told(browser) >= 2)
    click(browser, "[data-action=play]")
    until(lambda: text(browser, "[data-action=play]") == "Run")
    time.sleep(1)
    paused = told(browser)
    time.sleep(1)
    assert told(browser) == paused
    browser.execute_script(
        "const slider = document.getElementById('speed');"
        "slider.value = 20; slider.dispatchEvent(new Event('input'))"
    )
    click(browser, "[data-action=play]")
    until(lambda: "Finished" in text(browser, "#next-title"))
    _check_console(browser)


@pytest.mark.parametrize("kind", ["tab", "window"])
def test_seven_pages_of_one_browser(browser: Browser, service: Service, kind: str) -> None:
    """A browser has six connections to a site: pages that only listen must not take them all."""
    experiment = Client(service.url).create("psychometric", name=f"Many {kind}s")
    url = f"{service.url}/experiments/Many%20{kind}s"
    first, opened = browser.current_window_handle, []
    browser.get(url)
    for _ in range(6):
        browser.switch_to.new_window(kind)
        opened.append(browser.current_window_handle)
        browser.get(url)
    began = time.monotonic()
    press(browser, " ")
    wait_for(browser, 0)
    answer(browser, 0)
    assert time.monotonic() - began < 10  # as good as at once; a page that waits does so for 15 s
    experiment.tell(experiment.status()["trials"][-1]["number"], 1)
    browser.switch_to.window(first)  # which hears of it, if only when it is looked at again
    until(lambda: told(browser) == 2)
    for handle in opened:
        browser.switch_to.window(handle)
        browser.close()
    browser.switch_to.window(first)


@pytest.mark.parametrize("fault", ["cut", "silent", 502, 504])
def test_a_reply_that_a_proxy_spoils_is_asked_for_again(
    browser: Browser, service: Service, fault: Any
) -> None:
    page = f"/experiments/Behind%20{fault}"
    with faulty(service.port, fault, methods=("GET", "POST")) as proxy:
        # The page itself and its files come whole; what its scripts ask for does not, at first.
        proxy.tries = dict.fromkeys(_files_of(page), len(proxy.faults))
        browser.get(proxy.url)
        click(browser, "#model option[value=psychometric]")
        find(browser, "#name").send_keys(f"Behind {fault}")
        click(browser, "#new button[type=submit]")
        until(lambda: browser.current_url.endswith(page))
        find(browser, "[data-action=ask]")
        press(browser, " ")
        wait_for(browser, 0)
        answer(browser, 0)
        drawn(browser)
        until(lambda: value(browser, "document.getElementById('notice').hidden"))
        assert proxy.tries[f"/api/v1{page}/drawing"] >= 2
        browser.get("about:blank")
    events = [event["event"] for event in open_storage(service.storage).read(f"Behind {fault}")]
    assert events == ["created", "asked", "told", "asked"]


def _files_of(page: str) -> list[str]:
    static = Path(app.__file__).parent / "static"
    return ["/", page, *(f"/static/{file.name}" for file in static.iterdir())]


def test_a_page_that_gets_no_answer_says_so(browser: Browser, service: Service) -> None:
    """The service is frozen, not gone: connections open, and nothing comes."""
    Client(service.url).create("psychometric", name="Frozen")
    browser.get(f"{service.url}/experiments/Frozen")
    drawn(browser)
    browser.execute_script("AbortSignal.timeout = ((real) => () => real(300))(AbortSignal.timeout)")
    os.kill(service.pid, signal.SIGSTOP)
    try:
        press(browser, " ")
        notice = text(browser, "#notice")
    finally:
        os.kill(service.pid, signal.SIGCONT)
    assert notice.startswith("No answer for")
    wait_for(browser, 0)
    until(lambda: value(browser, "document.getElementById('notice').hidden"))


def test_phone_and_dark(browser: Browser, service: Service) -> None:
    """Nothing is wider than a phone, and dark is dark."""
    browser.get(service.url)
    links = value(browser, "[...document.querySelectorAll('.row')].map((a) => a.href)")
    metrics = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    for url in [service.url, *links]:
        browser.get(url)
        if "experiments" in url:
            drawn(browser)
        assert value(browser, "document.documentElement.scrollWidth") <= 360
        paper = value(browser, "getComputedStyle(document.body).backgroundColor")
        assert max(map(int, re.findall(r"\d+", paper)[:3])) < 60
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_times_are_in_the_zone_of_the_reader(browser: Browser, service: Service) -> None:
    Client(service.url).create("psychometric", name="zones")
    shown = {}
    for zone in ("Asia/Tokyo", "America/New_York"):
        browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": zone})
        browser.get(service.url)
        until(lambda: "UTC" not in text(browser, ".row time"))
        shown[zone] = text(browser, ".row time")
    browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})
    assert len(set(shown.values())) == 2


def test_answers_at_one_place_are_stacked(browser: Browser, service: Service) -> None:
    """None hides another, and none lies on the curve."""
    browser.get(service.url)
    points = [{"x": 0.5, "y": y} for y in (1, 1, 0, 1)] + [{"x": 0.9, "y": 1}]
    script = (
        "const done = arguments[1]; import('/static/plots.js').then("
        "(plots) => done(plots.stacked({ low: 0, high: 1 }, arguments[0])))"
    )
    heights = browser.execute_async_script(script, points)
    assert len(set(heights[:4])) == 4
    assert [height > 1 for height in heights] == [one["y"] == 1 for one in points]
    assert [height < 0 for height in heights] == [one["y"] == 0 for one in points]
    assert heights[4] == heights[0]


def test_the_jspsych_example(browser: Browser, nursery: Nursery, tmp_path: Path) -> None:
    """A page of another site runs a forced choice against the service."""
    example, folder = ROOT / "clients" / "js" / "example", tmp_path / "example"
    if not (example / "node_modules" / "jspsych").is_dir():
        pytest.skip("jsPsych is not installed: npm install in clients/js/example")
    shutil.copytree(example, folder, ignore=shutil.ignore_patterns("*.map"))
    copy_library(folder / "detection" / "aline")
    with static_files(folder) as origin:
        service = nursery.start(f"sqlite:///{tmp_path}/lab.db", origins=[origin])
        browser.get(f"{origin}/?service={service.url}&trials=4")
        until(lambda: "Which one is brighter" in browser.page_source)
        press(browser, " ")
        for count in range(4):
            find(browser, f".aline-stimulus[data-trial='{count}'] canvas")
            press(browser, "f")
        assert "Your threshold" in text(browser, "#result")
    storage = open_storage(service.storage)
    (name,) = storage.names()
    experiment = Experiment.resume(storage, name)
    assert experiment.finished
    assert json.dumps(experiment.metadata) == '{"page": "jsPsych example"}'
    service.kill()
