"""The texts of hits: from the file while it has the indexed bytes, else from git."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Make, Open
from support import git, write_notes

from vaultmem import Vault, parse_query, recall, sync_vault

NOTES = {
    "notes/a.md": "# Gangway\n\nIt opens at six.\n\n## Bell\n\nRing the gangway's bell.\n",
    "notes/b.md": "# Ferry\n\nNo gangway here.\n",
}

GANGWAY = {
    "notes/a.md#Gangway": "It opens at six.",
    "notes/a.md#Bell": "Ring the gangway's bell.",
}
FERRY = {"notes/b.md#Ferry": "No gangway here."}


def texts(vault: Vault, question: str = "gangway") -> dict[str, str]:
    return {hit.address: hit.text for hit in recall(vault, parse_query(question))}


def change(root: Path) -> None:
    write_notes(root, {"notes/a.md": "# Pier\n\nSomething else, and longer.\n" * 9})


def replace_by_folder(root: Path) -> None:
    remove(root)
    (root / "notes/a.md").mkdir()


def replace_by_link(root: Path) -> None:
    remove(root)
    (root / "notes/a.md").symlink_to(root / "notes/b.md")


def remove(root: Path) -> None:
    (root / "notes/a.md").unlink()


@pytest.mark.parametrize("disturb", [change, remove, replace_by_folder, replace_by_link])
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_note_that_went_since_the_sync_comes_from_git_or_is_left_out(
    make_vault: Make, opened: Open, disturb: Callable[[Path], None], is_committed: bool
) -> None:
    root = make_vault({})
    write_notes(root, NOTES)
    if is_committed:
        git(root, "add", "--all")
        git(root, "commit", "-q", "-m", "notes")
    vault = opened(root)
    sync_vault(vault)

    disturb(root)

    assert texts(vault) == (GANGWAY | FERRY if is_committed else FERRY)
    assert texts(opened(root)) == FERRY


@pytest.mark.parametrize("lack", ["a repository", "git"])
def test_without_git_a_note_that_went_is_left_out(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch, lack: str
) -> None:
    root = make_vault({})
    write_notes(root, NOTES)
    vault = opened(root)
    sync_vault(vault)
    remove(root)
    if lack == "git":
        monkeypatch.setenv("PATH", "/nowhere")
    else:
        shutil.rmtree(root / ".git")

    assert texts(vault) == FERRY


def test_what_was_read_once_stays_although_its_file_went(make_vault: Make, opened: Open) -> None:
    root = make_vault({})
    write_notes(root, NOTES)
    vault = opened(root)

    assert texts(vault) == GANGWAY | FERRY
    remove(root)

    assert texts(vault) == GANGWAY | FERRY


def test_a_renamed_note_comes_from_git_by_its_bytes(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    (root / "notes/a.md").rename(root / "notes/c.md")
    vault = opened(root)
    sync_vault(vault)

    (root / "notes/c.md").unlink()

    assert set(texts(vault).values()) == {*GANGWAY.values(), *FERRY.values()}


def test_those_that_are_left_out_make_room_for_the_next_best(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({})
    write_notes(root, {f"notes/n{n:02}.md": "gangway\n" for n in range(20)})
    vault = opened(root)
    sync_vault(vault)
    for number in range(10):
        (root / f"notes/n{number:02}.md").unlink()

    found = recall(vault, parse_query("gangway", limit=5))

    assert [hit.record.path for hit in found] == [f"notes/n{n}.md" for n in range(10, 15)]
