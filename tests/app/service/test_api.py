"""The API: what a client can do, and what each mistake is told."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from torch import distributions as td

import aline
from aline.experiment import Experiment, open_storage
from aline.tasks import Task, get

API = "/api/v1/experiments"


def create(client: TestClient, **body: Any) -> str:
    reply = client.post(API, json={"model": "psychometric", **body})
    assert reply.status_code == 201, reply.text
    assert reply.headers["location"].startswith(f"{API}/")
    return str(reply.headers["location"])


def run(client: TestClient, path: str, trials: int) -> None:
    for _ in range(trials):
        number = client.post(f"{path}/ask").json()["number"]
        told = client.post(f"{path}/trials/{number}/tell", json={"outcome": number % 2})
        assert told.status_code == 200


def test_a_whole_experiment_equals_the_librarys(client: TestClient) -> None:
    path = create(client, target=["threshold"], horizon=6, seed=3, metadata={"participant": 7})
    run(client, path, 6)
    shown = client.get(path).json()
    assert shown["finished"]
    assert shown["told"] == 6
    assert shown["metadata"] == {"participant": 7}
    own = aline.Experiment(aline.load("psychometric"), "threshold", horizon=6, seed=3)
    while not own.finished:
        trial = own.ask()
        own.tell(trial, trial.number % 2)
    assert [t["design"] for t in shown["trials"]] == [t.design for t in own.trials]
    known = client.get(f"{path}/posterior", params={"level": 0.9}).json()["parameters"]
    assert known["threshold"]["mean"] == pytest.approx(own.posterior().mean["threshold"])
    assert known["slope"]["interval"] == pytest.approx(own.posterior().interval("slope", 0.9))
    refined = client.get(f"{path}/posterior", params={"refined": True}).json()["parameters"]
    assert refined["threshold"]["mean"] == pytest.approx(own.refined().mean["threshold"])
    predicted = client.post(f"{path}/predict", json={"designs": {"stimulus": [-1.0, 2.0]}}).json()
    assert predicted["mean"] == pytest.approx(own.predict({"stimulus": [-1.0, 2.0]}).mean.tolist())
    assert predicted["interval"] is None


def test_known_values_and_units_are_those_of_the_library(client: TestClient) -> None:
    """A forced choice in dB."""
    settings: dict[str, Any] = {"known": {"guess": 0.5}, "horizon": 4}
    path = create(client, model="detection", units={"stimulus": [-40.0, 0.0]}, **settings)
    run(client, path, 4)
    model = aline.load("detection").in_units(stimulus=(-40, 0))
    own = aline.Experiment(model, **settings)
    while not own.finished:
        trial = own.ask()
        own.tell(trial, trial.number % 2)
    shown = client.get(path).json()
    assert shown["target"] == ["threshold", "slope", "lapse"]
    assert [t["design"] for t in shown["trials"]] == [t.design for t in own.trials]
    known = client.get(f"{path}/posterior").json()["parameters"]
    assert known["threshold"]["mean"] == pytest.approx(own.posterior().mean["threshold"])
    refused = client.post(API, json={"model": "psychometric", "known": {"guess": 0.5}})
    assert refused.status_code == 422
    assert "own priors alone" in refused.text


def test_priors_and_what_is_known_may_change(client: TestClient) -> None:
    prior = {"threshold": {"family": "Normal", "loc": 0.4, "scale": 0.1}}
    path = create(client, model="detection", prior=prior, target=["threshold"])
    own = aline.Experiment(
        aline.load("detection"), "threshold", prior={"threshold": td.Normal(0.4, 0.1)}
    )
    mean, own_mean = _mean(client, path), own.posterior().mean["threshold"]
    assert mean == pytest.approx(own_mean)
    changed = client.patch(path, json={"known": {"guess": 0.5}}).json()
    assert changed["known"] == {"guess": 0.5}
    assert client.patch(path, json={"target": ["guess"]}).status_code == 422
    swapped = client.patch(path, json={"target": ["guess"], "known": {"threshold": 0.3}}).json()
    assert [swapped["target"], swapped["known"]] == [["guess"], {"threshold": 0.3}]
    client.patch(path, json={"known": None, "prior": None})
    assert _mean(client, path) == pytest.approx(0.5, abs=0.02)  # the task's own


def _mean(client: TestClient, path: str) -> float:
    known = client.get(f"{path}/posterior").json()["parameters"]
    return float(known["threshold"]["mean"])


@pytest.mark.parametrize(
    ("plain", "sentence"),
    [
        ({"family": "Cauchy", "loc": 0.0}, "the prior of slope must be one of Uniform, Normal,"),
        ({"family": "Normal", "loc": 0.1}, "the prior of slope needs the numbers loc, scale of a"),
        ({"family": "Uniform", "low": 0.2, "high": 0.1}, "the prior of slope is no distribution"),
        ({"family": "Normal", "loc": 0.2, "scale": 1}, "of its mass outside"),
        ({"loc": 0.2}, "a prior is a torch distribution"),
        (
            {"family": "Beta", "concentration1": 1e308, "concentration0": 1.0},
            "quantiles that numbers can tell apart",
        ),
        (
            {"family": "Gamma", "concentration": 1e8, "rate": 1e308},
            "quantiles that numbers can tell apart",
        ),
        (
            {"family": "Gamma", "concentration": 1e37, "rate": 1e37},
            "quantiles that numbers can tell apart",
        ),
    ],
)
def test_a_wrong_prior_is_said(plain: dict[str, Any], sentence: str, client: TestClient) -> None:
    refused = client.post(API, json={"model": "detection", "prior": {"slope": plain}})
    assert refused.status_code == 422
    assert sentence in refused.json()["detail"]


@pytest.mark.parametrize("change", [False, True])
def test_a_prior_that_no_journal_could_keep_is_said(change: bool, client: TestClient) -> None:
    """All of it lies at 0, in the range of a threshold; its logarithm is -inf in float32."""
    prior = {"threshold": {"family": "LogNormal", "loc": -1e308, "scale": 1e-9}}
    if change:
        refused = client.patch(create(client, model="detection"), json={"prior": prior})
    else:
        refused = client.post(API, json={"model": "detection", "prior": prior})
    assert refused.status_code == 422
    assert "the numbers of a prior must be finite as float32" in refused.json()["detail"]


def test_trials_can_be_told_elsewhere_abandoned_redone_and_taken_back(client: TestClient) -> None:
    path = create(client)
    client.post(f"{path}/ask")
    body = {"outcome": True, "design": {"stimulus": 1.25}}
    told = client.post(f"{path}/trials/0/tell", json=body).json()
    assert told["design"] == {"stimulus": 1.25}
    assert told["proposed"] is not None
    second = client.post(f"{path}/ask").json()
    assert client.post(f"{path}/trials/1/abandon").json()["state"] == "abandoned"
    again = client.post(f"{path}/trials/1/redo").json()
    assert again["design"] == second["design"]
    client.post(f"{path}/trials/2/tell", json={"outcome": 0})
    back = client.post(f"{path}/undo")
    assert back.status_code == 201
    assert back.json()["design"] == second["design"]
    states = [trial["state"] for trial in client.get(path).json()["trials"]]
    assert states == ["told", "abandoned", "abandoned", "asked"]


def test_earlier_data_restrictions_and_changes(client: TestClient) -> None:
    path = create(client, model="location")
    designs = {"x": [0.1, 0.5], "y": [0.2, 0.6]}
    added = client.post(f"{path}/attach", json={"designs": designs, "outcomes": [0.5, -1.5]})
    assert [trial["source"] for trial in added.json()["trials"]] == ["attached"] * 2
    client.post(f"{path}/restrict", json={"candidates": {"x": [0.25], "y": [0.75]}})
    assert client.post(f"{path}/ask").json()["design"] == {"x": 0.25, "y": 0.75}
    client.post(f"{path}/restrict", json={"box": {"x": [0.0, 0.125]}})
    assert client.post(f"{path}/ask").json()["design"]["x"] <= 0.125
    both = {"candidates": {"x": [0.1], "y": [0.1]}, "box": {"x": [0.0, 0.1]}}
    assert client.post(f"{path}/restrict", json=both).status_code == 422
    region = client.patch(path, json={"target": [{"region": {"x": [0.0, 0.5]}}]})
    assert region.json()["target"] == [{"region": {"x": [0.0, 0.5]}}]
    target = ["source_x", {"predictions": {"x": [0.5], "y": [0.5]}}]
    changed = client.patch(path, json={"target": target, "horizon": 40, "stop": {"source_x": 0.01}})
    assert changed.json()["target"] == target
    assert changed.json()["horizon"] == 40
    interval = client.post(f"{path}/predict", json={"designs": designs}).json()["interval"]
    assert all(low < high for low, high in interval)


def test_the_same_key_counts_once(client: TestClient) -> None:
    key = {"Idempotency-Key": "k1"}
    body = {"model": "psychometric"}
    one, two = (client.post(API, json=body, headers=key).json()["name"] for _ in range(2))
    assert one == two
    assert client.get(API).json()["total"] == 1
    path = f"{API}/{one}"
    first, again = (client.post(f"{path}/ask", headers={"Idempotency-Key": "a"}) for _ in range(2))
    assert first.json() == again.json()
    tells = [
        client.post(f"{path}/trials/0/tell", json={"outcome": 1}, headers={"Idempotency-Key": "t"})
        for _ in range(3)
    ]
    assert [reply.status_code for reply in tells] == [200] * 3
    assert client.get(path).json()["told"] == 1
    other = client.post(
        f"{path}/trials/0/tell", json={"outcome": 0}, headers={"Idempotency-Key": "t"}
    )
    assert other.status_code == 409
    assert "has marked another call" in other.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/trials/0/tell", {"outcome": 1}, 409, "it is told already"),
        ("POST", "/trials/9/tell", {"outcome": 1}, 404, "trials are numbered from 0 to 1"),
        ("POST", "/trials/1/tell", {"outcome": 2}, 422, "must be 0 or 1"),
        ("POST", "/trials/1/tell", {"outcome": "1"}, 422, "outcome"),
        ("POST", "/trials/1/tell", {"outcome": None}, 422, "outcome"),
        ("POST", "/trials/1/tell", {}, 422, "Field required"),
        ("POST", "/trials/1/tell", {"outcome": 1, "extra": 1}, 422, "extra"),
        ("POST", "/trials/1/tell", {"outcome": 1, "note": [1]}, 422, "note"),
        ("POST", "/trials/1/tell", {"outcome": 1, "note": {"a": "x" * 4000}}, 422, "at most 4000"),
        ("POST", "/trials/1/tell", {"outcome": 1, "design": {"stimulus": 7}}, 422, "[-5, 5]"),
        ("POST", "/trials/1/tell", {"outcome": 1, "design": {"dose": 1}}, 422, "exactly stimulus"),
        ("POST", "/trials/one/tell", {"outcome": 1}, 422, "number"),
        ("POST", "/attach", {"designs": {"stimulus": [1]}, "outcomes": []}, 422, "outcomes"),
        ("POST", "/attach", {"designs": {"stimulus": [1]}, "outcomes": [1, 0]}, 422, "one outcome"),
        ("POST", "/predict", {"designs": {"stimulus": [1] * 1001}}, 422, "1000"),
        ("PATCH", "", {"target": ["beauty"]}, 422, "beauty"),
        ("PATCH", "", {"target": [{"region": {"self": [0, 1]}}]}, 422, "self"),
        ("POST", "/restrict", {"box": {"self": [0, 1]}}, 422, "self"),
        ("POST", "/restrict", {"box": {"stimulus": [1, 0]}}, 422, "low < high"),
        ("POST", "/restrict", {"box": {}}, 422, "at least one axis"),
        ("PATCH", "", {"horizon": 0}, 422, "horizon"),
        ("PATCH", "", {"stop": {"threshold": -1}}, 422, "must be positive"),
        ("GET", "/posterior?level=1.5", None, 422, "level"),
        ("GET", "/export?format=pickle", None, 422, "format"),
        ("POST", "/simulate", None, 409, "no simulated participant"),
    ],
)
def test_mistakes_are_explained_and_change_nothing(
    client: TestClient, method: str, path: str, body: Any, status: int, words: str
) -> None:
    home = create(client)
    run(client, home, 1)
    client.post(f"{home}/ask")
    before = client.get(home).json()
    reply = client.request(method, home + path, json=body)
    assert reply.status_code == status
    assert words in reply.json()["detail"]
    assert reply.json()["request_id"] == reply.headers["x-request-id"]
    assert client.get(home).json() == before


@pytest.mark.parametrize("path", ["", "/posterior", "/events", "/drawing", "/export"])
def test_an_unknown_experiment_is_a_404(client: TestClient, path: str) -> None:
    reply = client.get(f"{API}/nobody{path}")
    assert reply.status_code == 404
    assert "got 'nobody'" in reply.json()["detail"]


def test_names_and_models_are_checked(client: TestClient) -> None:
    create(client, name="participant 7")
    for body, status in (
        ({"model": "psychometric", "name": "participant 7"}, 409),
        ({"model": "psychometric", "name": "../etc"}, 422),
        ({"model": "psychometric", "name": "a/b"}, 422),
        ({"model": "psychometric", "name": "x" * 101}, 422),
        ({"model": "/etc"}, 404),
        ({"model": "../zoo/psychometric"}, 404),
        ({"model": "psychometric", "metadata": {"deep": [["x"]] * 3, "n": 1}}, 201),
    ):
        assert client.post(API, json=body).status_code == status


def test_a_closed_experiment_stays_readable(client: TestClient) -> None:
    path = create(client)
    run(client, path, 2)
    assert client.post(f"{path}/close").json()["closed"]
    assert client.post(f"{path}/close").status_code == 200
    refused = client.post(f"{path}/ask")
    assert refused.status_code == 409
    assert "is closed" in refused.json()["detail"]
    assert client.get(f"{path}/posterior").status_code == 200


def test_exports_hold_every_trial(client: TestClient, tmp_path: Path) -> None:
    path = create(client, name="for export")
    run(client, path, 3)
    whole = json.loads(client.get(f"{path}/export").content)
    assert [event["event"] for event in whole["journal"]] == ["created", *["asked", "told"] * 3]
    table = client.get(f"{path}/export", params={"format": "csv"})
    assert "for%20export.csv" in table.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(table.text)))
    trials = client.get(path).json()["trials"]
    assert [float(row["stimulus"]) for row in rows] == [t["design"]["stimulus"] for t in trials]
    assert all(row["asked_at"] < row["told_at"] for row in rows)
    arviz = pytest.importorskip("arviz")
    (tmp_path / "draws.nc").write_bytes(client.get(f"{path}/export?format=netcdf").content)
    draws = arviz.from_netcdf(tmp_path / "draws.nc").posterior["threshold"]
    mean = client.get(f"{path}/posterior").json()["parameters"]["threshold"]["mean"]
    assert float(draws.mean()) == pytest.approx(mean, abs=0.15)


def test_a_note_comes_back_from_the_api_and_in_the_table(client: TestClient) -> None:
    path = create(client)
    client.post(f"{path}/ask")
    client.post(f"{path}/ask")
    body = {"outcome": 1, "note": {"rt": 0.41, "words": "a, b", "eye": [1, 2]}}
    assert client.post(f"{path}/trials/0/tell", json=body).json()["note"] == body["note"]
    assert client.post(f"{path}/trials/1/tell", json={"outcome": 0}).json()["note"] is None
    assert [t["note"] for t in client.get(path).json()["trials"]] == [body["note"], None]
    table = client.get(f"{path}/export", params={"format": "csv"}).text
    first, second = csv.DictReader(io.StringIO(table))
    assert (first["note.rt"], first["note.words"], first["note.eye"]) == ("0.41", "a, b", "[1, 2]")
    assert second["note.rt"] == second["note.eye"] == ""


def test_the_list_shows_progress_newest_first(client: TestClient) -> None:
    for number in range(3):
        run(client, create(client, name=f"p{number}", horizon=5), number)
    client.post(f"{API}/p2/undo")
    listed = client.get(API, params={"limit": 2}).json()
    assert listed["total"] == 3
    assert [(one["name"], one["told"]) for one in listed["experiments"]] == [("p2", 1), ("p1", 1)]
    assert [one["name"] for one in client.get(f"{API}?start=2").json()["experiments"]] == ["p0"]


def test_a_simulated_participant_answers_and_is_the_same_after_a_restart(
    open_client: Any, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    first = open_client(url)
    path = create(first, metadata={"simulated": 5}, horizon=6)
    for _ in range(3):
        assert first.post(f"{path}/simulate").json()["state"] == "told"
    second = open_client(url)
    second.post(f"{path}/ask")
    answers = [second.post(f"{path}/simulate").json()["outcome"] for _ in range(3)]
    assert second.post(f"{path}/simulate").status_code == 409
    whole = open_client()
    other = create(whole, metadata={"simulated": 5}, horizon=6)
    assert [whole.post(f"{other}/simulate").json()["outcome"] for _ in range(6)][3:] == answers


def test_another_process_sees_and_continues(open_client: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    one, two = open_client(url), open_client(url)
    path = create(one, name="shared")
    assert two.get(path).json()["told"] == 0  # both have it in memory now
    number = one.post(f"{path}/ask").json()["number"]
    assert two.post(f"{path}/trials/{number}/tell", json={"outcome": 1}).status_code == 200
    assert one.get(path).json()["told"] == 1
    assert [c.post(f"{path}/ask").json()["number"] for c in (one, two, one)] == [1, 2, 3]
    own = Experiment.resume(open_storage(url), "shared")
    own.tell(3, 0)
    assert two.post(f"{path}/trials/3/tell", json={"outcome": 0}).status_code == 409


def test_drawing_holds_numbers_that_agree_with_the_posterior(client: TestClient) -> None:
    path = create(client, metadata={"simulated": 1}, target=["slope"])
    for _ in range(4):
        client.post(f"{path}/simulate")
    drawn = client.get(f"{path}/drawing").json()
    known = client.get(f"{path}/posterior").json()["parameters"]
    assert [one["name"] for one in drawn["parameters"] if one["target"]] == ["slope"]
    for one in drawn["parameters"]:
        assert one["mean"] == pytest.approx(known[one["name"]]["mean"])
        for curve in (one["prior"], one["posterior"]):
            pairs = zip(one["x"], one["x"][1:], curve, curve[1:], strict=False)
            area = sum((b - a) * (p + q) / 2 for a, b, p, q in pairs)
            assert area == pytest.approx(1, abs=0.02)
    assert len(drawn["widths"]["x"]) == 5
    assert drawn["prediction"]["kind"] == "curve"
    (panel,) = drawn["prediction"]["panels"]
    assert len(panel["curves"][0]["truth"]) == len(drawn["prediction"]["x"])
    assert (
        client.get(f"{create(client, model='location')}/drawing").json()["prediction"]["kind"]
        == "plane"
    )


def test_health_metrics_and_models(client: TestClient) -> None:
    path = create(client)
    run(client, path, 2)
    assert client.get("/health").json()["experiments"] == 1
    text = client.get("/metrics").text
    assert 'aline_trials_total{event="told"} 2.0' in text
    assert 'route="/api/v1/experiments/{name}/ask",status="201"} 2.0' in text
    models = {one["name"]: one for one in client.get("/api/v1/models").json()["models"]}
    assert models["psychometric"]["outcome"] == "binary"
    assert [axis["name"] for axis in models["location"]["axes"]] == ["x", "y"]


@pytest.mark.parametrize(
    ("model", "outcome"), [("gp1d", 1e8), ("location", -1e5), ("ces", 1e30), ("location", 1e300)]
)
def test_an_outcome_that_leaves_nothing_finite_is_refused(
    client: TestClient, model: str, outcome: float
) -> None:
    """It would be in the journal, and ask, page, posterior and export would fail from then on."""
    client.post(API, json={"model": model, "name": "a"})
    asked = client.post(f"{API}/a/ask").json()
    told = client.post(f"{API}/a/trials/0/tell", json={"outcome": outcome})
    designs = {axis: [value] for axis, value in asked["design"].items()}
    data = {"designs": designs, "outcomes": [outcome]}
    attached = client.post(f"{API}/a/attach", json=data)
    for refused in (told, attached):
        assert refused.status_code == 422
        assert re.search(r"must lie in (the limits )?\[", refused.json()["detail"])
    assert client.get(f"{API}/a").json()["sequence"] == 2
    client.post(f"{API}/a/trials/0/abandon")
    for path in ("/experiments/a", f"{API}/a/posterior"):
        assert client.get(path).status_code == 200


def test_a_level_next_to_one_has_finite_intervals(client: TestClient) -> None:
    client.post(API, json={"model": "location", "name": "a"})
    level = 0.9999999999999999
    designs = {
        axis: [value] for axis, value in client.post(f"{API}/a/ask").json()["design"].items()
    }
    body = {"designs": designs, "level": level}
    predicted = client.post(f"{API}/a/predict", json=body)
    assert predicted.status_code == 200
    ((low, high),) = predicted.json()["interval"]
    assert -1000 < low < high < 1000
    known = client.get(f"{API}/a/posterior", params={"level": level})
    assert known.status_code == 200


@pytest.mark.parametrize("seed", [2**70, -(2**70), 2**31])
def test_any_whole_number_is_a_simulated_participant(client: TestClient, seed: int) -> None:
    metadata = {"simulated": seed}
    client.post(API, json={"model": "psychometric", "name": "a", "metadata": metadata})
    assert client.post(f"{API}/a/simulate").status_code == 200
    assert client.get("/experiments/a").status_code == 200
    assert client.get(f"{API}/a/drawing").status_code == 200


def test_a_joint_posterior_has_correlations_and_pairs(
    open_client: Any, save: Callable[[Task, Path], Path], tmp_path: Path
) -> None:
    client = open_client(models=(str(save(get("linear", horizon=4), tmp_path / "line")),))
    path = create(client, model="line", metadata={"simulated": 1})
    client.post(f"{path}/simulate")
    found = client.get(f"{path}/posterior").json()["correlation"]
    assert found["slope"]["slope"] == 1
    assert found["slope"]["intercept"] == pytest.approx(found["intercept"]["slope"])
    pairs = client.get(f"{path}/drawing").json()["pairs"]
    assert pairs["correlation"][0][1] == pytest.approx(found["intercept"]["slope"])
    assert [one["name"] for one in pairs["parameters"]] == ["intercept", "slope"]
    for one in pairs["parameters"]:
        assert one["range"][0] <= one["truth"] <= one["range"][1]
        assert len(one["draws"]) == 300
    alone = create(client, model="psychometric")
    assert client.get(f"{alone}/posterior").json()["correlation"] is None
    assert client.get(f"{alone}/drawing").json()["pairs"] is None
    refined = client.get(f"{alone}/posterior", params={"refined": True}).json()
    assert refined["correlation"]["slope"]["slope"] == 1
