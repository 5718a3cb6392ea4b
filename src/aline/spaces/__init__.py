"""Named parameters, designs and outcomes, and their maps to the network's scale and back."""

from aline.spaces.designs import Box, Design, Grid, Pool, design_from_json
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
    "Belief",
    "Binary",
    "Box",
    "Categorical",
    "Count",
    "Design",
    "Grid",
    "Ordinal",
    "Outcome",
    "Outcomes",
    "Parameters",
    "Pool",
    "Real",
    "design_from_json",
    "outcome_from_json",
]
