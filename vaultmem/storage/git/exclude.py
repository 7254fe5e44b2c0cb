"""The repository's own list of what git ignores, which is in no commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vaultmem.errors import VaultError
from vaultmem.storage.files import sync_folder

if TYPE_CHECKING:
    from vaultmem.storage.git.history import History


def find_not_ignored(history: History, lines: Sequence[str]) -> list[str]:
    """Return those of the lines (as in a .gitignore of the vault's folder) that have no effect.

    Git is asked about a path that each line means, so that any other way to ignore it counts.
    """
    samples = {line: _sample(line) for line in lines}
    ignored = history.ignored(list(samples.values()))
    return [line for line, sample in samples.items() if sample not in ignored]


def add_excludes(history: History, lines: Sequence[str]) -> list[str]:
    """Add lines (as in a .gitignore of the vault's folder) to the exclude file; return them.

    Raises:
        VaultError: the file is a link, or cannot be written.
    """
    file = history.git.work_tree / history.exclude_file()
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise VaultError(f"{file}: not a regular file, so nothing is added to it; remove it")
    prefix = _escape(history.prefix)
    try:
        text = file.read_bytes() if file.exists() else b""
        known = text.decode("utf-8", "surrogateescape").splitlines()
        wanted = [f"/{prefix}{line.lstrip('/')}" for line in lines]
        added = [line for line in wanted if line not in known]
        if added:
            file.parent.mkdir(exist_ok=True)
            gap = b"" if not text or text.endswith(b"\n") else b"\n"
            with open(file, "ab") as out:
                out.write(gap + "".join(f"{line}\n" for line in added).encode())
            sync_folder(file.parent)
    except OSError as error:
        raise VaultError(f"{file}: could not be written: {error.strerror}") from error
    return added


def name_file(path: str) -> str:
    """Return the line of a .gitignore that means this one file of the vault."""
    return f"/{_escape(path)}"


def _escape(path: str) -> str:
    return "".join(f"\\{mark}" if mark in "\\*?[" else mark for mark in path)


def _sample(line: str) -> str:
    """Return a path that a line means."""
    bare = line.lstrip("/").replace("\\", "").replace("*", "")
    return f"{bare}x" if bare.endswith("/") else bare
