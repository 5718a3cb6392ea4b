"""A proxy that fails after the service has done its work, as proxies and networks do."""

from __future__ import annotations

import http.client
import http.server
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Literal

Fault = Literal["cut", "silent"] | int
"""Half of the body, no reply at all, or a proxy's own answer with this status."""


class Faulty(http.server.ThreadingHTTPServer):
    """Between a client and a service: the first tries at a call get faults, the last its reply."""

    daemon_threads = True

    def __init__(self, port: int, faults: tuple[Fault, ...], methods: tuple[str, ...] = ("POST",)):
        super().__init__(("127.0.0.1", 0), Handler)
        self.service_port, self.faults, self.methods = port, faults, methods
        self.tries: dict[str, int] = {}  # of each key, or path where there is none
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def fault_of(self, call: str, method: str) -> Fault | None:
        with self.lock:
            count = self.tries[call] = self.tries.get(call, 0) + 1
        is_faulty = method in self.methods and count <= len(self.faults)
        return self.faults[count - 1] if is_faulty else None


class Handler(http.server.BaseHTTPRequestHandler):
    server: Faulty

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        inner = http.client.HTTPConnection("127.0.0.1", self.server.service_port, timeout=60)
        with closing(inner), suppress(ConnectionError):
            inner.request(self.command, self.path, body, dict(self.headers))
            with inner.getresponse() as reply:
                self.pass_on(reply)

    def pass_on(self, reply: http.client.HTTPResponse) -> None:
        kind = reply.headers.get("Content-Type", "")
        if kind.startswith("text/event-stream"):
            self.head(reply.status, kind)
            for line in reply:
                self.wfile.write(line)
                self.wfile.flush()
            return
        call = self.headers.get("Idempotency-Key") or self.path
        fault, content = self.server.fault_of(call, self.command), reply.read()
        if isinstance(fault, int):
            self.head(fault, "text/html")
            self.wfile.write(b"<h1>Bad gateway</h1>")
        elif fault != "silent":
            self.head(reply.status, kind, len(content))
            self.wfile.write(content[: len(content) // 2] if fault == "cut" else content)

    def head(self, status: int, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()

    do_GET = do_POST = do_PATCH = answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def faulty(port: int, *faults: Fault, methods: tuple[str, ...] = ("POST",)) -> Iterator[Faulty]:
    """In front of the service at a port."""
    with Faulty(port, faults, methods) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield proxy
        proxy.shutdown()
