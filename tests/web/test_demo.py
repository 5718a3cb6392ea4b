"""The page of `aline demo --web`, from static files, in real Chromium."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from chromium import Browser, static_files, text, until, value
from web.models import model_named

import aline
from aline.app.web_demo import write_demo
from aline.errors import InputError

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def trial(browser: Browser) -> int:
    words = text(browser, "#state").split()
    return int(words[1]) if words[0] == "trial" else 0


def test_a_participant_answers_and_the_aim_may_change(browser: Browser, tmp_path: Path) -> None:
    with static_files(write_demo(model_named("psychometric"), tmp_path)) as origin:
        browser.get(origin)
        until(lambda: trial(browser) > 2)
        script = (
            "const it = document.getElementById('target'); it.value = 'guess,lapse'; it.onchange()"
        )
        browser.execute_script(script)
        until(lambda: value(browser, "experiment.state.target.join()") == "guess,lapse")
        before = trial(browser)
        until(lambda: trial(browser) > before)
        assert value(browser, "document.querySelectorAll('#curve .dot').length") >= before - 1
        assert value(browser, "document.querySelectorAll('#marginals svg').length") == 4
        width = value(browser, "[document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1]  # nothing hangs over the edge
        assert not [one for one in browser.get_log("browser") if one["level"] == "SEVERE"]


def test_the_command_opens_the_page_until_it_is_stopped(browser: Browser) -> None:
    command = [sys.executable, "-u", "-m", "aline", "demo", "--web"]
    quiet = {**os.environ, "BROWSER": "true"}  # `true` opens nothing
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=quiet) as demo:
        assert demo.stdout is not None
        found = re.search(r"http://127.0.0.1:\d+/", demo.stdout.readline())
        assert found
        browser.get(found.group())
        until(lambda: trial(browser) > 0)
        demo.send_signal(signal.SIGINT)
        assert "Stopped" in demo.stdout.read()


def test_other_models_have_no_page(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="simulates a participant of psychometric, got location"):
        write_demo(aline.load("location"), tmp_path)
