"""`promote --from`: single notes of another branch, under the names of who wrote them there."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from branching import NOTE, change, commit_on, copy_vault, is_clean, list_refs, look_around
from conftest import PERSON, Open
from support import git, lock_git, write_notes

from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.errors import (
    ConflictError,
    MergeConflictError,
    NoteNotFoundError,
    PendingError,
    RefusedError,
    VaultError,
)
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.merging import promoted_notes
from vaultmem.services.merging.merge import merge_branch
from vaultmem.services.merging.promoted_notes import promote_from
from vaultmem.services.search.trusted import trust_vault
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage import scan_files as move
from vaultmem.storage.git.vault_history import VaultHistory
from vaultmem.vault import open_vault

KEY = "AKIA" + "IOSFODNN7EXAMPLQ"
CANDIDATE = change(NOTE, "state: active", "state: candidate")
GANGWAY = "notes/inbox/gangway.md"
FORM = "--format=%an <%ae>|%s"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with a branch `bots`, on which an agent wrote two notes and somebody changed one."""
    root = tmp_path_factory.mktemp("template") / "vault"
    create_vault(root).vault.close()
    commit_on(root, "main", {"notes/a.md": NOTE, "notes/same.md": "same\n"})
    git(root, "reset", "-q", "--hard")
    git(root, "branch", "bots")
    agent = open_vault(root, agent="claude", session="s-1", ref="bots")
    sync_vault(agent)
    for title in ("Gangway", "Other"):
        text = f"{title}s are steep."
        remember(
            agent, Memory(text, title=title, kind=NoteKind.POLICY_RULE, state=NoteState.CANDIDATE)
        )
    agent.close()
    text = change(NOTE, "  - auth\n", "  - auth\n  - theirs\n")
    commit_on(root, "bots", {"notes/a.md": text})
    return root


@pytest.fixture
def root(home: Path, template: Path, tmp_path: Path, opened: Open) -> Path:
    """Return a copy of that vault, which its owner trusts."""
    root = copy_vault(template, tmp_path / "vault")
    trust_vault(opened(root))
    return root


def events(root: Path, since: str) -> list[str]:
    """Return author and subject of the commits made since, oldest first."""
    return git(root, "log", "--reverse", FORM, f"{since}..HEAD").splitlines()


@pytest.mark.campaign
def test_one_memory_comes_over_under_its_writers_name_and_is_then_promoted(
    root: Path, opened: Open
) -> None:
    before, there = git(root, "rev-parse", "HEAD"), git(root, "rev-parse", "bots")

    done = promote_from(opened(root), "bots", ["gangway"])

    assert done.notes == ((GANGWAY, "candidate"),)
    assert done.trusted == (GANGWAY,)
    assert [subject for _, subject in done.report.commits] == [
        f"take: {Path(GANGWAY).stem} from bots",
        "promote: gangway",
    ]
    assert [c for c, _ in done.report.commits] == git(
        root, "rev-list", "--reverse", f"{before}..HEAD"
    ).split()
    assert events(root, before) == [
        f"claude <claude@agents.localhost>|take: {Path(GANGWAY).stem} from bots",
        f"{PERSON[0]} <{PERSON[1]}>|promote: gangway",
    ]
    assert git(root, "diff", "--name-only", before, "HEAD") == GANGWAY
    taken = git(root, "rev-parse", "HEAD~1")
    assert git(root, "rev-parse", f"{taken}:{GANGWAY}") == git(root, "rev-parse", f"bots:{GANGWAY}")
    assert "state: active" in (root / GANGWAY).read_text()
    trailers = "%(trailers:key=Agent-Id,key=Session-Id,key=Vault-Event,valueonly,separator=|)"
    assert git(root, "log", "-1", f"--format={trailers}", taken) == "claude|s-1|take"
    for commit in (taken, "HEAD"):
        assert f"from bots at {there}" in git(root, "log", "-1", "--format=%b", commit)
    blamed = git(root, "blame", "--line-porcelain", GANGWAY)
    assert {line for line in blamed.splitlines() if line.startswith("author ")} == {
        "author claude",
        f"author {PERSON[0]}",
    }
    assert is_clean(root)


@pytest.mark.campaign
def test_a_note_that_both_branches_changed_is_merged_and_the_branch_merges_later(
    root: Path, opened: Open
) -> None:
    text = change(NOTE, "Keys rotate weekly.", "Keys rotate daily.")
    commit_on(root, "main", {"notes/a.md": text})
    git(root, "reset", "-q", "--hard")
    vault, before = opened(root), git(root, "rev-parse", "HEAD")
    both = change(text, "  - auth\n", "  - auth\n  - theirs\n")

    promote_from(vault, "bots", ["notes/a.md", GANGWAY])

    assert (root / "notes/a.md").read_text() == both
    assert events(root, before) == [
        "Bob <bob@example.org>|take: a from bots",
        f"claude <claude@agents.localhost>|take: {Path(GANGWAY).stem} from bots",
        f"{PERSON[0]} <{PERSON[1]}>|promote: a and gangway",
    ]
    commit_on(root, "bots", {GANGWAY: git(root, "show", f"bots:{GANGWAY}") + "\n\nAnd wet.\n"})
    merge_branch(vault, "bots")
    assert (root / "notes/a.md").read_text() == both
    merged = (root / GANGWAY).read_text()
    assert ("state: active" in merged, "And wet." in merged) == (True, True)
    assert is_clean(root)


def test_what_is_here_already_and_active_makes_no_commit(root: Path, opened: Open) -> None:
    vault, before = opened(root), look_around(root)

    done = promote_from(vault, "bots", ["same"])

    assert (done.notes, done.report.commits, done.report.paths) == (
        (("notes/same.md", "active"),),
        (),
        (),
    )
    assert look_around(root) == before


def test_what_nobody_committed_here_goes_first_as_its_writers(root: Path, opened: Open) -> None:
    write_notes(root, {"notes/a.md": change(NOTE, "weekly", "daily")})
    before = git(root, "rev-parse", "HEAD")

    done = promote_from(opened(root, agent="bot"), "bots", ["a"])

    assert events(root, before) == [
        f"{PERSON[0]} <{PERSON[1]}>|edit: a",
        "Bob <bob@example.org>|take: a from bots",
        "bot <bot@agents.localhost>|promote: a",
    ]
    assert [subject for _, subject in done.report.commits] == [
        *("edit: a", "take: a from bots", "promote: a")
    ]
    text = (root / "notes/a.md").read_text()
    assert ("daily" in text, "  - theirs\n" in text) == (True, True)
    assert done.trusted == ()


def test_what_others_left_uncommitted_elsewhere_and_staged_stays(root: Path, opened: Open) -> None:
    write_notes(root, {"notes/same.md": "staged\n", "notes/new.md": "new\n"})
    git(root, "add", "notes/same.md")
    write_notes(root, {"notes/same.md": "and changed\n"})
    staged, unstaged = git(root, "diff", "--cached"), git(root, "diff")

    promote_from(opened(root), "bots", [GANGWAY])

    assert (git(root, "diff", "--cached"), git(root, "diff")) == (staged, unstaged)
    assert git(root, "status", "--porcelain").splitlines() == [
        "MM notes/same.md",
        "?? notes/new.md",
    ]


def test_a_conflict_tells_both_sides_and_changes_nothing(root: Path, opened: Open) -> None:
    mine = change(NOTE, "are opaque", "are clear")
    commit_on(root, "main", {"notes/a.md": mine}, "ours", "Ada <ada@example.org>")
    commit_on(root, "bots", {"notes/a.md": change(NOTE, "are opaque", "are odd")})
    git(root, "reset", "-q", "--hard")
    before, refs = look_around(root), list_refs(root)

    with pytest.raises(MergeConflictError, match=r"notes/a\.md: changed differently") as raised:
        promote_from(opened(root), "bots", [GANGWAY, "a"])

    [conflict] = raised.value.conflicts
    assert (conflict.path, conflict.what) == ("notes/a.md", "line 11")
    assert (conflict.ours, conflict.theirs) == ("Tokens are clear.\n", "Tokens are odd.\n")
    assert (conflict.our_author, conflict.their_author) == ("Ada", "Bob")
    assert (look_around(root), list_refs(root)) == (before, refs)


def test_what_may_not_be_promoted_changes_nothing(root: Path, opened: Open) -> None:
    archived = change(NOTE, "state: active", "state: archived")
    files = {"notes/old.md": archived, "notes/leak.md": f"x\n{KEY}\n", "notes/A.md": "twin\n"}
    commit_on(root, "bots", {**files, "notes/GANGWAY.md": CANDIDATE})
    commit_on(root, "bots", {"notes/link.md": ("120000", "/etc/passwd")})
    write_notes(root, {"notes/gangway.md": "here\n"})
    vault, before, refs = opened(root), look_around(root), list_refs(root)
    refused: list[tuple[str, str, type[VaultError], str]] = [
        ("bots", "notes/old.md", RefusedError, "archived"),
        ("bots", "notes/leak.md", RefusedError, "notes/leak.md:2: this looks like a credential"),
        ("bots", "notes/A.md", RefusedError, "a.md differs from it only in upper and lower case"),
        ("bots", "notes/GANGWAY.md", RefusedError, "in upper and lower case"),
        ("bots", "notes/a.md#Rotation", RefusedError, "promote the whole note"),
        ("bots", "../a.md", RefusedError, r"\.\."),
        ("bots", ".git/config", RefusedError, ".git"),
        ("bots", "notes/link.md", NoteNotFoundError, "link"),
        ("bots", "nothing", NoteNotFoundError, "nothing"),
        ("nowhere", GANGWAY, NoteNotFoundError, "nowhere"),
        ("-x", GANGWAY, RefusedError, "-x"),
    ]

    for source, address, error, told in refused:
        with pytest.raises(error, match=told):
            promote_from(vault, source, [GANGWAY, address])
    with pytest.raises(RefusedError, match="drop --ref"):
        promote_from(opened(root, ref="bots"), "main", ["a"])

    assert (look_around(root), list_refs(root)) == (before, refs)


@pytest.mark.parametrize("how", ["a merge", "detached", "index.lock"])
def test_nothing_is_taken_while_git_is_busy(root: Path, opened: Open, how: str) -> None:
    if how == "a merge":
        (root / ".git/MERGE_HEAD").write_text(git(root, "rev-parse", "bots") + "\n")
    elif how == "detached":
        git(root, "checkout", "-q", "--detach")
    else:
        lock_git(root)
    before, refs = look_around(root), list_refs(root)

    with pytest.raises(PendingError, match=f"not promoted: .*{how}"):
        promote_from(opened(root), "bots", [GANGWAY])

    assert (look_around(root), list_refs(root)) == (before, refs)


def test_what_git_ignores_here_is_not_written_over(root: Path, opened: Open) -> None:
    text = git(root, "show", f"bots:{GANGWAY}") + "\n"
    write_notes(root, {".git/info/exclude": "/notes/inbox/\n", GANGWAY: text})
    before = look_around(root)

    with pytest.raises(PendingError, match=f"{GANGWAY}: not promoted, because no commit has"):
        promote_from(opened(root), "bots", [GANGWAY])

    assert look_around(root) == before


def test_nothing_can_be_taken_before_the_first_commit(root: Path, opened: Open) -> None:
    git(root, "checkout", "-q", "--orphan", "unborn")
    git(root, "rm", "-q", "-r", "--cached", ".")
    for path in ("notes/a.md", "notes/same.md"):
        (root / path).unlink()

    promote_from(opened(root), "bots", [GANGWAY])

    assert git(root, "log", "--format=%an", "unborn").splitlines() == [PERSON[0], "claude"]
    assert git(root, "ls-tree", "-r", "--name-only", "HEAD") == GANGWAY


# ---- somebody saves, commits or fails in the middle


@pytest.mark.parametrize("step", ["create_file", "replace_file", "write_commits"])
def test_a_failure_anywhere_leaves_all_as_it_was(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    owner: Any = VaultHistory if step == "write_commits" else move
    vault, before, real = opened(root), look_around(root), getattr(owner, step)
    sync_vault(vault)
    calls: list[int] = []

    def fail(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            return real(*arguments)
        if step != "write_commits":
            real(*arguments)
        raise VaultError("disk full")

    monkeypatch.setattr(owner, step, fail)
    with pytest.raises(VaultError, match="disk full"):
        promote_from(vault, "bots", ["a", GANGWAY])
    monkeypatch.undo()

    after = look_around(root)
    assert {name: each[3] for name, each in after.pop("files").items()} == {
        name: each[3] for name, each in before.pop("files").items()
    }
    assert after == before
    assert is_clean(root)


def test_a_save_or_commit_at_the_same_moment_is_kept_and_merged_with(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault, real = opened(root), promoted_notes.draft_event
    late: list[str] = []

    def interfere(*arguments: Any) -> Any:
        if not late:
            late.append("")
            write_notes(root, {"notes/a.md": change(NOTE, "weekly", "daily")})
            git(root, "commit", "-q", "--allow-empty", "--only", "-m", "by the person")
        return real(*arguments)

    monkeypatch.setattr(promoted_notes, "draft_event", interfere)
    promote_from(vault, "bots", ["a"])

    text = (root / "notes/a.md").read_text()
    assert ("daily" in text, "  - theirs\n" in text) == (True, True)
    subjects = git(root, "log", "-4", "--format=%s").splitlines()
    assert subjects == [*("promote: a", "take: a from bots", "edit: a", "by the person")]
    assert is_clean(root)


def test_who_keeps_saving_keeps_their_note(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault, real = opened(root), move.replace_file
    saved: list[str] = []

    def save_first(folder: Path, path: PurePosixPath, *rest: Any) -> None:
        saved.append(change(NOTE, "weekly", f"at {len(saved)}"))
        (folder / path).write_text(saved[-1])
        real(folder, path, *rest)

    monkeypatch.setattr(move, "replace_file", save_first)
    with pytest.raises(ConflictError):
        promote_from(vault, "bots", ["a"])

    assert (root / "notes/a.md").read_text() == saved[-1]
    assert "take" not in git(root, "log", "--format=%s")
    save_checkpoint(vault, "after")
    assert is_clean(root)
