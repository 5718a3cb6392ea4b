"""A model's card, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aline import __version__
from aline.app.recipe import WHY_NOT
from aline.app.tables import duration, short
from aline.errors import StateError
from aline.evaluation.verdict import Verdict
from aline.model import Model
from aline.spaces import Design, Parameters

VERDICT = "verdict"
OF_TRAINING = {
    "machine": "trained on",
    "command": "trained with",
    WHY_NOT: "to make again",
    "seed": "its seed",
}


def facts_of(model: Model) -> dict[str, str]:
    """What a reader wants to know of a model, as short lines by name."""
    spec, training = model.spec, model.training
    facts = {
        "task": f"{spec.name}, {spec.horizon} trials",
        "parameters": "; ".join(priors_text(spec.parameters)),
        "design": design_text(spec.design),
        "outcome": spec.outcome.words(),
        "size": f"{weights(model):,} weights, {model.network.config.policy} policy",
    }
    seconds, episodes = model.spent("seconds"), model.spent("episodes")
    if seconds is not None:
        simulated = "" if episodes is None else f", {episodes:,} episodes"
        facts["trained"] = f"{duration(seconds)}{simulated}"
    facts |= {name: str(training[key]) for key, name in OF_TRAINING.items() if key in training}
    measured = {k: v for k, v in model.measurements.items() if k != VERDICT}
    facts |= {f"measured {k}": _value(v) for k, v in measured.items()}
    verdict = model.measurements.get(VERDICT, {})
    words = [verdict[part] for part in ("sentence", "remedy") if verdict.get(part)]
    facts |= {VERDICT: " ".join(words)} if words else {}
    facts["aline"] = __version__
    return facts


def verdict_lines(verdict: Mapping[str, Any] | None) -> list[str]:
    """What the card says of its policy beside others, as a table and in words; none if nothing."""
    return [] if verdict is None else ["", *Verdict.from_json(verdict).lines()]


def record_in_card(model: Model, result: Mapping[str, Any]) -> None:
    """Keep the values of an evaluation after the last trial in the card of a saved model."""
    if model.source is None:
        raise StateError("the model has no folder yet: save it before its measurements are kept")
    last = max(row["step"] for row in result["rows"])
    measured: dict[str, Any] = dict(model.measurements)
    for row in result["rows"]:
        if row["step"] == last:
            about = f"{row['target']} after {last} trials, {row['n']} experiments"
            kept = measured.setdefault(about, {})
            kept[row["metric"]] = round(row["value"], 4)
    replace(model, measurements=measured).save(model.source)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_value(part)}" for key, part in value.items())
    return short(value) if isinstance(value, float) else str(value)


def weights(model: Model) -> int:
    """How many numbers the network holds."""
    return sum(parameter.numel() for parameter in model.network.parameters())


def priors_text(parameters: Parameters) -> list[str]:
    """Each parameter with its prior: "threshold ~ Uniform(-3, 3)"."""
    lines = []
    for name, prior in parameters.priors.items():
        arguments = ", ".join(_argument(value) for value in prior.arguments.values())
        only = "".join(f" where {owner} is {value}" for owner, value in prior.given.items())
        lines.append(f"{name} ~ {prior.family}({arguments}){only}")
    return lines


def _argument(value: str | float | list[Any]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_argument(part) for part in value)}]"
    return value if isinstance(value, str) else short(value)


def design_text(design: Design) -> str:
    """Where can be measured: "stimulus in [-5, 5]"."""
    return design.words()
