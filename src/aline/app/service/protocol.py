"""HTTP as the service speaks it: uvicorn's quick parser, bounded heads, and replies in one piece.

The guard bounds bodies, but it is asked only once a head is complete.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 * 1024


class Protocol(HttpToolsProtocol):
    """Hangs up on a head that does not end; sends a reply's head and body together."""

    _in_head = True
    _received = 0  # bytes of a head that is not complete
    _goes_on = True  # whether what comes in is of that head alone

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        self._out = Joined(transport)
        super().connection_made(cast(asyncio.Transport, self._out))

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        self._goes_on = self._in_head
        super().data_received(data)
        self._received = self._received + len(data) if self._goes_on else 0
        if self._received > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"A request's head has at most {HEAD_BYTES} bytes.")

    def on_headers_complete(self) -> None:
        """The head is read."""
        self._in_head = self._goes_on = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body is read; what comes now is the next head."""
        self._in_head = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A reply was written."""
        self._out.flush()  # the head of one without a body
        super().on_response_complete()


class Joined:
    """A transport that keeps a reply's head until its body comes.

    Each write is a packet, which takes the sender and the receiver longer than what is in it.
    """

    def __init__(self, transport: asyncio.Transport):
        self._transport, self._head = transport, b""

    def write(self, data: bytes) -> None:
        """Send, unless it is a head: that goes with what follows."""
        if data.startswith(b"HTTP/1.1 ") and not (self._head or data.startswith(b"HTTP/1.1 100")):
            self._head = data
            return
        self._transport.write(self._head + data)
        self._head = b""

    def flush(self) -> None:
        """Send what was kept."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        """Hang up when all is sent."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """In all else like the transport itself."""
        return getattr(self._transport, name)
