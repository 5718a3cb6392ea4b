"""What `aline serve` was told, handed to every worker process through its environment."""

from __future__ import annotations

import ipaddress
import json
import os
from dataclasses import asdict, dataclass
from functools import lru_cache

VARIABLE = "ALINE_SERVICE"


@dataclass(frozen=True)
class Settings:
    """How a service runs."""

    storage: str = "memory://"
    host: str = "127.0.0.1"
    port: int = 8000
    models: tuple[str, ...] = ()  # folders of models beside the shipped ones
    origins: tuple[str, ...] = ()  # pages of other sites that may call the API
    require_token: bool = False
    requests_per_second: float = 1000.0  # of one client
    body_bytes: int = 1_000_000
    streams: int = 200  # of live updates, at a time
    work_seconds: float = 60.0  # for one piece of large work
    work_bytes: int = 192_000_000  # likewise, beyond what the service has
    kept_bytes: int = 150_000_000  # of experiments in memory

    @property
    def needs_token(self) -> bool:
        """Whether every request must carry a token."""
        return self.require_token or not is_loopback(self.host)

    def to_environment(self) -> None:
        """Leave the settings where worker processes find them."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> Settings:
        """Read what `to_environment` wrote."""
        data = json.loads(os.environ.get(VARIABLE, "{}"))
        lists = {name: tuple(data.get(name, ())) for name in ("models", "origins")}
        return cls(**{**data, **lists})


@lru_cache
def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
