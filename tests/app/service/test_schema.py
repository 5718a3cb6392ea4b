"""schemathesis over the OpenAPI schema: no 5xx, and every reply as the schema says."""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from aline.app.service.app import create_app
from aline.app.service.settings import Settings
from aline.experiment.storage import MemoryStorage

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

HOST = {"Host": "localhost"}

# One service for all calls, so that they meet experiments that others made.
app = create_app(Settings(requests_per_second=1e9), MemoryStorage())
schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app, headers=HOST)


@schema.exclude(path_regex="/events$").parametrize()
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_replies_follow_the_schema(case: schemathesis.Case) -> None:
    if "name" in (case.path_parameters or {}) and len(case.path_parameters["name"]) % 2:
        case.path_parameters["name"] = "known"  # so that half of the calls find something
    if case.path == "/api/v1/experiments" and case.method == "POST" and isinstance(case.body, dict):
        case.body["model"] = "psychometric"
    case.call_and_validate(checks=CHECKS, headers=HOST)


@pytest.fixture(autouse=True, scope="module")
def known_experiment() -> None:
    from starlette.testclient import TestClient

    client = TestClient(app, "http://localhost")
    body = {"model": "psychometric", "name": "known", "horizon": 10_000}
    assert client.post("/api/v1/experiments", json=body).status_code == 201
    client.post("/api/v1/experiments/known/ask")


def test_every_request_has_an_example() -> None:
    components = schema.raw_schema["components"]["schemas"]
    for name in ("NewExperiment", "Tell", "Attach", "Predict"):
        properties = components[name]["properties"].values()
        assert any("examples" in one for one in properties), name
