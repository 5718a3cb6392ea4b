"""A regressor of three inputs or more, of words and of missing numbers."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from aline.errors import InputError
from aline.functions.process import Measured, Process
from aline.functions.regressor import ActiveRegressor
from aline.functions.sampling import Draws, LogPosterior, Prior

POOL = np.random.default_rng(0).uniform(0, 1, (120, 4))


def labels(x: np.ndarray) -> np.ndarray:
    return np.sin(4 * x[:, 0]) + 2 * x[:, 1] * x[:, 2]


def taught(count: int = 24, units: float = 1.0, offset: float = 0.0) -> ActiveRegressor:
    y = labels(POOL[:count]) * units + offset
    return ActiveRegressor().teach(POOL[:count], y)


def test_a_function_of_four_inputs_is_learned() -> None:
    learner = taught(12)
    for _ in range(28):
        row = learner.query(POOL)
        learner.teach(POOL[row], labels(POOL[[row]]))
    unseen = np.random.default_rng(1).uniform(0, 1, (200, 4))
    mean, std = learner.predict(unseen, return_std=True)
    error = mean - labels(unseen)
    assert error.std() < 0.2 * labels(unseen).std()
    assert np.mean(np.abs(error) < 3 * std) > 0.9


def test_rows_taught_are_not_asked_for_again() -> None:
    learner, few = taught(4), POOL[:6]
    asked = []
    for _ in range(2):
        asked.append(learner.query(few))
        learner.teach(few[asked[-1]], labels(few[asked[-1:]]))
    assert set(asked) == {4, 5}
    assert learner.query(few) in range(6)


def test_any_units_of_labels_and_inputs() -> None:
    expected = taught().predict(POOL, return_std=True)
    for units, offset in ((1e5, 0.0), (1e-3, 40.0)):
        mean, std = taught(units=units, offset=offset).predict(POOL, return_std=True)
        assert np.allclose((mean - offset) / units, expected[0], atol=1e-5)
        assert np.allclose(std / units, expected[1], rtol=1e-3)
    stretch = np.array([1e4, 1.0, 1e-3, 1.0])
    wide = ActiveRegressor().teach(POOL[:24] * stretch, labels(POOL[:24]))
    assert np.allclose(wide.predict(POOL * stretch), expected[0], atol=1e-5)


def test_a_known_noise_is_in_every_interval() -> None:
    x, y = POOL[:30], labels(POOL[:30])
    _, std = ActiveRegressor(noise=0.3).teach(x, y).predict(POOL, return_std=True)
    assert (std >= 0.3 * 0.999).all()


def test_growing_is_nearly_reading() -> None:
    grown, whole = taught(20), taught(40)
    grown.predict(POOL)
    for row in range(20, 40):
        grown.teach(POOL[row], labels(POOL[[row]]))
        grown.predict(POOL[:1])
    apart = grown.predict(POOL) - whole.predict(POOL)
    assert np.abs(apart).max() < 0.15 * labels(POOL).std()


def frame(count: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kernel = rng.choice(["linear", "radial"], count)
    return pd.DataFrame(
        {
            "cost": rng.integers(1, 100, count),
            "gamma": np.where(kernel == "radial", rng.uniform(0, 1, count), np.nan),
            "kernel": pd.Categorical(kernel),
            "shrink": rng.random(count) < 0.5,
        },
        index=[f"c{i}" for i in range(count)],
    )


def scores(table: pd.DataFrame) -> pd.Series:
    bend = np.where(table.kernel == "radial", 2 * table.gamma.fillna(0), 0.5)
    return table.cost / 50 + bend


def test_frames_of_words_integers_and_missing_numbers() -> None:
    table = frame(80)
    learner = ActiveRegressor().teach(table.iloc[:4], scores(table.iloc[:4]))
    for _ in range(5):
        rows = learner.query(table, count=5)
        learner.teach(table.iloc[rows], scores(table.iloc[rows]))
    unseen = frame(60, seed=3)
    mean, std = learner.predict(unseen[unseen.columns[::-1]], return_std=True)  # in any order
    assert list(mean.index) == list(unseen.index)
    assert list(std.index) == list(unseen.index)
    error = mean - scores(unseen)
    assert error.std() < 0.3 * scores(unseen).std()


def test_one_row_of_a_frame_and_words_never_seen() -> None:
    table = frame(20)
    learner = ActiveRegressor().teach(table, scores(table)).teach(table.iloc[3], 1.0)
    other = table.iloc[:3].assign(kernel="sigmoid")
    mean, std = learner.predict(other, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_rows_of_lists_mix_numbers_and_words() -> None:
    learner = ActiveRegressor().teach([[1, "a"], [2, "b"], [3, "a"]], [0.0, 5.0, 1.0])
    mean = learner.predict([[1, "a"], [2, "b"]])
    assert mean[1] > mean[0]


def test_mistakes_in_tables() -> None:
    learner = ActiveRegressor().teach(frame(5), np.arange(5.0))
    with pytest.raises(InputError, match="none named gamma"):
        learner.predict(frame(5).drop(columns="gamma"))
    with pytest.raises(InputError, match="column cost has had numbers so far, got words"):
        learner.predict(frame(5).assign(cost="much"))
    with pytest.raises(InputError, match="got infinity"):
        ActiveRegressor().query(np.full((2, 3), np.inf))
    with pytest.raises(InputError, match="at least one row"):
        ActiveRegressor().query(np.zeros((0, 3)))
    with pytest.raises(InputError, match="3 columns, got 4"):
        ActiveRegressor(bounds=[(0, 1), None, (0, 1)]).query(POOL)
    with pytest.raises(InputError, match="words and missing numbers need a new"):
        ActiveRegressor().teach([[1.0], [2.0]], [1.0, 2.0]).predict([[np.nan]])


def test_bounds_scale_columns_of_numbers() -> None:
    rows = [[0.2, "a", 5.0], [0.9, "b", 1.0]]
    learner = ActiveRegressor(bounds=[(0, 1), None, (0, 10)]).teach(rows, [1.0, 2.0])
    assert np.isfinite(learner.predict(rows)).all()
    with pytest.raises(InputError, match="within the bounds"):
        learner.query([[0.2, "a", 11.0]])


def evidence() -> LogPosterior:
    x = torch.tensor(POOL[:12])
    y = torch.tensor(labels(POOL[:12]))
    return LogPosterior.of(x, torch.arange(4), (y - y.mean()) / y.std(), Prior.of(4))


def test_the_gradient_of_the_evidence_is_its_slope() -> None:
    z = torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) / 2
    kind, step = torch.tensor([0, 1, 2]), 1e-5
    _, gradient = evidence().log_posterior(z, kind)
    for column in range(6):
        away = torch.zeros(6, dtype=torch.float64)
        away[column] = step
        above, below = (evidence().log_posterior(z + s * away, kind)[0] for s in (1, -1))
        numeric = (above - below) / (2 * step)
        assert torch.allclose(numeric, gradient[:, column], rtol=1e-4, atol=1e-3)


def test_trajectories_leave_the_posterior_as_it_is() -> None:
    """Of no outcomes that is the prior: normal with a standard deviation of one."""
    x = torch.zeros(0, 2, dtype=torch.float64)
    nothing = LogPosterior.of(x, torch.arange(2), x[:, 0], Prior.of(2))
    draws = Draws.from_prior(4, 256).moved(nothing, 4, torch.Generator().manual_seed(0))
    tolerance = 4 / math.sqrt(256)
    assert float(draws.z.mean(0).abs().max()) < tolerance
    assert float((draws.z.std(0) - 1).abs().max()) < tolerance


def test_what_is_known_of_a_pool_only_grows() -> None:
    x = torch.tensor(POOL[:30])
    data = Measured(x, torch.tensor(labels(POOL[:30])), torch.arange(4))
    process = Process.read(data.first(20), torch.Generator().manual_seed(0))
    pool = torch.tensor(POOL)[None]
    targets = pool[:, ::4].contiguous()
    process.variance_reduction(pool, targets)
    grown = process.supposing(data.x[20], data.y[20])
    fresh = process.supposing(data.x[20], data.y[20])
    fresh.scored.known.clear()
    fresh.scored.past.clear()
    found = grown.variance_reduction(pool, targets)
    assert torch.allclose(found, fresh.variance_reduction(pool, targets), rtol=1e-6)
