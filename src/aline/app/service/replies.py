"""Replies as any reader takes them."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse

from aline.errors import StorageError


def to_json(content: Any) -> bytes:
    """As JSON that any reader takes: no NaN, and nothing but ASCII."""
    try:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
    except RecursionError:
        raise StorageError(
            "the experiment holds metadata that is nested too deeply to be shown: "
            "export it in Python"
        ) from None


class Json(JSONResponse):
    """A reply of plain data, or of what `to_json` made of much of it where nobody waited."""

    def render(self, content: Any) -> bytes:
        """As bytes."""
        return content if isinstance(content, bytes) else to_json(content)
