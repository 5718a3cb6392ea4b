"""Measured landscapes: families, cross-validation, and going on after a crash."""

from pathlib import Path

import pytest

from aline.errors import NotFoundError, UserError
from aline.landscapes import measure
from aline.landscapes.families import FAMILIES, family_named
from aline.landscapes.measure import DATA_SETS, data_set, measure_landscapes
from aline.tasks.table_files import read_tables


@pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
def test_configurations_have_the_inputs_that_the_family_says(
    family: measure.Family, tmp_path: Path
) -> None:
    rows = [{**row, "accuracy": 0.5} for row in family.configurations(40, seed=0)]
    (tmp_path / "t.csv").write_text(measure._csv(rows))
    tables = read_tables(tmp_path, outcome="accuracy", test=0, validation=0)
    assert len(tables.columns) == family.inputs
    assert family.configurations(40, 0)[:5] == family.configurations(5, 0)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
def test_every_family_learns_iris(family: measure.Family) -> None:
    scores = [measure.accuracy(family, row, data_set("iris")) for row in _cheap(family)]
    assert 0.8 < max(scores) <= 1.0


def _cheap(family: measure.Family) -> list[measure.Row]:
    """A few configurations that are quick to fit."""
    rows = family.configurations(30, seed=1)
    return sorted(rows, key=lambda row: row.get("n_estimators", 0))[:6]


def test_data_sets_are_what_they_say() -> None:
    for name in DATA_SETS:
        X, y = data_set(name)
        assert len(X) == len(y) <= measure.MOST_ROWS
        assert len(set(y.tolist())) >= 2


def test_a_run_that_was_cut_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, asked = family_named("decision_tree"), []
    monkeypatch.setattr(measure, "TOGETHER", 2)
    real = measure.accuracy
    monkeypatch.setattr(measure, "accuracy", lambda *given: asked.append(1) or real(*given))
    (path,) = measure_landscapes(tmp_path, [tree], ["iris"], 4)
    first = path.read_text()
    measure_landscapes(tmp_path, [tree], ["iris"], 6)
    assert len(asked) == 6  # four, then two more
    assert path.read_text().startswith(first)
    with pytest.raises(UserError, match="as many, or more"):
        measure_landscapes(tmp_path, [tree], ["iris"], 3)
    with pytest.raises(UserError, match="other configurations"):
        measure_landscapes(tmp_path, [tree], ["iris"], 8, seed=1)


def test_an_unknown_family_or_data_set_is_named() -> None:
    with pytest.raises(NotFoundError, match="did you mean svm"):
        family_named("svn")
    with pytest.raises(UserError, match="did you mean wine"):
        data_set("vine")
