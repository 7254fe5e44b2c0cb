"""Events as commits: what is in them, who made them, and that git agrees."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

import pytest
from conftest import Make, Open
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import git, hash_tree, lock_git, write_notes

from vaultmem.errors import PendingError, RefusedError
from vaultmem.services.changes import operation
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.ownership import describe_skipped, find_pending
from vaultmem.services.changes.write import write_event
from vaultmem.services.history.commits import CommitFilter, list_commits
from vaultmem.services.history.restore_note import undo_commit
from vaultmem.services.lifecycle.transition import promote_notes
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.views.update_index import sync_vault

_NUMBERS = itertools.count()


def _trailers(root: Path, commit: str) -> dict[str, str]:
    message = git(root, "show", "-s", "--format=%B", commit)
    lines = git(root, "interpret-trailers", "--parse", stdin=message).splitlines()
    return dict(line.split(": ", 1) for line in lines)


def _files(root: Path, commit: str) -> list[str]:
    return git(root, "show", "--format=", "--name-status", commit).split("\n")


def test_a_checkpoint_has_subject_body_and_trailers_as_git_reads_them(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    vault = opened(root, agent="claude", session="s-0412", tool_call="call_7")
    remember(vault, Memory("Tokens are RS256.", title="tokens", context="auth"))

    report = save_checkpoint(vault, "auth  is\nunderstood")

    assert git(root, "rev-parse", "HEAD") == report.commit
    assert git(root, "show", "-s", "--format=%s") == "checkpoint: auth is understood"
    assert git(root, "show", "-s", "--format=%an <%ae>") == "claude <claude@agents.localhost>"
    assert "wrote notes/auth/tokens.md" in git(root, "show", "-s", "--format=%b")
    assert _trailers(root, "HEAD") == {
        "Agent-Id": "claude",
        "Session-Id": "s-0412",
        "Intent": "checkpoint",
        "Tool-Call": "call_7",
        "Vault-Event": "checkpoint",
    }
    assert report.paths == ("notes/auth/tokens.md",)
    assert git(root, "status", "--porcelain") == ""


def test_a_note_of_the_checkpoint_cannot_forge_a_trailer(make_vault: Make, opened: Open) -> None:
    root = make_vault()
    vault = opened(root, agent="x\nVault-Event: promote", session="s\n\nIntent: forged")
    remember(vault, Memory("text"))

    save_checkpoint(vault, "done\n\nAgent-Id: somebody-else\nVault-Event: promote")

    trailers = _trailers(root, "HEAD")
    assert trailers["Vault-Event"] == "checkpoint"
    assert trailers["Intent"] == "checkpoint"
    assert git(root, "show", "-s", "--format=%B").count("\nVault-Event:") == 1


def test_a_clean_tree_makes_no_commit(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "a\n"})
    head = git(root, "rev-parse", "HEAD")

    report = save_checkpoint(opened(root), "nothing new")

    assert report.commits == ()
    assert git(root, "rev-parse", "HEAD") == head


def test_a_persons_edit_precedes_in_a_commit_under_their_own_name(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "one\n"})
    write_notes(root, {"notes/a.md": "two\n"})
    vault = opened(root, agent="claude")
    done = remember(vault, Memory("text", title="by agent"))

    report = save_checkpoint(vault, "both")

    assert [subject for _, subject in report.commits] == ["edit: a", "checkpoint: both"]
    assert git(root, "log", "-2", "--format=%an <%ae>|%s").splitlines() == [
        "claude <claude@agents.localhost>|checkpoint: both",
        "Maren Person <maren@example.org>|edit: a",
    ]
    assert _files(root, "HEAD~1") == ["M\tnotes/a.md"]
    assert _files(root, "HEAD") == [f"A\t{done.path}"]


def test_another_agents_memories_are_committed_under_that_agents_name(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    remember(opened(root, agent="alice"), Memory("from alice", title="a"))
    bob = opened(root, agent="bob")
    remember(bob, Memory("from bob", title="b"))

    save_checkpoint(bob, "mine")

    assert git(root, "log", "-2", "--format=%an").splitlines() == ["bob", "alice"]
    assert _files(root, "HEAD") == ["A\tnotes/inbox/b.md"]
    assert _files(root, "HEAD~1") == ["A\tnotes/inbox/a.md"]


def test_an_agents_note_that_a_person_rewrote_is_the_agents_and_then_the_persons(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    vault = opened(root, agent="claude")
    done = remember(vault, Memory("draft", title="n"))
    (root / done.path).write_text("rewritten by hand\n")

    save_checkpoint(vault, "x")

    authors = git(root, "log", "--format=%an", "--", done.path).splitlines()
    assert authors == ["Maren Person", "claude"]


def test_promote_commits_only_the_promoted_note(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/c.md": "---\nstate: candidate\n---\nfact\n"})
    vault = opened(root, agent="claude")
    other = remember(vault, Memory("not promoted", title="other"))
    sync_vault(vault)

    done = promote_notes(vault, ["c"])

    assert done.notes == (("notes/c.md", "candidate"),)
    assert git(root, "show", "-s", "--format=%s|%an") == "promote: c|claude"
    assert git(root, "show", "-s", "--format=%b").startswith("notes/c.md: candidate to active")
    assert _files(root, "HEAD") == ["M\tnotes/c.md"]
    assert _trailers(root, "HEAD")["Vault-Event"] == "promote"
    assert git(root, "status", "--porcelain", "-uall") == f"?? {other.path}"
    assert (root / "notes/c.md").read_text() == "---\nstate: active\n---\nfact\n"


def test_a_person_edit_of_the_promoted_note_is_committed_as_theirs_first(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/c.md": "---\nstate: candidate\n---\nfact\n"})
    (root / "notes/c.md").write_text("---\nstate: candidate\n---\nbetter fact\n")
    vault = opened(root, agent="claude")
    sync_vault(vault)

    promote_notes(vault, ["c"])

    assert git(root, "show", "HEAD~1:notes/c.md").endswith("better fact")
    assert git(root, "log", "-2", "--format=%an|%s").splitlines() == [
        "claude|promote: c",
        "Maren Person|edit: c",
    ]
    assert git(root, "show", "--format=", "--numstat", "HEAD") == "1\t1\tnotes/c.md"


def test_of_what_is_active_a_promotion_says_only_that_it_instructs(
    make_vault: Make, opened: Open
) -> None:
    rule = "---\nkind: policy_rule\nstate: active\n---\n# R\n\nWear a vest.\n"
    root = make_vault({"notes/a.md": "# A\n\nOld.\n", "notes/r.md": rule})
    write_notes(root, {"notes/a.md": "# A\n\nNew.\n", "notes/r.md": f"{rule}Always.\n"})
    head = git(root, "rev-parse", "HEAD")

    done = promote_notes(opened(root, agent="claude"), ["notes/a.md", "notes/r.md"])

    assert (done.notes, done.report.commits) == ((), ())
    assert done.active == ("notes/a.md", "notes/r.md")
    assert git(root, "rev-parse", "HEAD") == head
    done = promote_notes(opened(root), ["notes/a.md", "notes/r.md"])
    assert (done.trusted, done.active) == (("notes/r.md",), ("notes/a.md",))
    assert "promote" not in git(root, "log", "--format=%s", f"{head}..")
    assert promote_notes(opened(root), ["notes/r.md"]).notes == ()


def test_a_note_that_may_not_be_promoted_changes_nothing(make_vault: Make, opened: Open) -> None:
    notes = {
        "notes/a.md": "---\nstate: candidate\n---\n",
        "notes/q.md": "---\nstate: quarantined\n---\n",
    }
    root = make_vault(notes)
    vault = opened(root)
    sync_vault(vault)
    before = hash_tree(root)

    with pytest.raises(RefusedError, match="quarantined"):
        promote_notes(vault, ["a", "q"])

    assert hash_tree(root) == before


def test_what_a_person_staged_outside_the_vault_survives_byte_for_byte(
    home: Path, tmp_path: Path, opened: Open
) -> None:
    root = tmp_path / "repo"
    write_notes(root, {"src/app.py": "one\n", "src/old.py": "x\n", "memory/notes/a.md": "a\n"})
    git(tmp_path, "init", "-q", str(root))
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "first")
    write_notes(root, {"src/app.py": "two\n", "src/new.py": "new\n"})
    git(root, "add", "--all")
    git(root, "rm", "-q", "--cached", "src/old.py")
    write_notes(root, {"src/app.py": "three, not staged\n"})
    create_vault(root / "memory").vault.close()
    staged, entries = git(root, "diff", "--cached", "--binary"), git(root, "ls-files", "-s", "src")
    vault = opened(root / "memory", agent="claude")
    remember(vault, Memory("text", title="n"))

    save_checkpoint(vault, "memory")

    assert staged
    assert git(root, "diff", "--cached", "--binary") == staged
    assert git(root, "ls-files", "-s", "src") == entries
    assert (root / "src/app.py").read_text() == "three, not staged\n"


def test_a_staged_version_that_differs_from_the_work_tree_stays_staged(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "one\n", "notes/kept.md": "kept\n"})
    write_notes(root, {"notes/a.md": "staged\n"})
    git(root, "add", "notes/a.md")
    git(root, "rm", "-q", "--cached", "notes/kept.md")
    write_notes(root, {"notes/a.md": "newer\n"})
    vault = opened(root, agent="claude")

    save_checkpoint(vault, "x")

    assert git(root, "show", ":notes/a.md") == "staged"
    assert git(root, "show", "HEAD:notes/a.md") == "newer"
    assert git(root, "diff", "--cached", "--name-status", "--", "notes/kept.md").startswith("D")


def test_the_persons_next_commit_does_not_revert_the_agents_note(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "---\nstate: candidate\n---\n", "notes/mine.md": "1\n"})
    vault = opened(root, agent="claude")
    remember(vault, Memory("new", title="new"))
    sync_vault(vault)
    promote_notes(vault, ["notes/a.md"])
    save_checkpoint(vault, "x")
    write_notes(root, {"notes/mine.md": "2\n"})
    git(root, "add", "notes/mine.md")

    git(root, "commit", "-q", "-m", "mine")

    assert _files(root, "HEAD") == ["M\tnotes/mine.md"]


def test_a_deleted_note_is_committed_as_a_removal(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "a\n", "notes/b.md": "b\n"})
    (root / "notes/a.md").unlink()

    save_checkpoint(opened(root), "gone")

    assert git(root, "log", "--diff-filter=D", "--name-only", "--format=") == "notes/a.md"
    assert git(root, "status", "--porcelain") == ""


def test_files_over_a_mebibyte_are_left_out_and_named(make_vault: Make, opened: Open) -> None:
    root = make_vault()
    size = 1024 * 1024
    write_notes(root, {"big.bin": b"x" * (size + 1), "fits.bin": b"x" * size})
    write_notes(root, {"notes/big.md": b"x" * (size + 1)})

    report = save_checkpoint(opened(root), "x")

    assert set(report.skipped) == {"big.bin", "notes/big.md"}
    assert all("larger than 1 MiB" in reason for reason in report.skipped.values())
    assert "fits.bin" in git(root, "ls-files").split()
    status = git(root, "status", "--porcelain", "-uall")
    assert status.splitlines() == ["?? big.bin", "?? notes/big.md"]

    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "by hand")
    assert find_pending(opened(root)).skipped == {}
    write_notes(root, {"big.bin": b"y" * (size + 1)})
    skipped = find_pending(opened(root)).skipped
    assert describe_skipped(skipped) == ["big.bin: larger than 1 MiB"]
    told = describe_skipped(dict.fromkeys("abcde", "larger than 1 MiB"))
    assert told == ["a, b, c and 2 more: larger than 1 MiB"]


def test_other_files_are_committed_with_their_bytes_and_mode(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    write_notes(
        root, {"pic.png": b"\x89PNG\r\n\0\xff", "tool.sh": "#!/bin/sh\n", "crlf.txt": "a\r\n"}
    )
    (root / "tool.sh").chmod(0o755)
    git(root, "config", "core.autocrlf", "true")

    save_checkpoint(opened(root), "x")

    listed = git(root, "ls-tree", "HEAD", "pic.png", "tool.sh", "crlf.txt")
    assert [line.split()[0] for line in listed.splitlines()] == ["100644", "100644", "100755"]
    assert git(root, "cat-file", "-s", "HEAD:pic.png") == "8"
    assert git(root, "cat-file", "-s", "HEAD:crlf.txt") == "3"


def test_ignored_files_are_not_committed(make_vault: Make, opened: Open) -> None:
    root = make_vault()
    write_notes(root, {".gitignore": "*.secret\n/private/\n", ".git/info/exclude": "local.md\n"})
    write_notes(root, {"x.secret": "s", "private/n.md": "p", "local.md": "l", "seen.md": "v"})

    save_checkpoint(opened(root), "x")

    listed = git(root, "ls-files").split()
    assert "seen.md" in listed
    assert not {"x.secret", "private/n.md", "local.md"} & set(listed)


def test_a_vault_in_a_subfolder_commits_only_its_own_folder(
    home: Path, tmp_path: Path, opened: Open
) -> None:
    root = tmp_path / "repo"
    write_notes(root, {"app.py": "1\n", "memory/notes/a.md": "a\n", "memory-2/b.md": "b\n"})
    git(tmp_path, "init", "-q", str(root))
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "first")
    write_notes(root, {"app.py": "2\n", "new.py": "\n", "memory/notes/a.md": "b\n"})
    (root / "memory-2/b.md").unlink()

    save_checkpoint(opened(root / "memory"), "x")

    paths = git(root, "log", "--format=", "--name-only", "HEAD~1..HEAD").split()
    assert "memory/notes/a.md" in git(root, "log", "-2", "--format=", "--name-only").split()
    assert all(path.startswith("memory/") for path in paths)
    status = git(root, "status", "--porcelain").splitlines()
    assert sorted(status) == [" D memory-2/b.md", " M app.py", "?? new.py"]


def test_row_24_a_credential_is_not_committed_and_its_place_is_named(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    key = "AKIA" + "IOSFODNN7EXAMPLQ"
    write_notes(root, {"notes/leak.md": f"# a\n\nkey {key}\n"})
    head = git(root, "rev-parse", "HEAD")

    with pytest.raises(RefusedError, match=r"notes/leak\.md:3: aws-access-token") as refusal:
        save_checkpoint(opened(root), "x")

    assert key not in str(refusal.value)
    assert git(root, "rev-parse", "HEAD") == head


def test_row_24_a_credential_in_utf16_is_seen_as_powershell_writes_it(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"a.md": "Fine.\n"})
    (root / "log.md").write_bytes(("one\nkey AKIA" + "IOSFODNN7EXAMPLQ\n").encode("utf-16"))
    with pytest.raises(RefusedError, match=r"log\.md:2: "):
        save_checkpoint(opened(root), "all")


def test_row_24_a_promote_never_commits_a_credential_that_lies_elsewhere(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/c.md": "---\nstate: candidate\n---\nfact\n"})
    key = "AKIA" + "IOSFODNN7EXAMPLQ"
    write_notes(root, {"notes/leak.md": key})
    vault = opened(root)
    sync_vault(vault)

    done = promote_notes(vault, ["c"])

    assert "aws-access-token" in done.report.skipped["notes/leak.md"]
    assert key not in str(done.report.skipped)
    assert git(root, "log", "--all", "-S", key, "--format=%h") == ""


def test_row_24_a_note_with_a_credential_is_not_promoted(make_vault: Make, opened: Open) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLQ"
    root = make_vault({"notes/c.md": f"---\nstate: candidate\n---\n{key}\n"})

    with pytest.raises(RefusedError):
        promote_notes(opened(root), ["notes/c.md"])

    assert "state: candidate" in (root / "notes/c.md").read_text()


def test_a_file_that_became_a_folder_and_a_folder_that_became_a_file_are_committed(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"auth": "file\n", "deploy/a.md": "a\n"})
    (root / "auth").unlink()
    (root / "deploy/a.md").unlink()
    (root / "deploy").rmdir()
    write_notes(root, {"auth/a.md": "a\n", "deploy": "file\n"})

    save_checkpoint(opened(root), "x")

    assert {"auth/a.md", "deploy"} <= set(git(root, "ls-files").split())
    assert git(root, "status", "--porcelain") == ""


def test_an_empty_folder_in_a_files_place_is_committed_as_a_removal(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "a\n"})
    (root / "notes/a.md").unlink()
    (root / "notes/a.md").mkdir()

    save_checkpoint(opened(root), "x")

    assert git(root, "ls-files", "notes") == ""
    assert git(root, "status", "--porcelain") == ""


def test_the_author_line_is_text_with_the_agents_name_and_nothing_else(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"vaultmem.yaml": 'author: "{agent} of us <bot@example.org>"\n'})
    vault = opened(root, agent="claude")
    remember(vault, Memory("text"))

    save_checkpoint(vault, "x")

    assert git(root, "show", "-s", "--format=%an|%ae") == "claude of us|bot@example.org"


def _start_merge(root: Path) -> None:
    git(root, "config", "--remove-section", "merge.vaultmem")  # With it, git stops at no note.
    git(root, "switch", "-q", "-c", "side")
    write_notes(root, {"notes/a.md": "side\n"})
    git(root, "commit", "-q", "-am", "side")
    git(root, "switch", "-q", "main")
    write_notes(root, {"notes/a.md": "main\n"})
    git(root, "commit", "-q", "-am", "main")
    git(root, "merge", "side", check=False)


def _start_rebase(root: Path) -> None:
    _start_merge(root)
    git(root, "merge", "--abort")
    git(root, "rebase", "side", check=False)


def _start_bisect(root: Path) -> None:
    write_notes(root, {"notes/a.md": "more\n"})
    git(root, "commit", "-q", "-am", "more")
    git(root, "bisect", "start")


OBSTACLES = {
    "merge": (_start_merge, lambda root: git(root, "merge", "--abort")),
    "rebase": (_start_rebase, lambda root: git(root, "rebase", "--abort")),
    "detached": (
        lambda root: git(root, "switch", "-q", "--detach"),
        lambda root: git(root, "switch", "-q", "main"),
    ),
    "bisect": (_start_bisect, lambda root: git(root, "bisect", "reset")),
    "index.lock": (
        lock_git,
        lambda root: (root / ".git/index.lock").unlink(),
    ),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_row_21_an_event_waits_while_git_is_busy_and_is_committed_with_the_next(
    make_vault: Make, opened: Open, name: str
) -> None:
    root = make_vault({"notes/a.md": "a\n"})
    start, finish = OBSTACLES[name]
    start(root)
    vault = opened(root, agent="claude")
    done = remember(vault, Memory("safe", title="safe"))
    before = hash_tree(root)
    heads = git(root, "for-each-ref")

    with pytest.raises(PendingError) as pending:
        save_checkpoint(vault, "first")

    assert pending.value.exit_code == 7
    assert hash_tree(root) == before
    assert git(root, "for-each-ref") == heads
    assert (root / done.path).is_file()
    finish(root)
    second = remember(vault, Memory("later", title="later"))
    save_checkpoint(vault, "second")
    subjects = git(root, "log", "--format=%s", "--grep=^Vault-Event: checkpoint").splitlines()
    assert "checkpoint: first" in subjects
    assert {done.path, second.path} <= set(git(root, "ls-files").split())
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.campaign
def test_row_21_a_lock_that_appears_in_the_middle_of_a_commit_makes_the_event_wait(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault()
    vault = opened(root, agent="claude")
    remember(vault, Memory("safe", title="safe"))
    head = git(root, "rev-parse", "HEAD")
    lock = root / ".git/index.lock"
    _on_git_call(monkeypatch, "unpack-objects", lambda: lock.write_text("theirs"))

    with pytest.raises(PendingError, match=r"index\.lock exists"):
        save_checkpoint(vault, "first")

    assert lock.read_text() == "theirs"
    assert git(root, "rev-parse", "HEAD") == head
    lock.unlink()
    monkeypatch.undo()
    assert [event["name"] for _, event in vault.operations.list_waiting()] == ["checkpoint"]


def test_entries_that_stay_staged_beside_a_waiting_event_are_not_taken_for_the_persons(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault({"notes/a.md": "one\n"})
    vault = opened(root, agent="claude")
    locks = [root / ".git/index.lock", root / ".git/refs/heads/main.lock"]
    _on_git_call(monkeypatch, "update-ref", lambda: [lock.write_text("theirs") for lock in locks])
    edits = {PurePosixPath("notes/a.md"): lambda note: note.text + "two\n"}
    event = Event("state", "state: a", vault.author, ("because",), "refine")

    with pytest.raises(PendingError):
        write_event(vault, edits, event)
    monkeypatch.undo()
    for lock in locks:
        lock.unlink()
    assert git(root, "diff", "--cached", "--name-only") == "notes/a.md"
    write_notes(root, {"notes/a.md": "three\n"})

    save_checkpoint(vault, "again")

    assert git(root, "status", "--porcelain") == ""


def _on_git_call(patch: pytest.MonkeyPatch, command: str, act: Callable[[], object]) -> None:
    """Do something once, just before git is started with this command."""
    import git as gitpython

    original = gitpython.Git.execute

    def execute(self: object, arguments: list[str], *rest: object, **named: object) -> object:
        if command in arguments:
            act()
        return original(self, arguments, *rest, **named)

    patch.setattr(gitpython.Git, "execute", execute)


def test_a_commit_that_somebody_makes_in_between_is_built_upon(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault({"notes/a.md": "a\n"})
    vault = opened(root, agent="claude")
    done = remember(vault, Memory("mine", title="mine"))
    made: list[str] = []

    def commit_between() -> None:
        if not made:
            write_notes(root, {"notes/a.md": "theirs\n"})
            git(root, "commit", "-q", "-m", "between", "--only", "notes/a.md")
            made.append(git(root, "rev-parse", "HEAD"))

    _on_git_call(monkeypatch, "update-ref", commit_between)

    report = save_checkpoint(vault, "x")

    assert git(root, "rev-parse", "HEAD~1") == made[0]
    assert git(root, "rev-parse", "HEAD") == report.commit
    assert git(root, "show", "HEAD:notes/a.md") == "theirs"
    assert _files(root, "HEAD") == [f"A\t{done.path}"]
    assert git(root, "status", "--porcelain") == ""


def test_a_note_that_somebody_commits_newer_in_between_is_not_put_back(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault({"notes/a.md": "one\n", "notes/b.md": "b\n"})
    write_notes(root, {"notes/a.md": "two\n", "notes/b.md": "changed\n"})
    made: list[str] = []

    def commit_between() -> None:
        if not made:
            write_notes(root, {"notes/a.md": "three\n"})
            git(root, "commit", "-q", "-m", "between", "--only", "notes/a.md")
            made.append(git(root, "rev-parse", "HEAD"))

    _on_git_call(monkeypatch, "update-ref", commit_between)

    save_checkpoint(opened(root), "x")

    assert git(root, "show", "HEAD:notes/a.md") == "three"
    assert git(root, "log", "--format=%s", "--", "notes/a.md").splitlines()[0] == "between"
    assert git(root, "show", "HEAD:notes/b.md") == "changed"
    assert git(root, "status", "--porcelain") == ""


def test_row_21_a_branch_that_git_has_locked_makes_the_event_wait_and_stages_nothing(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "a\n"})
    write_notes(root, {"notes/a.md": "b\n"})
    vault = opened(root, agent="claude")
    lock_git(root, "refs/heads/main.lock")

    with pytest.raises(PendingError, match="another git is at work"):
        save_checkpoint(vault, "first")

    assert git(root, "diff", "--cached", "--name-only") == ""
    (root / ".git/refs/heads/main.lock").unlink()
    save_checkpoint(vault, "second")
    assert git(root, "status", "--porcelain") == ""


def test_an_event_is_one_move_of_the_branch_and_few_git_processes(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    import git as gitpython

    root = make_vault({f"notes/n{n}.md": "x\n" for n in range(50)})
    write_notes(root, {"notes/n0.md": "by hand\n"})
    save_checkpoint(opened(root), "warm")
    for agent in ("alice", "bob", "claude"):
        remember(opened(root, agent=agent), Memory("text", title=agent))
    write_notes(root, {"notes/n1.md": "by hand\n"})
    moves = len(git(root, "reflog").splitlines())
    started: list[list[str]] = []
    original = gitpython.Git.execute

    def execute(self: object, arguments: list[str], *rest: object, **named: object) -> object:
        started.append(arguments)
        return original(self, arguments, *rest, **named)

    monkeypatch.setattr(gitpython.Git, "execute", execute)

    report = save_checkpoint(opened(root, agent="claude"), "x")

    assert len(report.commits) == 4
    assert len(started) <= 7
    costly = {"ls-tree", "read-tree", "diff-tree", "log"}
    assert not [arguments for arguments in started if costly & {*arguments}]
    assert len(git(root, "reflog").splitlines()) == moves + 1


def test_a_note_that_a_sparse_checkout_leaves_out_is_not_removed(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/kept/a.md": "a\n", "notes/left-out/b.md": "b\n", "notes/c.md": "c\n"})
    git(root, "sparse-checkout", "set", "notes/kept")
    assert not (root / "notes/left-out").exists()
    (root / "notes/c.md").unlink()

    save_checkpoint(opened(root), "x")

    names = git(root, "ls-tree", "-r", "--name-only", "HEAD", "notes").split()
    assert names == ["notes/kept/a.md", "notes/left-out/b.md"]


def test_a_file_that_git_takes_for_its_own_folder_is_left_out_and_named(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    write_notes(root, {"notes/git~1/a.md": "a\n", "notes/b.md": "b\n"})

    report = save_checkpoint(opened(root), "x")

    assert report.skipped == {"notes/git~1/a.md": "git takes no file of this name"}
    assert "notes/b.md" in git(root, "ls-files").split()
    assert "error" not in git(root, "fsck", "--strict", "--no-dangling", "--no-progress")


def test_a_lost_database_changes_no_commit(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "a\n", "notes/b.md": "b\n"})
    vault = opened(root)
    save_checkpoint(vault, "one")
    vault.close()
    for file in vault.state_folder.iterdir():
        if file.is_file():
            file.unlink()
    (root / "notes/a.md").unlink()
    write_notes(root, {"notes/c.md": "c\n"})

    report = save_checkpoint(opened(root), "two")

    assert _files(root, report.commits[0][0]) == ["D\tnotes/a.md", "A\tnotes/c.md"]
    assert git(root, "status", "--porcelain") == ""


def test_the_commits_mode_of_a_note_is_that_of_the_file(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "a\n"})
    (root / "notes/a.md").write_text("b\n")
    assert not (root / "notes/a.md").stat().st_mode & stat.S_IXUSR

    save_checkpoint(opened(root), "x")

    assert git(root, "ls-tree", "HEAD", "notes/a.md").startswith("100644 ")


@pytest.mark.parametrize("agent", ["", "claude"])
def test_a_checkpoint_without_a_note_is_named_after_its_files(
    make_vault: Make, opened: Open, agent: str
) -> None:
    root = make_vault({"notes/a.md": "one\n"})
    write_notes(root, {"notes/a.md": "two\n", "notes/b.md": "b\n"})
    vault = opened(root, agent=agent)
    done = remember(vault, Memory("text", title="gulls")) if agent else None

    report = save_checkpoint(vault, " \n ")

    edits = "edit: a and b" if done else "checkpoint: a and b"
    assert [subject for _, subject in report.commits] == [
        edits,
        *(["checkpoint: gulls"] if done else []),
    ]
    assert (
        git(root, "log", "-1", "--format=%(trailers:key=Vault-Event)").strip()
        == "Vault-Event: checkpoint"
    )


def test_a_checkpoint_without_a_note_or_a_change_of_its_author_has_no_commit_of_its_own(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "one\n"})
    remember(opened(root, agent="claude"), Memory("text", title="gulls"))

    report = save_checkpoint(opened(root))

    assert [subject for _, subject in report.commits] == ["write: gulls"]
    assert (report.commit, report.paths) == ("", ())


def test_a_persons_checkpoint_has_their_edits_and_none_of_anothers(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "one\n", "notes/gone.md": "gone\n"})
    theirs = remember(opened(root, agent="claude"), Memory("Gulls nest in May.", title="gulls"))
    edited = remember(opened(root, agent="codex"), Memory("Terns nest in June.", title="terns"))
    mine = remember(opened(root), Memory("The quay is wet.", title="quay"))
    (root / "notes/a.md").write_text("two\n")
    (root / "notes/gone.md").unlink()
    with (root / edited.path).open("a") as file:
        file.write("\nOr in July.\n")

    report = save_checkpoint(opened(root), "my own edits")

    log = git(root, "log", "-3", "--format=%an: %s", "--reverse").splitlines()
    assert log == [
        "codex: write: terns",
        "claude: write: gulls",
        "Maren Person: checkpoint: my own edits",
    ]
    assert report.commit == git(root, "rev-parse", "HEAD")
    assert sorted(_files(root, "HEAD")) == sorted(
        [
            "M\tnotes/a.md",
            "D\tnotes/gone.md",
            f"A\t{mine.path}",
            f"M\t{edited.path}",
        ]
    )
    assert _files(root, "HEAD~1") == [f"A\t{theirs.path}"]
    assert git(root, "status", "--porcelain") == ""


def test_undo_of_a_persons_checkpoint_takes_their_edits_back(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "one\n", "notes/b.md": "b\n"})
    write_notes(root, {"notes/a.md": "two\n", "notes/c.md": "new\n"})
    vault = opened(root)
    save_checkpoint(vault, "my own edits")

    undone = undo_commit(vault, "HEAD")

    assert sorted(undone.paths) == ["notes/a.md", "notes/c.md"]
    assert (root / "notes/a.md").read_text() == "one\n"
    assert not (root / "notes/c.md").exists()


def test_undo_of_a_commit_with_a_picture_names_the_command_that_can(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "one\n"})
    write_notes(root, {"notes/a.md": "one\n\n![[b.png]]\n", "notes/b.png": "x"})
    save_checkpoint(opened(root), "a picture")
    commit = git(root, "rev-parse", "HEAD")[:7]

    with pytest.raises(RefusedError, match=f"notes/b.png, which .* `git revert {commit}` takes"):
        undo_commit(opened(root), "HEAD")


def test_events_are_logged_newest_first(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/c.md": "---\nstate: candidate\n---\nfact\n"})
    vault = opened(root, agent="claude", session="s-1")
    sync_vault(vault)
    promote_notes(vault, ["c"])
    remember(vault, Memory("x"))
    save_checkpoint(vault, "done")

    events = list_commits(vault, CommitFilter(), 10).commits

    shown = [(event.event, event.agent, event.session) for event in events]
    assert shown[:2] == [("checkpoint", "claude", "s-1"), ("promote", "claude", "s-1")]
    assert [event.commit for event in events[:2]] == git(
        root, "log", "-2", "--format=%H"
    ).splitlines()


@pytest.mark.parametrize("after", ["changed", "removed", "as before"])
def test_row_26_a_kill_after_the_index_moved_and_before_head_did_leaves_nothing_staged(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    root = make_vault({"notes/a.md": "one\n"})
    vault = opened(root, agent="claude")
    write_notes(root, {"notes/a.md": "two\n", "notes/b.md": "new\n"})

    def stop() -> None:
        raise KeyboardInterrupt

    _on_git_call(monkeypatch, "update-ref", stop)
    monkeypatch.setattr(operation, "close_operation", lambda _: None)  # Killed, it undoes nothing.
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(vault, "killed")
    monkeypatch.undo()
    assert git(root, "diff", "--cached", "--name-only") == "notes/a.md\nnotes/b.md"
    if after == "changed":
        write_notes(root, {"notes/a.md": "three\n", "notes/b.md": "newer\n"})
    else:
        (root / "notes/b.md").unlink()
        write_notes(root, {"notes/a.md": "one\n", "notes/c.md": "c\n"})
        if after == "removed":
            (root / "notes/a.md").unlink()

    save_checkpoint(vault, "again")

    assert git(root, "status", "--porcelain") == ""
    assert "error" not in git(root, "fsck", "--no-dangling", "--no-progress")


_NAMES = st.lists(st.sampled_from(["a.md", "a", "b.md", "é.md", "x y"]), min_size=1, max_size=3)
_EDITS = st.dictionaries(_NAMES.map("/".join), st.none() | st.sampled_from(["1\n", "2\n"]))
_STEPS = st.lists(
    st.tuples(_EDITS, st.sampled_from(["checkpoint", "checkpoint", "git commit", "git reset"])),
    max_size=4,
)


def _edit(root: Path, edits: Mapping[str, str | None]) -> None:
    """Write or remove files as a person would, whatever stands in the way."""
    for path, text in edits.items():
        file = root / path
        if text is None:
            shutil.rmtree(file) if file.is_dir() else _unlink_if_there(file)
            continue
        for folder in reversed(file.relative_to(root).parents):
            if (root / folder).is_file():
                (root / folder).unlink()
        if file.is_dir():
            shutil.rmtree(file)
        write_notes(root, {path: text})


def _unlink_if_there(file: Path) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        file.unlink()


@pytest.mark.campaign
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=_STEPS)
def test_a_checkpoint_has_the_tree_that_git_add_all_would_make(
    make_vault: Make, opened: Open, steps: list[tuple[dict[str, str | None], str]]
) -> None:
    name = f"v{next(_NUMBERS)}"
    root = make_vault({"notes/first.md": "x\n"}, name=name)
    vault = opened(root)
    for edits, what in [*steps, ({}, "checkpoint")]:
        _edit(root / "notes", edits)
        if what == "checkpoint":
            save_checkpoint(vault, "x")
            assert git(root, "status", "--porcelain", "-uall") == ""
            git(root, "add", "--all")
            assert git(root, "write-tree") == git(root, "rev-parse", "HEAD^{tree}")
        elif what == "git commit":
            git(root, "add", "--all")
            git(root, "commit", "-q", "--allow-empty", "-m", "by git")
        else:
            git(root, "reset", "-q", "--hard", "HEAD~1" if _has_parent(root) else "HEAD")
    assert "error" not in git(root, "fsck", "--strict", "--no-dangling", "--no-progress")
    vault.close()


def _has_parent(root: Path) -> bool:
    return bool(git(root, "rev-parse", "-q", "--verify", "HEAD~1", check=False))
