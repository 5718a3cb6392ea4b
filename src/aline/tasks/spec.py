"""What a trained model must know of its task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aline.spaces import Design, Outcome, Parameters, design_from_json, outcome_from_json

PREDICTIONS = "predictions"
"""The word for "outcomes anywhere" in a training target, beside parameter names."""


@dataclass(frozen=True)
class Spec:
    """What a trained model must know of its task: everything but the simulator, as plain data."""

    name: str
    parameters: Parameters
    design: Design
    outcome: Outcome
    horizon: int
    targets: tuple[tuple[tuple[str, ...], float], ...]
    turns: tuple[tuple[tuple[str, ...], int], ...] = ()  # trials in a row, where it is not one
    start: int = 0  # random designs at the head of an episode in the paper's protocol
    resolution: float = 0.06  # the finest step in a design, as a share of its range, that matters
    config: Mapping[str, Any] = field(default_factory=dict)  # what a built-in task was made with
    units: Mapping[str, str] = field(default_factory=dict)
    scaled: tuple[str, ...] = ()  # the parameters that are in the outcome's units

    def __repr__(self) -> str:
        return f"<Spec {self.in_words()}>"

    def in_words(self) -> str:
        """What it is about, in a line or two."""
        names = ", ".join(self.parameters.priors) or "none"
        return (
            f"{self.name}: parameters {names}; design {', '.join(self.design.names)}; "
            f"outcome {self.outcome.words()}; {self.horizon} trials"
        )

    def label(self, name: str) -> str:
        """A name with its unit, or with what its values are, for axes and tables."""
        if values := self.parameters.values_of(name):
            return f"{name} ({', '.join(f'{i} {value}' for i, value in enumerate(values))})"
        return f"{name} ({self.units[name]})" if name in self.units else name

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        plain = {
            "name": self.name,
            "parameters": self.parameters.to_json(),
            "design": self.design.to_json(),
            "outcome": self.outcome.to_json(),
            "horizon": self.horizon,
            "targets": [[list(names), share] for names, share in self.targets],
            "start": self.start,
            "resolution": self.resolution,
            "config": dict(self.config),
            "units": dict(self.units),
        }
        # Left out where there are none, so that runs from before these fields can be resumed.
        if self.turns:
            plain["turns"] = [[list(names), count] for names, count in self.turns]
        if self.scaled:
            plain["scaled"] = list(self.scaled)
        return plain

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Spec:
        """Read what `to_json` wrote."""
        return cls(
            name=data["name"],
            parameters=Parameters.from_json(data["parameters"]),
            design=design_from_json(data["design"]),
            outcome=outcome_from_json(data["outcome"]),
            horizon=data["horizon"],
            targets=tuple((tuple(names), share) for names, share in data["targets"]),
            turns=tuple((tuple(names), count) for names, count in data.get("turns", ())),
            start=data["start"],
            resolution=data["resolution"],
            config=data["config"],
            units=data["units"],
            scaled=tuple(data.get("scaled", ())),
        )
