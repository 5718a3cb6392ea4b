"""A memory of played episodes, the oldest forgotten first."""

from __future__ import annotations

import torch
from torch import Tensor

from aline.baselines.history import History


class Replay:
    """Whole episodes; a transition is drawn by drawing an episode and a step of it."""

    def __init__(self, capacity: int):
        self.capacity = max(1, capacity)
        self._parts: list[tuple[Tensor, ...]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, history: History, theta: Tensor, rewards: Tensor | None = None) -> None:
        """Remember episodes, with a reward a step [batch, step] where it is known when played."""
        rewards = torch.zeros_like(history.outcomes) if rewards is None else rewards
        self._parts.append((history.designs, history.outcomes, theta, rewards))
        self._count += len(theta)
        while self._count - len(self._parts[0][2]) >= self.capacity:
            self._count -= len(self._parts.pop(0)[2])

    def draw(self, count: int, generator: torch.Generator) -> tuple[History, Tensor, Tensor]:
        """Whole episodes: their history, truths and rewards, with replacement."""
        sizes = torch.tensor([len(part[2]) for part in self._parts])
        starts = sizes.cumsum(0) - sizes
        rows = torch.randint(self._count, (count,), generator=generator).sort().values
        part = torch.searchsorted(starts, rows, right=True) - 1
        columns: list[list[Tensor]] = [[], [], [], []]
        for index in part.unique().tolist():
            within = rows[part == index] - starts[index]
            for column, values in zip(columns, self._parts[index], strict=True):
                column.append(values[within])
        designs, outcomes, theta, rewards = (torch.cat(column) for column in columns)
        return History(designs, outcomes, torch.ones_like(outcomes)), theta, rewards
