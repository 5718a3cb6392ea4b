"""Real Chromium, for tests of pages."""

import http.server
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

REASON = "Chromium is not installed: apt-get install chromium chromium-driver"
PATIENCE = 60  # seconds; the machine may be busy

Browser = Any


@contextmanager
def started(folder: Path) -> Iterator[Browser]:
    """A browser that downloads into a folder, or a skip with the reason."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip(REASON)
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,900",
    ):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(folder)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    one = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    one.set_page_load_timeout(PATIENCE)
    one.downloads = folder
    try:
        yield one
    finally:
        one.quit()


def until(condition: Callable[[], Any]) -> Any:
    """Wait for something to become true."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            found = condition()
        except Exception as error:  # an element that was just replaced
            found, failure = None, error
        else:
            failure = None
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {condition}") from failure
        time.sleep(0.02)


def find(browser: Browser, selector: str) -> Any:
    return until(lambda: browser.find_element("css selector", selector))


def click(browser: Browser, selector: str) -> None:
    """Click, again if the element was replaced in between."""

    def try_once() -> bool:
        browser.find_element("css selector", selector).click()
        return True

    until(try_once)


def text(browser: Browser, selector: str) -> str:
    """An element's text, once it has any."""
    return str(until(lambda: browser.find_element("css selector", selector).text))


def value(browser: Browser, expression: str) -> Any:
    return browser.execute_script(f"return {expression}")


def press(browser: Browser, key: str) -> None:
    browser.switch_to.active_element.send_keys(key)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def static_files(folder: Path, kind: type[QuietHandler] = QuietHandler) -> Iterator[str]:
    """The address of a folder that is served until the end of the block."""
    handler = partial(kind, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
