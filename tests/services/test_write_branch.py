"""Writing to a branch that is not checked out: one commit there, and nothing here changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from branching import NOTE, change, commit_on, list_refs, look_around, read_at
from conftest import PERSON, Make, Open
from process_server import run_script
from support import git, write_notes

from vaultmem.core.search.query import parse_query
from vaultmem.errors import (
    ConflictError,
    NoteNotFoundError,
    PendingError,
    RefusedError,
    VaultError,
)
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.changes.edit_notes import change_tags, set_note_property
from vaultmem.services.lifecycle.transition import promote_notes
from vaultmem.services.memory.forget import forget_notes, select_notes
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.search.recall import recall
from vaultmem.services.views.open_view import view_at
from vaultmem.services.views.update_index import sync_vault

KEY = "AKIA" + "IOSFODNN7EXAMPLQ"
PATH = PurePosixPath("notes/a.md")


@pytest.fixture
def root(make_vault: Make) -> Path:
    """A vault with a branch `side`, and something staged, changed and untracked."""
    root = make_vault({"notes/a.md": NOTE, "notes/b.md": "b\n", "notes/run.md": "x\n"})
    (root / "notes/run.md").chmod(0o755)
    git(root, "commit", "-qam", "executable")
    git(root, "branch", "side")
    write_notes(root, {"notes/b.md": "staged\n", "notes/new.md": "untracked\n"})
    git(root, "add", "notes/b.md")
    write_notes(root, {"notes/b.md": "changed again\n"})
    return root


def last(root: Path, branch: str, form: str) -> str:
    return git(root, "log", "-1", f"--format={form}", branch, "--")


@pytest.mark.campaign
def test_each_write_is_one_commit_there_and_nothing_changes_here(root: Path, opened: Open) -> None:
    before, vault = look_around(root), opened(root, agent="ada", session="s-1", ref="side")
    sync_vault(vault)
    steps: list[tuple[Callable[[], Any], str, str]] = [
        (
            lambda: remember(vault, Memory("Gangways are steep.", title="Gangway")),
            "write: gangway",
            "A\tnotes/inbox/gangway.md",
        ),
        (
            lambda: remember(vault, Memory("Another one.", title="Gangway")),
            "write: gangway-2",
            "A\tnotes/inbox/gangway-2.md",
        ),
        (
            lambda: set_note_property(vault, PATH, "confidence", 0.9),
            "write: a",
            "M\tnotes/a.md",
        ),
        (lambda: set_note_property(vault, PATH, "confidence", None), "write: a", ""),
        (lambda: change_tags(vault, PATH, ("new",), ()), "tag: a", "M\tnotes/a.md"),
        (
            lambda: set_note_property(vault, PurePosixPath("notes/run.md"), "title", "Run"),
            "write: run",
            "M\tnotes/run.md",
        ),
        (
            lambda: forget_notes(vault, select_notes(view_at(vault), ["notes/b.md"]).notes),
            "forget: b",
            "D\tnotes/b.md",
        ),
    ]
    for write, subject, changed in steps:
        tip = git(root, "rev-parse", "side")
        write()
        assert git(root, "rev-list", "--count", f"{tip}..side") == "1"
        assert last(root, "side", "%s") == subject
        assert last(root, "side", "%an <%ae> %cn") == "ada <ada@agents.localhost> ada"
        trailers = "%(trailers:key=Vault-Event,key=Agent-Id,key=Session-Id,valueonly,separator=|)"
        assert last(root, "side", trailers) == "ada|s-1|write"
        if changed:
            assert git(root, "diff", "--name-status", tip, "side") == changed
        assert look_around(root) == before

    assert read_at(root, "side:notes/a.md").decode() == change(
        NOTE, "  - auth\n", "  - auth\n  - new\n"
    )
    assert git(root, "ls-tree", "side", "notes/run.md").startswith("100755")
    assert "error" not in git(root, "fsck", "--strict", "--no-dangling", "--no-progress")
    found = recall(view_at(vault), parse_query("gangways steep"))
    assert {hit.record.path for hit in found} >= {"notes/inbox/gangway.md"}


def test_a_person_writes_under_their_own_name_and_nothing_new_is_no_commit(
    root: Path, opened: Open
) -> None:
    vault = opened(root, ref="side")
    sync_vault(vault)

    set_note_property(vault, PATH, "title", "Tokens")
    tip = git(root, "rev-parse", "side")
    set_note_property(vault, PATH, "title", "Tokens")

    assert git(root, "rev-parse", "side") == tip
    assert last(root, "side", "%an <%ae>") == f"{PERSON[0]} <{PERSON[1]}>"
    assert "Agent-Id" not in last(root, "side", "%B")


def test_promoting_on_a_branch_makes_it_active_there_alone(root: Path, opened: Open) -> None:
    policy = "---\nkind: policy_rule\nstate: candidate\n---\nAlways knock.\n"
    commit_on(root, "side", {"notes/p.md": policy, "notes/old.md": "---\nstate: archived\n---\n"})
    vault = opened(root, ref="side")
    sync_vault(vault)
    before = look_around(root)

    done = promote_notes(view_at(vault), ["notes/p.md"])

    assert done.notes == (("notes/p.md", "candidate"),)
    assert done.trusted == ("notes/p.md",)
    assert b"state: active" in read_at(root, "side:notes/p.md")
    assert last(root, "side", "%s|%(trailers:key=Vault-Event,valueonly,separator=)") == (
        "promote: p|promote"
    )
    assert "notes/p.md: candidate to active" in last(root, "side", "%b")
    tip = git(root, "rev-parse", "side")
    with pytest.raises(RefusedError, match="archived"):
        promote_notes(view_at(vault), ["notes/p.md", "notes/old.md"])
    assert git(root, "rev-parse", "side") == tip
    assert look_around(root) == before


def test_forgetting_on_a_branch_forgets_on_that_branch_alone(root: Path, opened: Open) -> None:
    vault, here = opened(root, ref="side"), opened(root)
    sync_vault(vault)
    chosen = select_notes(view_at(vault), ["notes/a.md"])
    commit_on(root, "side", {"notes/a.md": NOTE + "- more\n"})

    with pytest.raises(ConflictError, match=r"notes/a\.md: changed meanwhile"):
        forget_notes(vault, chosen.notes)
    forget_notes(vault, select_notes(view_at(vault), ["notes/a.md"]).notes)

    assert git(root, "ls-tree", "side", "notes/a.md") == ""
    assert (root / "notes/a.md").read_text() == NOTE
    assert git(root, "ls-tree", "main", "notes/a.md")
    sync_vault(here)
    assert [hit.record.path for hit in recall(here, parse_query("opaque"))] == ["notes/a.md"]


def test_what_stands_under_a_new_notes_name_is_never_replaced(root: Path, opened: Open) -> None:
    in_the_way = {
        "notes/inbox/latin.md": b"\xff\xfe no text",
        "notes/inbox/LINK.md": ("120000", "a.md"),
        "notes/inbox/folder.md/x.txt": "x\n",
        "notes/file": "a file\n",
        "notes/link": ("120000", "inbox"),
    }
    tip = commit_on(root, "side", in_the_way)
    vault = opened(root, ref="side")

    for title in ("latin", "link", "folder"):
        assert remember(vault, Memory("x", title=title)).path == f"notes/inbox/{title}-2.md"
    for context in ("file", "link", "file/deeper"):
        with pytest.raises(RefusedError, match="is not a folder on that branch"):
            remember(vault, Memory("x", title="x", context=context))

    assert {line[0] for line in git(root, "diff", "--name-status", tip, "side").splitlines()} == {
        "A"
    }


def test_secrets_are_refused_there_too(root: Path, opened: Open) -> None:
    tip = commit_on(root, "side", {"notes/leak.md": f"---\nstate: candidate\n---\n{KEY}\n"})
    vault = opened(root, ref="side")
    sync_vault(vault)
    writes: list[Callable[[], Any]] = [
        lambda: remember(vault, Memory(f"the key is {KEY}")),
        lambda: change_tags(
            vault, PurePosixPath("notes/leak.md"), ("AKIA" + "Z7Q2XW4BN6MV3KLP",), ()
        ),
        lambda: promote_notes(view_at(vault), ["notes/leak.md"]),
    ]

    for write in writes:
        with pytest.raises(RefusedError, match="looks like a credential") as told:
            write()
        assert KEY not in str(told.value)

    assert git(root, "rev-parse", "side") == tip


def test_only_a_branch_takes_writes(root: Path, opened: Open) -> None:
    git(root, "tag", "v1")
    before, refs = look_around(root), list_refs(root)
    rows: list[tuple[str, type[VaultError], str]] = [
        ("v1", RefusedError, "v1: not a branch.*`vaultmem branch NAME --from v1`"),
        ("side~0", RefusedError, "not a branch"),
        ("HEAD", RefusedError, "not a branch"),
        ("nowhere", NoteNotFoundError, "nowhere: .*`vaultmem branch`"),
        ("-f", RefusedError, "names no branch"),
        ("10/11/2026", RefusedError, "ambiguous day"),
        ("2999-01-01", RefusedError, "not a branch"),
    ]

    for ref, error, told in rows:
        vault = opened(root, ref=ref)
        with pytest.raises(error, match=told):
            remember(vault, Memory("x"))
        with pytest.raises(error, match=told):
            set_note_property(vault, PATH, "title", "x")
        with pytest.raises(error, match=told):
            save_checkpoint(vault, "x")

    with pytest.raises(RefusedError, match="side: not checked out, so each write there is a comm"):
        save_checkpoint(opened(root, ref="side"), "x")
    assert (look_around(root), list_refs(root)) == (before, refs)


def test_a_branch_in_another_work_tree_is_refused(root: Path, opened: Open, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", str(tmp_path / "other"), "side")
    vault = opened(root, ref="side")

    with pytest.raises(RefusedError, match=r"side: checked out in .*other; write there"):
        remember(vault, Memory("x"))
    with pytest.raises(RefusedError, match="checked out in"):
        set_note_property(vault, PATH, "title", "x")

    assert git(tmp_path / "other", "status", "--porcelain") == ""
    there = opened(tmp_path / "other", ref="main")
    with pytest.raises(RefusedError, match=f"main: checked out in {root}"):
        remember(there, Memory("x"))


def test_the_branch_that_is_checked_out_gets_an_ordinary_write(root: Path, opened: Open) -> None:
    refs = list_refs(root)
    vault = opened(root, ref="main")

    done = remember(vault, Memory("x", title="here"))
    set_note_property(vault, PATH, "title", "Tokens")

    assert (root / done.path).is_file()
    assert "title: Tokens" in (root / PATH).read_text()
    assert list_refs(root) == refs


def test_the_index_need_not_be_there_yet(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": NOTE})
    git(root, "branch", "side")
    vault = opened(root, ref="side")

    remember(vault, Memory("Gangways are steep."))

    assert recall(view_at(vault), parse_query("gangways"))
    sync_vault(vault)
    assert [hit.record.path for hit in recall(view_at(vault), parse_query("opaque"))] == [str(PATH)]
    assert not recall(opened(root), parse_query("gangways"))


_WRITER = """
import sys
from vaultmem import Memory, open_vault, remember
vault = open_vault(sys.argv[1], agent=sys.argv[2], ref="side")
for number in range(int(sys.argv[3])):
    remember(vault, Memory(f"{sys.argv[2]} {number}", title="same name"))
"""


@pytest.mark.campaign
def test_two_processes_and_plain_git_write_to_one_branch_and_nothing_is_lost(root: Path) -> None:
    before = look_around(root)
    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(run_script, _WRITER, root, agent, 4) for agent in ("ada", "bob")]
        by_git = 0
        while not all(writer.done() for writer in writers):
            commit_on(root, "side", {f"notes/git{by_git}.md": "x\n"})
            by_git += 1
            time.sleep(0.3)

    assert [writer.result() for writer in writers] == [0, 0]
    authors = git(root, "log", "--format=%an", "main..side").splitlines()
    assert (authors.count("ada"), authors.count("bob")) == (4, 4)
    names = git(root, "ls-tree", "-r", "--name-only", "side").splitlines()
    assert len([name for name in names if name.startswith("notes/inbox/same-name")]) == 8
    assert look_around(root) == before


def test_a_commit_of_somebody_else_in_between_is_built_upon(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = opened(root, ref="side")
    sync_vault(vault)
    taken = [{"notes/inbox/x.md": "theirs\n"}, {"notes/inbox/x-2.md": "theirs\n"}]
    write = vault.history.write_branch_commits

    def overtake(*arguments: Any) -> list[str]:
        if taken:
            commit_on(root, "side", taken.pop(0))
        return write(*arguments)

    monkeypatch.setattr(vault.history, "write_branch_commits", overtake)

    assert remember(vault, Memory("ours", title="x")).path == "notes/inbox/x-3.md"
    assert read_at(root, "side:notes/inbox/x.md") == b"theirs\n"
    assert git(root, "rev-list", "--count", "main..side") == "3"


def test_a_promotion_that_git_did_not_take_puts_nothing_on_record(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = "---\nkind: policy_rule\nstate: candidate\n---\nNobody is refunded twice.\n"
    commit_on(root, "side", {"notes/p.md": policy})
    vault = opened(root, ref="side")
    vault.trust.record({})
    sync_vault(vault)

    def refuse(*_: object) -> None:
        raise PendingError("another git holds the branch")

    monkeypatch.setattr(type(vault.history), "write_branch_commits", refuse)
    with pytest.raises(PendingError):
        promote_notes(view_at(vault), ["notes/p.md"])

    assert vault.trust.notes() == {}
    assert read_at(root, "side:notes/p.md") == policy.encode()


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_write_on_a_branch_may_be_the_first_of_all(
    root: Path, opened: Open, is_damaged: bool
) -> None:
    vault = opened(root, ref="side")
    if is_damaged:
        view_at(vault, "refs/heads/side")
        for file in (vault.state_folder / "index").iterdir():
            file.write_bytes(b"")
        vault = opened(root, ref="side")

    remember(vault, Memory("The fox is red."))

    assert b"The fox is red." in read_at(root, "side:notes/inbox/the-fox-is-red.md")
