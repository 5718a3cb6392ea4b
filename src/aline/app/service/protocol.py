"""HTTP as the service speaks it: uvicorn's quick parser, with bounds, and replies in one piece.

The guard bounds what a request may do, but it is asked only once a head is complete. Until then,
and for the body, what counts is here: how much may come, how long it may take, how many may wait.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from aline.app.service.crowd import Crowd

HEAD_BYTES = 32 * 1024
HEAD_LINES = 100  # each costs more memory than it has bytes
FRAME_BYTES = 64 * 1024  # of a body in pieces, for all that is not body: sizes, trailers
AT_ONCE = 16 * 1024  # bytes that are looked at before they are counted: each line takes time
PIPELINED = 16  # requests that may wait for the reply to an earlier one on their connection
HEAD_SECONDS = 10.0  # for a head to come, from the connection or the reply before
BODY_SECONDS = 30.0  # for the rest
READ_SECONDS = 60.0  # for a client to take some of a reply
LINGER_SECONDS = 2.0  # to let a refused client read why, while it still sends
LINGER_BYTES = 1_000_000

UNREAD = "aline.unread"  # an ASGI extension: whether some of a request's body is still to come
_crowds: WeakKeyDictionary[ServerState, Crowd] = WeakKeyDictionary()  # one a server


class Protocol(HttpToolsProtocol):
    """Hangs up on what has no end; sends a reply's head and body together."""

    has_spoken = False
    _in_head = True
    _received = 0  # bytes of a head that is not complete
    _goes_on = True  # whether what comes in is of that head alone
    _framing = 0  # bytes of a body's pieces that are not body
    _lingered = 0  # bytes that came after a refusal
    _is_lingering = False
    _timer: asyncio.TimerHandle | None = None  # until what is waited for must have come
    _stalled: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """Whose connection it is."""
        return self.client[0] if self.client else "unknown"

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        self._out = Joined(transport, self)
        super().connection_made(cast(asyncio.Transport, self._out))
        self._crowd = _crowds.setdefault(self.server_state, Crowd())
        self._crowd.enter(self)
        self._expect(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """A client has gone."""
        self._crowd.leave(self)
        self._expect(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        if self._is_lingering:
            self._lingered += len(data)
            if self._lingered > LINGER_BYTES:
                self.hang_up()
            return
        for first in range(0, len(data), AT_ONCE):
            if not self.transport.is_closing():
                self._take(data[first : first + AT_ONCE])

    def _take(self, data: bytes) -> None:
        self._goes_on = self._in_head
        self._framing += 0 if self._in_head else len(data)
        super().data_received(data)
        self._received = self._received + len(data) if self._goes_on else 0
        if self._received > HEAD_BYTES:
            self._refuse(f"A request's head has at most {HEAD_BYTES} bytes.")
        elif not self._in_head and self._framing > FRAME_BYTES:
            self._refuse(f"A body's sizes and trailers have at most {FRAME_BYTES} bytes.")

    def _refuse(self, why: str) -> None:
        if not self.transport.is_closing():
            self.send_400_response(why)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of the head; those behind a body nobody asked for."""
        if self._in_head:
            super().on_header(name, value)
            if len(self.headers) > HEAD_LINES:
                raise ValueError(f"a head has at most {HEAD_LINES} lines")  # uvicorn answers 400

    def on_headers_complete(self) -> None:
        """The head is read."""
        if len(self.pipeline) >= PIPELINED:
            raise ValueError(f"at most {PIPELINED} requests may wait on one connection")
        self._in_head = self._goes_on = False
        self._framing = 0
        super().on_headers_complete()
        cycle = self.cycle
        cast(Any, self.scope)["extensions"] = {UNREAD: lambda: cycle.more_body}
        self._expect(BODY_SECONDS)

    def on_body(self, body: bytes) -> None:
        """A piece of the body, which the guard counts."""
        self._framing -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The body is read; what comes now is the next head."""
        self._in_head = self.has_spoken = True
        self._expect(None)
        self._crowd.serve(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A reply was written."""
        self._out.flush()  # the head of one without a body
        super().on_response_complete()
        if self._in_head and not self.pipeline and not self.transport.is_closing():
            self._expect(HEAD_SECONDS)
            self._crowd.wait(self)

    def pause_writing(self) -> None:
        """The client does not take what was sent."""
        self._stalled = self.loop.call_later(READ_SECONDS, self._tire, "replies were not read")
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client took some."""
        if self._stalled is not None:
            self._stalled.cancel()
        super().resume_writing()

    def _expect(self, seconds: float | None) -> None:
        """Wait that long for the client; None: it is not waited for."""
        if self._timer is not None:
            self._timer.cancel()
        why = f"a request did not come within {seconds} s"
        self._timer = self.loop.call_later(seconds, self._tire, why) if seconds else None

    def _tire(self, why: str) -> None:
        self._crowd.complain(self, why)
        self.hang_up()

    def hang_up(self) -> None:
        """End the connection at once."""
        self._out.abort()

    def linger(self) -> bool:
        """Whether to let the client read on while what it sends is thrown away."""
        if not self._in_head and not self._is_lingering and self._out.can_write_eof():
            self._is_lingering = True
            self._out.write_eof()
            self._expect(LINGER_SECONDS)
        return self._is_lingering

    def eof_received(self) -> None:
        """The client sends no more."""
        if self._is_lingering:
            self.hang_up()


class Joined:
    """A transport that keeps a reply's head until its body comes.

    Each write is a packet, which takes the sender and the receiver longer than what is in it.
    """

    def __init__(self, transport: asyncio.Transport, protocol: Protocol):
        self._transport, self._protocol, self._head = transport, protocol, b""
        self._is_closing = False

    def write(self, data: bytes) -> None:
        """Send, unless it is a head: that goes with what follows.

        A reply that comes after a refusal is not sent: the client was told why already.
        """
        if self._is_closing:
            self._head = b""
            return
        if data.startswith(b"HTTP/1.1 ") and not (self._head or data.startswith(b"HTTP/1.1 100")):
            self._head = data
            return
        self._transport.write(self._head + data)
        self._head = b""

    def flush(self) -> None:
        """Send what was kept."""
        if self._head:
            self.write(b"")

    def is_closing(self) -> bool:
        """Whether no more can be sent."""
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        """Hang up when all is sent; a client that still sends would not see it otherwise."""
        self.flush()
        if not self.is_closing():
            self._is_closing = self._protocol.linger()
            if not self._is_closing:
                self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """In all else like the transport itself."""
        return getattr(self._transport, name)
