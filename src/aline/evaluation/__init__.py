"""Is it right: exact posteriors, bounds, gaps and coverage."""

from aline.evaluation.bounds import (
    Bounds,
    adaptive_bounds,
    episode_bounds,
    information_bounds,
)
from aline.evaluation.estimates import Estimate
from aline.evaluation.exact import (
    can_be_exact,
    converged_nodes,
    exact_gains,
    exact_grid_posterior,
    exact_log_marginals,
)
from aline.evaluation.gap import coverage, evaluate
from aline.evaluation.information import (
    Information,
    evaluate_information,
    information_rows,
    measure_information,
)
from aline.evaluation.results import result, row
from aline.evaluation.simulated import Protocol, play_protocol

__all__ = [
    "Bounds",
    "Estimate",
    "Information",
    "Protocol",
    "adaptive_bounds",
    "can_be_exact",
    "converged_nodes",
    "coverage",
    "episode_bounds",
    "evaluate",
    "evaluate_information",
    "exact_gains",
    "exact_grid_posterior",
    "exact_log_marginals",
    "information_bounds",
    "information_rows",
    "measure_information",
    "play_protocol",
    "result",
    "row",
]
