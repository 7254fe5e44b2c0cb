"""`mv`: the note moves, links follow, nothing else changes, and no crash loses a link."""

from __future__ import annotations

import errno
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from conftest import Make, Open
from in_process import run_here
from process_server import run_script
from support import git, hash_tree, write_notes

from vaultmem.core.search.query import parse_query
from vaultmem.errors import (
    ConflictError,
    NoteNotFoundError,
    RefusedError,
    SystemFailureError,
    VaultError,
)
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.changes.edit_notes import change_tags, write_note
from vaultmem.services.memory.rename import plan_rename, rename_note
from vaultmem.services.search.link_walk import list_backlinks, list_broken
from vaultmem.services.search.recall import recall
from vaultmem.services.search.trusted import trust_vault
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage import scan_files
from vaultmem.storage.git.commit_draft import TreeEntry
from vaultmem.storage.journal import FileChanges
from vaultmem.vault import Vault, open_vault

LINKING = (
    "\ufeff---\r\nparents:\r\n  - '[[old]]'\r\nmine:  keep # [[old]]\r\n---\r\n"
    "[[old#H|t]] `[[old]]`"
)
NOTES: dict[str, str | bytes] = {
    "notes/a/old.md": "# Old\n\nText of some length, so that git sees the rename. [[../b/other]]\n",
    "notes/b/other.md": LINKING,
    "notes/b/more.md": "[x](../a/old.md#H) and ![[notes/a/old.md]]\n",
    "notes/b/rule.md": "---\nkind: policy_rule\nstate: active\n---\nAs [[old]] says.\n",
    "notes/latin.md": b"[[far]] caf\xe9\n",
    "notes/far.md": "No link to it: `[[old]]`.\n",
}


def read(vault: Vault, path: str) -> str:
    return (vault.root / path).read_bytes().decode()


def test_note_moves_links_follow_and_git_sees_a_rename(vault: Vault) -> None:
    before = hash_tree(vault.root, skip=(".git",))
    done = rename_note(vault, "old", "notes/c/new name")

    assert (done.old, done.new) == ("notes/a/old.md", "notes/c/new name.md")
    assert not (vault.root / "notes/a/old.md").exists()
    moved = str(NOTES["notes/a/old.md"])
    assert read(vault, "notes/c/new name.md") == moved  # `../b/other` is right from there as well.
    linking = LINKING.replace("'[[old]]'", "'[[new name]]'").replace("[[old#H", "[[new name#H")
    assert read(vault, "notes/b/other.md") == linking
    assert (
        read(vault, "notes/b/more.md") == "[x](../c/new%20name.md#H) and ![[notes/c/new name.md]]\n"
    )
    after = hash_tree(vault.root, skip=(".git",))
    assert {
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    } == {
        *("notes/a/old.md", "notes/c/new name.md"),
        *("notes/b/other.md", "notes/b/more.md", "notes/b/rule.md"),
    }
    assert list_broken(vault) == []
    assert len(list_backlinks(vault, "notes/c/new name.md")) == 5

    save_checkpoint(vault, "move it")
    names = git(vault.root, "show", "--format=", "--name-status", "-M", "HEAD")
    assert "R100\tnotes/a/old.md\tnotes/c/new name.md" in names


def test_plan_says_what_would_change_and_changes_nothing(vault: Vault) -> None:
    trust_vault(vault)
    before = hash_tree(vault.root)
    plan = plan_rename(vault, "notes/a/old.md", "notes/a/new.md")
    assert {path: [(e.old, e.new) for e in made] for path, made in plan.edits.items()} == {
        "notes/b/more.md": [("../a/old.md", "../a/new.md"), ("notes/a/old.md", "notes/a/new.md")],
        "notes/b/other.md": [("old", "new"), ("old", "new")],
        "notes/b/rule.md": [("old", "new")],
    }
    assert plan.untrusted == ("notes/b/rule.md",)
    assert hash_tree(vault.root) == before


@pytest.mark.parametrize(
    ("new", "error"),
    [
        ("../out.md", RefusedError),
        ("/abs.md", RefusedError),
        (".git/x.md", RefusedError),
        ("notes/.hidden.md", RefusedError),
        ("templates/x.md", RefusedError),
        ("notes/CON.md", RefusedError),
        ("notes/a|b.md", RefusedError),
        ("notes/c#.md", RefusedError),  # No wikilink could name it.
        ("notes/b/other.md", ConflictError),
        ("notes/b/OTHER.md", ConflictError),
        ("notes/b/rule", ConflictError),
    ],
)
def test_bad_name_is_refused_and_nothing_changes(vault: Vault, new: str, error: type) -> None:
    before = hash_tree(vault.root, skip=(".git",))
    with pytest.raises(error):
        rename_note(vault, "old", new)
    assert hash_tree(vault.root, skip=(".git",)) == before


def test_note_that_is_not_there_is_not_found(vault: Vault) -> None:
    with pytest.raises(NoteNotFoundError):
        rename_note(vault, "nowhere", "x")


def test_a_section_is_no_note_to_rename(vault: Vault) -> None:
    with pytest.raises(RefusedError, match="old#Old: a section; name the whole note"):
        rename_note(vault, "old#Old", "x")


def test_case_alone_can_change_and_links_stay_as_they_are(vault: Vault) -> None:
    done = rename_note(vault, "old", "notes/a/Old.md")
    assert done.edits == {}
    assert [file.name for file in (vault.root / "notes/a").iterdir()] == ["Old.md"]
    assert read(vault, "notes/b/other.md") == LINKING
    assert len(list_backlinks(vault, "notes/a/Old.md")) == 5
    assert rename_note(vault, "notes/a/Old.md", "notes/a/Old.md").edits == {}


def test_new_name_does_not_take_links_that_mean_another_note(vault: Vault) -> None:
    write_notes(vault.root, {"notes/q/far2.md": "[[far]]\n"})
    sync_vault(vault)
    rename_note(vault, "old", "notes/q/far.md")  # In its own folder, `far` would now be this one.
    assert read(vault, "notes/q/far2.md") == "[[notes/far]]\n"


def test_words_that_somebody_else_left_uncommitted_stay_theirs(vault: Vault, opened: Open) -> None:
    write_notes(vault.root, {"notes/b/more.md": "[[old]] by hand\n"})
    agent = opened(vault.root, agent="claude", session="s1")
    rename_note(agent, "old", "notes/a/new.md")
    save_checkpoint(agent, "move")
    log = git(vault.root, "log", "--format=%an %s", "--name-only", "-3").splitlines()
    assert log[0].startswith("claude checkpoint: move")
    assert any(line.startswith("Maren Person edit: ") for line in log)
    assert "by hand" in git(vault.root, "show", "HEAD~1:notes/b/more.md")


def test_on_a_branch_that_is_not_checked_out_it_is_one_commit(vault: Vault, opened: Open) -> None:
    git(vault.root, "branch", "side")
    before = hash_tree(vault.root, skip=(".git",))
    other = opened(vault.root, ref="side")
    rename_note(other, "notes/a/old.md", "notes/c/new.md")
    names = git(vault.root, "show", "--format=", "--name-status", "-M", "side").splitlines()
    assert "R100\tnotes/a/old.md\tnotes/c/new.md" in names
    assert len(names) == 4
    assert git(vault.root, "rev-list", "--count", "main..side") == "1"
    assert hash_tree(vault.root, skip=(".git",)) == before


#: Ends the process without a word right before its n-th change of a name on disk.
_DYING = """
import os, sys
left = int(sys.argv[1])
def hook(event, _):
    global left
    if event in {"os.link", "os.rename", "os.remove"}:
        left -= 1
        if left < 0:
            os._exit(9)
from vaultmem.services.memory.rename import rename_note
from vaultmem.vault import open_vault
vault = open_vault(sys.argv[2])
sys.addaudithook(hook)
rename_note(vault, "notes/a/old.md", sys.argv[3])
"""


@pytest.mark.campaign
@pytest.mark.parametrize("new", ["notes/c/new.md", "notes/a/Old.md"])
def test_killed_anywhere_no_link_is_lost_and_a_rerun_finishes(make_vault: Make, new: str) -> None:
    codes = []
    for step in (0, 3, 5, 8) if "/c/" in new else (1, 2):
        root = make_vault(NOTES, name=f"vault{step}")
        codes.append(run_script(_DYING, step, root, new))
        vault = open_vault(root)
        sync_vault(vault)
        assert list_broken(vault) == []
        there = [path for path in ("notes/a/old.md", new) if (root / path).is_file()]
        assert sum(len(list_backlinks(vault, path)) for path in there) >= 5
        if "notes/a/old.md" in there:
            rename_note(vault, "notes/a/old.md", new)
        assert not (root / "notes/a/old.md").exists()
        assert list_broken(vault) == []
        assert len(list_backlinks(vault, new)) == 5
        assert [file.name for file in (root / new).parent.iterdir()] == [Path(new).name]
        vault.close()
    assert 9 in codes


def test_save_of_the_old_note_meanwhile_moves_with_it(vault: Vault, monkeypatch: Any) -> None:
    real = scan_files.replace_file

    def save_meanwhile(root: Path, path: PurePosixPath, *rest: Any) -> None:
        monkeypatch.undo()
        (vault.root / "notes/a/old.md").write_text("Saved just now. [[../b/other]]\n")
        real(root, path, *rest)

    monkeypatch.setattr(scan_files, "replace_file", save_meanwhile)
    rename_note(vault, "old", "notes/a/new.md")
    assert read(vault, "notes/a/new.md") == "Saved just now. [[../b/other]]\n"
    assert not (vault.root / "notes/a/old.md").exists()
    assert list_broken(vault) == []


def test_a_note_that_is_saved_all_the_time_stays_as_it_is(vault: Vault, monkeypatch: Any) -> None:
    real, saves = scan_files.remove_file, iter(range(100))
    before = hash_tree(vault.root, skip=(".git",))

    def save_meanwhile(root: Path, path: PurePosixPath, *rest: Any) -> None:
        if str(path) == "notes/a/old.md":
            (vault.root / path).write_text(f"Saved {next(saves)}.\n")
        real(root, path, *rest)

    monkeypatch.setattr(scan_files, "remove_file", save_meanwhile)
    with pytest.raises(ConflictError):
        rename_note(vault, "old", "notes/a/new.md")
    monkeypatch.undo()
    after = hash_tree(vault.root, skip=(".git",))
    assert {path for path in {*before, *after} if before.get(path) != after.get(path)} == {
        "notes/a/old.md"
    }
    assert read(vault, "notes/a/old.md").startswith("Saved ")


def test_command_shows_a_dry_run_and_moves(run_cli: Any, vault: Vault) -> None:
    dry = run_cli("mv", "old", "notes/a/new", "--dry-run", cwd=vault.root)
    assert "would move  notes/a/old.md -> notes/a/new.md" in dry.out
    assert "notes/b/other.md:3  old -> new" in dry.out
    done = run_cli("mv", "old", "notes/z/", "--json", cwd=vault.root).json
    assert (done["to"], done["moved"], len(done["links"])) == ("notes/z/old.md", True, 2)
    assert run_cli("mv", "old", "../x", cwd=vault.root).code == 5


@pytest.mark.parametrize("stays", [False, True])
def test_a_folder_may_differ_in_case_alone_and_the_next_move_goes_as_well(
    run_cli: Any, make_vault: Make, opened: Open, stays: bool
) -> None:
    notes = {"Projects/Alpha.md": "# A\n\n[[Home]]\n", "Home.md": "To [[Projects/Alpha]].\n"}
    root = make_vault({**notes, **({"Projects/Beta.md": "# B\n"} if stays else {})})

    moved = run_cli("mv", "Projects/Alpha", "projects/Alpha", cwd=root)

    assert (moved.code, moved.err.partition(":")[0]) == (0, "hint")
    assert [file.name for file in (root / "projects").glob("Al*")] == ["Alpha.md"]
    assert (root / "Projects/Beta.md").exists() is stays
    assert not opened(root).operations.is_open()
    assert run_cli("mv", "Home", "Start", cwd=root).code == 0
    vault = opened(root)
    sync_vault(vault)
    assert list_broken(vault) == []
    assert "[[Start]]" in (root / "projects/Alpha.md").read_text()


def test_a_move_that_fails_and_one_that_was_killed_stop_no_later_one(
    vault: Vault, monkeypatch: Any
) -> None:
    real, calls = scan_files.create_file, iter(range(100))

    def fail_once(*rest: Any) -> None:
        if next(calls) == 0:
            raise VaultError("notes/c: could not be made: No space left on device")
        real(*rest)

    monkeypatch.setattr(scan_files, "create_file", fail_once)
    with pytest.raises(VaultError, match="No space"):
        rename_note(vault, "old", "notes/c/new")
    assert not vault.operations.is_open()
    monkeypatch.undo()

    moves = {"gone/x.md": (TreeEntry("100644", "0" * 40), None), "gone/y.md": (None, None)}
    vault.operations.write_files(FileChanges("", False, moves, {}))
    rename_note(vault, "old", "notes/c/new")
    assert not vault.operations.is_open()
    assert list_broken(vault) == []


def test_a_canvas_is_found_follows_and_moves_itself(make_vault: Make, opened: Open) -> None:
    card = b'{"nodes":[{"text":"A lantern, by [[quay]]."},\n{"file":"notes/quay.md"}]}'
    notes = {"notes/quay.md": "# Quay\n", "ideas/B.canvas": card, "x.md": "[[B.canvas]]\n"}
    root = make_vault({**notes, "y.canvas": "{"})
    vault = opened(root, agent="claude")
    sync_vault(vault)
    assert [hit.record.path for hit in recall(vault, parse_query("lantern"))] == ["ideas/B.canvas"]
    assert [path for path, _ in vault.manifest.problems()] == ["y.canvas"]
    sources = [found.source for found in list_backlinks(vault, "notes/quay.md")]
    assert sources == ["ideas/B.canvas", "ideas/B.canvas"]

    rename_note(vault, "notes/quay.md", "pier")
    rename_note(vault, "ideas/B.canvas", "Plans")

    moved = card.decode().replace("notes/quay", "pier").replace("[[quay]]", "[[pier]]")
    assert read(vault, "Plans.canvas") == moved
    assert read(vault, "x.md") == "[[Plans.canvas]]\n"
    with pytest.raises(RefusedError, match="a canvas"):
        change_tags(vault, PurePosixPath("Plans.canvas"), ("x",), ())
    with pytest.raises(RefusedError, match="not the name of a note"):
        write_note(vault, PurePosixPath("new.canvas"), "text")
    save_checkpoint(vault, "all")
    sync_vault(vault)
    assert not list_broken(vault)


def test_a_move_that_fails_does_not_name_the_commit_of_a_persons_earlier_text(
    vault: Vault, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(vault, "all notes")
    linking = vault.root / "notes/b/more.md"
    linking.write_text(f"A person's line.\n\n{linking.read_text()}")
    agent = opened(vault.root, agent="claude")
    sync_vault(agent)
    before = git(vault.root, "rev-list", "--count", "HEAD")

    def fail(*_: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "notes/b/more.md")

    monkeypatch.setattr("vaultmem.services.changes.operation.move_files", fail)
    with pytest.raises(SystemFailureError) as raised:
        rename_note(agent, "old", "notes/c/new name")

    assert "committed" not in str(raised.value)
    assert int(git(vault.root, "rev-list", "--count", "HEAD")) == int(before) + 1
    assert (vault.root / "notes/a/old.md").exists()


def test_a_file_that_is_not_a_note_is_refused_under_its_own_name(make_vault: Make) -> None:
    root = make_vault({"notes/a.md": "![[quay.png]]\n"})
    (root / "notes/quay.png").write_bytes(b"\0")
    run_here("checkpoint", "a picture", cwd=root)

    refused = run_here("mv", "notes/quay.png", "notes/pier.png", cwd=root)

    assert refused.code == 5
    assert "notes/quay.png: not a note that vaultmem reads" in refused.err
    assert "`vaultmem links --repair`" in refused.err
