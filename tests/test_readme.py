"""The README's examples run as they stand, and its figures are those of results/."""

import json
import re
from pathlib import Path

import torch

README = Path(__file__).parents[1] / "README.md"
RESULTS = README.parent / "results"


def blocks() -> list[str]:
    """The Python examples, in order."""
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_own_task_example_trains_and_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_down, run = blocks()
    assert 'budget="5min"' in write_down
    names: dict[str, object] = {}
    exec(write_down.replace('budget="5min"', "rounds=3, progress=False"), names)
    generator = torch.Generator().manual_seed(0)

    def measure(design):
        theta = {"rate": torch.tensor([[0.7]]), "amplitude": torch.tensor([[2.0]])}
        time = {"time": torch.tensor([[design["time"]]])}
        return names["simulate"](theta, time, generator).item()

    exec(run, {**names, "measure": measure})
    assert capsys.readouterr().out.strip()
    resumed = names["aline"].Experiment.resume("sqlite:///lab.db")
    assert resumed.finished
    assert len(resumed.trials) == 20


def test_the_example_of_several_outcomes_runs():
    page = (README.parent / "docs" / "outcomes.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, object] = {}
    exec(example.replace('budget="10min"', "rounds=2, progress=False"), names)
    assert names["prediction"]["rt"].mean.shape == (2,)


def test_the_example_is_the_file_in_examples():
    """Up to its docstrings and units, which a README need not repeat."""
    example = (README.parent / "examples" / "decay.py").read_text()
    for line in blocks()[0].splitlines():
        code = line.split("  #")[0].rstrip()
        if code and not code.startswith("model"):
            assert code in example, code


def test_measured_figures_come_from_results():
    """Every row of the table names its file, and its figure is that file's, rounded."""
    rows = re.findall(
        r"^\| .*?`(results/[\w.-]+\.json)` `(.*?)` \| (-?[\d.]+)",
        README.read_text(),
        re.MULTILINE,
    )
    assert rows
    for file, key, shown in rows:
        wanted = dict(part.split("=") for part in key.split(" "))
        found = [
            row["value"]
            for row in json.loads((README.parent / file).read_text())["rows"]
            if all(str(row.get(k)) == v for k, v in wanted.items())
        ]
        assert len(found) == 1, (file, key)
        digits = len(shown.partition(".")[2])
        assert f"{found[0]:.{digits}f}" == shown, (file, key, found[0])
