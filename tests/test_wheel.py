"""The wheel holds everything that a user without a checkout needs."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    """A command's output; a failure shows what it printed."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_runs_the_demo_outside_the_checkout(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ROOT]
    run(*pip, "--quiet", *build, cwd=tmp_path)
    (wheel,) = tmp_path.glob("aline-*.whl")
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(*pip, "--quiet", "--python", python, "install", "--no-deps", wheel, cwd=tmp_path)
    # Borrow the dependencies of this environment; a path entry does not bring its editable aline.
    site = Path(
        run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=tmp_path).strip()
    )
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    where = run(python, "-c", "import aline; print(aline.__file__)", cwd=tmp_path)
    assert where.startswith(str(tmp_path))
    shown = run(tmp_path / "venv" / "bin" / "aline", "demo", "--trials", "5", cwd=tmp_path)
    assert "threshold" in shown
    assert len(list(tmp_path.glob("*.html"))) == 1
    # A database is made with the steps that came along, and the page's files are there.
    token = run(tmp_path / "venv" / "bin" / "aline", "token", "add", "tablet", cwd=tmp_path)
    assert token.startswith("aline_")
    static = Path(where.strip()).parent / "app" / "service" / "static"
    names = {path.name for path in static.iterdir()}
    assert {"page.css", "experiment.js", "icon.svg", "uplot.js", "uplot-LICENSE.txt"} <= names
    # The JavaScript for web pages as well.
    run(
        tmp_path / "venv" / "bin" / "aline", "export", "psychometric", "--web", "page", cwd=tmp_path
    )
    assert (tmp_path / "page" / "aline" / "local" / "worker.js").is_file()
    assert (tmp_path / "page" / "graph.onnx").is_file()
