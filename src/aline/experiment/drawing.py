"""The way to figures and reports.

They are made by a layer above, `aline.app.views`, which is known here only by its name: an
experiment runs without matplotlib being imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def drawing() -> Any:
    """The module that draws and writes."""
    return import_module("aline.app.views")
