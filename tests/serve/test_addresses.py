"""Where a vault is served, and by which names it may be asked for."""

from __future__ import annotations

import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest
from conftest import Make

from vaultmem.errors import RefusedError
from vaultmem.serve.http import HttpServer, ListenAddress, ServerAccess
from vaultmem.workers import Caller


def ask(port: int, host: str) -> int:
    """Return how a request is answered that names a host."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/", headers={"Host": host})
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize(
    "place",
    [
        ListenAddress(0, "0.0.0.0"),
        ListenAddress(0, "192.0.2.1"),
        ListenAddress(0, "vault.example", ("vault.example",)),
        ListenAddress(0, "0.0.0.0", ("*",)),
        ListenAddress(0, "0.0.0.0", ("vault.example/x",)),
    ],
)
def test_no_other_machine_is_let_in_unawares(place: ListenAddress, tmp_path: Path) -> None:
    with pytest.raises(RefusedError):
        HttpServer(place, ServerAccess("t" * 20, Caller("mcp"), tmp_path))


@pytest.mark.campaign
def test_who_listens_everywhere_answers_to_the_names_that_were_given(
    make_vault: Make,
) -> None:
    words = ["serve", "--port", "0", "--host", "0.0.0.0", "--name", "Vault.example"]
    words += ["--name", "proxy.example:443", "--vault", str(make_vault({"notes/a.md": "a\n"}))]
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "vaultmem", *words], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        page = next(line for line in process.stdout if line.startswith("page"))
        host = page.partition("http://")[2].partition("/")[0]
        port = int(host.rpartition(":")[2])
        assert host == f"vault.example:{port}"
        answered = [ask(port, f"{name}:{port}") for name in ("vault.example", "127.0.0.1")]
        assert [*answered, ask(port, "proxy.example:443")] == [401, 401, 401]
        assert ask(port, f"evil.example:{port}") == ask(port, f"0.0.0.0:{port}") == 421
        process.terminate()
