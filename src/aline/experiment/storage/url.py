"""A storage's URL as it may be shown."""

from __future__ import annotations

from urllib.parse import unquote

HIDDEN = "***"
# What a query may show; a password has many names, and drivers keep adding some.
_HARMLESS = {"host", "port", "user", "dbname", "sslmode", "application_name", "connect_timeout"}


def shown(url: str) -> str:
    """A URL without anything secret, also one that is not well formed.

    >>> shown("postgresql://me:secret@host/lab?password=secret&sslmode=require")
    'postgresql://me:***@host/lab?password=***&sslmode=require'
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "sqlite":  # a path, which may hold any character
        return url
    address, question, query = rest.partition("?")
    user, at, host = address.rpartition("@")
    name, colon, _ = user.partition(":")
    hidden = f"{name}:{HIDDEN}" if colon else name
    parts = "&".join(map(_part, query.split("&")))
    return f"{scheme}://{hidden}{at}{host}{question}{parts}"


def _part(text: str) -> str:
    name, equals, _ = text.partition("=")
    return text if not equals or unquote(name).lower() in _HARMLESS else f"{name}={HIDDEN}"
