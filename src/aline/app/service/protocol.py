"""HTTP as the service speaks it: uvicorn's quick parser, with a limit to a request's head.

The guard bounds bodies, but it is asked only once a head is complete.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 * 1024


class BoundedHeads(HttpToolsProtocol):
    """Hangs up on a head that does not end."""

    _in_head = True
    _received = 0  # bytes since the last complete head or body

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        super().data_received(data)
        self._received = self._received + len(data) if self._in_head else 0
        if self._received > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"A request's head has at most {HEAD_BYTES} bytes.")

    def on_headers_complete(self) -> None:
        """The head is read."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body is read; what comes now is the next head."""
        self._in_head, self._received = True, 0
        super().on_message_complete()
