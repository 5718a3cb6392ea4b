"""Calls that nobody would make, in orders that nobody would think of: schemathesis on a service.

    python benchmarks/fuzz.py --output results/fuzz.json

Every call of the API gets values as its schema allows them, values that break the schema, and the
largest, smallest and strangest numbers and texts. Then calls follow each other by the links of the
API's description: an experiment is made, asked, told, undone and so on with what the replies said.
No reply may be 5xx, and each must be as the schema says; of live updates the first event. `metric`
is `calls`, `server_errors` or `violations`, by call. About four minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
import time
import zlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Flaky, Unsatisfiable
from hypothesis.stateful import run_state_machine_as_test
from schemathesis import Case, GenerationMode, Response
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from serving import Nursery

from aline.evaluation.results import commit, result

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXTREMES = [1e308, -1e308, 5e-324, 0, -1, 2**31, 2**53 + 1, -(2**63), 2**70, 1e8, -1e5, 1e-9,
            0.9999999999999999, 1 + 1e-15, True, None, "", "\x00", "\ud800", "../..", "é" * 300,
            math.pi, [], {}, [[[[]]]]]  # fmt: skip
MODELS = ["psychometric", "gp1d", "location", "ces", "detection", "discounting"]
TOGETHER = 10  # walks of one seed
Rows = list[dict[str, Any]]


@dataclass
class Found:
    """What the replies were."""

    calls: Counter[str] = field(default_factory=Counter)
    server_errors: Counter[str] = field(default_factory=Counter)
    violations: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def check(self, case: Case, response: Response) -> None:
        """Hold a reply to the schema."""
        label = f"{case.method} {case.path}"
        self.calls[label] += 1
        self.statuses[response.status_code] += 1
        self.server_errors[label] += response.status_code >= 500
        try:
            case.validate_response(response, checks=CHECKS)
        except Exception as error:  # also a group of them
            self.violations[label] += 1
            parts = getattr(error, "exceptions", [error])
            self.examples.append(f"{label}: {[str(one)[:600] for one in parts]}")


def steered(case: Case) -> None:
    """Make some of what was generated meet something, or extreme; the same for the same case."""
    chance = random.Random(zlib.crc32(repr((case.path, case.path_parameters, case.body)).encode()))
    body = case.body
    if isinstance(body, dict) and chance.random() < 0.7:
        if case.path.endswith("/experiments"):
            body["model"] = chance.choice(MODELS)
        if case.path.endswith("/tell") and chance.random() < 0.6:
            case.body = {"outcome": chance.choice([0, 1, 0.3, *EXTREMES])}
            return
    if isinstance(body, dict | list) and chance.random() < 0.5:
        case.body = _with_extremes(body, chance)


def _with_extremes(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        return {key: _with_extremes(one, chance) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_extremes(one, chance) for one in value]
    return chance.choice(EXTREMES) if chance.random() < 0.25 else value


def call(case: Case, url: str) -> Response:
    """Send it; of a reply without an end, the beginning is read."""
    sent = case.as_transport_kwargs(base_url=url)
    with requests.request(**sent, stream=True, timeout=60) as reply:
        is_endless = reply.headers.get("content-type", "").startswith("text/event-stream")
        content = next(reply.iter_content(65536), b"") if is_endless else reply.content
        if is_endless:
            assert content.startswith(b"id: "), content
        reply._content = content
    return Response.from_requests(reply, verify=False)


def fuzz(url: str, examples: int, walks: int, steps: int) -> Found:
    """Call a service in every way; what was found."""
    schema = schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")
    found = Found()
    for operation in schema.get_all_operations():
        for mode in GenerationMode:
            _call_often(operation.ok(), mode, url, examples, found)
    _walk(schema, url, walks, steps, found)
    return found


def _settings(examples: int, steps: int = 1) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],  # what was found is kept, not made smaller
        suppress_health_check=list(HealthCheck),
    )


def _call_often(
    operation: Any, mode: GenerationMode, url: str, examples: int, found: Found
) -> None:
    @_settings(examples)
    @given(case=operation.as_strategy(generation_mode=mode))
    def once(case: Case) -> None:
        steered(case)
        found.check(case, call(case, url))

    with suppress(Unsatisfiable):  # a call without anything in it that could be wrong
        once()


def _walk(schema: Any, url: str, walks: int, steps: int, found: Found) -> None:
    machine: Any = schema.as_state_machine()

    class Walk(machine):  # type: ignore[misc]
        def call(self, case: Case, **_: Any) -> Response:
            steered(case)
            return call(case, url)

        def validate_response(self, response: Response, case: Case, *_: Any, **__: Any) -> None:
            found.check(case, response)

    for start in range(0, walks, TOGETHER):
        # A reply depends on what earlier walks left behind, which Hypothesis takes for a flaw.
        with suppress(Flaky):
            rules = _settings(min(TOGETHER, walks - start), steps)
            run_state_machine_as_test(seed(start)(Walk), settings=rules)


def rows_of(found: Found) -> Rows:
    """By call, in the layout of every result."""
    counts = {name: getattr(found, name) for name in ("calls", "server_errors", "violations")}
    return [
        {
            "task": "psychometric",
            "method": "aline",
            "target": None,
            "metric": metric,
            "step": None,
            "value": count[label],
            "ci95": None,
            "n": found.calls[label],
            "published": None,
            "call": label,
            "commit": commit(),
        }
        for metric, count in counts.items()
        for label in sorted(found.calls)
    ]


def main() -> None:
    """Call, count, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    parser.add_argument("--examples", type=int, default=100, help="of each call and kind of value")
    parser.add_argument("--walks", type=int, default=100)
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    began, nursery = time.perf_counter(), Nursery()
    with tempfile.TemporaryDirectory() as folder:
        service = nursery.start(f"sqlite:///{folder}/fuzz.db", requests_per_second=1e6)
        found = fuzz(service.url, arguments.examples, arguments.walks, arguments.steps)
        service.kill()
    nursery.close()
    for example in found.examples[:20]:
        print(example)
    print(f"{found.calls.total()} calls, by status {dict(sorted(found.statuses.items()))}")
    print(f"{found.server_errors.total()} were 5xx, {found.violations.total()} broke the schema")
    if arguments.output:
        rows = result("fuzz", rows_of(found), time.perf_counter() - began)
        arguments.output.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
