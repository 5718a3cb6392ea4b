"""Replies as any reader takes them."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse

from aline.errors import StorageError


class Json(JSONResponse):
    """JSON that any reader takes: no NaN, and nothing but ASCII."""

    def render(self, content: Any) -> bytes:
        """As bytes."""
        try:
            return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
        except RecursionError:
            raise StorageError(
                "the experiment holds metadata that is nested too deeply to be shown: "
                "export it in Python"
            ) from None
