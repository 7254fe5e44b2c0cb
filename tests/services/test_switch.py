"""Switching: the files, the index and HEAD become the branch's; nothing is overwritten or run."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from branching import (
    NOTE,
    Content,
    commit_on,
    disk_bytes,
    is_clean,
    list_refs,
    look_around,
    tree_bytes,
)
from conftest import Make, Open
from support import git, lock_git, write_notes

from vaultmem.core.search.query import parse_query
from vaultmem.errors import (
    ConflictError,
    NoteNotFoundError,
    PendingError,
    RefusedError,
    SystemFailureError,
    VaultError,
)
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.merging import branches
from vaultmem.services.merging.branches import switch_branch
from vaultmem.services.search.recall import recall
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage import scan_files as move
from vaultmem.storage.git.refs import Refs
from vaultmem.storage.journal import Operations

_HERE: dict[str, str | bytes] = {
    "notes/a.md": NOTE,
    "notes/gone/deep/er.md": "gone\n",
    "notes/crlf.md": b"---\r\nstate: active\r\n---\r\nbody\r\n",
    "notes/run.md": "run\n",
    "notes/file.md": "a file that becomes a folder\n",
    "notes/folder.md/in.md": "a folder that becomes a file\n",
    "notes/same.md": "same\n",
    "data.bin": bytes(range(256)),
    ".gitattributes": "* -text\n",
}
_THERE: dict[str, Content] = {
    "notes/a.md": NOTE + "- more\n",
    "notes/gone/deep/er.md": None,
    "notes/crlf.md": b"---\r\nstate: active\r\n---\r\nother\nmixed\r\n",
    "notes/run.md": ("100755", "run\n"),
    "notes/both.md": ("100755", "new and executable\n"),
    "notes/file.md": None,
    "notes/file.md/in.md": "now a folder\n",
    "notes/folder.md/in.md": None,
    "notes/folder.md": "now a file\n",
    "notes/with space/ünïcode 🚢.md": "ship\n",
    "notes/new\nline.md": "newline\n",
    "notes/-f.md": "option\n",
    "notes/:(top)x.md": "magic\n",
    "notes/*.md": "star\n",
    "notes/empty.md": "",
    "data.bin": bytes(reversed(range(256))),
    ".gitattributes": "* -text\n*.bin binary\n",
}


def lay(root: Path) -> None:
    """Make a vault with a branch `side` that differs in every way."""
    write_notes(root, _HERE)
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "notes")
    commit_on(root, "side", _THERE)


def test_files_index_and_head_become_the_branchs_and_back(root: Path, opened: Open) -> None:
    vault = opened(root)
    same = (root / "notes/same.md").stat().st_mtime_ns
    main = disk_bytes(root)

    target, files = switch_branch(vault, "side")

    assert (target.name, target.commit, files) == (
        "side",
        git(root, "rev-parse", "side"),
        len(_THERE),
    )
    assert disk_bytes(root) == tree_bytes(root, "side")
    assert is_clean(root)
    assert git(root, "symbolic-ref", "HEAD") == "refs/heads/side"
    assert (root / "notes/same.md").stat().st_mtime_ns == same
    assert not (root / "notes/gone").exists()
    assert "switch to side" in git(root, "reflog", "-1")
    assert [hit.record.path for hit in recall(vault, parse_query("ship"))] == [
        "notes/with space/ünïcode 🚢.md"
    ]
    assert switch_branch(vault, "side")[1] == 0
    switch_branch(vault, "main")
    assert disk_bytes(root) == tree_bytes(root, "main") == main
    assert is_clean(root)
    assert not recall(vault, parse_query("ship"))


def test_a_umask_is_heeded_as_git_does(root: Path, opened: Open) -> None:
    old = os.umask(0o077)
    try:
        switch_branch(opened(root), "side")
    finally:
        os.umask(old)

    modes = {
        name: (root / name).stat().st_mode & 0o777 for name in ("notes/both.md", "notes/-f.md")
    }
    assert modes == {"notes/both.md": 0o700, "notes/-f.md": 0o600}


def test_bytes_are_gits_own_and_no_filter_runs(root: Path, opened: Open, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for name in ("clean", "smudge", "process"):
        git(root, "config", f"filter.evil.{name}", f"touch {canary}; cat")
    git(root, "config", "filter.evil.required", "true")
    git(root, "config", "core.autocrlf", "true")
    git(root, "config", "core.fsmonitor", f"touch {canary}")
    hook = root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {canary}\n")
    hook.chmod(0o755)
    attributes = "* filter=evil ident working-tree-encoding=UTF-16\n"
    commit_on(root, "side", {".gitattributes": attributes, "notes/id.md": "$Id$\n"})

    switch_branch(opened(root), "side")

    assert disk_bytes(root) == tree_bytes(root, "side")
    assert not canary.exists()
    assert git(root, "diff-index", "--cached", "HEAD") == ""


def test_what_is_not_committed_is_not_left(root: Path, opened: Open) -> None:
    def edit() -> None:
        write_notes(root, {"notes/a.md": "mine\n"})

    def stage() -> None:
        git(root, "rm", "-q", "--cached", "data.bin")
        git(root, "update-index", "--chmod=+x", "notes/same.md")

    changes: list[tuple[Callable[[], None], str]] = [
        (edit, r"1 file is not committed \(notes/a\.md\); run `vaultmem checkpoint NOTE` first"),
        (lambda: write_notes(root, {"notes/x.md": "new\n"}), r"notes/x\.md"),
        (lambda: (root / "notes/same.md").unlink(), r"notes/same\.md"),
        (stage, "changes are staged"),
        (lambda: (root / ".git/MERGE_HEAD").write_text("x"), "a merge is under way"),
        (lambda: lock_git(root), "another git is at work"),
    ]
    for make, told in changes:
        make()
        before, refs = look_around(root), list_refs(root)
        vault = opened(root)
        with pytest.raises(PendingError, match=f"not switched: .*{told}"):
            switch_branch(vault, "side")
        with pytest.raises(PendingError, match=f"not switched: .*{told}"):
            switch_branch(vault, "new", create=True)
        assert (look_around(root), list_refs(root)) == (before, refs)
        for name in ("MERGE_HEAD", "index.lock"):
            (root / ".git" / name).unlink(missing_ok=True)
        git(root, "reset", "-q", "--hard")
        git(root, "clean", "-q", "-fd")


@pytest.mark.parametrize(
    ("path", "make"),
    [
        ("notes/-f.md", lambda file: file.write_text("mine, and ignored\n")),
        ("notes/-f.md", lambda file: file.symlink_to("a.md")),
        ("notes/empty.md", lambda file: file.mkdir()),
        ("notes/with space", lambda file: file.write_text("mine\n")),
        ("notes/with space", lambda file: file.symlink_to("gone")),
        ("notes/folder.md/mine.md", lambda file: file.write_text("mine\n")),
    ],
)
def test_a_file_in_the_way_is_never_overwritten(
    root: Path, opened: Open, path: str, make: Callable[[Path], None]
) -> None:
    exclude = root / ".git/info/exclude"
    exclude.write_text("*-f.md\nwith space\nmine.md\n")
    make(root / path)
    before, refs = look_around(root), list_refs(root)

    with pytest.raises(ConflictError):
        switch_branch(opened(root), "side")

    after = look_around(root)
    assert {n: f[::3] for n, f in after["files"].items()} == {
        n: f[::3] for n, f in before["files"].items()
    }
    assert (after["index"], after["HEAD"], list_refs(root)) == (
        before["index"],
        before["HEAD"],
        refs,
    )
    assert (root / path).exists() or (root / path).is_symlink()


def test_what_git_alone_can_check_out_is_refused_with_a_remedy(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "a\n"})
    branches: dict[str, dict[str, Content]] = {
        "link": {"notes/link.md": ("120000", "/etc/passwd")},
        "large": {"notes/large.md": b"x" * (1024 * 1024 + 1)},
    }
    for name, files in branches.items():
        commit_on(root, name, {"notes/a.md": "b\n", **files})
    tree = git(root, "mktree", stdin=f"160000 commit {git(root, 'rev-parse', 'HEAD')}\tsub\n")
    commit = git(root, "commit-tree", tree, "-p", "HEAD", "-m", "submodule")
    git(root, "update-ref", "refs/heads/submodule", commit)
    before, refs = look_around(root), list_refs(root)
    vault = opened(root)

    for name in ("link", "large", "submodule"):
        with pytest.raises(RefusedError, match="use git itself"):
            switch_branch(vault, name)

    assert (look_around(root), list_refs(root)) == (before, refs)


def test_a_tree_that_leads_out_of_the_vault_or_into_git_is_refused(
    make_vault: Make, opened: Open, tmp_path: Path
) -> None:
    root = make_vault({"notes/a.md": "a\n"})
    before, vault = look_around(root), opened(root)
    blob = git(root, "hash-object", "-w", "--stdin", stdin="#!/bin/sh\n")
    inner = git(root, "mktree", stdin=f"100755 blob {blob}\tevil.md\n")
    for name in ("..", ".git", ".GIT", "git~1", ".git ", "\u200c.git"):
        # mktree and fsck refuse such names; a repository that somebody sent may have them.
        (tmp_path / "tree").write_bytes(b"40000 %s\0" % name.encode() + bytes.fromhex(inner))
        command = ("hash-object", "-t", "tree", "-w", "--literally", str(tmp_path / "tree"))
        commit = git(root, "commit-tree", git(root, *command), "-p", "HEAD", "-m", "evil")
        git(root, "update-ref", "refs/heads/evil", commit)

        with pytest.raises(RefusedError, match="git allows no file of this name"):
            switch_branch(vault, "evil")

    assert look_around(root) == before
    assert not (tmp_path / "evil.md").exists()
    assert not list((root / ".git").rglob("evil.md"))


def test_a_repository_that_differs_outside_the_vault_is_left_to_git(
    home: Path, tmp_path: Path, opened: Open
) -> None:
    big = tmp_path / "big"
    git(tmp_path, "init", "-q", "big")
    write_notes(big, {"src/main.c": "int x;\n"})
    create_vault(big / "memory").vault.close()
    write_notes(big, {"memory/notes/a.md": "a\n"})
    git(big, "add", "-A")
    git(big, "commit", "-qm", "all")
    commit_on(big, "inside", {"memory/notes/a.md": "b\n", "memory/notes/deep/c.md": "c\n"})
    commit_on(big, "outside", {"memory/notes/a.md": "b\n", "src/main.c": "int y;\n"})
    write_notes(big, {"src/untracked.c": "mine\n"})
    before = look_around(big)
    vault = opened(big / "memory")

    with pytest.raises(
        RefusedError, match=r"src/main\.c: not a file of the vault .*use git itself"
    ):
        switch_branch(vault, "outside")
    assert look_around(big) == before
    write_notes(big, {"src/main.c": "int mine;\n"})
    switch_branch(vault, "inside")

    assert git(big, "status", "--porcelain").splitlines() == [" M src/main.c", "?? src/untracked.c"]
    assert (big / "memory/notes/deep/c.md").read_text() == "c\n"
    assert (big / "src/main.c").read_text() == "int mine;\n"


def test_a_sparse_checkout_is_left_to_git(root: Path, opened: Open) -> None:
    git(root, "sparse-checkout", "set", "--no-cone", "/*", "!/notes/gone")
    before = look_around(root)

    with pytest.raises(RefusedError, match="a sparse checkout leaves it out; use git itself"):
        switch_branch(opened(root), "side")

    assert look_around(root) == before


@pytest.mark.campaign
def test_a_detached_head_can_be_left_unless_its_commits_would_be_lost(
    root: Path, opened: Open
) -> None:
    git(root, "checkout", "-q", "--detach")
    vault = opened(root)
    switch_branch(vault, "side")
    assert is_clean(root)
    git(root, "checkout", "-q", "--detach", "main")
    git(root, "commit", "-q", "--allow-empty", "-m", "on no branch")
    before = look_around(root)

    with pytest.raises(RefusedError, match=r"no branch or tag has the commits .*`vaultmem branch"):
        switch_branch(vault, "side")
    assert look_around(root) == before
    remember(vault, Memory("Not committed, and no branch is checked out.", title="x"))
    with pytest.raises(PendingError, match="`vaultmem switch --create NAME` takes them along"):
        switch_branch(vault, "side")
    switch_branch(vault, "kept", create=True)
    assert git(root, "symbolic-ref", "--short", "HEAD") == "kept"
    assert git(root, "status", "--porcelain") == "?? notes/inbox/"
    save_checkpoint(vault, "now")
    switch_branch(vault, "side")
    assert is_clean(root)


def test_create_makes_the_branch_and_switches_or_does_neither(root: Path, opened: Open) -> None:
    vault, before, refs = opened(root), look_around(root), list_refs(root)

    with pytest.raises(RefusedError, match="side: there is a branch of that name"):
        switch_branch(vault, "side", create=True)
    with pytest.raises(RefusedError):
        switch_branch(vault, "a..b", create=True)
    assert (look_around(root), list_refs(root)) == (before, refs)
    target, files = switch_branch(vault, "new", create=True)

    assert (target.name, files) == ("new", 0)
    assert look_around(root) == {**before, "HEAD": "ref: refs/heads/new\n"}


def test_a_branch_of_another_folder_or_of_none_is_refused(
    root: Path, opened: Open, tmp_path: Path
) -> None:
    git(root, "worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    git(root, "tag", "v1")
    before, vault = look_around(root), opened(root)

    with pytest.raises(RefusedError, match=r"other: checked out in .*other; work there"):
        switch_branch(vault, "other")
    for name in ("nowhere", "v1", "side~0", "HEAD"):
        with pytest.raises(NoteNotFoundError, match=f"{name}: there is no such branch; "):
            switch_branch(vault, name)
    with pytest.raises(RefusedError):
        switch_branch(vault, "-f")

    assert look_around(root) == before
    linked = opened(tmp_path / "other")
    switch_branch(linked, "side")
    assert disk_bytes(tmp_path / "other").keys() - {".git"} == tree_bytes(root, "side").keys()
    assert git(tmp_path / "other", "status", "--porcelain") == ""


def test_an_unborn_branch_is_left_where_no_file_is_in_the_way(root: Path, opened: Open) -> None:
    git(root, "checkout", "-q", "--orphan", "unborn")
    vault = opened(root)
    with pytest.raises(PendingError, match="files are not committed"):
        switch_branch(vault, "side")
    git(root, "rm", "-rqf", ".")

    switch_branch(vault, "side")

    assert disk_bytes(root) == tree_bytes(root, "side")
    assert is_clean(root)


# ---- somebody saves, commits or fails in the middle


def files_and_head(root: Path) -> tuple[dict[str, tuple[str, bytes]], str, str]:
    return disk_bytes(root), git(root, "ls-files", "-s"), (root / ".git/HEAD").read_text()


@pytest.mark.parametrize("path", ["notes/a.md", "notes/crlf.md", "notes/gone/deep/er.md"])
@pytest.mark.parametrize("late", [False, True])
def test_an_editors_save_just_before_a_file_moves_is_kept_and_all_goes_back(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, path: str, late: bool
) -> None:
    vault, before = opened(root), files_and_head(root)
    sync_vault(vault)
    names = ("replace_file", "remove_file")
    for name in names:
        real = getattr(move, name)

        def save_first(
            folder: Path, moved: PurePosixPath, *rest: Any, real: Callable[..., None] = real
        ) -> None:
            if str(moved) == path and not late:
                (folder / moved).write_bytes(b"saved by an editor\n")
            real(folder, moved, *rest)
            if str(moved) == path and late:
                (folder / moved).parent.mkdir(parents=True, exist_ok=True)
                (folder / moved).write_bytes(b"saved by an editor\n")
                raise OSError("and then the disk fails")

        monkeypatch.setattr(move, name, save_first)

    with pytest.raises((ConflictError, SystemFailureError)):
        switch_branch(vault, "side")
    monkeypatch.undo()

    files, index, head = files_and_head(root)
    assert files.pop(path)[1] == b"saved by an editor\n"
    before[0].pop(path)
    assert (files, index, head) == before
    assert not list(root.rglob("*.tmp"))
    sync_vault(vault)
    assert git(root, "status", "--porcelain") == f" M {path}"


def test_an_editors_save_after_a_file_moved_is_never_overwritten(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = branches.follow_index

    def save_late(*arguments: Any) -> None:
        (root / "notes/a.md").write_text("saved by an editor\n")
        follow(*arguments)

    monkeypatch.setattr(branches, "follow_index", save_late)
    switch_branch(opened(root), "side")

    assert (root / "notes/a.md").read_text() == "saved by an editor\n"
    assert git(root, "status", "--porcelain") == " M notes/a.md"


@pytest.mark.parametrize(
    ("what", "where"),
    [
        ("commit", "follow_index"),
        ("branch", "follow_index"),
        ("switch", "check_head"),
        ("disk", "follow_index"),
        ("disk", "checkout"),
    ],
)
def test_a_failure_or_another_git_at_the_last_moment_leaves_all_as_it_was(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, what: str, where: str
) -> None:
    before = files_and_head(root)
    owner: Any = Refs if where == "checkout" else branches
    real = getattr(owner, where)

    def interfere(*arguments: Any) -> Any:
        if what == "commit":
            git(root, "commit", "-q", "--allow-empty", "-m", "by the person", "--only")
        elif what == "branch":
            commit_on(root, "side", {"notes/late.md": "late\n"})
        elif what == "switch":
            git(root, "symbolic-ref", "HEAD", "refs/heads/third")
        else:
            raise VaultError("disk full")
        return real(*arguments)

    git(root, "branch", "third")
    monkeypatch.setattr(owner, where, interfere)
    with pytest.raises(VaultError):
        switch_branch(opened(root), "side")
    monkeypatch.undo()

    files, index, head = files_and_head(root)
    assert (files, index) == before[:2]
    assert head == ("ref: refs/heads/third\n" if what == "switch" else before[2])
    assert is_clean(root)


def test_what_cannot_be_tidied_up_after_head_has_moved_ends_no_switch(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Operations) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Operations, "close", fail)
    switch_branch(opened(root), "side")
    monkeypatch.undo()

    assert files_and_head(root)[2] == "ref: refs/heads/side\n"
    assert is_clean(root)
    assert switch_branch(opened(root), "main")
    assert is_clean(root)


def test_what_a_killed_commit_left_in_the_index_is_not_taken_for_staged(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = opened(root)
    note = remember(vault, Memory("x", title="x"))
    with monkeypatch.context() as patch:
        patch.setattr("vaultmem.storage.git.commit_writer.CommitWriter.move_branch", _die)
        patch.setattr("vaultmem.storage.git.commit_writer.CommitWriter.update_git_index", _die)
        with pytest.raises(KeyboardInterrupt):
            save_checkpoint(vault, "killed")
    assert git(root, "diff", "--cached", "--name-only") == note.path
    (root / note.path).unlink()

    switch_branch(vault, "side")

    assert is_clean(root)


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_git_itself_agrees_with_every_switch(root: Path, opened: Open, tmp_path: Path) -> None:
    """A clone that git switches has the same files as the vault that vaultmem switches."""
    clone = tmp_path / "clone"
    shutil.copytree(root, clone, symlinks=True)
    git(clone, "switch", "-q", "side")

    switch_branch(opened(root), "side")

    assert disk_bytes(root) == disk_bytes(clone)
