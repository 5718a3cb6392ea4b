"""The design benchmark, quickly: that it measures, keeps what it trained, and draws."""

from dataclasses import replace
from pathlib import Path

import pytest

from aline.app.bench import bed
from aline.app.bench.bed import BENCH, PUBLISHED
from aline.app.bench.bench import BenchSettings
from aline.app.bench.run import run_bench, write_bench
from aline.errors import InputError
from aline.tasks import get

QUICK = BenchSettings(quick=True, episodes=3, tasks=("location",), budget="1s")


def test_random_and_a_learned_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = replace(QUICK, methods=("random", "dad"))
    result = run_bench(BENCH, settings)
    found = {(row["method"], row["metric"]): row for row in result["rows"]}
    assert found["random", "spce"]["published"] == PUBLISHED["location", "random"][0]
    assert found["dad", "spce"]["n"] == 3
    assert found["dad", "training_hours"]["value"] > 0
    assert found["dad", "seconds_per_run"]["value"] > 0
    assert ("random", "training_hours") not in found
    assert "| random |" in BENCH.markdown(result)
    kept = list((tmp_path / "runs" / "bed").glob("location-dad-*.safetensors"))
    assert len(kept) == 1
    again = run_bench(BENCH, settings)
    same = {(row["method"], row["metric"]): row for row in again["rows"]}
    assert same["dad", "spce"] == found["dad", "spce"]


def test_our_model_with_its_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run_bench(BENCH, replace(QUICK, methods=("aline-box",)))
    assert {row["metric"] for row in result["rows"]} >= {"spce", "snmc", "ace", "vnmc", "j"}
    files = write_bench(BENCH, result, tmp_path, "bed")
    assert {file.name for file in files} == {"bed.json", "bed.md", "bed-location.png"}


def test_a_baseline_far_from_what_was_published_is_not_taken_for_the_method() -> None:
    def table(value: float) -> str:
        row = {"task": "location", "method": "dad", "metric": "spce", "value": value, "ci95": 0.1,
               "n": 9, "published": 7.33, "uses": ""}  # fmt: skip
        return BENCH.markdown({"rows": [row], "data": {}})

    assert "| DAD (unvalidated at this budget) |" in table(5.63)
    assert "| DAD |" in table(6.6)


def test_rows_say_what_a_method_has_of_the_task_when_it_chooses() -> None:
    ces = get("ces")
    informed = bed._contender(ces, bed.UNTRAINED, QUICK, lambda *told: None)
    assert bed._uses(bed.UNTRAINED, informed) == "likelihood and the task's own `explore`"
    assert bed._uses("vpce", bed._contender(ces, "vpce", QUICK, lambda *told: None)) == "likelihood"
    ours = bed._contender(get("location"), "aline-box", QUICK, lambda *told: None)
    assert bed._uses("aline-box", ours) == ""
    quick = replace(QUICK, methods=(bed.UNTRAINED,), tasks=("location",))
    assert not run_bench(BENCH, quick)["rows"]  # there nothing is left of it


def test_baselines_have_settings_for_the_budget() -> None:
    task = get("location")
    for budget, contrastive in (("10min", 500), ("7h", 10_000)):
        learner = bed._learner(task, "dad", BenchSettings(budget=budget))
        assert learner.config.contrastive == contrastive  # type: ignore[attr-defined]


def test_mistakes() -> None:
    with pytest.raises(InputError, match="the tasks are location, ces, got psychometric"):
        run_bench(BENCH, replace(QUICK, tasks=("psychometric",)))
    with pytest.raises(InputError, match="the methods are"):
        run_bench(BENCH, replace(QUICK, methods=("magic",)))
