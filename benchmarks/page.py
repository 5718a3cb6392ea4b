"""The study page in real Chromium: a trial's time, long tasks, the second visit, the download.

    python benchmarks/page.py --output results/page.json

All of it runs on one core: the page, its worker, the server and this script. Files come from this
machine: a network's time is not in the second visit. It needs chromium and chromedriver, selenium,
and jsPsych in clients/js/example (scripts/system).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np

from aline import load
from aline.app.web import export_web
from aline.evaluation.estimates import Estimate
from aline.evaluation.results import Row, result, row

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from chromium import Browser, find, press, started, static_files, until, value  # noqa: E402
from web.study import answer  # noqa: E402

EXPERIMENTS, OBSERVATIONS, AROUND = 8, 30, 5
PATIENCE = 300  # seconds
STUDY_TRIALS, RELOADED = 30, 12
BARS = {"milliseconds": 10.0, "longest_task": 50.0, "first_trial_seconds": 2.0,
        "compressed_bytes": 5e6}  # fmt: skip

# An experiment in a page of its own: tell, posterior and ask of trials around the thirtieth.
TRIALS = """
import { load, LocalExperiment } from "./MODEL/aline/aline.js";
const model = await load("./MODEL/"), times = [];
for (let seed = 0; seed < EXPERIMENTS; seed++) {
  const experiment = new LocalExperiment(model, { seed, target: ["threshold"], KNOWN trials: 60 });
  let trial = await experiment.ask();
  for (let told = 1; told <= LAST; told++) {
    const before = performance.now();
    await experiment.tell(trial, (7 * told + seed) % 3 ? 1 : 0);
    await experiment.posterior();
    trial = await experiment.ask();
    if (told >= FIRST) times.push(performance.now() - before);
    await new Promise((resolve) => setTimeout(resolve, 20)); // a participant takes longer
  }
}
resolve(times);
"""
WATCH = """window.tasks = [];
new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => one.duration)))
  .observe({ type: "longtask", buffered: true });"""
HOLD_UP = """setTimeout(() => {
  for (const until = performance.now() + 80; performance.now() < until; ) ;
}, 0);"""


def measured(name: str, folder: Path) -> Iterator[Row]:
    """All rows."""
    make_site(name, folder)
    with started(folder) as browser:
        browser.set_script_timeout(PATIENCE)
        with static_files(folder) as origin:
            browser.get(f"{origin}/trials.html")  # waiting, and not asking, costs the page nothing
            times = browser.execute_async_script("waiting.then(arguments[0])")
        for level in (0.5, 0.95):
            spent = float(np.quantile(times, level))
            yield numbered(name, "milliseconds", spent, len(times), quantile=level)
        yield numbered(name, "longest_task", longest_task(browser, folder), STUDY_TRIALS)
        seconds, files = second_visit(browser, folder, name)
        yield numbered(name, "first_trial_seconds", seconds, 1)
        sizes = {path: compressed(folder / path) for path in files}
        yield numbered(name, "compressed_bytes", sum(sizes.values()), len(sizes), part="page")
        ours = [path for path in sizes if "node_modules" not in path]
        yield numbered(
            name, "compressed_bytes", sum(sizes[p] for p in ours), len(ours), part="aline"
        )


def make_site(name: str, folder: Path) -> None:
    """As a web host has it, with a page that only measures."""
    page = ROOT / "clients" / "js" / "example"
    shutil.copytree(page, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.map"))
    export_web(load(name), folder / name)
    known = "known: { guess: 0.5 }," if load(name).network.config.priors else ""
    first, last = OBSERVATIONS - AROUND, OBSERVATIONS + AROUND
    script = TRIALS.replace("MODEL", name).replace("KNOWN", known).replace("FIRST", str(first))
    script = script.replace("EXPERIMENTS", str(EXPERIMENTS)).replace("LAST", str(last))
    around = (
        "<!doctype html><script>const waiting = new Promise((done) => { window.resolve = done; })"
        f'</script><script type="module">{script}</script>'
    )
    (folder / "trials.html").write_text(around)


def longest_task(browser: Browser, folder: Path) -> float:
    """Above 50 ms, on the main thread of a whole study by keyboard, in milliseconds; 0 if none is.

    From the first key on there is no network, and at the twelfth trial the page is loaded again.
    """
    with static_files(folder) as origin:
        open_study(browser, origin, 1)
        browser.execute_script(WATCH)
        until(lambda: value(browser, "document.documentElement.dataset.offline") == "true")
    press(browser, " ")
    answer(browser, 0, RELOADED)
    find(browser, f".aline-stimulus[data-trial='{RELOADED}'] canvas")
    before = tasks_of(browser)
    browser.refresh()
    browser.execute_script(WATCH)
    answer(browser, RELOADED, STUDY_TRIALS)
    find(browser, "#result")
    after = tasks_of(browser)
    browser.execute_script(HOLD_UP)
    until(lambda: len(tasks_of(browser)) > len(after))  # a watch that sees nothing says nothing
    return max([0.0, *before, *after])


def open_study(browser: Browser, origin: str, participant: int) -> None:
    """Until it waits for its participant."""
    browser.get(f"{origin}/?trials={STUDY_TRIALS}&participant={participant}")
    until(lambda: "Which one is brighter" in browser.page_source)


def tasks_of(browser: Browser) -> list[float]:
    """The long tasks that were seen, once the page had a moment to tell of them."""
    time.sleep(0.2)
    found: list[float] = value(browser, "window.tasks")
    return found


def second_visit(browser: Browser, folder: Path, name: str) -> tuple[float, list[str]]:
    """Seconds from opening the page to the first stimulus, and the files that it took."""
    with static_files(folder) as origin:
        open_study(browser, origin, 2)
        until(lambda: value(browser, "document.documentElement.dataset.offline") == "true")
        open_study(browser, origin, 3)
        press(browser, " ")
        find(browser, ".aline-stimulus canvas")
        waiting = value(browser, "performance.now()") / 1000
        loaded = value(browser, "performance.getEntriesByType('resource').map((one) => one.name)")
    paths = {urlparse(url).path.lstrip("/") for url in loaded if url.startswith(origin)}
    # The worker's files are not in the page's list.
    paths |= {
        str(path.relative_to(folder)) for path in (folder / name / "aline/local").glob("*.js")
    }
    paths |= {"index.html", "sw.js"}
    return waiting, sorted(
        path for path in paths if path.endswith((".js", ".json", ".onnx", ".css", ".html"))
    )


def compressed(path: Path) -> int:
    """As most hosts send a file."""
    return len(gzip.compress(path.read_bytes(), 6))


def numbered(name: str, metric: str, number: float, count: int, **more: Any) -> Row:
    """One number of the page."""
    found = row(name, "aline.js", "page", metric, None, Estimate(number, 0.0, count))
    return {**found, "ci95": None, **more}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    parser.add_argument("--model", default="detection")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core, for all that it starts
    began, found = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as folder:
        for one in measured(arguments.model, Path(folder)):
            found.append(one)
            bar = BARS[one["metric"]]
            verdict = "met" if one["value"] <= bar else "MISSED"
            print(f"{one['metric']:20} {one['value']:12.4g}  bar {bar:g}: {verdict}", flush=True)
    if arguments.output:
        digest = load(arguments.model).digest  # of which weights: times depend on sizes alone
        whole = result("page", found, time.perf_counter() - began, digest=digest)
        arguments.output.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
