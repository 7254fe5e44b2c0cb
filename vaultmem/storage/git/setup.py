"""What vaultmem writes into a repository's own settings: what git ignores, how it merges notes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from vaultmem.errors import MergeConflictError, VaultError
from vaultmem.storage.atomic import sync_folder
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


_NAME = "Merge notes property by property"


def install_driver(history: History) -> list[str]:
    """Set the merge driver and the attribute that names it; return what was added.

    Both are in the git folder and in no commit. Where vaultmem is gone, git's own merge of lines
    takes over.
    """
    added = []
    for key, value in (("name", _NAME), ("driver", name_driver())):
        if history.git.run("config", "--local", f"merge.vaultmem.{key}", check=False) != value:
            history.git.run("config", "--local", "--replace-all", f"merge.vaultmem.{key}", value)
            added.append(f"merge.vaultmem.{key}")
    line = f"{name_notes(history.prefix)} merge=vaultmem"
    path = history.git.run("rev-parse", "--git-path", "info/attributes")
    file = history.git.work_tree / path
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise VaultError(f"{file}: not a regular file, so nothing is added to it; remove it")
    text = file.read_text(encoding="utf-8", errors="surrogateescape") if file.exists() else ""
    if line not in text.splitlines():
        _append_line(file, text, line)
        added.append(line)
    return added


def name_driver() -> str:
    """Return the command by which git merges a note with vaultmem, else line by line."""
    python = shlex.quote(Path(sys.executable).as_posix())
    return (
        # -P: git runs this in the work tree, where a folder may be called `vaultmem`.
        f"{python} -P -m vaultmem merge-driver %O %A %B %P; code=$?; "
        f"case $code in 0|{MergeConflictError.exit_code}) exit $code;; esac; "
        "git merge-file -q %A %O %B || exit 1"
    )


def name_notes(prefix: str) -> str:
    """Return git's pattern of the notes below a folder ("" or "a/b/"), quoted if it has to be."""
    if not prefix:
        return "*.md"
    escaped = "".join(f"\\{mark}" if mark in "\\*?[!#" else mark for mark in prefix)
    plain = f"/{escaped}**/*.md"
    if not any(mark.isspace() or mark == '"' for mark in plain):
        return plain
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _append_line(file: Path, text: str, line: str) -> None:
    file.parent.mkdir(exist_ok=True)
    gap = "\n" if text and not text.endswith("\n") else ""
    with open(file, "a", encoding="utf-8", errors="surrogateescape", newline="\n") as out:
        out.write(f"{gap}{line}\n")
    sync_folder(file.parent)
