"""Tell a repository, in its own configuration, to merge notes with vaultmem."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from vaultmem.errors import MergeConflictError, VaultError
from vaultmem.storage.files import sync_folder
from vaultmem.storage.git.history import History

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
