"""What a client may send before the guard is asked."""

import json
import socket

import pytest
from serving import Service

from aline.app.service.protocol import HEAD_BYTES

GET = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def reply_to(service: Service, *parts: bytes) -> bytes:
    """What comes back until the service hangs up or has answered."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as one:
        found = b""
        try:
            for part in parts:
                one.sendall(part)
            while b"\r\n\r\n" not in found and (more := one.recv(65536)):
                found += more
        except (BrokenPipeError, ConnectionResetError):
            pass  # it hung up on us in the midst
        return found


@pytest.mark.parametrize(
    "endless",
    [
        [GET, b"X-Long: " + b"a" * (HEAD_BYTES + 1000)],
        [GET, *(b"X-%d: a\r\n" % n * 50 for n in range(HEAD_BYTES // 200))],
        [b"GET /" + b"a" * (HEAD_BYTES + 1000)],
    ],
)
def test_a_head_that_does_not_end_is_cut_off(service: Service, endless: list[bytes]) -> None:
    assert reply_to(service, *endless)[:12] in (b"HTTP/1.1 400", b"")
    assert reply_to(service, GET, b"\r\n").startswith(b"HTTP/1.1 200")


def test_many_requests_on_one_connection_are_no_long_head(service: Service) -> None:
    """Nor is a body that comes after its head."""
    head = b"POST /api/v1/experiments HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += b"Content-Type: application/json\r\n"
    body = b'{"model": "' + b"n" * 2000 + b'"}'
    message = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as one:
        for _ in range(2 * HEAD_BYTES // len(message)):
            one.sendall(message[:1000])
            one.sendall(message[1000:])
            found = b""
            while b"request_id" not in found:
                more = one.recv(65536)
                assert more, found
                found += more
            assert found.startswith(b"HTTP/1.1 404")


def test_a_reply_comes_in_one_piece(service: Service) -> None:
    """And one without a body comes too."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as one:
        one.sendall(GET + b"\r\n")
        head, _, body = one.recv(65536).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert json.loads(body)["status"] == "ok"
        one.sendall(GET.replace(b"GET", b"HEAD") + b"\r\n")
        assert one.recv(65536).startswith(b"HTTP/1.1 ")
        one.sendall(GET + b"Connection: close\r\n\r\n")
        found = b""
        while more := one.recv(65536):
            found += more
        assert found.endswith(body)
