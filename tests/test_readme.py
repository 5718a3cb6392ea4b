"""The examples of README and docs run as they stand; their figures are those of results/."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from small import SIZES, save_detection, save_untrained, seeded

from aline.experiment import Experiment
from aline.model import Model, ModelConfig, fresh
from aline.zoo import shipped

ROOT = Path(__file__).parents[1]
README, DOCS = ROOT / "README.md", ROOT / "docs"
PAGES = sorted([README, *DOCS.rglob("*.md")])
PSYCHOMETRIC, DECAY, RUN, TABLE, POLICY = range(5)  # the README's examples


def blocks(page: Path, language: str = "python") -> list[str]:
    """The examples of a page, in order."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def quick(code: str) -> str:
    """With a training of two rounds in place of minutes."""
    return re.sub(r'budget="\d+\w+"', "rounds=2, progress=False", code)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Runs examples one after the other in a folder of their own."""
    monkeypatch.chdir(tmp_path)

    def execute(*codes: str, **names: Any) -> dict[str, Any]:
        for code in codes:
            exec(compile(quick(code), "<example>", "exec"), names)
        return names

    return execute


def respond(stimulus: float) -> bool:
    return stimulus > 0


def test_the_readme_is_short_and_shows_five_examples() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 180
    assert len(blocks(README)) == 5


SECTIONS = [
    "Install", "What do you have?", "Outcomes", "How good is it?", "What it does not do",
    "Beside others", "Documentation", "Citation",
]  # fmt: skip
HOW_TO = [
    "choose-priors-and-ranges", "set-axes-as-your-lab-has-them", "deal-with-missing-answers",
    "keep-reaction-times-beside-answers", "run-several-participants", "resume-after-a-crash",
    "train-better-longer-on-a-cluster", "compare-a-policy-or-a-posterior-of-your-own",
    "change-the-architecture", "export-to-onnx", "serve-a-lab-behind-nginx",
]  # fmt: skip
RIVALS = [
    "QUEST+", "PsychoPy", "ADOpy", "AEPsych", "sbi", "BayesFlow", "BoTorch", "Ax", "POLAR", "code",
]  # fmt: skip


def test_the_readme_has_its_parts_in_order() -> None:
    text = README.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert text.index("images/trials.gif") < text.index("## Install")
    good, rest = text[text.index("## How good") :].split("## What it does not do")
    assert good.count("| `results/") == 8
    assert len(re.findall(r"!\[.*?\]\(.*?\)", text)) == 2  # what moves, and one figure
    table = rest[rest.index("## Beside others") : rest.index("## Documentation")]
    first = " ".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))
    assert [name for name in RIVALS if name not in first] == []


def test_everything_has_a_how_to() -> None:
    headings = re.findall(r"^## (.*)$", (DOCS / "howto.md").read_text(encoding="utf-8"), re.M)
    found = {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings}
    assert [one for one in HOW_TO if one not in found] == []


def test_the_psychophysics_example_runs(run, capsys) -> None:
    names = run(blocks(README)[PSYCHOMETRIC], respond=respond)
    assert names["experiment"].trials[-1].note == {"rt": 0.41}
    assert "threshold" in capsys.readouterr().out


def test_the_own_task_example_trains_and_runs(run, capsys) -> None:
    examples, generator = blocks(README), torch.Generator().manual_seed(0)
    names: dict[str, Any] = run(examples[DECAY])

    def measure(design: dict[str, float]) -> float:
        theta = {"rate": torch.tensor([[0.7]]), "amplitude": torch.tensor([[2.0]])}
        time = {"time": torch.tensor([[design["time"]]])}
        return names["simulate"](theta, time, generator).item()

    run(examples[RUN], **{**names, "measure": measure})
    assert capsys.readouterr().out.strip()
    resumed = names["aline"].Experiment.resume("sqlite:///lab.db")
    assert resumed.finished
    assert len(resumed.trials) == 20
    assert resumed.target == ["amplitude"]


def test_the_table_example_runs(run) -> None:
    import aline

    pool = np.linspace(0, 30, 40)[:, None]
    names = run(blocks(README)[TABLE], aline=aline, X_pool=pool, label=lambda row: np.sin(row[0]))
    assert names["std"].shape == (40,)


def test_the_policy_example_runs(run, capsys) -> None:
    run(blocks(README)[POLICY], torch=torch)
    assert re.search(r"\d", capsys.readouterr().out)


def test_the_example_is_the_file_in_examples() -> None:
    """Up to its docstrings and units, which a README need not repeat."""
    example = (ROOT / "examples" / "decay.py").read_text(encoding="utf-8")
    for line in blocks(README)[DECAY].splitlines():
        code = line.split("  #")[0].rstrip()
        if code and not code.startswith("model"):
            assert code in example, code


@pytest.mark.parametrize("name", ["quickstart", "howto", "concepts", "research", "outcomes"])
def test_the_examples_of_a_page_run(name: str, run, capsys) -> None:
    run(*blocks(DOCS / f"{name}.md"))
    pyplot.close("all")


def test_the_examples_of_designs_run(run) -> None:
    """With a model and an experiment for the one that goes on with both."""
    task, conditions, resumed, bank = blocks(DOCS / "designs.md")
    names = run(task)
    model = Model(fresh(names["task"].fitted().spec, ModelConfig(**SIZES), seeded(0)).eval())
    model.save("runs/choice")
    Experiment(model, storage="sqlite:///lab.db")
    assert run(conditions, resumed, bank, **names)["experiment"].ask().number == 0


def test_the_examples_of_psychophysics_run(run, capsys) -> None:
    save_detection(Path("detection"))  # where it is not shipped, a folder of that name is found
    names = run(
        *blocks(DOCS / "psychophysics.md"), respond=respond, is_right=lambda level: level > -20
    )
    assert names["experiment"].known == {"guess": 0.25}
    assert -40 <= names["handler"].paramEstimate["threshold"] <= 0


READY_MADE = ("psychometric", "detection", "discounting", "risk", "retention", "csf")


def test_the_ready_made_experiments_run(run, capsys) -> None:
    for name in READY_MADE:
        save_untrained(name, Path("runs") / name)
    names = run(
        *blocks(DOCS / "experiments.md"),
        yes_or_no=respond,
        is_right=lambda level: level > -20,
        takes_now=lambda reward, days: reward > 100 / (1 + 0.01 * days),
        takes_lottery=lambda design: design["reward"] > 2 * design["reference"],
        count_recalled=lambda time: int(10 / (time + 1)),
        reads_letter=lambda contrast, frequency: contrast > 0.01 * frequency,
    )
    assert names["curves"].shape == (1000, 50)
    assert names["screen"].ask().design["contrast"] in (0.01, 0.03, 0.1, 0.3, 1.0)
    assert capsys.readouterr().out.count("{") == 2  # the probabilities of two laws, twice


def test_the_page_says_which_weights_are_shipped() -> None:
    rows = re.findall(
        r"^\| \[`(\w+)`\].* \| (shipped|`aline train \w+`) \|$",
        (DOCS / "experiments.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    expected = [(n, "shipped" if n in shipped() else f"`aline train {n}`") for n in READY_MADE]
    assert rows == expected


def test_every_page_with_an_example_is_run() -> None:
    """Here, in tests/test_format.py, in tests/app/service, or in tests/web."""
    here = {"README", "quickstart", "howto", "concepts", "research", "outcomes", "designs"}
    others = {"psychophysics", "experiments", "format", "service", "browser"}
    assert {page.stem for page in PAGES if blocks(page)} == here | others


@pytest.mark.parametrize("page", [README, DOCS / "results.md"], ids=["README", "results"])
def test_measured_figures_come_from_results(page: Path) -> None:
    """Every row of the table names its file, and its figure is that file's, rounded."""
    rows = re.findall(
        r"^\| .*?`(results/[\w.-]+\.json)` `(.*?)` \| (-?[\d.]+)",
        page.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(rows) >= 8
    for file, key, shown in rows:
        wanted = dict(part.split("=") for part in key.split(" "))
        found = [
            row["value"]
            for row in json.loads((ROOT / file).read_text(encoding="utf-8"))["rows"]
            if all(str(row.get(k)) == v for k, v in wanted.items())
        ]
        assert len(found) == 1, (file, key)
        digits = len(shown.partition(".")[2])
        assert f"{found[0]:.{digits}f}" == shown, (file, key, found[0])


# What stands beside a figure without being measured: published, told, wanted, or a size of the run.
TOLD = (
    r"\(published [^)]*\)",
    r"published:? DAD [\d.]+",
    r"(paper|published|best published|ceiling|nominal) -?[\d.]+",
    r"[\d.]+, told and not measured here",
    r"told by its closing table: .*",
    r"[^;|]*is what we want[^;|]*",
    r"[\d.]+ (minutes|min|GPU hours|trials)",
    r"10\u2077",
    r"[\d.]+ with one guess|with one guess [\d.]+ and [\d.]+",  # of the rows before these
)


@pytest.mark.parametrize("page", [README, DOCS / "results.md"], ids=["README", "results"])
def test_what_stands_beside_a_figure_comes_from_the_same_results(page: Path) -> None:
    """Each number is some row's value, interval or count, or it says that it was only told."""
    rows = re.findall(
        r"^\| .*?`(results/[\w.-]+\.json)` `.*?` \| -?[\d.]+.*? \| (.*?) \|$",
        page.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(rows) >= 8
    for file, beside in rows:
        measured = re.sub("|".join(TOLD), "", beside)
        known = [
            abs(row[part])
            for row in json.loads((ROOT / file).read_text(encoding="utf-8"))["rows"]
            for part in ("value", "ci95", "n")
            if row.get(part) is not None
        ]
        for number in re.findall(r"\d+(?:\.\d+)?", measured):
            digits = len(number.partition(".")[2])
            assert any(f"{one:.{digits}f}" == number for one in known), (file, beside, number)


def test_the_readmes_rows_are_rows_of_the_results_too() -> None:
    pattern = r"`results/[\w.-]+\.json` `.*?` \| -?[\d.]+"
    few, all_of_them = (
        set(re.findall(pattern, page.read_text(encoding="utf-8")))
        for page in (README, DOCS / "results.md")
    )
    assert few <= all_of_them
