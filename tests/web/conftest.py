"""What tests of pages share."""

import shutil
from functools import cache
from pathlib import Path

import pytest
from web.models import Folders, model_named

from aline.app.web import export_web

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Models as `aline export --web` writes them; an export takes long."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")

    @cache
    def folder_of(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        export_web(model_named(name), folder)
        return folder

    return folder_of


@pytest.fixture(scope="module")
def site(folders: Folders, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study as a web host has it."""
    example = ROOT / "clients" / "js" / "example"
    if not (example / "node_modules" / "jspsych").is_dir():
        pytest.skip("jsPsych is not installed: npm install in clients/js/example")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(example, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.map"))
    shutil.copytree(folders("detection"), folder / "detection", dirs_exist_ok=True)
    return folder
