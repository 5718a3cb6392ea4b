"""schemathesis over the API's description: no 5xx, and every reply as the schema says.

benchmarks/fuzz.py makes the same calls, many times as many.
"""

from typing import Any

import requests
from fuzz import EXTREMES, fuzz, rows_of
from serving import Service

CALLS = {
    "GET /api/v1/experiments/{name}/events",  # which never ends
    "POST /api/v1/experiments/{name}/trials/{number}/tell",
    "POST /api/v1/experiments",
}


def test_calls_that_nobody_would_make(service: Service) -> None:
    found = fuzz(service.url, examples=4, walks=12, steps=10)
    assert found.examples == []
    assert found.server_errors.total() == 0
    assert set(found.calls) >= CALLS
    assert {200, 201, 404, 409, 422} <= set(found.statuses)  # it came past the door, too
    assert sum(one["value"] for one in rows_of(found) if one["metric"] != "calls") == 0


def test_extreme_outcomes(service: Service) -> None:
    """Each is taken, or refused with a reason, and the experiment goes on."""
    api = f"{service.url}/api/v1/experiments"
    for model in ("psychometric", "gp1d"):
        requests.post(api, json={"model": model, "name": f"extreme {model}"}, timeout=20)
        path = f"{api}/extreme {model}"
        for outcome in EXTREMES:
            number = requests.post(f"{path}/ask", timeout=20).json()["number"]
            tell = f"{path}/trials/{number}/tell"
            assert requests.post(tell, json={"outcome": outcome}, timeout=20).status_code in (
                200,
                422,
            )
            requests.post(f"{path}/trials/{number}/abandon", timeout=20)
        assert requests.get(f"{path}/posterior", timeout=20).status_code == 200


def description(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = requests.get(f"{service.url}/api/v1/openapi.json", timeout=20).json()
    return found


def test_every_request_has_an_example(service: Service) -> None:
    components = description(service)["components"]["schemas"]
    for name in ("NewExperiment", "Tell", "Attach", "Predict"):
        properties = components[name]["properties"].values()
        assert any("examples" in one for one in properties), name


def test_links_lead_to_calls_that_exist(service: Service) -> None:
    calls = [call for path in description(service)["paths"].values() for call in path.values()]
    names = {call["operationId"] for call in calls}
    links = [
        link
        for call in calls
        for reply in call["responses"].values()
        for link in reply.get("links", {}).values()
    ]
    assert len(links) > 50
    assert {link["operationId"] for link in links} <= names
