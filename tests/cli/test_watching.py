"""`vaultmem watch` as a process, and the answers that other processes get from it."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import RunCli
from support import git, wait_until, write_notes

from vaultmem.cli.start import socket_path
from vaultmem.vault import open_vault

Make = Callable[..., Path]
Start = Callable[[Path], "subprocess.Popen[str]"]

NOTES = {
    "notes/gangway.md": (
        "---\nkind: decision\ntags: [deck]\n---\n# Gangway\n\nIt is blue.\n\n## Why\n\nTide.\n"
    ),
    "notes/渡し船.md": "# 渡し船\n\n渡し船は朝七時に出る。\n",
    "notes/old.md": "---\nstate: archived\n---\n# Old\n\nThe gangway was red.\n",
    "notes/latin.md": b"# Latin\n\n\xe9\n",
    "notes/pinned.md": "---\npinned: true\n---\n# Pinned\n\nRing the bell.\n",
}


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Return a function that starts a watcher and waits until it answers."""
    running: list[subprocess.Popen[str]] = []

    def begin(root: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "vaultmem", "watch", "--json", "--vault", str(root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        wait_until(lambda: process.poll() is not None or os.path.exists(socket_path(str(root))))
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def test_socket_is_where_the_vault_has_its_state(make_vault: Make) -> None:
    vault = open_vault(make_vault())
    assert socket_path(str(vault.root)) == str(vault.state_folder / "watch.sock")
    vault.close()


def test_answers_are_those_of_a_process_of_its_own(
    make_vault: Make, start: Start, run_cli: RunCli
) -> None:
    root = make_vault(NOTES)
    git(root, "branch", "side")
    start(root)
    chance = random.Random(11)
    words = ["gangway", "tide", "渡し船", "bell", "red", "", "x" * 1200, "a\nb", "nothing9"]
    options = [
        *(["--json"], ["-n", "2"], ["--explain"], ["--kind", "decision"], ["--kind", "nope"]),
        *(["--include-archived"], ["--at", "HEAD"], ["--ref", "side"], ["--include-refs", "side"]),
        *(["--budget", "200"], ["--budget", "x"], ["--tag", "deck"], ["--no-such"], ["--at", "-x"]),
    ]
    addresses = [
        "gangway",
        "notes/gangway.md#Why",
        "nope",
        "../x",
        "latin",
        "渡し船",
        ".git/config",
    ]
    for _ in range(40):
        command = chance.choice(["recall", "pack", "get", "list"])
        chosen = chance.sample(options, chance.randrange(3))
        line = [command, *(word for option in chosen for word in option)]
        if command in {"recall", "pack"}:
            line.append(chance.choice(words))
        if command == "get":
            line.append(chance.choice(addresses))
        env = {"VAULTMEM_RECEIPTS": ""}
        warm = run_cli(*line, cwd=root, env=env)
        cold = run_cli(*line, cwd=root, env={**env, "VAULTMEM_NO_WATCHER": "1"})
        assert (warm.code, warm.out, warm.err) == (cold.code, cold.out, cold.err), line


def test_asking_loads_none_of_the_heavy_libraries(make_vault: Make, start: Start) -> None:
    root = make_vault(NOTES)
    start(root)
    program = (
        "import sys; sys.argv = ['vaultmem', 'recall', 'gangway']\n"
        "from vaultmem.cli.start import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code)\n"
        "heavy = {'typer', 'whoosh', 'numpy', 'git', 'yaml', 'sqlite3'} & sys.modules.keys()\n"
        "print('heavy:', sorted(heavy))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert "Gangway" in done.stdout
    assert done.stdout.endswith("0\nheavy: []\n")


def test_a_save_is_found_by_the_very_next_command(
    make_vault: Make, start: Start, run_cli: RunCli
) -> None:
    root = make_vault(NOTES)
    start(root)
    for number in range(5):
        done = run_cli("remember", f"okapi{number} on deck", "--json", cwd=root).json
        found = run_cli("recall", f"okapi{number}", "--json", cwd=root).json
        assert [hit["path"] for hit in found["hits"]] == [done["path"]]
    write_notes(root, {"notes/late.md": "# Late\n\nquagga\n"})
    wait_until(lambda: run_cli("recall", "quagga", "--json", cwd=root).json["hits"], 10)


def test_a_second_watcher_says_who_is_there(
    make_vault: Make, start: Start, run_cli: RunCli
) -> None:
    root = make_vault(NOTES)
    first = start(root)
    second = run_cli("watch", cwd=root)
    assert second.code == 1
    assert f"watched already by process {first.pid}" in second.err
    assert run_cli("watch", "--status", "--json", cwd=root).json["watcher"]["pid"] == first.pid
    stopped = run_cli("watch", "--stop", cwd=root)
    assert stopped.out == f"Process {first.pid} has ended.\n"
    assert first.wait(20) == 0
    assert run_cli("watch", "--status", cwd=root).code == 1
    assert run_cli("recall", "gangway", cwd=root).code == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_end_takes_in_what_is_pending(
    make_vault: Make, start: Start, how: signal.Signals
) -> None:
    root = make_vault(NOTES)
    process = start(root)
    write_notes(root, {"notes/last.md": "# Last\n\nquagga\n"})
    process.send_signal(how)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert [json.loads(line)["what"] for line in out.splitlines()]
    vault = open_vault(root)
    assert "notes/last.md" in vault.view.blobs()
    vault.close()
    assert not os.path.exists(socket_path(str(root)))


def test_a_daemon_goes_on_alone(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault(NOTES)
    begun = run_cli("watch", "--daemon", "--json", cwd=root).json
    try:
        assert run_cli("watch", "--status", cwd=root).code == 0
        write_notes(root, {"notes/late.md": "# Late\n\nquagga\n"})
        wait_until(lambda: "quagga" in run_cli("recall", "quagga", cwd=root).out, 10)
        assert (root / "CONTEXT.md").exists()
    finally:
        assert run_cli("watch", "--stop", "--json", cwd=root).json["stopped"]
    assert Path(begun["log"]).read_text(encoding="utf-8")


def test_a_killed_watcher_costs_nothing_but_time(
    make_vault: Make, start: Start, run_cli: RunCli
) -> None:
    root = make_vault(NOTES)
    process = start(root)
    expected = run_cli("recall", "gangway", cwd=root).out
    process.kill()
    process.wait()
    assert run_cli("recall", "gangway", cwd=root).out == expected
    for answer in (
        b"",
        b"{",
        b'{"code": 0, "sizes": [100, 0]}\nhalf',
        b'{"code": null, "sizes": []}\n',
    ):
        with fake_watcher(root, answer):
            assert run_cli("recall", "gangway", cwd=root).out == expected
    second = start(root)
    wait_until(lambda: run_cli("watch", "--status", cwd=root).code == 0)
    assert run_cli("recall", "gangway", cwd=root).out == expected
    assert second.poll() is None


class fake_watcher:  # noqa: N801
    """Answers each caller with the same bytes and hangs up."""

    def __init__(self, root: Path, answer: bytes) -> None:
        self._path = socket_path(str(root))
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> None:
        Path(self._path).unlink(missing_ok=True)
        folder = os.open(os.path.dirname(self._path), os.O_RDONLY)
        self._socket.bind(f"/proc/self/fd/{folder}/watch.sock")
        os.close(folder)
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(65_536)
                connection.sendall(self._answer)

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        Path(self._path).unlink(missing_ok=True)


def test_what_is_no_question_gets_no_answer(
    make_vault: Make, start: Start, run_cli: RunCli
) -> None:
    root = make_vault(NOTES)
    start(root)
    path = socket_path(str(root))
    good = {
        "version": "0.0.0",
        "root": str(root),
        "name": "vaultmem",
        "arguments": ["recall", "gangway"],
        "environment": {},
        "terminal": [False, False],
    }
    for question in (b"x\n", b"[]\n", b"{}\n", json.dumps(good).encode() + b"\n", b"y" * 70_000):
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(10)
            connection.connect(f"/proc/self/fd/{folder}/watch.sock")
            with_error = False
            try:
                connection.sendall(question)
                assert connection.makefile("rb").readline() in {
                    b'{"code": null, "sizes": [0, 0]}\n',
                    b"",
                }
            except (BrokenPipeError, ConnectionResetError):
                with_error = True
            assert not with_error or len(question) > 65_536
        os.close(folder)
    assert oct(os.stat(path).st_mode & 0o777) == "0o600"
    assert "Gangway" in run_cli("recall", "gangway", cwd=root).out


def test_a_unit_starts_this_python_on_this_vault(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault(NOTES)
    unit = run_cli("watch", "--unit", cwd=root).out
    assert f'"{sys.executable}" "-P" "-m" "vaultmem" "watch"' in unit
    assert f'"{root}"' in unit
    assert "WantedBy=default.target" in unit
