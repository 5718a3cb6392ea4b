"""Tables from files: HPO-B's layout, three layouts of npz, folders."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aline.errors import InputError, NotFoundError
from aline.tasks.table_files import read_tables

RNG = np.random.default_rng(0)


def record(rows: int = 8, columns: int = 3) -> dict[str, Any]:
    return {"X": RNG.random((rows, columns)).tolist(), "y": RNG.random((rows, 1)).tolist()}


@pytest.fixture
def hpob(tmp_path: Path) -> Path:
    for part, names in {"train": "abc", "validation": "d", "test": "ef"}.items():
        spaces = {"5859": {name: record() for name in names}, "5891": {"z": record(8, 2)}}
        (tmp_path / f"meta-{part}-dataset.json").write_text(json.dumps(spaces))
    return tmp_path


def test_hpob_keeps_its_own_split(hpob: Path) -> None:
    tables = read_tables(hpob, "5859")
    assert [table.name for table in tables.part("train")] == ["a", "b", "c"]
    assert [table.name for table in tables.part("test")] == ["e", "f"]
    assert tables.columns == ("x1", "x2", "x3")


def test_hpob_numbers_are_read_as_they_are(hpob: Path) -> None:
    recorded = json.loads((hpob / "meta-test-dataset.json").read_text())["5859"]["e"]
    table = read_tables(hpob, "5859").part("test")[0]
    assert torch.equal(table.X, torch.tensor(recorded["X"], dtype=torch.float32))
    assert torch.equal(table.y, torch.tensor(recorded["y"], dtype=torch.float32)[:, 0])


def test_an_unknown_search_space_names_those_there_are(hpob: Path) -> None:
    with pytest.raises(NotFoundError, match="5859, 5891, got '5860': use one of these"):
        read_tables(hpob, "5860")
    with pytest.raises(NotFoundError, match="name one"):
        read_tables(hpob)


def test_ragged_json_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "tables.json"
    file.write_text(json.dumps({"s": {"bad": {"X": [[1, 2], [3]], "y": [[1], [2]]}}}))
    with pytest.raises(InputError, match=r"data set bad: .* rows of one length"):
        read_tables(file, "s")
    file.write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        read_tables(file, "s")


def test_the_three_npz_layouts_hold_the_same(tmp_path: Path) -> None:
    X, y = RNG.random((6, 9, 2), np.float32), RNG.random((6, 9), np.float32)
    numbered = {f"{n}_{i}": part[i] for i in range(6) for n, part in (("X", X), ("y", y))}
    flat = {"X": X.reshape(-1, 2), "y": y.reshape(-1), "task": np.arange(6).repeat(9)}
    np.savez(tmp_path / "stacked.npz", tree_X=X, tree_y=y, tree_tasks=np.arange(6).astype(str))
    np.savez(tmp_path / "numbered.npz", **numbered)
    np.savez(tmp_path / "long.npz", **flat, names=["cost", "depth"])
    found = [read_tables(tmp_path / f"{n}.npz", "tree") for n in ("stacked", "numbered", "long")]
    for tables in found[1:]:
        assert tables.parts == found[0].parts
        for ours, theirs in zip(found[0].tables, tables.tables, strict=True):
            assert torch.equal(ours.X, theirs.X)
            assert torch.equal(ours.y, theirs.y)
    assert found[2].columns == ("cost", "depth")


def test_errors_become_scores_and_wide_columns_logarithms(tmp_path: Path) -> None:
    X = np.array([[1e-4, 1], [1e-1, 2], [10, 3]], np.float32)
    np.savez(tmp_path / "t.npz", X_0=X, y_0=np.array([0.1, 0.2, 0.3], np.float32))
    tables = read_tables(tmp_path / "t.npz", is_error=True, test=0.0, validation=0.0)
    assert tables.columns == ("log10_x1", "x2")
    assert tables.tables[0].X[:, 0].tolist() == pytest.approx([-4, -1, 1])
    assert tables.tables[0].y.tolist() == pytest.approx([0.9, 0.8, 0.7])


def test_repeated_rows_of_a_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", X_0=np.zeros((3, 1)), y_0=np.array([0.0, 0.5, 1.0]))
    with pytest.raises(InputError, match="repeated='average'"):
        read_tables(tmp_path / "t.npz")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "iris.csv").write_text(
        "kernel,degree,cost,accuracy\npoly,3,1.0,0.9\nrbf,,2.0,0.8\n"
    )
    (tmp_path / "wine.csv").write_text(
        "kernel,degree,cost,accuracy\nlinear,,1.0,0.7\npoly,2,4.0,0.6\n"
    )
    return tmp_path


def test_a_folder_is_encoded_alike_for_all_its_tables(folder: Path) -> None:
    tables = read_tables(folder, outcome="accuracy", test=0.0, validation=0.0)
    columns = ("kernel=linear", "kernel=poly", "kernel=rbf", "degree", "degree.na", "cost")
    assert tables.columns == columns
    iris, wine = tables.tables
    assert iris.X.tolist() == [[0, 1, 0, 3, 0, 1], [0, 0, 1, 0, 1, 2]]
    assert wine.X.tolist() == [[1, 0, 0, 0, 1, 1], [0, 1, 0, 2, 0, 4]]
    assert wine.y.tolist() == pytest.approx([0.7, 0.6])


def test_a_folder_needs_the_outcome_and_one_set_of_columns(folder: Path) -> None:
    with pytest.raises(InputError, match="outcome's column 'y'"):
        read_tables(folder)
    (folder / "glass.csv").write_text("kernel,accuracy\npoly,0.5\nrbf,0.4\n")
    with pytest.raises(InputError, match="cost, degree is in only one"):
        read_tables(folder, outcome="accuracy")


def test_what_is_not_there_or_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no file or folder"):
        read_tables(tmp_path / "nothing")
    with pytest.raises(NotFoundError, match=r"no \.csv"):
        read_tables(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InputError, match=r"tables are \.json"):
        read_tables(tmp_path / "a.txt")
    (tmp_path / "a.npz").write_text("x")
    with pytest.raises(InputError, match="no npz file"):
        read_tables(tmp_path / "a.npz")
