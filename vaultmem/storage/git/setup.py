"""The settings that vaultmem writes into a repository: ignored files and the merge driver."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from vaultmem.errors import MergeConflictError, VaultError
from vaultmem.storage.atomic import naming_failure, sync_folder, write_atomically
from vaultmem.storage.git.head import common_folder
from vaultmem.storage.git.vault_history import VaultHistory


def find_unignored(history: VaultHistory, lines: Sequence[str]) -> list[str]:
    """Return those of the lines (as in a .gitignore of the vault's folder) that have no effect.

    Git checks a sample path for each line, so any other way to ignore it counts.
    """
    samples = {line: _sample(line) for line in lines}
    ignored = history.ignored(list(samples.values()))
    return [line for line, sample in samples.items() if sample not in ignored]


def add_excludes(history: VaultHistory, lines: Sequence[str]) -> list[str]:
    """Add lines (as in a .gitignore of the vault's folder) to the exclude file; return them.

    Raises:
        VaultError: the file is a link, or cannot be written.
    """
    prefix = _escape(history.prefix)
    excludes = [f"/{prefix}{line.lstrip('/')}" for line in lines]
    return add_lines(history.git.work_tree / history.exclude_file(), excludes)


def format_file(path: str) -> str:
    """Return the .gitignore line for exactly this file of the vault."""
    return f"/{_escape(path)}"


#: Lines around the notes that are kept out of git because of a possible credential.
_EXCLUDES_START = "# vaultmem keeps these out of git: lines in them look like credentials"
_EXCLUDES_END = "# end of what vaultmem keeps out of git"


def read_kept_out(git_folder: Path, prefix: str = "") -> list[str]:
    """Return the paths of files below a folder ("" or "a/b/") that are kept out of git."""
    _, block, _ = _split_excludes(common_folder(git_folder) / "info/exclude")
    paths = (re.sub(r"\\(.)", r"\1", line).removeprefix("/") for line in block.splitlines())
    return [path.removeprefix(prefix) for path in paths if path.startswith(prefix)]


def change_kept_out(git_folder: Path, added: Iterable[str], dropped: Iterable[str]) -> None:
    """Keep files, by their paths in the work tree, out of git, and stop for others.

    The rest of the exclude file stays.

    Raises:
        VaultError: the file is a link, or cannot be written.
    """
    file = common_folder(git_folder) / "info/exclude"
    add_lines(file, [])
    before, block, suffix = _split_excludes(file)
    names = {*block.splitlines(), *map(format_file, added)} - {*map(format_file, dropped)}
    if names:
        block = "".join(f"{line}\n" for line in (_EXCLUDES_START, *sorted(names), _EXCLUDES_END))
        before += "\n" if before and not before.endswith("\n") else ""
    whole = f"{before}{block if names else ''}{suffix}"
    with naming_failure(file):
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, whole.encode("utf-8", "surrogateescape"), mode=0o644)


def _split_excludes(file: Path) -> tuple[str, str, str]:
    """Return an exclude file's text before vaultmem's block, the block, and the rest."""
    if file.is_symlink() or not file.is_file():
        return "", "", ""
    text = file.read_text(encoding="utf-8", errors="surrogateescape")
    before, _, rest = text.partition(f"{_EXCLUDES_START}\n")
    block, _, suffix = rest.partition(f"{_EXCLUDES_END}\n")
    return before, block, suffix


def _escape(path: str) -> str:
    escaped = "".join(f"\\{mark}" if mark in "\\*?[" else mark for mark in path)
    return f"{escaped[:-1]}\\ " if escaped.endswith(" ") else escaped


def _sample(line: str) -> str:
    """Return a path that a line matches."""
    bare = line.replace("\\", "").replace("*", "").lstrip("/")
    return f"{bare}x" if bare.endswith("/") else bare


def make_git_folder(folder: Path, history: VaultHistory) -> None:
    """Create a git folder for the objects of a repository, without user settings."""
    shallow = common_folder(history.git_folder) / "shallow"
    for name in ("objects", "refs", "info"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    (folder / "config").write_text("[core]\n\trepositoryFormatVersion = 0\n\tbare = false\n")
    if shallow.is_file():
        shutil.copyfile(shallow, folder / "shallow")


_NAME = "Merge notes property by property"


def install_driver(history: VaultHistory) -> list[str]:
    """Install the merge driver and its attribute; return the added settings.

    Both are in the git folder and in no commit. Without vaultmem, git merges by lines.
    """
    added_settings = []
    for key, value in (("name", _NAME), ("driver", build_driver_command())):
        command = history.git.run("config", "--local", f"merge.vaultmem.{key}", check=False)
        if command != value and not (key == "driver" and is_own_driver(command)):
            history.git.run("config", "--local", "--replace-all", f"merge.vaultmem.{key}", value)
            added_settings.append(f"merge.vaultmem.{key}")
    line = f"{choose_note_paths(history.prefix)} merge=vaultmem"
    path = history.git.run("rev-parse", "--git-path", "info/attributes")
    return added_settings + add_lines(history.git.work_tree / path, [line])


#: -P: git runs this in the work tree, which can have a folder called `vaultmem`.
_BEHIND_PYTHON = (
    " -P -m vaultmem merge-driver %O %A %B %P; code=$?; "
    f"case $code in 0|{MergeConflictError.exit_code}) exit $code;; esac; "
    "git merge-file -q %A %O %B || exit 1"
)


def build_driver_command() -> str:
    """Return the command that merges a note with vaultmem, or by lines if that fails."""
    return shlex.quote(Path(sys.executable).as_posix()) + _BEHIND_PYTHON


def is_own_driver(command: str) -> bool:
    """Return whether a command is the driver of this environment, under any name of its Python.

    A virtual environment is identified by its folders, so these are compared too: all environments
    can link to the same file.
    """
    python = command.removesuffix(_BEHIND_PYTHON)
    try:
        file, *rest = shlex.split(python)
        driver_python, own_python = Path(file), Path(sys.executable)
        pairs = zip(
            (driver_python, *driver_python.parents[:2]),
            (own_python, *own_python.parents[:2]),
            strict=True,
        )
        is_here = driver_python.is_absolute() and all(os.path.samefile(*pair) for pair in pairs)
    except (OSError, ValueError):  # No such file, or another command.
        return False
    return python != command and not rest and is_here


def choose_note_paths(prefix: str) -> str:
    """Return git's pattern of the notes below a folder ("" or "a/b/"), quoted if needed."""
    if not prefix:
        return "*.md"
    escaped = "".join(f"\\{mark}" if mark in "\\*?[!#" else mark for mark in prefix)
    plain = f"/{escaped}**/*.md"
    if not any(mark.isspace() or mark == '"' for mark in plain):
        return plain
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def add_lines(file: Path, lines: Sequence[str]) -> list[str]:
    """Append those of the lines that a file lacks; return them."""
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise VaultError(f"{file}: not a regular file, so nothing is added to it; remove it")
    with naming_failure(file):
        text = file.read_bytes() if file.exists() else b""
        existing_lines = text.decode("utf-8", "surrogateescape").splitlines()
        new_lines = [line for line in lines if line not in existing_lines]
        if new_lines:
            file.parent.mkdir(exist_ok=True)
            gap = b"" if not text or text.endswith(b"\n") else b"\n"
            with open(file, "ab") as out:
                fresh = "".join(f"{line}\n" for line in new_lines)
                out.write(gap + fresh.encode("utf-8", "surrogateescape"))
                out.flush()
                os.fsync(out.fileno())
            sync_folder(file.parent)
    return new_lines
