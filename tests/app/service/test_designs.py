"""Every kind of design through the service: asked, told, predicted, drawn, shown and taken away."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_tasks import choice_task, item_task, side_task, sweep_task
from starlette.testclient import TestClient

from aline.tasks import Task

API = "/api/v1/experiments"
Save = Callable[[Task, Path], Path]


@pytest.fixture
def client(open_client: Any, save: Save, tmp_path: Path) -> TestClient:
    tasks = [choice_task(), side_task(), sweep_task(), item_task()]
    folders = tuple(str(save(task, tmp_path / task.spec.name)) for task in tasks)
    found: TestClient = open_client(models=folders)
    return found


def start(client: TestClient, model: str, **body: Any) -> str:
    reply = client.post(API, json={"model": model, "name": model, **body})
    assert reply.status_code == 201, reply.text
    return f"{API}/{model}"


def trial(client: TestClient, path: str) -> dict[str, Any]:
    asked = client.post(f"{path}/ask").json()
    told = client.post(f"{path}/trials/{asked['number']}/tell", json={"outcome": 1})
    assert told.status_code == 200, told.text
    design: dict[str, Any] = told.json()["design"]
    return design


@pytest.mark.parametrize("model", ["choice", "side", "sweep", "items"])
def test_an_experiment_on_each_kind(client: TestClient, model: str) -> None:
    path = start(client, model)
    designs = [trial(client, path) for _ in range(2)]
    assert [one["design"] for one in client.get(path).json()["trials"]] == designs
    page, panel = (client.get(f"/experiments/{model}{end}") for end in ("", "/panel"))
    for value in designs[0].values():
        if isinstance(value, str):
            assert f">{value}<" in page.text
            assert f">{value}<" in panel.text
    again = {"outcome": 0, "design": designs[0]}
    number = client.post(f"{path}/ask").json()["number"] if model != "side" else None
    if number is not None:
        told = client.post(f"{path}/trials/{number}/tell", json=again)
        assert told.json()["design"] == designs[0]
    table = client.get(f"{path}/export", params={"format": "csv"}).text
    rows = list(csv.DictReader(io.StringIO(table)))
    assert {name: rows[0][name] for name in designs[0]} == {
        n: str(v) for n, v in designs[0].items()
    }
    columns = {name: [value] for name, value in designs[0].items()}
    predicted = client.post(f"{path}/predict", json={"designs": columns}).json()
    assert len(predicted["mean"]) == 1


def test_axes_say_what_they_are(client: TestClient) -> None:
    models = {one["name"]: one for one in client.get("/api/v1/models").json()["models"]}
    amount, delay, frame, cost = models["choice"]["axes"]
    assert (amount["kind"], amount["low"], amount["unit"]) == ("continuous", 10, "$")
    assert (delay["kind"], delay["values"], delay["unit"]) == ("levels", [1, 7, 30, 180], "days")
    assert (frame["values"], frame["low"]) == (["gain", "loss", "none"], None)
    assert (cost["kind"], cost["high"]) == ("log", 3)
    assert models["choice"]["where"] == "(amount > (100 * cost)) and (frame != none)"
    assert "each once" in models["items"]["facts"]["design"]


def test_what_is_drawn_of_each_kind(client: TestClient) -> None:
    side = start(client, "side")
    trial(client, side)
    drawing = client.get(f"{side}/drawing").json()
    assert drawing["prediction"]["x"] == [0, 1, 2]
    assert drawing["axes"][0]["ticks"] == [[0, "left"], [1, "middle"], [2, "right"]]
    assert drawing["trials"][0]["design"]["side"] in (0, 1, 2)
    sweep = start(client, "sweep")
    hours = trial(client, sweep)["hours"]
    drawing = client.get(f"{sweep}/drawing").json()
    dose, set_ = drawing["axes"]
    assert (dose["log"], set_["log"]) == (True, False)
    plane = drawing["prediction"]
    assert (plane["columns"], plane["rows"], len(plane["mean"])) == (25, 4, 100)
    assert drawing["trials"][0]["design"]["hours"] == [1, 2, 24, 100].index(hours)


def test_restrictions_and_regions_by_name(client: TestClient) -> None:
    region = {"region": {"frame": ["gain"], "amount": [100, 700]}}
    path = start(client, "choice", target=[region], horizon=9)
    assert client.get(path).json()["target"] == [region]
    box = {"frame": ["loss"], "delay": [7, 180], "cost": [0.1, 1]}
    assert client.post(f"{path}/restrict", json={"box": box}).status_code == 200
    for _ in range(3):
        design = trial(client, path)
        assert design["frame"] == "loss"
        assert design["delay"] in (7, 180)
        assert 0.1 <= design["cost"] <= 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"frame": "win"}, "frame must be one of gain, loss, none, got 'win'"),
        ({"delay": 5}, "delay must be one of 1, 7, 30, 180, got 5"),
        ({"cost": 3.0}, "designs must satisfy (amount > (100 * cost)) and (frame != none)"),
    ],
)
def test_designs_that_cannot_be_are_refused(
    client: TestClient, change: dict[str, Any], message: str
) -> None:
    path = start(client, "choice")
    client.post(f"{path}/ask")
    design = {"amount": 200, "delay": 7, "frame": "gain", "cost": 0.5} | change
    reply = client.post(f"{path}/trials/0/tell", json={"outcome": 1, "design": design})
    assert reply.status_code == 422
    assert message in reply.json()["detail"]
