"""The examples of docs/service.md, against a real service."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from serving import Service

from aline.app.web import library

PAGE = (Path(__file__).parents[3] / "docs" / "service.md").read_text(encoding="utf-8")


BROWSER = (Path(__file__).parents[3] / "docs" / "browser.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_a_page_may_use_the_service(service: Service, tmp_path: Path) -> None:
    """The line of docs/browser.md that is there in place of an experiment in the page."""
    (line,) = re.findall(
        r"```js\n(const experiment = await new aline\.Client.*?)```", BROWSER, re.DOTALL
    )
    line = line.replace("https://lab.example", service.url)
    (tmp_path / "study.mjs").write_text(
        f'const aline = await import("{library()}/aline.js");\n{line}\n'
        "console.log((await experiment.ask()).design.stimulus);\n"
    )
    done = subprocess.run(
        ["node", str(tmp_path / "study.mjs")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert -5 <= float(done.stdout) <= 5


def only_block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_curl_lines_run_an_experiment(service: Service) -> None:
    lines = only_block("bash").replace("http://127.0.0.1:8000", service.url)
    done = subprocess.run(
        ["bash", "-euc", lines.replace("curl -s", "curl -s -f")],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert '"rt":0.41' in done.stdout.replace(" ", "")
    assert "note.rt" in done.stdout
    assert '"threshold"' in done.stdout


def test_the_client_runs_an_experiment(service: Service, capsys) -> None:
    code = only_block("python").replace("http://127.0.0.1:8000", service.url)
    exec(compile(code, "<example>", "exec"), {"respond": lambda stimulus: stimulus > 0})
    low, high = json.loads(capsys.readouterr().out)
    assert low < high
