"""Who may use a service that others can reach.

A token is 256 random bits, shown once. Only its digest is stored: a plain SHA-256 is enough, as
nobody can guess 256 bits, and it is compared in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

from aline.errors import InputError
from aline.experiment import Storage

_PREFIX = "aline_"
_FRESH = 2.0  # seconds for which a worker trusts what it read


def new_token(storage: Storage, name: str) -> str:
    """Make a token, keep its digest, return it."""
    if not (name.isprintable() and 0 < len(name) <= 100):
        raise InputError(f"a token's name must be 1 to 100 printable characters, got {name!r}")
    token = _PREFIX + secrets.token_urlsafe(32)
    storage.add_token(name, digest(token))
    return token


def digest(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class Tokens:
    """The tokens of a storage, read again every few seconds."""

    def __init__(self, storage: Storage):
        self._storage = storage
        self._read_at = -_FRESH
        self._digests: dict[str, str] = {}

    def owner(self, token: str | None) -> str | None:
        """The name of a token; None if it is not one of ours."""
        if time.monotonic() - self._read_at > _FRESH:
            self._digests, self._read_at = self._storage.tokens(), time.monotonic()
        given, found = digest(token or ""), None
        for name, known in self._digests.items():  # all of them, so that time tells nothing
            if hmac.compare_digest(given, known):
                found = name
        return found if token else None
