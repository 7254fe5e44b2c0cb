"""The process that reads for a server: it comes and goes with it, and nobody depends on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from serving import call, play_stdio, refused
from support import wait_until

Make = Callable[..., Path]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")

NOTES = {"notes/pier.md": "# Pier\n\nThe pier is of oak.\n"}

#: Asks a reading process for what must not end it, nor leave its line with half a message.
_SCRIPT = """
import sys
from functools import partial
from pathlib import Path
from vaultmem.errors import NoteNotFoundError
from vaultmem.mcp_server.reader import ReaderEndedError, start_reader
from vaultmem.mcp_server.served import Served, settle

def find_nothing(vault):
    raise NoteNotFoundError("there is none")

def divide(by, vault):
    return 1 / by

def open_a_file(vault):
    return open("/dev/null")

def count(vault):
    return vault.view.totals()[0]

reader = start_reader(Served(Path(sys.argv[1]), "claude"))

def fails(work):
    try:
        reader.run(work, "")
    except Exception as error:
        return error

error = fails(find_nothing)
assert type(error) is NoteNotFoundError and str(error) == "there is none"
assert type(fails(partial(divide, 0))) is RuntimeError
assert "ZeroDivisionError" in str(fails(partial(divide, 0)))
assert "cannot pickle" in str(fails(open_a_file))
assert fails(lambda vault: None) is not None
assert reader.run(count, "") > 0
assert start_reader(Served(Path(sys.argv[1]), "claude")) is None, "a thread runs"
reader.close()
assert type(fails(settle)) is ReaderEndedError
reader.close()
"""


def _children(pid: int) -> list[int]:
    told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(each) for each in told.split()]


def _server(root: Path) -> int:
    """Return the server of a vault that this process started."""
    tasks = Path("/proc/self/task").glob("*/children")
    running = [int(pid) for task in tasks for pid in task.read_text().split()]
    words = {pid: Path(f"/proc/{pid}/cmdline").read_text().split("\0") for pid in running}
    return next(pid for pid in running if str(root) in words[pid])


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _ask(process: subprocess.Popen[str], text: str) -> str:
    process.stdin.write(text + "\n")
    process.stdin.flush()
    return process.stdout.readline()


_HELLO = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    '"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}'
)


def test_a_server_outlives_the_process_that_reads(make_vault: Make) -> None:
    root = make_vault(NOTES)

    async def scene(client: Client) -> tuple[int, int]:
        server = _server(root)
        (reader,) = _children(server)
        assert (await call(client, "recall", query="pier"))["hits"]
        os.kill(reader, signal.SIGKILL)
        assert (await call(client, "recall", query="oak"))["hits"]
        assert (await call(client, "recall", query="pier oak"))["hits"]
        assert "no such note" in await refused(client, "read_note", path="notes/none.md")
        assert _children(server) == []
        return server, reader

    server, reader = play_stdio(root, scene)
    assert _is_gone(server)
    assert _is_gone(reader)


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("close", {0}),
        ("close and SIGTERM", {0, 143, -15}),
        (signal.SIGKILL, {-9}),
        (signal.SIGTERM, {143}),
        (signal.SIGINT, {130}),
    ],
)
def test_nothing_is_left_of_a_server(make_vault: Make, ending: Any, code: set[int]) -> None:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-P", "-m", "vaultmem", "mcp", "--vault", str(make_vault(NOTES))]
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as process:
        assert "serverInfo" in _ask(process, _HELLO)
        (reader,) = _children(process.pid)
        if ending == "close":
            process.stdin.close()
        elif ending == "close and SIGTERM":
            process.send_signal(signal.SIGTERM)
            process.stdin.close()
        elif ending == signal.SIGINT:  # As a terminal sends it: to all of them.
            os.killpg(process.pid, ending)
        else:
            process.send_signal(ending)
        assert process.wait(20) in code
        wait_until(lambda: _is_gone(reader))
        assert process.stderr.read() == ""


def test_what_goes_wrong_is_told_and_ends_nothing(make_vault: Make, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)

    done = subprocess.run(
        [sys.executable, str(script), str(make_vault(NOTES))], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
