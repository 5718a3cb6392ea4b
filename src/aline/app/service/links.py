"""What can be called after a reply, and with which part of it: OpenAPI's links.

Who reads the API's description, a program above all, finds its way by them.
"""

from __future__ import annotations

from typing import Any

_EXPERIMENT = ("show", "change", "close", "ask", "undo", "attach", "restrict", "simulate",
               "posterior", "predict", "drawing", "export", "events")  # fmt: skip
_TRIAL = ("tell", "abandon", "redo")


def of_experiment(status: int) -> dict[int | str, dict[str, Any]]:
    """From a reply that is an experiment."""
    return _links(status, _EXPERIMENT, {"name": "$response.body#/name"})


def of_trial(status: int) -> dict[int | str, dict[str, Any]]:
    """From a reply that is a trial of the experiment in the path."""
    parts = {"name": "$request.path.name", "number": "$response.body#/number"}
    found = _links(status, _TRIAL, parts)
    found[status]["links"] |= _links(status, _EXPERIMENT, {"name": parts["name"]})[status]["links"]
    return found


def _links(
    status: int, calls: tuple[str, ...], parts: dict[str, str]
) -> dict[int | str, dict[str, Any]]:
    links = {name: {"operationId": name, "parameters": parts} for name in calls}
    return {status: {"links": links}}
