"""Imports point one way, and importing aline changes nothing outside it."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "aline"

# A module imports from its own package and from packages of lower rank, nothing else of aline.
# training and experiment share a rank, so neither imports the other.
RANKS = {
    "errors": 0,
    "files": 1,
    "spaces": 1,
    "tasks": 2,
    "episodes": 3,
    "model": 4,
    "zoo": 5,
    "engine": 5,
    "policies": 6,
    "training": 7,
    "experiment": 7,
    "functions": 8,  # a plug-in: what is below knows it by name only (model/advice.py, tasks)
    "landscapes": 8,  # likewise
    "baselines": 9,
    "evaluation": 10,
    "app": 11,
    "psychopy": 11,
    "__main__": 12,
}


def module_files() -> dict[str, Path]:
    """Every module of the package but aline/__init__.py, by its dotted name."""
    files = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        files[".".join(parts)] = path
    del files["aline"]  # the lazy public names, which reach everywhere
    return files


def imported_names(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import, wherever in the code; `package` resolves relative ones.

    `from a import b` gives "a.b", as b may be a module.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = [node.module] if node.module else []
            if node.level:
                origin = package.split(".")[: 1 - node.level or None] + origin
            yield from ((node.lineno, ".".join([*origin, alias.name])) for alias in node.names)


def violations(source: str, module: str, package: str) -> list[str]:
    """Each import in `source` that points the wrong way, in words."""
    layer = module.split(".")[1]
    found = []
    for line, name in imported_names(source, package):
        top, _, rest = name.partition(".")
        if top != "aline" or name == "aline.__version__":
            continue
        target = rest.split(".")[0]
        if target != layer and (target not in RANKS or RANKS[target] >= RANKS[layer]):
            found.append(f"{module}, line {line}: {layer} may not import {name}")
    return found


def test_every_module_has_a_rank() -> None:
    layers = {name.split(".")[1] for name in module_files()}
    assert "errors" in layers
    assert layers <= set(RANKS), f"give each new package a rank: {layers - set(RANKS)}"


def test_every_package_has_an_init() -> None:
    """Without one, its modules are left out of the wheel and of the import test below."""
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]


def test_imports_point_one_way() -> None:
    found = []
    for module, path in module_files().items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        found += violations(path.read_text(encoding="utf-8"), module, package)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "import aline.app.cli",
        "from aline.experiment import Experiment",
        "from aline import experiment",
        "from ..experiment import Experiment",
        "from .. import experiment",
        "def f():\n    from aline.baselines import random",
        "if TYPE_CHECKING:\n    import aline.evaluation",
        "import aline",
        "from aline import Task",
    ],
)
def test_checker_sees_an_import_that_points_the_wrong_way(source: str) -> None:
    assert len(violations(source, "aline.training.train", "aline.training")) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import aline.spaces",
        "from aline import __version__, errors",
        "from aline.training.losses import loss",
        "from . import losses",
        "from .losses import loss",
        "from ..model import Model",
        "import torch",
    ],
)
def test_checker_allows_an_import_that_points_down(source: str) -> None:
    assert violations(source, "aline.training.train", "aline.training") == []


def test_nothing_is_called_utils() -> None:
    assert not [path for path in SOURCE.rglob("*") if path.stem == "utils"]


def run_python(program: str) -> None:
    """Run a program in a fresh interpreter; its error output becomes the failure."""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr


def test_importing_aline_does_not_import_torch() -> None:
    run_python("import sys, aline; assert 'torch' not in sys.modules, 'torch was imported'")


def test_importing_every_module_leaves_global_state_alone() -> None:
    run_python("""
import pickle, pkgutil, random
from importlib import import_module
import numpy, torch

def state():
    return {
        "python random": random.getstate(),
        "numpy random": pickle.dumps(numpy.random.get_state()),
        "torch random": torch.get_rng_state().tolist(),
        "torch dtype": torch.get_default_dtype(),
        "torch threads": torch.get_num_threads(),
    }

before = state()
import aline
for module in pkgutil.walk_packages(aline.__path__, "aline."):
    if not module.name.endswith("__main__"):  # importing that is running it
        import_module(module.name)
        changed = [name for name, value in state().items() if value != before[name]]
        assert not changed, f"importing {module.name} changed {changed}"
""")
