"""What tests of pages share."""

from functools import cache
from pathlib import Path

import pytest
from web.models import Folders, model_named

from aline.app.web import export_web


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
