"""Named parameters, designs and outcomes, and their maps to the network's scale and back."""

from aline.spaces.axes import Axis, Continuous, Levels, Log
from aline.spaces.boxes import Box, Grid, Pool, design_from_json
from aline.spaces.designs import Design
from aline.spaces.outcomes import (
    Belief,
    Binary,
    Categorical,
    Count,
    Ordinal,
    Outcome,
    Outcomes,
    Real,
    outcome_from_json,
)
from aline.spaces.parameters import Parameters

__all__ = [
    "Axis",
    "Belief",
    "Binary",
    "Box",
    "Categorical",
    "Continuous",
    "Count",
    "Design",
    "Grid",
    "Levels",
    "Log",
    "Ordinal",
    "Outcome",
    "Outcomes",
    "Parameters",
    "Pool",
    "Real",
    "design_from_json",
    "outcome_from_json",
]
