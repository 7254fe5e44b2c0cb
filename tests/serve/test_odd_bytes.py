"""Requests that are cut off, malformed or too much: each has a short answer, and no traceback."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from serving import is_served
from support import wait_until

pytest.importorskip("starlette")
pytest.importorskip("mcp")

pytestmark = pytest.mark.campaign


class Served(NamedTuple):
    """A vault that is served by a process of its own, which writes into a log."""

    port: int
    token: str
    log: Path

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 20)

    def write_head(self, line: str, *headers: str) -> bytes:
        host = f"Host: 127.0.0.1:{self.port}"
        known = (f"Authorization: Bearer {self.token}", "Connection: close")
        return "\r\n".join([f"{line} HTTP/1.1", host, *known, *headers, "", ""]).encode()

    def ask(self, sent: bytes) -> tuple[int, str, str]:
        """Return the status of an answer, its headers and its body."""
        with self.connect() as wire:
            wire.sendall(sent)
            told = b"".join(iter(lambda: wire.recv(65_536), b"")).decode()
        head, _, body = told.partition("\r\n\r\n")
        return int(head.split()[1]), head.casefold(), body


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    root, token, log = folder / "vault", folder / "token", folder / "log"
    command = [sys.executable, "-P", "-m", "vaultmem"]
    subprocess.run([*command, "init", str(root)], check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ("serve", "--vault", str(root), "--port", str(port), "--token-file", str(token))
    with open(log, "w") as errors, subprocess.Popen([*command, *words], stderr=errors) as process:
        try:
            wait_until(lambda: token.exists() and is_served(port), 40)
            yield Served(port, token.read_text().strip(), log)
        finally:
            process.terminate()


_FORM = "Content-Type: application/x-www-form-urlencoded"
_JSON = "Content-Type: application/json"


@pytest.mark.parametrize(
    ("place", "kind"),
    [("/review", _FORM), ("/api/v1/notes", _JSON), ("/mcp", _JSON)],
)
def test_a_client_that_goes_within_its_body_leaves_no_traceback(
    served: Served, place: str, kind: str
) -> None:
    accept = "Accept: application/json, text/event-stream"
    before = len(served.log.read_text().splitlines())
    for _ in range(3):
        with served.connect() as gone:
            gone.sendall(served.write_head(f"POST {place}", kind, accept, "Content-Length: 90"))
            gone.sendall(b'{"text": ')
    for _ in range(3):  # By then the others were noticed.
        assert served.ask(served.write_head("GET /api/v1/notes"))[0] == 200
    assert len(served.log.read_text().splitlines()) <= before + 3


def test_a_form_of_many_fields_is_refused(served: Served) -> None:
    body = "&".join(f"field{number}=x" for number in range(300)).encode()
    head = served.write_head("POST /review", _FORM, f"Content-Length: {len(body)}")
    status, headers, told = served.ask(head + body)
    assert (status, "application/problem+json" in headers) == (400, True)
    assert "more than 200 fields" in json.loads(told)["detail"]
    assert "Traceback" not in served.log.read_text()


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        (("Content-Length: 5", "Transfer-Encoding: chunked"), "are both given"),
        (("Transfer-Encoding: chunked", "content-length: 5"), "are both given"),
        (("X-Long: a\r\n b",), "folded over two lines"),
        (("X-Long: a\n\tb",), "folded over two lines"),
        (("Content-Length: 5\r\n 5",), "folded over two lines"),
        (("No colon here",), "Invalid HTTP request"),
    ],
)
def test_what_proxies_may_read_otherwise_is_refused(
    served: Served, headers: tuple[str, ...], why: str
) -> None:
    sent = served.write_head("POST /api/v1/notes", _JSON, *headers) + b"5\r\nhello\r\n0\r\n\r\n"
    status, head, told = served.ask(sent)
    assert (status, "application/problem+json" in head) == (400, True)
    problem = json.loads(told)
    assert (problem["status"], problem["title"]) == (400, "Bad Request")
    assert why in problem["detail"]


def test_a_second_request_of_a_connection_is_read_as_strictly(served: Served) -> None:
    first = served.write_head("GET /api/v1/notes").replace(b"Connection: close\r\n", b"")
    sent = first + served.write_head("GET /api/v1/status", "X-Long: a\r\n b")
    with served.connect() as wire:
        wire.sendall(sent)
        told = b"".join(iter(lambda: wire.recv(65_536), b""))
    assert told.count(b"HTTP/1.1 200") == 1
    assert told.count(b"HTTP/1.1 400") == 1


def test_a_body_that_ends_in_no_chunk_has_no_traceback(served: Served) -> None:
    head = served.write_head("POST /api/v1/notes", _JSON, "Transfer-Encoding: chunked")
    status, _, _ = served.ask(head + b"5\r\nhello\r\nno chunk\r\n\r\n")
    assert status == 400
    assert served.ask(served.write_head("GET /api/v1/notes"))[0] == 200
    assert "Traceback" not in served.log.read_text()


def test_notes_stay_on_no_disk_of_a_browser(served: Served) -> None:
    status, head, told = served.ask(served.write_head("GET /api/v1/notes/MEMORY.md"))
    assert (status, "cache-control: no-store" in head) == (200, True)
    known = f'If-None-Match: "{json.loads(told)["blob"]}"'
    status, head, told = served.ask(served.write_head("GET /api/v1/notes/MEMORY.md", known))
    assert (status, "cache-control: no-store" in head, told) == (304, True, "")
