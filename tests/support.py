"""What tests do to a vault from outside: as an editor, as git, as somebody who looks."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from vaultmem.core.notes.note import Note, parse_note
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault


def write_notes(root: Path, notes: Mapping[str, str | bytes]) -> None:
    """Write files as an editor would, folders included."""
    for path, text in notes.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)


def git(root: Path, *arguments: str, check: bool = True, stdin: str | None = None) -> str:
    """Run git as the person would and return its output."""
    done = subprocess.run(
        ["git", *arguments], cwd=root, input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 or not check, f"git {arguments}: {done.stderr}"
    return done.stdout.removesuffix("\n")


def lock_git(root: Path, name: str = "index.lock", at: float = 0.0) -> Path:
    """Lock a file of git's as another git that has been at work since then, or for a minute."""
    file = root / ".git" / name
    file.write_text("theirs")
    at = at or time.time() - 60
    os.utime(file, (at, at))
    return file


def hash_tree(root: Path, skip: tuple[str, ...] = ()) -> dict[str, str]:
    """Return a digest of every file below a folder, with its mode; names in `skip` left out."""
    found = {}
    for file in sorted(root.rglob("*")):
        name = file.relative_to(root).as_posix()
        if name.split("/")[0] in skip or file.is_dir():
            continue
        mode = file.lstat().st_mode
        data = os.readlink(file).encode() if file.is_symlink() else file.read_bytes()
        found[name] = f"{mode:o} {hashlib.sha256(data).hexdigest()}"
    return found


def wait_until(condition: Callable[[], Any], seconds: float = 20) -> Any:
    """Return the condition's first true value; fail after `seconds`."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
    return value


@contextmanager
def held_by_thread(hold: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Hold a lock or lease in another thread for the time of a `with`."""
    done, held = threading.Event(), threading.Event()

    def run() -> None:
        with hold():
            held.set()
            done.wait(60)

    thread = threading.Thread(target=run)
    thread.start()
    assert held.wait(20)
    try:
        yield
    finally:
        done.set()
        thread.join()


def synced(vault: Vault) -> Vault:
    """Return the vault, in sync."""
    sync_vault(vault)
    return vault


def note_at(root: Path, path: str) -> Note:
    """Return a note as it is on disk."""
    return parse_note(PurePosixPath(path), (root / path).read_bytes())


def read_property(root: Path, path: str, name: str) -> object:
    """Return the value of a note's property, None if there is none."""
    prop = note_at(root, path).frontmatter.get(name)
    return prop and prop.value
