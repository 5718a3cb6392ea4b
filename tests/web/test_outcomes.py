"""Outcomes of every kind are read, shown to the network and predicted as in Python."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from outcome_kinds import KINDS
from web import node

from aline.app.web import reaches_of
from aline.experiment.predictive import predictive_of
from aline.spaces import Binary, Categorical, Count, Outcome, Outcomes, Real

LEVEL = 0.9
MORE: dict[str, Outcome] = {
    "survey": Outcomes(colour=Categorical(["red", "green"]), clicks=Count(loc=1.0, scale=0.8)),
    "counted": Count(maximum=4, loc=0.5, scale=0.6),
    "bent": Real(loc=0.2, scale=1.5, linear_within=0.5),
    "timed": Outcomes(
        choice=Binary(), rt=Real(loc=0.5, scale=0.2), sure=Categorical(["no", "yes"])
    ),
}


def kinds() -> dict[str, tuple[Outcome, list[Any], list[Any]]]:
    """Outcomes, with values that a person may and may not give, as JSON has them."""
    found = {}
    for name, kind in KINDS.items():
        bad = [one for one in kind.bad if is_json(one)]
        found[name] = (kind.task().fitted().spec.outcome, list(kind.good), bad)
    return found | {name: (outcome, [], []) for name, outcome in MORE.items()}


def is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(is_json(one) for one in value.values())
    return not isinstance(value, float) or np.isfinite(value)


def test_every_kind(tmp_path: Path) -> None:
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    quadrature = [nodes.tolist(), (weights / weights.sum()).tolist()]
    generator, beliefs, asked = torch.Generator().manual_seed(0), {}, []
    for name, (outcome, good, bad) in kinds().items():
        # Tame ones: of a count that spreads over nine orders of magnitude, the spread is rounding.
        numbers = 0.4 * torch.randn(1, len(outcome.head_start(4, 0)), generator=generator)
        beliefs[name] = outcome.belief(numbers, torch.zeros(1, 0))
        parts = {key: part[0].reshape(-1).tolist() for key, part in beliefs[name].tensors().items()}
        asked.append({
            "outcome": outcome.to_json(), "reach": reaches_of(outcome), "quadrature": quadrature,
            "parts": parts, "good": good, "bad": bad, "level": LEVEL,
        })  # fmt: skip
    found = node.run("believe.mjs", asked, tmp_path)
    for (name, (outcome, good, bad)), heard in zip(kinds().items(), found, strict=True):
        belief = beliefs[name]
        expected = belief.expected()[0].reshape(-1).tolist()
        assert heard["expected"] == pytest.approx(expected, abs=1e-4), name
        summary = predictive_of(belief, outcome).summary(LEVEL)
        _same(heard["summary"], summary, name)
        plain = [outcome.read(value) for value in good]
        told = [outcome.to_network(outcome.from_plain([one])).reshape(-1).tolist() for one in plain]
        for one, other in zip(heard["told"], told, strict=True):
            assert one == pytest.approx(other, abs=1e-6), name
        assert all(heard["refused"]), (name, bad, heard["refused"])


def _same(heard: Any, expected: Any, where: str) -> None:
    """What Python gives as lists of one design, JavaScript gives for one."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            _same(heard[key], value, f"{where} {key}")
    elif expected is None:
        assert heard is None, where
    else:
        assert heard == pytest.approx(expected[0], rel=1e-4, abs=1e-4), where
