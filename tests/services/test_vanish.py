"""A note that somebody removes or exchanges in the midst of any command.

Each command runs once for every time that it touches the note's file, and just before that touch
the file is gone, or another. The command then works, or says what is wrong; no bytes are lost.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Make, Result
from in_process import run_here
from support import git

from vaultmem.storage import atomic

NOTE = "notes/vim.md"
NOTES = {
    NOTE: "---\ntype: fact\nstatus: candidate\ntags: [editor]\n---\n# Vim\n\nThe editor is vim.\n",
    "notes/other.md": "# Other\n\nSee [[vim]].\n",
}
EDITED = NOTES[NOTE] + "Edited by hand.\n"
FOREIGN = "# Vim\n\nSaved in the midst.\n"

#: Functions of `os` by which files are looked at, read and moved.
TOUCHES = ("stat", "lstat", "open", "rename", "replace", "link", "unlink", "readlink")

#: Commands that the campaigns disturb as well, and those that the long suite alone does.
COMMANDS = [
    *(("index",), ("checkpoint", "now"), ("status",), ("doctor",), ("diff",), ("merge", "side")),
    *(("recall", "editor"), ("pack", "editor"), ("context",), ("show", NOTE), ("switch", "side")),
    *(("pin", NOTE), ("tag", NOTE, "new"), ("promote", NOTE), ("forget", NOTE)),
    *(("state", NOTE, "archived"), ("state", NOTE, "quarantined", "--reason", "no")),
    *(("restore", NOTE, "--at", "HEAD"), ("supersede", NOTE, "notes/other.md")),
    *(("mv", NOTE, "notes/emacs.md"), ("mv", "notes/other.md", "notes/more.md")),
    ("remember", "--title", "Vim", "The editor is vim.\nEdited by hand."),
]
MORE = [
    *(("list",), ("why", "vim"), ("links", "--orphans"), ("links", NOTE), ("links", "--to", NOTE)),
    *(("blame", NOTE), ("history", NOTE), ("similar", NOTE), ("dedup",), ("curate",)),
    ("compact",),
]

#: The exit code of a command line that is wrong.
USAGE = 2

_rename, _open = os.rename, io.open


def remove(file: Path) -> None:
    file.unlink(missing_ok=True)


def save(file: Path) -> None:
    """Save as most editors do: another file takes the name."""
    spare = file.with_name(".vim.md.swp")
    spare.write_text(FOREIGN)
    _rename(spare, file)


def make_folder(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.mkdir()
    (file / "inside.md").write_text(FOREIGN)


def make_link(file: Path) -> None:
    outside = file.parents[2] / "outside.md"
    outside.write_text(FOREIGN)
    file.unlink(missing_ok=True)
    file.symlink_to(outside)


def make_new(make_vault: Make, name: str) -> Path:
    """Make a vault whose note is in no commit."""
    root = make_vault({"notes/other.md": NOTES["notes/other.md"]}, name)
    git(root, "branch", "side")
    (root / NOTE).write_text(EDITED)
    return root


def make_edited(make_vault: Make, name: str) -> Path:
    """Make a vault whose note was committed, and edited since."""
    root = make_vault(NOTES, name)
    git(root, "branch", "side")
    (root / NOTE).write_text(EDITED)
    return root


def make_clean(make_vault: Make, name: str) -> Path:
    """Make a vault whose note is committed, and another on the branch beside."""
    root = make_vault(NOTES, name)
    git(root, "checkout", "-q", "-b", "side")
    (root / NOTE).write_text(EDITED)
    git(root, "commit", "-q", "-am", "edited")
    git(root, "checkout", "-q", "main")
    return root


class Touched:
    """Counts how often a file is touched; just before the touch numbered `at` comes the act."""

    def __init__(self, file: Path, at: int, act: Callable[[Path], None]) -> None:
        self._file, self._at, self._act = file, at, act
        self._is_acting = False
        self.count = 0

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        for name in TOUCHES:
            patch.setattr(os, name, self._wrap(getattr(os, name)))
        patch.setattr(io, "open", self._wrap(_open))
        patch.setattr(atomic, "_exchange", self._wrap(atomic._exchange))

    def _wrap(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def touch(*given: Any, **named: Any) -> Any:
            if not self._is_acting and any(self._is_named(word) for word in given[:2]):
                self._count()
            return real(*given, **named)

        return touch

    def _is_named(self, word: object) -> bool:
        return (
            isinstance(word, str | bytes | os.PathLike)
            and os.path.basename(os.fsdecode(word)) == self._file.name
        )

    def _count(self) -> None:
        self.count += 1
        if self.count == self._at:
            self._is_acting = True
            self._act(self._file)
            self._is_acting = False


def run_at_each_touch(
    make_vault: Make,
    make: Callable[[Make, str], Path],
    command: tuple[str, ...],
    act: Callable[[Path], None],
) -> Iterator[tuple[Path, Result]]:
    """Yield vault and result of a command for each of its touches that `act` came before."""
    at = 1
    while True:
        root = make(make_vault, f"vault{at}")
        touched = Touched(root / NOTE, at, act)
        with pytest.MonkeyPatch.context() as patch:
            touched.watch(patch)
            done = run_here("--vault", root, "--agent", "claude", *command)
        assert done.code != USAGE, done.err
        if touched.count < at:
            return
        yield root, done
        at += 1


def is_kept(root: Path) -> bool:
    """Tell whether what was saved in the midst is a visible file, or in a commit."""
    files = [file for file in root.rglob("*") if file.is_file()]
    visible = (f for f in files if not any(p.startswith(".") for p in f.relative_to(root).parts))
    return any(file.read_text() == FOREIGN for file in visible) or (
        "+Saved in the midst." in git(root, "log", "--all", "-p", "-m")
    )


def _is_short(command: tuple[str, ...], make: object, act: object) -> bool:
    if (make, act) == (make_new, remove):
        return command in COMMANDS
    return (make, act) == (make_clean, make_folder) and command[0] in {"pin", "forget", "switch"}


def _cases() -> Iterator[Any]:
    """Give every command, on each vault, with each act; the long suite alone runs most."""
    for command in COMMANDS + MORE:
        for make in (make_new, make_edited, make_clean):
            for act in (remove, save, make_folder, make_link):
                marks = pytest.mark.campaign if _is_short(command, make, act) else pytest.mark.long
                name = f"{' '.join(command)}-{make.__name__}-{act.__name__}"
                yield pytest.param(command, make, act, id=name, marks=marks)


@pytest.mark.parametrize(("command", "make", "act"), [*_cases()])
def test_a_note_that_changes_in_the_midst_of_a_command(
    make_vault: Make,
    command: tuple[str, ...],
    make: Callable[[Make, str], Path],
    act: Callable[[Path], None],
) -> None:
    runs = 0
    for root, done in run_at_each_touch(make_vault, make, command, act):
        runs += 1
        assert done.code in range(8), done.err
        assert "Traceback" not in done.err
        if act is make_link:
            assert (root.parent / "outside.md").read_text() == FOREIGN
        elif act is not remove:
            assert is_kept(root)
        assert not list(root.rglob(".vaultmem-*.tmp"))
    assert runs
