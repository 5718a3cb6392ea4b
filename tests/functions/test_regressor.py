import numpy as np
import pytest
from small import small_functions, small_model
from torch import Tensor

import aline
from aline.errors import InputError, NotFoundError, StateError
from aline.functions.known_points import KnownPoints
from aline.functions.regressor import ActiveRegressor
from aline.functions.smooth import SmoothProcess
from aline.model import Model

GP1D, GP2D = (Model(small_functions(name)) for name in ("gp1d", "gp2d"))
POOL = np.random.default_rng(0).uniform(0, 1, (40, 2))


def labels(x: np.ndarray) -> np.ndarray:
    return 5.0 + np.sin(3 * x[:, 0]) * x[:, 1]


def learn(units: float = 1.0, offset: float = 0.0, stretch: float = 1.0) -> tuple[list[int], list]:
    """The rows asked for, and predictions in the first units."""
    learner, pool = ActiveRegressor(GP2D), POOL * stretch
    learner.teach(pool[:3], labels(POOL[:3]) * units + offset)
    rows = []
    for _ in range(4):
        rows.append(learner.query(pool))
        learner.teach(pool[rows[-1]], labels(POOL[rows[-1:]]) * units + offset)
    mean, std = learner.predict(pool, return_std=True)
    return rows, [(mean - offset) / units, std / units]


def test_any_units_of_inputs_and_labels() -> None:
    rows, (mean, std) = learn()
    for changed in (learn(units=1e4), learn(units=-0.01 + 0.02, offset=300), learn(stretch=1e-3)):
        assert changed[0] == rows
        assert np.allclose(changed[1][0], mean, rtol=1e-3)
        assert np.allclose(changed[1][1], std, rtol=1e-2)


def test_a_known_noise_is_in_the_labels_units() -> None:
    x, y = POOL[:12], labels(POOL[:12])
    stds = [
        ActiveRegressor(GP2D, noise=noise * units).teach(x, y * units).predict(POOL, True)[1]
        / units
        for noise, units in ((0.02, 1.0), (0.02, 1e4), (0.5, 1.0))
    ]
    assert np.allclose(stds[0], stds[1], rtol=1e-2)
    assert (stds[2] >= 0.5).all()  # of an outcome, and so at least the noise's
    with pytest.raises(InputError, match="noise must be a standard deviation"):
        ActiveRegressor(GP2D, noise=-0.1)


def test_rows_are_not_asked_for_twice_while_there_are_others() -> None:
    learner, x = ActiveRegressor(GP1D), np.array([[0.0], [1.0], [2.0]])
    asked = set()
    for _ in range(3):
        row = learner.query(x)
        asked.add(row)
        learner.teach(x[row], float(x[row, 0]))
    assert asked == {0, 1, 2}
    assert learner.query(x) in asked


def test_a_column_may_come_as_a_list() -> None:
    learner = ActiveRegressor(GP1D, bounds=(0.0, 10.0))
    learner.teach([1.0, 2.0, 3.0], [1.0, 4.0, 9.0])
    assert learner.predict([1.5, 2.5]).shape == (2,)
    mean, std = learner.predict([[1.5], [2.5]], return_std=True)
    assert np.array_equal(mean, learner.predict([1.5, 2.5]))
    assert (std > 0).all()


def test_predicting_outside_what_was_seen_changes_nothing() -> None:
    learner = ActiveRegressor(GP1D).teach([0.0, 1.0, 2.0], [0.0, 1.0, 0.0])
    before = learner.predict([0.5])
    assert np.isfinite(learner.predict([5.0])).all()
    assert np.array_equal(learner.predict([0.5]), before)


def taught(count: int) -> ActiveRegressor:
    return ActiveRegressor(GP2D, bounds=[(0, 1), (0, 1)]).teach(POOL[:count], labels(POOL[:count]))


def test_a_label_more_is_added_to_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read anew, and of a pool that is asked about again only new rows are computed."""
    learner = taught(6)
    learner.query(POOL)
    learner.predict(POOL[:9])
    rows: list[int] = []
    once = KnownPoints.of.__func__  # type: ignore[attr-defined]

    def counted(cls: type, points: Tensor, before: KnownPoints | None, more: Tensor) -> KnownPoints:
        if more.shape[3] == len(POOL):
            rows.append(more.shape[2])
        grown: KnownPoints = once(cls, points, before, more)
        return grown

    monkeypatch.setattr(KnownPoints, "of", classmethod(counted))
    monkeypatch.setattr(SmoothProcess, "read", None)
    monkeypatch.setattr(learner._learner.engine, "read", None)  # type: ignore[union-attr]
    monkeypatch.setattr("aline.functions.smooth.ENOUGH", 0.0)  # scoring kernels stay
    learner.teach(POOL[6], labels(POOL[6:7]))
    learner.query(POOL.tolist())
    learner.predict(POOL[:9].copy())
    assert rows
    assert set(rows) == {1}


def test_growing_is_nearly_reading() -> None:
    """Not quite: which smooth kernels got neighbours depends on the way."""
    learner, whole = taught(6), taught(14)
    for row in range(6, 14):
        learner.query(POOL)
        learner.teach(POOL[row], labels(POOL[row : row + 1]))
    (mean, std), (expected, spread) = (one.predict(POOL, True) for one in (learner, whole))
    assert np.allclose(mean, expected, atol=0.02 * labels(POOL).std())
    assert np.allclose(std, spread, rtol=0.1)


@pytest.mark.parametrize("columns", [2, 3])
def test_a_batch_of_rows_begins_as_one_row_does_and_has_no_repeats(columns: int) -> None:
    pool = np.random.default_rng(1).uniform(size=(30, columns))
    model = GP2D if columns == 2 else None
    learner, other = (ActiveRegressor(model).teach(pool[:6], labels(pool[:6])) for _ in range(2))
    rows = learner.query(pool, count=5)
    assert rows[0] == other.query(pool)
    assert len(set(rows)) == 5
    assert not set(rows) & set(range(6))


def test_a_wider_domain_and_changed_rows_are_noticed() -> None:
    learner, pool = ActiveRegressor(GP2D).teach(POOL[:6], labels(POOL[:6])), POOL.copy()
    learner.query(pool)
    pool[-1] = 2.0  # in place, and beyond what was seen
    learner.query(pool)
    fresh = ActiveRegressor(GP2D).teach(POOL[:6], labels(POOL[:6]))
    assert learner.query(pool) == fresh.query(pool)
    assert np.allclose(learner.predict(pool), fresh.predict(pool))


def test_public_name() -> None:
    assert aline.ActiveRegressor is ActiveRegressor


def test_mistakes() -> None:
    with pytest.raises(StateError, match="teach"):
        ActiveRegressor(GP1D).predict([1.0])
    with pytest.raises(InputError, match="2 columns, got 3"):
        ActiveRegressor(GP2D).query(np.zeros((4, 3)))
    with pytest.raises(InputError, match="2 rows, 1 labels"):
        ActiveRegressor(GP1D).teach([1.0, 2.0], [1.0])
    with pytest.raises(InputError, match="finite"):
        ActiveRegressor(GP1D).teach([1.0], [np.nan])
    with pytest.raises(InputError, match="within the bounds"):
        ActiveRegressor(GP1D, bounds=[(0, 1)]).query([0.5, 2.0])
    with pytest.raises(InputError, match="low, high"):
        ActiveRegressor(GP1D, bounds=[(1, 0)])
    with pytest.raises(InputError, match="finite numbers"):
        ActiveRegressor(GP1D).query(["low", "high"])
    with pytest.raises(InputError, match="count must be from 1 to the 4 rows"):
        ActiveRegressor(GP1D).query(np.arange(4), count=5)
    with pytest.raises(InputError, match="such as gp1d"):
        ActiveRegressor(small_model("psychometric"))
    with pytest.raises(NotFoundError):
        ActiveRegressor("nothing")
