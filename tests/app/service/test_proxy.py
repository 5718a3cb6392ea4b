"""docs/service.md's nginx in front of a service."""

import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import free_port

from aline.app.service.tokens import new_token
from aline.experiment.storage import MemoryStorage

DOCS = Path(__file__).parents[3] / "docs" / "service.md"
API = "/api/v1/experiments"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = pytest.mark.skipif(
    NGINX is None, reason="nginx is not installed: apt-get install nginx"
)


def own_address() -> str:
    """This machine's address for others: who connects to it does not come from loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(one.getsockname()[0])


def make_certificate(folder: Path) -> None:
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=lab.example"
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "pem")]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)


def configuration(folder: Path, port: int, service: int) -> str:
    (block,) = re.findall(r"```nginx\n(.*?)```", DOCS.read_text(), re.DOTALL)
    for documented, used in {
        "listen 443": f"listen {port}",
        "/etc/ssl/lab.example.pem": str(folder / "pem"),
        "/etc/ssl/lab.example.key": str(folder / "key"),
        "127.0.0.1:8000": f"127.0.0.1:{service}",
    }.items():
        assert documented in block
        block = block.replace(documented, used)
    temporary = "\n".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        f"daemon off; pid {folder}/pid; error_log {folder}/log;\nevents {{}}\n"
        f"http {{ access_log off;\n{temporary}\n{block}\n}}\n"
    )


class Proxy:
    """nginx before a service, and calls through it."""

    def __init__(self, folder: Path, service: int):
        self.address, self.port = own_address(), free_port()
        self._opened: list[http.client.HTTPSConnection] = []
        make_certificate(folder)
        (folder / "nginx.conf").write_text(configuration(folder, self.port, service))
        assert NGINX is not None
        self._process = subprocess.Popen(
            [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "log")]
        )
        deadline = time.monotonic() + 10
        while not self._answers():
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.02)

    def _answers(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex((self.address, self.port)) == 0

    def open(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        context = ssl._create_unverified_context()
        one = http.client.HTTPSConnection(self.address, self.port, timeout=10, context=context)
        self._opened.append(one)
        kind = {} if body is None else {"Content-Type": "application/json"}
        content = body if isinstance(body, str | None) else json.dumps(body)
        one.request(method, path, content, {"Host": "lab.example", **kind, **headers})
        return one.getresponse()

    def stop(self) -> None:
        for one in self._opened:
            one.close()
        self._process.terminate()
        self._process.wait(10)


@pytest.fixture
def setting(serve_here: Callable[..., Any], tmp_path: Path) -> Iterator[tuple[Proxy, str]]:
    storage = MemoryStorage()
    token = new_token(storage, "tablet")
    server = serve_here(storage, origins=("https://lab.example",))
    proxy = Proxy(tmp_path, server.port)
    yield proxy, token
    proxy.stop()


def test_through_nginx(setting: tuple[Proxy, str]) -> None:
    proxy, token = setting
    known = {"Authorization": f"Bearer {token}"}
    assert proxy.open("GET", API).status == 401  # it was 200
    assert proxy.open("GET", API, **{"X-Forwarded-For": "127.0.0.1"}).status == 401
    assert proxy.open("GET", API, **known).status == 200

    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://lab.example"}
    entered = proxy.open("POST", "/login", f"token={token}", **form)
    assert entered.status == 303
    cookie = entered.headers["set-cookie"]
    assert {"Secure", "HttpOnly"} <= set(cookie.split("; "))

    page = {"Cookie": cookie.split(";")[0], "Origin": "https://lab.example"}
    page["Sec-Fetch-Site"] = "same-origin"
    new = {"model": "psychometric", "name": "a"}
    assert proxy.open("POST", API, new, **page).status == 201
    elsewhere = {**page, "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert proxy.open("POST", f"{API}/a/ask", **elsewhere).status == 403

    stream = proxy.open("GET", f"{API}/a/events", **page)
    assert stream.readline() == b"id: 1\n"
    assert proxy.open("POST", f"{API}/a/ask", **page).status == 201
    lines = iter(stream.readline, b"")
    assert next(line for line in lines if line.startswith(b"id:")) == b"id: 2\n"  # at once
    stream.close()
