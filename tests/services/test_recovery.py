"""What whoever comes next makes of a transaction whose process ended in the midst of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path, PurePosixPath

import pytest
from conftest import Open
from process_server import run_script
from support import git, write_notes

from vaultmem.core.text.blob import blob_id
from vaultmem.errors import ConflictError
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.operation import Transaction, operate
from vaultmem.services.changes.write import write, write_event
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault, open_vault

PATHS = [f"notes/n{number}.md" for number in range(4)]
NOTES = {path: f"# {path}\n\nOld.\n" for path in PATHS}

#: Changes all notes as one event and ends without a word: right before the file with this name is
#: replaced, or right after the commit.
_KILLED = """
import os, sys
from pathlib import PurePosixPath
from vaultmem import open_vault
from vaultmem.storage import journal as operation
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.write import write_event
from vaultmem.storage import scan_files as work_tree
root, where, *paths = sys.argv[1:]
real = work_tree.replace_file
def replace(base, path, *rest):
    if str(path) == where:
        os._exit(9)
    real(base, path, *rest)
work_tree.replace_file = replace
if where == "end":
    operation.Operations.close = lambda *_: os._exit(9)
vault = open_vault(root, agent="claude", session="s-1")
edits = {PurePosixPath(path): (lambda note: note.text + "New.\\n") for path in paths}
write_event(vault, edits, Event("state", "state: all", vault.author, ("because",), "refine"))
"""


def kill(root: Path, where: str) -> None:
    assert run_script(_KILLED, root, where, *PATHS) == 9


def texts(root: Path) -> dict[str, str]:
    return {path: (root / path).read_text() for path in PATHS if (root / path).exists()}


def changed(*paths: str) -> dict[str, str]:
    return {path: text + "New.\n" * (path in paths) for path, text in NOTES.items()}


def test_a_recall_undoes_what_was_interrupted(root: Path, opened: Open) -> None:
    kill(root, PATHS[2])
    assert texts(root) == changed(*PATHS[:2])

    vault = opened(root)
    assert vault.operations.is_open()
    sync_vault(vault)

    assert texts(root) == NOTES
    assert not vault.operations.is_open()
    assert git(root, "status", "--porcelain") == ""


def test_what_somebody_saved_since_is_theirs(root: Path, opened: Open) -> None:
    kill(root, PATHS[2])
    write_notes(root, {PATHS[0]: "Saved since.\n", PATHS[3]: "This too.\n"})

    sync_vault(opened(root))

    assert texts(root) == {**NOTES, PATHS[0]: "Saved since.\n", PATHS[3]: "This too.\n"}


def test_what_somebody_committed_since_stays(root: Path, opened: Open) -> None:
    kill(root, PATHS[2])
    git(root, "commit", "-qm", "one of them", PATHS[0])

    sync_vault(opened(root))

    assert texts(root) == changed(PATHS[0])
    assert git(root, "status", "--porcelain") == ""


def test_an_event_that_git_has_is_whole_whatever_comes_then(root: Path, opened: Open) -> None:
    kill(root, "end")
    assert git(root, "log", "-1", "--format=%an %s") == "claude state: all"
    write_notes(root, {PATHS[1]: "Saved since.\n"})
    git(root, "commit", "-qm", "by hand", PATHS[1])

    sync_vault(opened(root))

    assert texts(root) == {**changed(*PATHS), PATHS[1]: "Saved since.\n"}
    assert git(root, "status", "--porcelain") == ""


def test_a_lost_database_stops_nobody_and_what_was_written_stays(root: Path, opened: Open) -> None:
    kill(root, PATHS[2])
    vault = opened(root)
    vault.close()
    for file in vault.state_folder.glob("state*"):
        file.unlink()

    sync_vault(vault)

    assert texts(root) == changed(*PATHS[:2])
    assert not vault.operations.is_open()


def test_without_git_it_is_undone_as_well(tmp_path: Path, home: Path) -> None:
    root = tmp_path / "plain"
    write_notes(root, NOTES)
    kill(root, PATHS[2])

    vault = open_vault(root)
    sync_vault(vault)
    vault.close()

    assert texts(root) == NOTES


def add(vault: Vault, path: str, text: str) -> CommitReport:
    edits = {PurePosixPath(path): lambda note: note.text + text}
    event = Event("state", f"state: {path}", vault.author, ("x",), "refine")
    return write_event(vault, edits, event)


def leave(vault: Vault, path: str, text: str) -> None:
    def plan(change: Change) -> None:
        note = change.read(PurePosixPath(path))
        change.replace(note.path, (note.text + text).encode(), note.blob)

    write(vault, plan)


def test_what_is_written_inside_of_a_transaction_stands_or_falls_with_it(
    root: Path, opened: Open
) -> None:
    vault = opened(root, agent="claude")

    def fail(_: Transaction) -> None:
        for text in ("One.\n", "Two.\n"):  # The same file twice: each version is known.
            leave(vault, PATHS[0], text)
        write(vault, lambda change: change.put(PurePosixPath("notes/new.md"), b"# New\n"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        operate(vault, "nothing was written", fail)

    assert texts(root) == NOTES
    assert not (root / "notes/new.md").exists()
    assert not vault.operations.is_open()
    leave(vault, PATHS[0], "Three.\n")
    assert texts(root) == {**NOTES, PATHS[0]: NOTES[PATHS[0]] + "Three.\n"}


@pytest.mark.campaign
def test_a_part_that_fails_leaves_the_rest_of_its_transaction(root: Path, opened: Open) -> None:
    vault = opened(root, agent="claude")

    def work(_: Transaction) -> None:
        leave(vault, PATHS[0], "One.\n")
        with pytest.raises(ConflictError):
            write(vault, lambda change: change.put(PurePosixPath(PATHS[1]), b"There already.\n"))
        add(vault, PATHS[0], "Two.\n")

    operate(vault, "nothing was written", work)

    assert texts(root) == {**NOTES, PATHS[0]: NOTES[PATHS[0]] + "One.\nTwo.\n"}
    assert git(root, "log", "-1", "--format=%s") == f"state: {PATHS[0]}"
    assert not vault.operations.is_open()


def test_a_database_that_fails_after_the_commit_ends_no_event(root: Path, opened: Open) -> None:
    vault = opened(root, agent="claude")
    sync_vault(vault)
    before = git(root, "rev-parse", "HEAD")
    vault.state.execute(
        "CREATE TEMP TRIGGER full BEFORE UPDATE OF staged ON operations WHEN NEW.staged = '{}' "
        "BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END"
    )

    report = add(vault, PATHS[0], "New.\n")

    assert report.commit == git(root, "rev-parse", "HEAD")
    assert git(root, "log", "--format=%s", f"{before}..") == f"state: {PATHS[0]}"
    assert vault.operations.is_open()
    vault.state.execute("DROP TRIGGER full")
    sync_vault(vault)
    assert not vault.operations.is_open()
    assert texts(root) == changed(PATHS[0])
    assert git(root, "status", "--porcelain") == ""


def test_a_git_that_fails_after_it_moved_the_branch_ends_no_event(
    root: Path, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = opened(root, agent="claude")
    sync_vault(vault)
    before = git(root, "rev-parse", "HEAD")
    git_itself = shutil.which("git")
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin/git"
    script.write_text(
        f'#!/bin/sh\n{git_itself} "$@" || exit\n'
        'case " $* " in *" update-ref "*) echo "fatal: disk" >&2; exit 128;; esac\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")

    report = add(vault, PATHS[0], "New.\n")

    monkeypatch.undo()
    assert report.commit == git(root, "rev-parse", "HEAD")
    assert git(root, "log", "--format=%s", f"{before}..") == f"state: {PATHS[0]}"
    assert texts(root) == changed(PATHS[0])
    assert not vault.operations.is_open()
    assert git(root, "status", "--porcelain") == ""


#: Tags a note and ends without a word when half of its new bytes are written.
_KILLED_IN_PLACE = """
import os, sys
from pathlib import PurePosixPath
from vaultmem import open_vault
from vaultmem.services.changes.edit_notes import set_note_property
real = os.pwrite
def write(descriptor, data, at):
    real(descriptor, data[: len(data) // 2], at)
    os._exit(9)
os.pwrite = write
set_note_property(open_vault(sys.argv[1]), PurePosixPath(sys.argv[2]), "colour", sys.argv[3])
"""


@pytest.mark.parametrize("value", ["green", "green " * 400])
def test_a_linked_note_that_is_half_written_is_whole_again(
    root: Path, opened: Open, tmp_path: Path, value: str
) -> None:
    os.link(root / PATHS[0], tmp_path / "other name.md")
    write_notes(root, {PATHS[0]: "Not committed yet.\n" * 20})
    before = (root / PATHS[0]).read_text()
    assert run_script(_KILLED_IN_PLACE, root, PATHS[0], value) == 9
    assert (root / PATHS[0]).read_text() != before

    sync_vault(opened(root))

    assert (root / PATHS[0]).read_text() == before
    assert (tmp_path / "other name.md").samefile(root / PATHS[0])


@pytest.mark.guarantee
def test_what_a_killed_write_left_goes_with_the_next_command(root: Path, opened: Open) -> None:
    blob = blob_id(NOTES[PATHS[0]].encode())[:16]
    temporary = root / "notes/.vaultmem-0123456789ab.tmp"
    old = root / f"notes/.vaultmem-0123456789ab-{blob}-0123456789abcdef-n0.md.old"
    new = root / f"notes/.vaultmem-1123456789ab-0123456789abcdef-{blob}-n0.md.old"
    (root / "transcripts").mkdir()
    of_session = root / "transcripts" / temporary.name
    for file in (temporary, old, new, of_session):
        file.write_text(NOTES[PATHS[0]])
    (root / "notes/.vaultmem-mine.txt").write_text("Not one of these.\n")
    vault = opened(root)
    stale = vault.state_folder / temporary.name
    stale.write_bytes(b"half of a")
    os.utime(stale, (1, 1))
    fresh = vault.state_folder / ".vaultmem-ba9876543210.tmp"
    fresh.write_bytes(b"half of a")

    sync_vault(vault)

    assert sorted(file.name for file in (root / "notes").glob(".*")) == [".vaultmem-mine.txt"]
    assert not of_session.exists()
    assert fresh.exists()  # Another process may be writing it.


def test_what_somebody_wrote_to_a_note_that_was_exchanged_comes_to_light(
    root: Path, opened: Open
) -> None:
    name = ".vaultmem-0123456789ab-0123456789abcdef-0123456789abcdef-n0.md.old"
    with open(root / "notes" / name, "w") as editor:
        editor.write("Saved by ")
        editor.flush()
        vault = opened(root)
        sync_vault(vault)
        assert (root / "notes" / name).exists()  # Somebody still writes to it.
        editor.write("a person.\n")

    sync_vault(vault)

    (kept,) = (root / "notes").glob("n0.conflict-*.md")
    assert kept.read_text() == "Saved by a person.\n"
    assert str(kept.relative_to(root)) in {record.path for record in vault.view.records()}
    assert not list((root / "notes").glob(".vaultmem-*"))


def test_an_undo_that_finds_a_file_where_a_folder_was_stops_nobody(
    root: Path, opened: Open
) -> None:
    kill(root, PATHS[2])
    shutil.rmtree(root / "notes")
    (root / "notes").write_text("A file now.\n")
    vault = opened(root)

    sync_vault(vault)

    assert not vault.operations.is_open()
    assert (root / "notes").read_text() == "A file now.\n"
