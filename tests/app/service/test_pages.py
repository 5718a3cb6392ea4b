"""The page as the server renders it; a browser is in test_browser.py."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

from aline.app.record import prior_of
from aline.app.service import app as service
from aline.app.service.drawing import close_up
from aline.app.service.terms import TERMS
from aline.experiment import Experiment, Posterior
from aline.experiment.storage import MemoryStorage
from aline.model import Mixture
from aline.tasks import get

STATIC = Path(service.__file__).parent / "static"
API = "/api/v1/experiments"


class Controls(HTMLParser):
    """Inputs, buttons and links with what names them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.unnamed: list[str] = []
        self._labels = set(re.findall(r'<label[^>]* for="([^"]+)"', text))
        self._inside_label = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag == "label":
            self._inside_label = True
        if tag in ("input", "select"):
            named = given.get("id") in self._labels or "aria-label" in given or self._inside_label
            if not named:
                self.unnamed.append(str(given))

    def handle_endtag(self, tag: str) -> None:
        if tag == "label":
            self._inside_label = False


@pytest.mark.parametrize("model", ["psychometric", "location"])
@pytest.mark.parametrize("simulated", [False, True])
def test_every_state_renders_with_named_controls(
    client: TestClient, model: str, simulated: bool
) -> None:
    metadata = {"simulated": 1} if simulated else {}
    client.post(API, json={"model": model, "name": "a", "horizon": 2, "metadata": metadata})
    texts = [client.get("/").text, client.get("/experiments/a").text]
    for _ in range(2):
        number = client.post(f"{API}/a/ask").json()["number"]
        texts.append(client.get("/experiments/a").text)
        client.post(f"{API}/a/trials/{number}/tell", json={"outcome": 1})
    texts.append(client.get("/experiments/a/panel").text)
    assert "Finished" in texts[-1]
    client.post(f"{API}/a/close")
    texts.append(client.get("/experiments/a").text)
    assert "Closed" in texts[-1]
    for text in texts:
        assert Controls(text).unnamed == []
        assert not re.search(r'(src|href)="(https?:)?//', text)  # nothing from elsewhere
        assert not re.search(r"<script(?![^>]*src=)", text)  # and no script in the page


def test_answers_follow_the_outcome(client: TestClient) -> None:
    for model, expected in (("psychometric", 'data-outcome="1"'), ("location", 'id="outcome"')):
        client.post(API, json={"model": model, "name": model})
        client.post(f"{API}/{model}/ask")
        assert expected in client.get(f"/experiments/{model}").text


def test_hostile_names_are_shown_as_text(open_client: Any) -> None:
    """A library may have named an experiment anything."""
    import aline

    storage, name = MemoryStorage(), "<script>alert(1)<script>\"'"
    Experiment(aline.load("psychometric"), storage=storage, name=name)
    client = open_client(storage)
    assert "<script>alert" not in client.get("/").text
    unknown = client.get("/experiments/%3Cscript%3Ealert(1)")
    assert unknown.headers["content-type"] == "application/json"  # which no browser runs


def test_unknown_pages(client: TestClient) -> None:
    assert client.get("/experiments/nobody").status_code == 404
    assert client.get("/nowhere").status_code == 404


def test_the_list_has_pages(open_client: Any) -> None:
    import aline

    storage, model = MemoryStorage(), aline.load("psychometric")
    for _ in range(60):
        Experiment(model, storage=storage)
    client = open_client(storage)
    first = client.get("/").text
    assert "psychometric-60" in first
    assert "psychometric-10<" not in first
    assert 'href="/?start=50"' in first
    assert "psychometric-10<" in client.get("/?start=50").text


def test_scripts_load_nothing_from_elsewhere() -> None:
    for path in [*STATIC.glob("*.js"), *STATIC.glob("*.css")]:
        if path.name != "uplot.js":  # names its home in a comment
            assert "http" not in path.read_text(encoding="utf-8").replace("http.", ""), path
    assert "Leon Sorokin" in (STATIC / "uplot-LICENSE.txt").read_text(encoding="utf-8")


def test_a_first_visit_begins_with_a_plain_task_and_every_term_is_explained(
    client: TestClient,
) -> None:
    start = client.get("/").text
    assert '<option value="psychometric" selected' in start
    assert start.count(" selected") == 1
    client.post(API, json={"model": "psychometric", "name": "a", "metadata": {"simulated": 1}})
    page = client.get("/experiments/a").text
    assert '<a href="/">← All experiments</a>' in page
    shown = set()
    for text in (start, page):
        terms = re.findall(r'popovertarget="([^"]+)"', text)
        assert len(terms) == len(set(terms))
        for term in terms:
            explained = re.search(
                rf'popover id="{term}"[^>]*><b>[^<]+</b> [^<]{{30,}}</span>', text
            )
            assert explained, term
        shown.update(terms)
    assert {f"help-{term.replace(' ', '-')}" for term in TERMS} == shown


def test_a_finished_demo_can_run_again_and_files_have_names(client: TestClient) -> None:
    body = {"model": "psychometric", "name": "a", "horizon": 1, "metadata": {"simulated": 1}}
    client.post(API, json=body)
    assert 'data-action="again"' not in client.get("/experiments/a").text
    client.post(f"{API}/a/simulate")
    page = client.get("/experiments/a").text
    assert 'data-action="again"' in page
    for name in ("Everything (JSON)", "Trials (CSV)", "Posterior draws (netCDF, for ArviZ)"):
        assert f">{name}</a>" in page


def test_the_band_holds_the_curve_and_narrows(client: TestClient) -> None:
    client.post(API, json={"model": "psychometric", "name": "a", "metadata": {"simulated": 1}})
    first = client.get(f"{API}/a/drawing").json()
    for _ in range(25):
        client.post(f"{API}/a/simulate")
    last = client.get(f"{API}/a/drawing").json()
    width = []
    for drawing in (first, last):
        (panel,) = drawing["prediction"]["panels"]
        (curve,) = panel["curves"]
        low, mean, high = panel["low"], curve["mean"], panel["high"]
        inside = [a <= m <= b for a, m, b in zip(low, mean, high, strict=True)]
        assert sum(inside) > 0.95 * len(inside)  # the network's mean, and draws from its posterior
        width.append(sum(b - a for a, b in zip(low, high, strict=True)))
        for one in drawing["parameters"]:
            (start, end), (a, b) = one["range"], one["interval"]
            assert start <= a < b <= end
            assert start <= one["truth"] <= end
    assert width[1] < 0.7 * width[0]


@pytest.mark.parametrize("std", [0.9, 0.3, 0.05, 0.002])
def test_a_close_up_follows_the_posterior(std: float) -> None:
    spec = get("psychometric").spec
    ones = torch.ones(len(spec.parameters), 1)
    known = Posterior(Mixture(0 * ones, 0.7 * ones, std * ones), spec.parameters)["threshold"]
    prior = prior_of(spec.parameters)["threshold"]
    (low, high), (a, b) = close_up(prior, known, None), known.interval(0.95)
    whole = prior.interval(0.998)
    assert whole[0] <= low <= a < b <= high <= whole[1]
    if std == 0.9:
        assert (low, high) == whole
    else:
        assert high - low <= 5.01 * (b - a)  # between one and two times the room it has
    start, _ = close_up(prior, known, truth=-1.0)
    assert start <= -1.0
