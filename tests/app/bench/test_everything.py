"""All benchmarks in one command: what is done is not done again, and the page has it all."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aline.app.bench import al, everything, paper, pieces
from aline.app.bench.bench import Bench, BenchSettings, Measured, Progress
from aline.errors import NotFoundError
from aline.evaluation import Estimate, row
from aline.evaluation.results import provenance

RESULTS = Path(__file__).parents[3] / "results"


class Counted:
    """A benchmark of two parts, one of which lacks what it needs."""

    def __init__(self) -> None:
        self.times = 0
        parts = {"errors": self.measure, "tables": self.fail}
        self.bench = Bench("al", parts, lambda result: "a table", lambda result: {})

    def measure(self, settings: BenchSettings, progress: Progress) -> Measured:
        self.times += 1
        assert settings.same_code
        estimate = Estimate(0.03, 0.006, 4)
        return Measured([row("gp1d", "aline", "predictions", "rmse", 30, estimate)])

    def fail(self, settings: BenchSettings, progress: Progress) -> Measured:
        raise NotFoundError("no tables here")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Counted:
    found = Counted()
    monkeypatch.setattr(everything, "BENCHES", ["al"])
    monkeypatch.setattr(everything, "find", lambda name: found.bench)
    monkeypatch.setattr(pieces, "FOLDER", tmp_path / "pieces")
    return found


def run(out: Path, **settings: Any) -> Path:
    told: Callable[[str], None] = lambda line: None  # noqa: E731
    return everything.run_everything(BenchSettings(**settings), out, lambda *at: None, told)


def test_a_part_is_measured_once_by_the_same_code(
    counted: Counted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(everything, "code_version", lambda: "abc")
    pages = [run(tmp_path) for _ in range(2)]
    assert counted.times == 1
    result = json.loads((tmp_path / "al.json").read_text())
    assert [found["value"] for found in result["rows"]] == [0.03]
    assert result["notes"] == ["al, tables: left out: no tables here"]
    text = pages[1].read_text()
    assert "0.03 ± 0.006" in text
    assert "no tables here" in text
    monkeypatch.setattr(everything, "code_version", lambda: "def")
    run(tmp_path)
    assert counted.times == 2


def test_a_quick_run_has_files_of_its_own(counted: Counted, tmp_path: Path) -> None:
    run(tmp_path)
    assert run(tmp_path, quick=True).name == "paper-quick.html"
    assert counted.times == 2
    assert (tmp_path / "al-quick.json").is_file()


@pytest.mark.parametrize("same", [True, False])
def test_a_piece_of_other_code_is_measured_anew(
    same: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pieces, "FOLDER", tmp_path)
    settings, times = BenchSettings(resume=True, same_code=same), []
    for code in ("abc", "abc", "def"):
        monkeypatch.setattr(pieces, "code_version", lambda code=code: code)
        measure = lambda: times.append(1) or pieces.Piece()  # type: ignore[func-returns-value]  # noqa: E731
        pieces.piece(settings, "al", "gp1d", measure=measure)
    assert len(times) == (2 if same else 1)


def test_the_paper_stands_beside_what_is_measured_today() -> None:
    names = ("al", "bed", "psychometric", "protocols")
    results = {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in names}
    text = paper.render({n: {**found, **provenance()} for n, found in results.items()})
    assert "<td>three_hump_camel</td><td>aline</td><td>predictions</td><td>0.66</td>" in text
    assert "<td>ces</td><td>rl-boed</td><td>rho,alpha,u</td><td>14.6</td>" in text
    assert text.count("<svg") >= 4


def test_every_published_number_has_its_place_and_the_best_gp_is_found() -> None:
    first = paper.ITEMS[0]
    rows = [
        row("gp1d", method, "predictions", "rmse", step, Estimate(value, 0.01, 9))
        for method, value in (("aline", 0.03), ("gp-us", 0.05), ("gp-vr-starts", 0.04))
        for step in (5, 30)
    ]
    lines = {line[:2]: line[3:] for line in paper.compared(first, rows)}
    assert lines["gp1d", "best-gp"] == ("0.05", "0.04 ± 0.01", "9")
    assert lines["ackley", "aline"] == ("0.08", "not measured", "")
    shown = {key for item in paper.ITEMS for key in item.paper}
    some = {("branin", "ace-us", "predictions"), ("xgboost", "gp-rs", "predictions"),
            ("ces", "vpce", "rho,alpha,u"), ("gp2d", "gp-epig", "predictions")}  # fmt: skip
    assert some <= shown
    assert len(al.PUBLISHED["best-gp"]) == 9
