"""Who chooses configurations and predicts scores: a trained model of landscapes, or a regressor.

Positive columns that span orders of magnitude are seen as logarithms by both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from aline.engine import BatchEngine
from aline.episodes import Context, Goal, Offer
from aline.errors import InputError
from aline.functions.columns import Array
from aline.functions.regressor import ActiveRegressor
from aline.model import Model
from aline.policies import LearnedPolicy, Memory
from aline.tasks.table_files import WIDE, encode_frames

if TYPE_CHECKING:
    import pandas

AIMED = 100  # candidates that stand for all


class Explorer(Protocol):
    """What a map asks."""

    def choose(self, rows: list[int], scores: Array) -> int:
        """The candidate to score next, given the scores [row] of some."""
        ...

    def predict(self, frame: pandas.DataFrame, rows: list[int], scores: Array) -> tuple[Any, Any]:
        """Means and standard deviations of scores at any configurations."""
        ...


class RegressorExplorer:
    """By `aline.ActiveRegressor()`."""

    def __init__(self, candidates: pandas.DataFrame, seed: int):
        self.wide = wide_columns(candidates)
        self.candidates = with_logarithms(candidates, self.wide)
        self.learner, self.known = ActiveRegressor(seed=seed), 0

    def choose(self, rows: list[int], scores: Array) -> int:
        """As `Explorer`."""
        self._learn(rows, scores)
        return int(self.learner.query(self.candidates))

    def predict(self, frame: pandas.DataFrame, rows: list[int], scores: Array) -> tuple[Any, Any]:
        """As `Explorer`."""
        self._learn(rows, scores)
        mean, std = self.learner.predict(with_logarithms(frame, self.wide), return_std=True)
        return mean.to_numpy(), std.to_numpy()

    def _learn(self, rows: list[int], scores: Array) -> None:
        if len(rows) > self.known:
            new = slice(self.known, len(rows))
            self.learner.teach(self.candidates.iloc[rows[new]], scores[new])
            self.known = len(rows)


class ModelExplorer:
    """By a model that learned from tables whose columns are the candidates'."""

    def __init__(self, model: Model, candidates: pandas.DataFrame, seed: int):
        self.spec, self.engine = model.spec, BatchEngine(model.network)
        self.generator = torch.Generator().manual_seed(seed)
        self.frame, self.points = candidates, self._points(candidates)

    def choose(self, rows: list[int], scores: Array) -> int:
        """As `Explorer`."""
        allowed = torch.ones(len(self.frame), dtype=torch.bool)
        allowed[rows] = False
        aimed = self.points[:, :: max(1, len(self.frame) // AIMED)]
        wanted = torch.ones(aimed.shape[:2], dtype=torch.bool)
        goal = Goal(torch.zeros(1, len(self.spec.parameters), dtype=torch.bool), aimed, wanted)
        with torch.inference_mode():
            memory = Memory(self._state(rows, scores), goal)
            offer = Offer(self.points, allowed[None])
            chosen = LearnedPolicy(self.engine).choose(memory, offer, self.generator)
        apart = (self.points - chosen).abs().amax(2)[0]
        return int(apart.masked_fill(~allowed, torch.inf).argmin())

    def predict(self, frame: pandas.DataFrame, rows: list[int], scores: Array) -> tuple[Any, Any]:
        """As `Explorer`."""
        with torch.inference_mode():
            belief: Any = self.engine.predictive(self._state(rows, scores), self._points(frame))
            mean, std = (part[0].double() for part in belief.moments())
        to_user = self.spec.outcome.to_user
        return to_user(mean).numpy(), (to_user(mean + std) - to_user(mean)).numpy()

    def _state(self, rows: list[int], scores: Array) -> Any:
        outcomes = self.spec.outcome.to_network(torch.tensor(scores, dtype=torch.float32))
        return self.engine.read(Context(self.points[:, rows], outcomes[None]))

    def _points(self, frame: pandas.DataFrame) -> Tensor:
        """Configurations as the model's tables had them, [1, row, column]."""
        coded = encode_frames({"all": frame.assign(y=0.0)}, "y")["all"].drop(columns="y")
        names = self.spec.design.names
        odd = [name for name in coded if not {name, f"log10_{name}"} & set(names)]
        odd += [name for name in names if _column(coded, name) is None and _is_plain(name)]
        if odd:
            raise InputError(
                f"the model has learned from tables with the columns {', '.join(names)}, and the "
                f"candidates differ by {odd[0]}: leave --model out, or train on such tables"
            )
        columns = [_column(coded, name) for name in names]
        found = [np.zeros(len(frame)) if column is None else column for column in columns]
        x = torch.tensor(np.stack(found, 1), dtype=torch.float32)
        x = x.clamp(self.spec.design.low, self.spec.design.high)
        return self.spec.design.to_network(x)[None]


def _column(coded: pandas.DataFrame, name: str) -> Array | None:
    """A column by the name that the model knows; None of a word that no candidate has."""
    if name in coded:
        found: Array = coded[name].to_numpy(dtype=np.float64)
        return found
    plain = name.removeprefix("log10_")
    if plain in coded:
        logs: Array = np.log10(coded[plain].to_numpy(dtype=np.float64).clip(1e-38))
        return logs
    return None


def _is_plain(name: str) -> bool:
    """Whether a column is a number itself: not one of a word, nor of what is missing."""
    return "=" not in name and not name.endswith(".na")


def wide_columns(frame: pandas.DataFrame) -> list[str]:
    """Columns that are seen as logarithms."""
    numbers = frame.select_dtypes("number")
    low, high = numbers.min(), numbers.max()
    return [name for name in numbers if low[name] > 0 and high[name] > WIDE * low[name]]


def with_logarithms(frame: pandas.DataFrame, wide: list[str]) -> pandas.DataFrame:
    """The same with these columns as logarithms to base 10."""
    return frame.assign(**{name: np.log10(frame[name].astype(float)) for name in wide})
