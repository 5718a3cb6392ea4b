from pathlib import Path

import pytest
import torch

from aline.app.bench import pieces
from aline.app.bench.bench import BenchSettings
from aline.app.bench.pieces import Piece, piece
from aline.errors import CheckpointError


class Measure:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Piece:
        self.times += 1
        return Piece({"rmse": torch.arange(3.0)}, {"rows": [{"value": self.times}]}, ("a note",))


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_resumed_run_takes_what_was_measured() -> None:
    measure = Measure()
    first = piece(BenchSettings(), "al", "gp1d", measure=measure)
    again = piece(BenchSettings(resume=True), "al", "gp1d", measure=measure)
    assert measure.times == 1
    assert torch.equal(again.tensors["rmse"], first.tensors["rmse"])
    assert again.values == first.values
    assert again.notes == ("a note",)


def test_without_resume_it_is_measured_anew() -> None:
    measure = Measure()
    for _ in range(2):
        piece(BenchSettings(), "al", "gp1d", measure=measure)
    assert piece(BenchSettings(resume=True), "al", "gp1d", measure=measure).values["rows"][0] == {
        "value": 2
    }


@pytest.mark.parametrize(
    "other",
    [
        BenchSettings(seed=1),
        BenchSettings(quick=True),
        BenchSettings(episodes=7),
        BenchSettings(budget="10min"),
    ],
)
def test_other_settings_make_another_piece(other: BenchSettings) -> None:
    measure = Measure()
    piece(other, "al", "gp1d", measure=measure)
    piece(BenchSettings(resume=True), "al", "gp1d", measure=measure)
    piece(BenchSettings(resume=True), "al", "gp2d", measure=measure)
    assert measure.times == 3


def test_a_piece_of_another_commit_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "commit", lambda: "abc1234")
    piece(BenchSettings(), "al", "gp1d", measure=Measure())
    monkeypatch.setattr(pieces, "commit", lambda: "def5678")
    found = piece(BenchSettings(resume=True), "al", "gp1d", measure=Measure())
    assert found.notes[-1] == "al, gp1d: measured earlier, at commit abc1234"


def test_a_damaged_piece_is_refused() -> None:
    piece(BenchSettings(), "al", "gp1d", measure=Measure())
    (path,) = pieces.FOLDER.iterdir()
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(CheckpointError):
        piece(BenchSettings(resume=True), "al", "gp1d", measure=Measure())
