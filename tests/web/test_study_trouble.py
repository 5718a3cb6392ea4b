"""What goes wrong on the study page is said there, in real Chromium, and no answer is lost."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser, QuietHandler, find, press, static_files, text, until, value
from web.study import answer, linked

TRIALS = 3
OFF = """Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("access is denied for this document", "SecurityError"); },
});"""
FULL = """
for (let size = 2 ** 22, i = 0; size >= 1; i++) {
  try {
    localStorage.setItem("other" + i, "x".repeat(size));
  } catch {
    size = Math.floor(size / 2);
  }
}"""
EMPTIED = """
for (const key of Object.keys(localStorage)) {
  if (key.startsWith("other")) localStorage.removeItem(key);
}"""
CLOSES = 'window.dispatchEvent(new Event("beforeunload", { cancelable: true }))'
ANOTHER = """
const key = "aline:brightness mixed:0", created = JSON.parse(localStorage.getItem(key));
created.model.digest = "of another model";
localStorage.setItem(key, JSON.stringify(created));"""


class CutOff(QuietHandler):
    """The connection ends in the middle of the network."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Half of it, though all was promised."""
        content = source.read()
        is_graph = self.path.endswith(".onnx")
        outputfile.write(content[: len(content) // 2] if is_graph else content)


def opened(browser: Browser, origin: str, participant: str) -> None:
    browser.get(f"{origin}/?trials={TRIALS}&participant={participant}")


def begin(browser: Browser) -> None:
    until(lambda: "Which one is brighter" in browser.page_source)
    press(browser, " ")


def events(browser: Browser, participant: str) -> list[str]:
    """Of an experiment, as they are in the browser's storage."""
    key = f"aline:brightness {participant}:"
    found = value(browser, f"Object.keys(localStorage).filter((k) => k.startsWith('{key}'))")
    stored = sorted(found, key=lambda one: int(one.split(":")[-1]))
    return [json.loads(value(browser, f"localStorage.getItem('{one}')"))["event"] for one in stored]


@contextmanager
def changed(file: Path, change: Callable[[bytes], bytes]) -> Iterator[None]:
    """A file with other content, for a while."""
    before = file.read_bytes()
    file.write_bytes(change(before))
    try:
        yield
    finally:
        file.write_bytes(before)


def newer(content: bytes) -> bytes:
    return json.dumps({**json.loads(content), "format": 99, "aline": "9.0"}).encode()


FILES: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "cut off": (
        "graph.onnx",
        lambda one: one[:5000],
        "is not the file that model.json was written",
    ),
    "another": ("graph.onnx", lambda one: one[::-1], "is not the file that model.json was written"),
    "a page": ("model.json", lambda _: b"<!doctype html>", "model.json is no JSON"),
    "foreign": ("model.json", lambda _: b'{"name": "app"}', "is not what aline export MODEL --web"),
    "newer": ("model.json", newer, "was written by aline 9.0 in format 99"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_wrong_file_is_said(what: str, browser: Browser, site: Path) -> None:
    name, change, sentence = FILES[what]
    with changed(site / "detection" / name, change), static_files(site) as origin:
        opened(browser, origin, "wrong")
        assert sentence in text(browser, "#problem")


@pytest.mark.parametrize(
    ("missing", "place", "sentence"),
    [
        ("detection", "#loading", "This study could not be loaded: check the connection"),
        ("detection/aline/local", "#loading", "This study could not be loaded"),
        ("node_modules", "#loading", "npm install and aline export detection --web"),
        ("node_modules/@jspsych", "#loading", "This study could not be loaded"),
        ("detection/model.json", "#problem", "model.json is not there (404)"),
    ],
)
def test_what_is_not_there_is_said(
    missing: str, place: str, sentence: str, browser: Browser, site: Path
) -> None:
    (site / missing).rename(site / "elsewhere")
    try:
        with static_files(site) as origin:
            opened(browser, origin, "none")
            until(lambda: sentence in text(browser, place))
    finally:
        (site / "elsewhere").rename(site / missing)


def test_an_interrupted_download_is_tried_again_then_said(browser: Browser, site: Path) -> None:
    with static_files(site, CutOff) as origin:
        opened(browser, origin, "cut")
        found = text(browser, "#problem")
    assert "graph.onnx could not be downloaded" in found
    assert "check the connection and reload the page" in found


def test_a_storage_that_is_switched_off(browser: Browser, site: Path) -> None:
    """The participant is told at once, and the experimenter gets all answers at the end."""
    add, remove = (
        "Page.addScriptToEvaluateOnNewDocument",
        "Page.removeScriptToEvaluateOnNewDocument",
    )
    script = browser.execute_cdp_cmd(add, {"source": OFF})
    try:
        with static_files(site) as origin:
            opened(browser, origin, "off")
            begin(browser)
            assert "this browser stores nothing for this page" in text(browser, ".aline-problem")
            answer(browser, 0, TRIALS)
            assert "Your threshold" in text(browser, "#result")
            found = json.loads(linked(browser, "#file"))
    finally:
        browser.execute_cdp_cmd(remove, {"identifier": script["identifier"]})
    assert [one["state"] for one in found["experiment"]["trials"]] == ["told"] * TRIALS


def test_a_storage_that_is_full(browser: Browser, site: Path) -> None:
    """Answers stay in the page meanwhile; once there is room all of them are stored."""
    with static_files(site) as origin:
        opened(browser, origin, "full")
        until(lambda: "Which one is brighter" in browser.page_source)
        browser.execute_script(FULL)
        begin(browser)
        answer(browser, 0, 1)
        find(browser, ".aline-stimulus[data-trial='1'] canvas")
        assert "could not store the last answers" in text(browser, ".aline-problem")
        before = events(browser, "full")
        assert not value(browser, CLOSES)
        browser.execute_script(EMPTIED)
        answer(browser, 1, 2)
        find(browser, ".aline-stimulus[data-trial='2'] canvas")
        assert browser.find_element("css selector", ".aline-problem").text == ""
        assert value(browser, CLOSES)
    assert before == ["created", "restricted"]
    assert events(browser, "full") == [*before, "asked", "told", "asked", "told", "asked"]


def test_answers_of_another_model_are_not_mixed_and_stay(browser: Browser, site: Path) -> None:
    """The experimenter uploaded another model in the middle of a study."""
    with static_files(site) as origin:
        opened(browser, origin, "mixed")
        begin(browser)
        answer(browser, 0, 1)
        find(browser, ".aline-stimulus[data-trial='1'] canvas")
        before = events(browser, "mixed")
        browser.execute_script(ANOTHER)
        browser.refresh()
        assert "was run with another model" in text(browser, "#problem")
    assert events(browser, "mixed") == before
