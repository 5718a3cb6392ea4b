"""Search spaces: which hyperparameters there are, and where they may lie.

In a file, a space is JSON: a list of words, a pair of numbers, or an object with `low` and `high`,
`log` (drawn by its logarithm), `integer`, and `when` (of the words that it has a meaning for).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aline.errors import InputError, NotFoundError, nearest
from aline.landscapes.families import FAMILIES, Row


@dataclass(frozen=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    def draw(self, rng: np.random.Generator) -> str:
        """Any of them."""
        return self.words[int(rng.integers(len(self.words)))]


@dataclass(frozen=True)
class Range:
    """A number, which may have a meaning only where another hyperparameter is some word."""

    low: float
    high: float
    log: bool = False
    integer: bool = False
    when: tuple[tuple[str, str], ...] = ()

    def draw(self, rng: np.random.Generator) -> float:
        """Uniform, or its logarithm is."""
        if self.log:
            drawn = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        else:
            drawn = rng.uniform(self.low, self.high)
        return round(drawn) if self.integer else float(f"{drawn:.6g}")

    def applies(self, row: Row) -> bool:
        """Whether it has a meaning in a configuration so far."""
        return all(row.get(name) == word for name, word in self.when)


Space = Mapping[str, Choice | Range]


def _whole(low: int, high: int, **more: Any) -> Range:
    return Range(low, high, integer=True, **more)


def _log(low: float, high: float, **more: Any) -> Range:
    return Range(low, high, log=True, **more)


_DART = (("booster", "dart"),)

# Those of the R packages that HPO-B's tables are about.
SPACES: Mapping[str, Space] = {
    "rpart": {
        "cp": _log(1e-4, 1.0),
        "maxdepth": _whole(1, 30),
        "minbucket": _whole(1, 100),
        "minsplit": _whole(1, 100),
    },
    "svm": {
        "kernel": Choice(("linear", "polynomial", "radial")),
        "cost": _log(1e-4, 2e4),
        "gamma": _log(1e-4, 2e4, when=(("kernel", "radial"),)),
        "degree": _whole(2, 5, when=(("kernel", "polynomial"),)),
        "tolerance": _log(1e-4, 2.0),
    },
    "ranger": {
        "num.trees": _whole(1, 2000),
        "sample.fraction": Range(0.1, 1.0),
        "mtry.power": Range(0.0, 1.0),
        "min.node.size": _whole(1, 100),
        "replace": Choice(("TRUE", "FALSE")),
        "respect.unordered.factors": Choice(("ignore", "order", "partition")),
        "splitrule": Choice(("gini", "extratrees")),
        "num.random.splits": _whole(1, 100, when=(("splitrule", "extratrees"),)),
    },
    "xgboost": {
        "booster": Choice(("gbtree", "gblinear", "dart")),
        "nrounds": _whole(8, 3000, log=True),
        "eta": _log(1e-3, 1.0),
        "gamma": _log(1e-4, 7.0),
        "lambda": _log(1e-3, 1e3),
        "alpha": _log(1e-3, 1e3),
        "subsample": Range(0.1, 1.0),
        "max_depth": _whole(1, 15),
        "min_child_weight": _log(1.0, 150.0),
        "colsample_bytree": Range(0.01, 1.0),
        "colsample_bylevel": Range(0.01, 1.0),
        "rate_drop": Range(0.0, 1.0, when=_DART),
        "skip_drop": Range(0.0, 1.0, when=_DART),
    },
}


def configurations(space: str, count: int, seed: int) -> list[Row]:
    """So many of a space, by its name or its file; None where a setting has no meaning."""
    if space in FAMILIES and space not in SPACES:
        return FAMILIES[space].configurations(count, seed)
    return drawn(SPACES[space] if space in SPACES else read_space(space), count, seed)


def drawn(space: Space, count: int, seed: int) -> list[Row]:
    """So many configurations; more begin with the same as fewer."""
    rng = np.random.default_rng(seed)
    return [_draw(space, rng) for _ in range(count)]


def _draw(space: Space, rng: np.random.Generator) -> Row:
    row: Row = {name: one.draw(rng) for name, one in space.items() if isinstance(one, Choice)}
    for name, one in space.items():
        if isinstance(one, Range):
            value = one.draw(rng)
            row[name] = value if one.applies(row) else None
    return {name: row[name] for name in space}


def read_space(path: str) -> Space:
    """A space of one's own."""
    file = Path(path)
    if file.suffix != ".json" or not file.is_file():
        names = [*SPACES, *FAMILIES]
        raise NotFoundError(
            f"no space {path!r}: {nearest(path, names)}, or name a .json file with one, such as "
            '{"depth": {"low": 1, "high": 30, "integer": true}, "kernel": ["linear", "radial"]}'
        )
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        space = {str(name): _hyperparameter(name, one) for name, one in found.items()}
    except (ValueError, AttributeError) as error:
        raise InputError(f"{file} is not JSON of a space ({error})") from None
    if not space:
        raise InputError(f"{file} has no hyperparameters: name at least one")
    return space


def _hyperparameter(name: str, given: Any) -> Choice | Range:
    if isinstance(given, list) and given and all(isinstance(word, str) for word in given):
        return Choice(tuple(given))
    if isinstance(given, list) and len(given) == 2:
        given = {"low": given[0], "high": given[1]}
    if isinstance(given, dict) and {"low", "high"} <= given.keys() <= _FIELDS:
        low, high, log = given["low"], given["high"], bool(given.get("log"))
        when = tuple(given.get("when", {}).items())
        are_numbers = all(isinstance(end, int | float) for end in (low, high))
        if are_numbers and low < high and (low > 0 or not log):
            return Range(low, high, log, bool(given.get("integer")), when)
    raise InputError(
        f"hyperparameter {name} must be a list of words or numbers from low to high (above 0 with "
        f'"log"), such as {{"low": 0.001, "high": 10, "log": true}}, got {given!r}'
    )


_FIELDS = {"low", "high", "log", "integer", "when"}
