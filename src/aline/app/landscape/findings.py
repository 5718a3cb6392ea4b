"""What scores of some configurations say of all: the best region, effects, and open questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aline.app.tables import aligned, short
from aline.functions.columns import Array

if TYPE_CHECKING:
    import pandas

BEST = 0.05  # share of the candidates that is the best region
FEWEST = 5
VALUES = 12  # of a number, at which its effect is predicted
AVERAGED = 60  # candidates that an effect is averaged over
MOST_UNSURE = 3
BAND = 1.6449  # standard deviations: 90 % of what is expected
Predict = Callable[["pandas.DataFrame"], tuple[Array, Array]]


@dataclass(frozen=True)
class Effect:
    """Of one hyperparameter on the score, all others as in the candidates.

    The band is that of a single configuration: of the average it is narrower.
    """

    name: str
    values: list[Any]
    mean: list[float]
    std: list[float]  # of a score there, on average

    @property
    def size(self) -> float:
        """How much of the score is at stake."""
        return max(self.mean) - min(self.mean)

    @property
    def unsure(self) -> Any:
        """The value at which scores are known worst."""
        return self.values[int(np.argmax(self.std))]


@dataclass(frozen=True)
class Findings:
    """The predicted landscape."""

    best: dict[str, Any]  # the configuration with the best expected score
    best_mean: float
    best_std: float
    region: dict[str, str]  # where the best candidates lie, by hyperparameter
    effects: list[Effect]  # the largest first
    unsure: list[dict[str, Any]]  # configurations whose score is known worst, with it
    spread: float  # mean standard deviation over all candidates

    def to_json(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For a terminal."""
        rows = [
            [one.name, self.region[one.name], short(one.size), text_of(one.unsure)]
            for one in self.effects
        ]
        header = ["hyperparameter", "best region", "effect on the score", "most unsure at"]
        best = f"{self.best_mean:.4g} ± {BAND * self.best_std:.2g}"
        return [
            *aligned(header, rows, left=2),
            "",
            f"best expected score {best} (90 %) at {described(self.best)}",
            f"a candidate's score is known to ± {BAND * self.spread:.2g} (90 %), on average",
        ]


def find(candidates: pandas.DataFrame, predict: Predict, lower_is_better: bool) -> Findings:
    """By predictions at the candidates, and at candidates with one setting changed."""
    mean, std = predict(candidates)
    order = np.argsort(mean if lower_is_better else -mean)
    best = int(order[0])
    top = candidates.iloc[order[: max(FEWEST, round(BEST * len(candidates)))]]
    effects = [effect_of(name, candidates, predict, mean, std) for name in candidates]
    widest = np.argsort(-std)[:MOST_UNSURE]
    return Findings(
        plain(candidates.iloc[best]),
        float(mean[best]),
        float(std[best]),
        {name: region_of(top[name]) for name in candidates},
        sorted(effects, key=lambda one: -one.size),
        [
            {**plain(candidates.iloc[i]), "score": f"{mean[i]:.4g} ± {BAND * std[i]:.2g}"}
            for i in widest
        ],
        float(std.mean()),
    )


def effect_of(
    name: str, candidates: pandas.DataFrame, predict: Predict, mean: Array, std: Array
) -> Effect:
    """Of words, averages over the candidates that have them; numbers are changed one by one."""
    column = candidates[name]
    if column.dtype.kind not in "iufb":
        groups = [(word, (column == word).to_numpy()) for word in sorted(column.dropna().unique())]
        means = [float(mean[rows].mean()) for _, rows in groups]
        return Effect(
            name, [w for w, _ in groups], means, [float(std[r].mean()) for _, r in groups]
        )
    having = candidates[column.notna()]
    some = having.iloc[np.linspace(0, len(having) - 1, min(AVERAGED, len(having))).astype(int)]
    values = np.unique(np.quantile(having[name], np.linspace(0, 1, VALUES), method="nearest"))
    at = [predict(some.assign(**{name: value})) for value in values]
    means, stds = ([float(part.mean()) for part in parts] for parts in zip(*at, strict=True))
    return Effect(name, values.tolist(), means, stds)


def region_of(column: pandas.Series) -> str:
    """Where a column of the best candidates lies."""
    known = column.dropna()
    if not len(known):
        return "not used"
    if column.dtype.kind in "iufb":
        return f"{text_of(known.quantile(0.1))} to {text_of(known.quantile(0.9))}"
    shares = known.value_counts(normalize=True)
    return ", ".join(f"{word} {share:.0%}" for word, share in shares.items() if share >= 0.1)


def plain(row: pandas.Series) -> dict[str, Any]:
    """A configuration without the settings that have no meaning in it."""
    return {str(k): _item(v) for k, v in row.items() if v is not None and v == v}


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def described(row: dict[str, Any]) -> str:
    """A configuration in a line."""
    return ", ".join(f"{name} {text_of(value)}" for name, value in row.items())


def text_of(value: Any) -> str:
    """A number in few digits, or a word."""
    return short(float(value)) if isinstance(value, int | float | np.number) else str(value)
