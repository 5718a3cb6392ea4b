"""Reads recorded tables: HPO-B's JSON, npz files, folders of CSV or Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from aline.errors import InputError, NotFoundError, UserError, nearest
from aline.tasks.tables import Part, Table, Tables

if TYPE_CHECKING:
    import pandas as pd

HPOB = {f"meta-{part}-dataset.json": part for part in ("train", "validation", "test")}
WIDE = 1000.0  # positive columns that span so large a factor are read as logarithms
Repeated = Literal["refuse", "average"]


def read_tables(
    path: str | Path,
    space: str | None = None,
    *,
    outcome: str = "y",
    is_error: bool = False,
    repeated: Repeated = "refuse",
    aliases: Mapping[str, str] | None = None,
    **split: Any,
) -> Tables:
    """The tables of one search space.

    `path` is a folder with HPO-B's meta-train-, meta-validation- and meta-test-dataset.json, or one
    such file; an npz file; or a folder of CSV or Parquet files, one a data set, in which `outcome`
    is the column to learn. `is_error` says that smaller is better: outcomes are read as 1 - y.
    `split` are the shares `validation` and `test`, and a `seed`, where the files name no parts.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for score, name in enumerate(["digits", "iris", "wine"]):
    ...     rows = f"depth,y\\n1,0.{score}5\\n2,0.{score}7\\n"
    ...     _ = (folder / f"{name}.csv").write_text(rows)
    >>> tables = read_tables(folder)
    >>> tables.columns, [table.name for table in tables.tables]
    (('depth',), ['digits', 'iris', 'wine'])
    """
    path = Path(path)
    if not path.exists():
        raise NotFoundError(f"no file or folder {path}: check the path of the tables")
    columns, found, parts = _read(path, space, outcome)
    if repeated not in ("refuse", "average"):
        raise InputError(f"repeated must be refuse or average, got {repeated!r}")
    tables = [_prepared(table, is_error, repeated) for table in found]
    columns, tables = _with_logarithms(columns, tables)
    name = space or path.stem
    return Tables.of(name, columns, tables, parts=parts, aliases=aliases, **split)


Found = tuple[list[str], list[Table], dict[str, Part] | None]


def _read(path: Path, space: str | None, outcome: str) -> Found:
    if path.suffix == ".npz":
        return _read_npz(path, space)
    if path.suffix == ".json" or any((path / name).is_file() for name in HPOB):
        return _read_hpob(path, space)
    if path.is_dir():
        return _read_folder(path, outcome)
    raise InputError(f"tables are .json, .npz or a folder of .csv or .parquet files, got {path}")


def _prepared(table: Table, is_error: bool, repeated: Repeated) -> Table:
    if is_error:
        table = Table(table.name, table.X, 1 - table.y)
    if repeated == "average":
        return table.averaged()
    table.check_rows_differ()
    return table


def _with_logarithms(columns: list[str], tables: list[Table]) -> tuple[list[str], list[Table]]:
    """Positive columns that span orders of magnitude as their logarithms.

    Where all columns lie in [0, 1], as HPO-B's do, someone has scaled them already.
    """
    every = torch.cat([table.X for table in tables])
    low, high = every.min(0).values, every.max(0).values
    wide = (low > 0) & (high > WIDE * low)
    if not bool(wide.any()) or bool((low >= 0).all() and (high <= 1).all()):
        return columns, tables
    named = [f"log10_{c}" if w else c for c, w in zip(columns, wide.tolist(), strict=True)]
    return named, [
        Table(one.name, torch.where(wide, one.X.clamp_min(1e-38).log10(), one.X), one.y)
        for one in tables
    ]


# HPO-B: {search space: {data set: {"X": [[...]], "y": [[...]]}}}, a file for each part.


def _read_hpob(path: Path, space: str | None) -> Found:
    files = [path] if path.is_file() else [path / name for name in HPOB if (path / name).is_file()]
    tables: list[Table] = []
    parts: dict[str, Part] = {}
    known: set[str] = set()
    for file in files:
        recorded = _json(file)
        known |= recorded.keys()
        for name, record in recorded.get(space or "", {}).items():
            tables.append(_hpob_table(file, name, record))
            if file.name in HPOB:
                parts[name] = HPOB[file.name]  # type: ignore[assignment]
    if not tables:
        raise _unknown_space(path, space, known)
    columns = [f"x{i + 1}" for i in range(tables[0].X.shape[1])]
    return columns, tables, parts if len(parts) == len(tables) else None


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except ValueError as error:
        raise InputError(f"{file} is not JSON ({error}): download it again") from None
    if not isinstance(found, dict):
        raise InputError(f"{file} must hold search spaces by id, got {type(found).__name__}")
    return found


def _hpob_table(file: Path, name: str, record: Any) -> Table:
    try:
        return Table(name, _matrix(record["X"]), _matrix(record["y"]).reshape(-1))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise InputError(
            f'{file}, data set {name}: must be {{"X": [[...]], "y": [[...]]}} with rows of one '
            f"length, got {type(error).__name__}: {error}"
        ) from None


def _matrix(rows: Any) -> Tensor:
    return torch.from_numpy(np.array(rows, dtype=np.float32))


def _unknown_space(path: Path, space: str | None, known: set[str]) -> NotFoundError:
    names = ", ".join(sorted(known))
    remedy = "name one, space=..." if space is None else nearest(space, known)
    return NotFoundError(f"{path} has the search spaces {names}, got {space!r}: {remedy}")


# npz, in any of three layouts.


def _read_npz(path: Path, space: str | None) -> Found:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is no npz file of plain numbers ({error})") from None
    if {"X", "y", "task"} <= arrays.keys():
        return _long(arrays)
    if "X_0" in arrays:
        return _numbered(arrays)
    known = {name[:-2] for name in arrays if name.endswith("_X")}
    if space not in known:
        raise _unknown_space(path, space, known)
    return _stacked(arrays, str(space))


def _long(arrays: Mapping[str, Any]) -> Found:
    """All rows in one, with the data set of each."""
    X, y, task = arrays["X"], arrays["y"], arrays["task"]
    if not len(X) == len(y) == len(task):
        raise InputError(f"X, y and task must be as long, got {len(X)}, {len(y)} and {len(task)}")
    columns = [str(name) for name in arrays["names"]] if "names" in arrays else _numbers(X)
    tables = [
        Table(str(one), _matrix(X[task == one]), _matrix(y[task == one])) for one in np.unique(task)
    ]
    return columns, tables, None


def _numbered(arrays: Mapping[str, Any]) -> Found:
    """X_0, y_0, X_1, y_1, ..."""
    tables = []
    for i in count():
        if f"X_{i}" not in arrays:
            break
        if f"y_{i}" not in arrays:
            raise InputError(f"each X_i must have its y_i, got X_{i} without y_{i}")
        tables.append(Table(str(i), _matrix(arrays[f"X_{i}"]), _matrix(arrays[f"y_{i}"])))
    return _numbers(arrays["X_0"]), tables, None


def _stacked(arrays: Mapping[str, Any], space: str) -> Found:
    """SPACE_X [task, row, column], SPACE_y [task, row] and SPACE_tasks."""
    X, y = arrays[f"{space}_X"], arrays.get(f"{space}_y")
    if y is None or X.shape[:-1] != y.shape:
        raise InputError(
            f"{space}_X must be [task, row, column] and {space}_y [task, row], got shapes "
            f"{X.shape} and {None if y is None else y.shape}"
        )
    names = arrays.get(f"{space}_tasks", np.arange(len(X)))
    tables = [
        Table(str(name), _matrix(rows), _matrix(values))
        for name, rows, values in zip(names, X, y, strict=True)
    ]
    return _numbers(X), tables, None


def _numbers(X: Any) -> list[str]:
    return [f"x{i + 1}" for i in range(X.shape[-1])]


# A folder of CSV or Parquet files, one a data set.


def _read_folder(path: Path, outcome: str) -> Found:
    frames = dict(_frames(path, outcome))
    if not frames:
        raise NotFoundError(f"{path} has no .csv or .parquet files: one a data set is wanted")
    first, *others = frames.items()
    for name, frame in others:
        if set(frame.columns) != set(first[1].columns):
            odd = set(frame.columns) ^ set(first[1].columns)
            raise InputError(
                f"all tables must have the same columns, but {', '.join(sorted(odd))} is in only "
                f"one of {first[0]} and {name}"
            )
    encoded = encode_frames(frames, outcome)
    columns = [column for column in next(iter(encoded.values())).columns if column != outcome]
    tables = [
        Table(name, _matrix(frame[columns]), _matrix(frame[outcome]))
        for name, frame in encoded.items()
    ]
    return columns, tables, None


def _frames(path: Path, outcome: str) -> Iterator[tuple[str, pd.DataFrame]]:
    try:
        import pandas as pd
    except ImportError:
        raise UserError("tables in folders need pandas: pip install aline[pandas]") from None
    for file in sorted(path.iterdir()):
        if file.suffix not in (".csv", ".parquet"):
            continue
        try:
            frame = pd.read_csv(file) if file.suffix == ".csv" else pd.read_parquet(file)
        except (ValueError, ImportError, OSError) as error:
            raise InputError(f"{file} cannot be read as a table: {error}") from None
        if outcome not in frame:
            raise InputError(
                f"{file} must have the outcome's column {outcome!r}, got "
                f"{', '.join(map(str, frame.columns))}: name it, outcome=..."
            )
        yield file.stem, frame


def encode_frames(frames: Mapping[str, pd.DataFrame], outcome: str) -> dict[str, pd.DataFrame]:
    """Numbers only: a column of words one-hot, a missing value as 0 with an indicator column."""
    import pandas as pd

    whole = pd.concat(frames, names=["table", "row"])
    parts = [_encoded(whole[name]) for name in whole.columns if name != outcome]
    coded = pd.concat([*parts, whole[[outcome]]], axis=1)
    return {name: coded.loc[name] for name in frames}


def _encoded(column: pd.Series) -> pd.DataFrame:
    import pandas as pd

    if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)):
        return pd.get_dummies(column, prefix=column.name, prefix_sep="=", dtype=float)
    found = column.fillna(0).astype(float).to_frame()
    if column.isna().any():
        found[f"{column.name}.na"] = column.isna().astype(float)
    return found
