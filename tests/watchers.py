"""A watched vault in tests: the loop in a thread, or `vaultmem watch` as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support import wait_until

from vaultmem.core.search.query import parse_query
from vaultmem.environment import open_named_vault
from vaultmem.services.search.recall import recall
from vaultmem.services.views.update_index import mark_in_sync, sync_vault
from vaultmem.services.watching.watch import WatchEvent, WatchLoop
from vaultmem.storage.user_files import find_user_folder
from vaultmem.storage.watch_socket import ask_watcher, socket_path
from vaultmem.vault import Vault, find_user_folders, open_vault


@contextmanager
def watched(root: Path) -> Iterator[tuple[WatchLoop, list[WatchEvent]]]:
    """Watch a vault in a thread for the time of a `with`; what it tells is in the list."""
    told: list[WatchEvent] = []
    loops: list[WatchLoop] = []
    ready = threading.Event()

    def run() -> None:
        vault = open_named_vault(root)
        loops.append(WatchLoop(vault, told.append))
        ready.set()
        loops[0].run()
        vault.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(20)
    try:
        wait_until(lambda: loops[0].is_watching)
        yield loops[0], told
    finally:
        loops[0].stop()
        thread.join(60)
        assert not thread.is_alive()


@contextmanager
def watch_process(root: Path) -> Iterator[subprocess.Popen[str]]:
    """Run `vaultmem watch` until the end of a `with`; it answers when it is given."""
    process = subprocess.Popen(
        [sys.executable, "-m", "vaultmem", "watch", "--json", "--vault", str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        socket = find_socket(root)
        wait_until(lambda: process.poll() is not None or os.path.exists(socket), 60)
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def stopped(root: Path, lock: str = "lock") -> Iterator[int]:
    """Have a process stand still that holds a lock of the vault, for the time of a `with`."""
    vault = open_vault(root)
    script = "import fcntl, sys\nfile = open(sys.argv[1], 'a')\nfcntl.flock(file, fcntl.LOCK_EX)\n"
    script += "print('held', flush=True)\nsys.stdin.read()\n"
    command = [sys.executable, "-c", script, str(vault.state_folder / lock)]
    with subprocess.Popen(command, stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        process.send_signal(signal.SIGSTOP)
        try:
            yield process.pid
        finally:
            process.kill()
            vault.close()


def find_socket(root: Path) -> str:
    """Return where the watcher of a vault listens."""
    return socket_path(str(root), find_user_folder("state", os.environ))


def ask(root: Path, version: str, words: Sequence[str]) -> tuple[int, bytes, bytes] | None:
    """Return what the watcher of a vault answers."""
    return ask_watcher(find_socket(root), str(root), version, words)


def found(root: Path, query: str) -> list[str]:
    """Return the paths that the index holds by now, without looking at the folder."""
    vault = open_vault(root)
    mark_in_sync(vault)
    try:
        return [hit.record.path for hit in recall(vault, parse_query(query))]
    finally:
        vault.close()


def documents(vault: Vault) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Return what a vault's database and index hold of each note, by path."""
    numbers = set(vault.index.documents())
    records = vault.view.records()
    sections = vault.view.sections_of([record.document for record in records])
    headings: dict[int, list[str]] = {}
    for (document, _), section in sorted(sections.items()):
        headings.setdefault(document, []).append(f"{section.heading}@{section.line}")
    return {
        record.path: (record.blob, record.title, tuple(headings.get(record.document, ())))
        for record in records
        if record.document in numbers or record.document not in headings
    }


def held_now(root: Path) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Return what the vault's index holds, without looking at the folder."""
    vault = open_vault(root)
    try:
        return documents(vault)
    finally:
        vault.close()


def held_by_fresh_index(root: Path, state: Path) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Return what an index made from nothing, in a state folder of its own, would hold."""
    vault = open_vault(root, folders=find_user_folders({})._replace(state=state))
    try:
        sync_vault(vault)
        return documents(vault)
    finally:
        vault.close()


def shell(root: Path, script: str) -> None:
    """Run a script in a folder; each of its commands has to work."""
    subprocess.run(["sh", "-ec", script], cwd=root, check=True, capture_output=True)
