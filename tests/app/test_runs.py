from pathlib import Path

import pytest

from aline.app.runs import measured, prepare, train_into
from aline.errors import StateError
from aline.model import Model
from aline.tasks import get


def test_a_fresh_folder_is_fine(tmp_path: Path) -> None:
    prepare(tmp_path / "new", resume=False, overwrite=False)
    assert not (tmp_path / "new").exists()


def test_an_earlier_run_is_never_lost_unasked(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(StateError, match="--resume to continue it, --overwrite to replace it"):
        prepare(tmp_path, resume=False, overwrite=False)
    prepare(tmp_path, resume=True, overwrite=False)
    assert (tmp_path / "metrics.jsonl").exists()
    prepare(tmp_path, resume=False, overwrite=True)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_overwriting_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").write_text("")
    (tmp_path / "notes.txt").write_text("mine")
    prepare(tmp_path, resume=False, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_model_is_left_in_the_folder_with_its_command(tmp_path: Path) -> None:
    task = get("linear", horizon=2)
    trained = train_into(tmp_path, task, "aline train linear", rounds=5, progress=False)
    assert Model.load(tmp_path).training["command"] == "aline train linear"
    lines = list(measured(tmp_path, trained))
    assert "simulated experiments" in lines[0]
    assert any("nats" in line for line in lines)


def test_a_line_that_was_cut_is_passed_over_and_stays_alone(tmp_path: Path) -> None:
    """A full disk or a crash leaves half a line; what is written next must not be lost with it."""
    task = get("linear", horizon=2)
    trained = train_into(tmp_path, task, "aline train linear", rounds=1, progress=False)
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-9])  # the only line
    assert len(list(measured(tmp_path, trained))) == 1
    train_into(tmp_path, task, "aline train linear", rounds=2, resume=True, progress=False)
    assert len(path.read_text().splitlines()) == 2
    with path.open("a") as file:
        file.write('{"round": 40, "sec')
    assert any("loss" in line for line in measured(tmp_path, trained))
