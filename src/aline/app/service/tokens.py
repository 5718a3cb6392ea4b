"""Who may use a service that others can reach.

A token is 256 random bits, shown once. Only its digest is stored: a plain SHA-256 is enough, as
nobody can guess 256 bits, and it is compared in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from aline.app.service.lately import Lately
from aline.errors import InputError
from aline.experiment import Storage

_PREFIX = "aline_"
FRESH = 2.0  # seconds for which a worker trusts what it read
WAIT_SECONDS = 1.0  # for a storage, before somebody unknown is refused


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
    """The tokens of a storage, read again every few seconds, and never waited for in vain.

    Who is known stays so while the storage is down: without it nothing can be done anyway.
    """

    def __init__(self, storage: Storage):
        self._digests = Lately(storage.tokens, FRESH)

    async def owner(self, token: str | None) -> str | None:
        """The name of a token; None if it is not one of ours, StorageError if nobody knows."""
        self._digests.touch()
        found = self.known_owner(token)
        if found is not None or not token:
            return found
        await self._digests.get(WAIT_SECONDS)  # it may be new
        found = self.known_owner(token)
        if found is None and self._digests.problem is not None:
            raise self._digests.problem
        return found

    def known_owner(self, token: str | None) -> str | None:
        """The name of a token as far as was read."""
        given, found = digest(token or ""), None
        for name, known in (self._digests.known or {}).items():  # all, so that time tells nothing
            if hmac.compare_digest(given, known):
                found = name
        return found if token else None

    def is_welcome(self, token: str | None) -> bool:
        """Whether who came with a token may stay; whoever needed none may."""
        self._digests.touch()
        return token is None or self.known_owner(token) is not None

    async def close(self) -> None:
        """Let go of the thread that reads."""
        await self._digests.close()
