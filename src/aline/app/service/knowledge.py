"""What a request says is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aline.app.service.schemas import Change
from aline.experiment import Experiment
from aline.spaces.priors import read_distribution


def priors_of(given: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Any] | None:
    """Priors as the library takes them: of a discrete parameter its probabilities."""
    if given is None:
        return None
    return {
        name: read_distribution(name, plain) if "family" in plain else dict(plain)
        for name, plain in given.items()
    }


def release(experiment: Experiment, body: Change) -> None:
    """Forget what shall be known no more: then it may be a target."""
    if "known" in body.model_fields_set:
        left = {n: v for n, v in experiment.known.items() if n in (body.known or {})}
        if left != experiment.known:
            experiment.known = left


def know(experiment: Experiment, body: Change) -> None:
    """Take over what is known and the priors, where the request has them."""
    if "known" in body.model_fields_set:
        experiment.known = body.known or {}
    if "prior" in body.model_fields_set:
        experiment.set_prior(priors_of(body.prior))
