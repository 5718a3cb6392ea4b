import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from aline.app import bench as registry
from aline.app.bench.bench import Bench, BenchSettings, Measured, Progress, Result
from aline.app.bench.run import completed, run_bench, stem, write_bench
from aline.app.cli import app
from aline.errors import InputError
from aline.evaluation.estimates import Estimate
from aline.evaluation.results import row


def part(name: str, value: float):  # type: ignore[no-untyped-def]
    def measure(settings: BenchSettings, progress: Progress) -> Measured:
        total = settings.count(10, 2)
        progress(name, total, total)
        estimate = Estimate(value, 0.1, total)
        rows = [row("linear", "aline", "slope", name, 3, estimate)]
        return Measured(rows, {name: [value]}, [f"{name} is done"])

    return measure


def markdown(result: Result) -> str:
    return "\n".join(f"| {row['metric']} | {row['value']} |" for row in result["rows"])


def figures(result: Result) -> Mapping[str, Figure]:
    drawn = Figure(figsize=(1, 1))
    drawn.subplots().plot(result["data"].get("rmse", []))
    return {"lines": drawn}


BENCH = Bench("small", {"rmse": part("rmse", 0.5), "ratio": part("ratio", 2.0)}, markdown, figures)


def test_a_result_holds_the_rows_of_all_parts_and_how_to_make_them_again() -> None:
    told = []
    result = run_bench(BENCH, BenchSettings(), progress=lambda *step: told.append(step))
    assert [row["metric"] for row in result["rows"]] == ["rmse", "ratio"]
    assert result["rows"][0]["n"] == 10
    assert result["data"] == {"rmse": [0.5], "ratio": [2.0]}
    assert result["notes"] == ["rmse is done", "ratio is done"]
    assert {"bench", "command", "commit", "machine", "seconds", "seed"} <= set(result)
    assert told == [("rmse", 10, 10), ("ratio", 10, 10)]


def test_a_part_alone() -> None:
    result = run_bench(BENCH, BenchSettings(quick=True), ["ratio"])
    assert [(row["metric"], row["n"]) for row in result["rows"]] == [("ratio", 2)]
    assert run_bench(BENCH, BenchSettings(episodes=7), ["ratio"])["rows"][0]["n"] == 7


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(InputError, match=r"parts of small are rmse, ratio, got time"):
        run_bench(BENCH, BenchSettings(), ["time"])


def test_a_quick_or_partial_run_has_files_of_its_own() -> None:
    assert stem(BENCH, BenchSettings(), None) == "small"
    assert stem(BENCH, BenchSettings(quick=True), None) == "small-quick"
    assert stem(BENCH, BenchSettings(), ["ratio"]) == "small-ratio"
    assert stem(BENCH, BenchSettings(budget="10min"), None) == "small-10min"


def test_files_are_written(tmp_path: Path) -> None:
    result = run_bench(BENCH, BenchSettings())
    files = write_bench(BENCH, result, tmp_path / "new", "small")
    assert [file.name for file in files] == ["small.json", "small.md", "small-lines.png"]
    assert json.loads(files[0].read_text()) == result
    assert "| ratio | 2.0 |" in files[1].read_text()
    assert "![lines](small-lines.png)" in files[1].read_text()
    assert files[2].read_bytes().startswith(b"\x89PNG")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find", lambda name: BENCH)
    result = CliRunner().invoke(app, ["bench", "small", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "| rmse | 0.5 |" in result.stdout
    assert (tmp_path / "small-quick.json").is_file()


def test_without_a_name_benchmarks_are_listed() -> None:
    listed = CliRunner().invoke(app, ["bench"])
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in registry.BENCHES)


def test_an_unknown_benchmark_is_a_users_mistake() -> None:
    result = CliRunner().invoke(app, ["bench", "nonsense"])
    assert result.exit_code == 2
    assert f"benchmarks are {', '.join(registry.BENCHES)}" in result.stderr


@pytest.mark.parametrize("name", registry.BENCHES)
def test_every_benchmark_is_where_its_name_says(name: str) -> None:
    assert registry.find(name).name == name


def result_of(methods: list[str], value: float, commit: str) -> dict[str, object]:
    """Of some methods; the table that it comes with has a line for each."""
    rows = [
        row("gp1d", method, "predictions", "rmse", 3, Estimate(value, 0.1, 2)) for method in methods
    ]
    bands = {method: {"mean": [value]} for method in methods}
    return {"rows": rows, "data": {"bands": bands}, "notes": [], "commit": commit}


def test_a_run_of_some_methods_keeps_what_is_known_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(result_of(["aline", "gp-us"], 1.0, "abc")))
    new = result_of(["aline"], 2.0, "def")
    both = completed(new, path, BenchSettings(methods=("aline",)))
    assert [(one["method"], one["value"]) for one in both["rows"]] == [
        ("aline", 2.0),
        ("gp-us", 1.0),
    ]
    assert both["data"] == {"bands": {"gp-us": {"mean": [1.0]}, "aline": {"mean": [2.0]}}}
    assert both["notes"] == ["not measured now, but kept from the run of commit abc: gp1d gp-us"]
    assert completed(new, path, BenchSettings()) == new  # all methods were asked for
    other = {**new, "rows": [{**new["rows"][0], "task": "gp2d"}]}
    assert len(completed(other, path, BenchSettings(), by_task=True)["rows"]) == 3
    assert completed(new, path, BenchSettings(), by_task=True) == new  # its task was measured
    assert completed(new, tmp_path / "none.json", BenchSettings(methods=("aline",))) == new
    again = completed(
        result_of(["aline", "gp-us"], 2.0, "def"), path, BenchSettings(methods=("aline",))
    )
    assert [one["value"] for one in again["rows"]] == [2.0, 2.0]
