"""Model families of scikit-learn, and where their settings may lie.

A configuration is a row of plain values: numbers, words, and None where a setting has no meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aline.errors import NotFoundError, nearest

Row = dict[str, Any]
Draw = Callable[[np.random.Generator], Row]
Build = Callable[[Row], Any]


@dataclass(frozen=True)
class Family:
    """How to draw a configuration, and the classifier that it makes."""

    name: str
    inputs: int  # once words are one-hot and what is missing has an indicator
    draw: Draw
    build: Build

    def configurations(self, count: int, seed: int) -> list[Row]:
        """The same ones for every data set; more begin with the same as fewer."""
        rng = np.random.default_rng(seed)
        return [self.draw(rng) for _ in range(count)]


def _log(rng: np.random.Generator, low: float, high: float) -> float:
    """A logarithm to base 10, uniform."""
    return round(float(rng.uniform(low, high)), 4)


def _share(rng: np.random.Generator, low: float = 0.1) -> float:
    return round(float(rng.uniform(low, 1.0)), 4)


def _draw_tree(rng: np.random.Generator) -> Row:
    return {
        "max_depth": int(rng.integers(1, 31)),
        "min_samples_split": int(rng.integers(2, 61)),
        "min_samples_leaf": int(rng.integers(1, 61)),
        "max_features": _share(rng),
        "log10_ccp_alpha": _log(rng, -6, -1),
        "is_entropy": int(rng.integers(2)),
    }


def _build_tree(row: Row) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(
        **_common(row), ccp_alpha=10 ** row["log10_ccp_alpha"], criterion=_criterion(row)
    )


def _draw_svm(rng: np.random.Generator) -> Row:
    kernel = ("linear", "polynomial", "radial")[rng.integers(3)]
    gamma, degree = _log(rng, -4, 2), int(rng.integers(2, 6))
    return {
        "log10_cost": _log(rng, -3, 3),
        "log10_gamma": gamma if kernel == "radial" else None,
        "degree": degree if kernel == "polynomial" else None,
        "kernel": kernel,
    }


def _build_svm(row: Row) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    kernels = {"linear": "linear", "polynomial": "poly", "radial": "rbf"}
    gamma, degree = row["log10_gamma"], row["degree"]
    # A bad cost would have it iterate for hours.
    machine = SVC(
        C=10 ** row["log10_cost"],
        kernel=kernels[row["kernel"]],
        gamma="scale" if gamma is None else 10**gamma,
        degree=degree or 3,
        max_iter=20_000,
    )
    return make_pipeline(StandardScaler(), machine)


def _draw_forest(rng: np.random.Generator) -> Row:
    has_bootstrap, share = bool(rng.integers(2)), _share(rng)
    return {
        "n_estimators": int(rng.integers(5, 101)),
        "max_depth": int(rng.integers(1, 31)),
        "min_samples_split": int(rng.integers(2, 61)),
        "min_samples_leaf": int(rng.integers(1, 61)),
        "max_features": _share(rng),
        "is_entropy": int(rng.integers(2)),
        "has_bootstrap": int(has_bootstrap),
        "max_samples": share if has_bootstrap else None,
    }


def _build_forest(row: Row) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(
        **_common(row),
        n_estimators=row["n_estimators"],
        criterion=_criterion(row),
        bootstrap=bool(row["has_bootstrap"]),
        max_samples=row["max_samples"],
    )


def _draw_boosting(rng: np.random.Generator) -> Row:
    is_exact = bool(rng.integers(2))
    only_exact = {
        "subsample": _share(rng),
        "max_features": _share(rng),
        "min_samples_split": int(rng.integers(2, 61)),
    }
    only_binned = {"log10_l2": _log(rng, -4, 2), "max_bins": int(rng.integers(4, 256))}
    return {
        "is_exact": int(is_exact),
        "log10_learning_rate": _log(rng, -3, 0),
        "n_estimators": int(rng.integers(5, 101)),
        "max_depth": int(rng.integers(1, 9)),
        "min_samples_leaf": int(rng.integers(1, 61)),
        "max_leaf_nodes": int(rng.integers(2, 65)),
        **{name: value if is_exact else None for name, value in only_exact.items()},
        **{name: None if is_exact else value for name, value in only_binned.items()},
    }


def _build_boosting(row: Row) -> Any:
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

    shared = {name: row[name] for name in ("max_depth", "min_samples_leaf", "max_leaf_nodes")}
    rate = 10 ** row["log10_learning_rate"]
    if row["is_exact"]:
        own = {name: row[name] for name in ("subsample", "max_features", "min_samples_split")}
        return GradientBoostingClassifier(
            **shared, **own, learning_rate=rate, n_estimators=row["n_estimators"], random_state=0
        )
    return HistGradientBoostingClassifier(
        **shared,
        learning_rate=rate,
        max_iter=row["n_estimators"],
        l2_regularization=10 ** row["log10_l2"],
        max_bins=row["max_bins"],
        early_stopping=False,
        random_state=0,
    )


def _common(row: Row) -> Row:
    names = ("max_depth", "min_samples_split", "min_samples_leaf", "max_features")
    return {**{name: row[name] for name in names}, "random_state": 0}


def _criterion(row: Row) -> str:
    return "entropy" if row["is_entropy"] else "gini"


FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family("decision_tree", 6, _draw_tree, _build_tree),
        Family("svm", 8, _draw_svm, _build_svm),
        Family("random_forest", 9, _draw_forest, _build_forest),
        Family("gradient_boosting", 16, _draw_boosting, _build_boosting),
    )
}


def family_named(name: str) -> Family:
    """A family."""
    if name not in FAMILIES:
        raise NotFoundError(
            f"families are {', '.join(FAMILIES)}, got {name!r}: {nearest(name, FAMILIES)}"
        )
    return FAMILIES[name]
