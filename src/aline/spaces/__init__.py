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
from aline.spaces.priors import Declared, Only

__all__ = [
    "Axis",
    "Belief",
    "Binary",
    "Box",
    "Categorical",
    "Continuous",
    "Count",
    "Declared",
    "Design",
    "Grid",
    "Levels",
    "Log",
    "Only",
    "Ordinal",
    "Outcome",
    "Outcomes",
    "Parameters",
    "Pool",
    "Real",
    "design_from_json",
    "outcome_from_json",
]
