"""The network as one function of plain tensors: what is exported, and what engines run.

docs/format.md describes its inputs and outputs as a public format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from aline.episodes import Context, Goal
from aline.model import Network
from aline.model.advice import Advice, Frame, PointAdvice

# The dimensions that vary from call to call, and those of the examples that an export traces.
VARYING = {"batch": 2, "context": 5, "point": 3, "candidate": 7}


@dataclass(frozen=True)
class Input:
    """An input of the graph: its axes, by name or by length, and its type."""

    axes: tuple[str | int, ...]
    dtype: torch.dtype = torch.float32

    def example(self) -> Tensor:
        """Some values, for tracing."""
        shape = [VARYING.get(axis, 0) if isinstance(axis, str) else axis for axis in self.axes]
        return torch.ones(shape, dtype=self.dtype)


def inputs_of(network: Network) -> dict[str, Input]:
    """What the graph of a network takes, by name, in order."""
    design, parameters = len(network.spec.design), len(network.spec.parameters)
    advisor = network.advisor
    found = {
        "designs": Input(("batch", "context", design)),
        "outcomes": Input(("batch", "context", *network.spec.outcome.event_shape)),
        "mask": Input(("batch", "context"), torch.bool),
        "points": Input(("batch", "point", design)),
        "points_mask": Input(("batch", "point"), torch.bool),
    }
    if parameters:
        found["parameters"] = Input(("batch", parameters), torch.bool)
    if network.prior_tokens is not None:
        found["prior"] = Input(("batch", parameters, 2))
    if network.policy is not None and not network.is_box:
        found["candidates"] = Input(("batch", "candidate", design))
    if advisor.point_width:
        found |= {
            "context_features": Input(("batch", 1, advisor.context_width)),
            "point_features": Input(("batch", 1, "point", advisor.point_width)),
            "point_frame": Input((2, "batch", 1, "point")),
        }
    if advisor.has_frames:
        found["parameter_frame"] = Input((2, "batch", 1, parameters))
    return found


@dataclass(frozen=True)
class Given(Advice):
    """Advice that was computed elsewhere, for one context and its points."""

    features: Tensor
    frame: Frame | None
    points: PointAdvice

    def context_features(self) -> Tensor:
        """As given."""
        return self.features

    def parameter_frame(self) -> Frame | None:
        """As given."""
        return self.frame

    def at_points(self, points: Tensor) -> PointAdvice:
        """As given, for whichever points were meant."""
        return self.points


class Graph(nn.Module):
    """Context, goal, points and candidates in; posterior, predictions and scores out."""

    def __init__(self, network: Network):
        super().__init__()
        self.network = network
        self.inputs = inputs_of(network)

    def forward(self, *tensors: Tensor) -> dict[str, Tensor]:
        """All outputs, by name, of the inputs in their order."""
        network, given = self.network, dict(zip(self.inputs, tensors, strict=True))
        goal = self._goal(given)
        seen = given["designs"], given["outcomes"], given["mask"]
        context = Context(*seen, given.get("prior"))
        encoded = network.encode(context, self._advice(given))
        both, frame = network.decode_with_points(encoded, given["points"])
        sizes = [len(network.spec.parameters), given["points"].shape[1]]
        decoded, points = both.split(sizes)
        guesses = network.guesses_of(encoded, decoded)[-1]
        summary = network.summary_of(decoded, guesses)._replace(with_points=both)
        predictive = network.predicted(encoded, points, frame)
        found = {f"prediction_{name}": part for name, part in predictive.tensors().items()}
        if len(network.spec.parameters):
            found |= {
                f"posterior_{name}": part
                for name, part in guesses.marginals.plain().tensors().items()
            }
        if network.is_box:
            proposal = network.propose(encoded, summary, goal)
            found |= {"proposal_mean": proposal.mean, "proposal_log_std": proposal.log_std}
        elif network.policy is not None:
            found["scores"] = network.scores(encoded, summary, goal, given["candidates"])
        return {name: value[:, 0] for name, value in found.items()}

    def _goal(self, given: Mapping[str, Tensor]) -> Goal:
        none = given["mask"].new_zeros(given["mask"].shape[0], 0)
        return Goal(given.get("parameters", none), given["points"], given["points_mask"])

    def _advice(self, given: Mapping[str, Tensor]) -> Advice:
        if "point_features" not in given:
            return Advice(given["mask"].shape[0], 1, given["mask"].shape[1])
        frame = given.get("parameter_frame")
        return Given(
            given["context_features"],
            None if frame is None else Frame(*frame.unbind(0)),
            PointAdvice(given["point_features"], Frame(*given["point_frame"].unbind(0))),
        )
