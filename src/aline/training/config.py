"""The settings of a training."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Credit = Literal["immediate", "return", "paired", "pathwise", "information"]


@dataclass(frozen=True)
class TrainingConfig:
    """A round plays a batch of episodes and then takes `updates` gradient steps on it."""

    batch: int = 100  # half the paper's: twice the updates in the same time teach q more
    updates: int = 6
    policy_updates: int = 2  # of these, how many teach the policy too
    emulator_updates: int = 24  # further ones, of the learned likelihood alone
    emulator_average: int = 200  # of these, over how many its weights are averaged for use
    learning_rate: float = 2e-3  # the paper's 1e-3 learns more slowly here (docs/notes/training.md)
    weight_decay: float = 0.01
    clip: float = 1.0
    warmup: float = 0.1  # share of the budget with random designs and no policy
    prefixes: int = 6  # sampled prefixes of each episode that q learns from, an update
    # Other truths that q and a teacher learn from too, where their likelihood is known.
    possible_truths: int = 128
    points: int = 2  # predictions a prefix that q learns from
    candidates: int = 24  # scored at each step while playing (pool policy)
    pool: int = 100  # instead of them, fixed for an episode, where a plug-in chooses
    decisions: int = 10  # steps of each episode reconsidered at once by a pathwise update
    look_ahead: float = 0.5  # share of designs that are judged beside later observations, too
    alternatives: int = 8  # designs compared at a state when the policy learns
    random_share: float = 0.3  # rounds whose first designs are random, so that q knows those too
    mixed_share: float = 0.3  # rounds that take turns with other goals, so that both know mixtures
    greedy_share: float = 0.5  # rounds played as an experiment plays, so that q knows those best
    # How a design is credited. "immediate" and "return" are the paper's Eq. 12 with R_t, and with
    # the telescoped return to go; "paired" compares alternatives at one state, "pathwise"
    # differentiates through the simulator, "information" is what a teacher expects a design to
    # tell. None takes pathwise (box policy) or information (pool) where it can be had, paired
    # otherwise.
    credit: Credit | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        return asdict(self)
