"""Commits by plumbing: git agrees with every byte, and nothing else of the repository changes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import git, hash_tree, write_notes

from vaultmem.errors import VaultError
from vaultmem.storage.git.checkout import HeadTree
from vaultmem.storage.git.commit_draft import CommitDraft, File, Identity, RefMovedError, TreeEntry
from vaultmem.storage.git.objects import ObjectPack, TreeBuilder, is_refused_name
from vaultmem.storage.git.runner import GitRunner
from vaultmem.storage.git.vault_history import VaultHistory, init_repository
from vaultmem.storage.state import StateDatabase

SOMEBODY = Identity("Some Body", "some@example.org")
AT = 1_700_000_000


@pytest.fixture
def root(home: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


@pytest.fixture
def history(root: Path) -> Iterator[VaultHistory]:
    made = open_history(root)
    yield made
    made.close()


def open_history(root: Path, scratch: Path | None = None) -> VaultHistory:
    scratch = scratch or root.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    return VaultHistory(root, scratch)


def text(content: str, mode: str = "100644") -> File:
    return mode, content.encode()


def commit(history: VaultHistory, files: Mapping[str, File], message: str = "x\n") -> str:
    return write_one(history, files, message, history.head().commit)


def write_one(
    history: VaultHistory,
    files: Mapping[str, File],
    message: str,
    parent: str,
    author: Identity = SOMEBODY,
) -> str:
    return history.write_commits([CommitDraft(files, message, author, AT)], parent)[0]


def listing(root: Path, commit: str = "HEAD") -> dict[str, str]:
    lines = git(root, "ls-tree", "-r", "-z", "--full-tree", commit).split("\0")
    return {path: meta for meta, _, path in (line.partition("\t") for line in lines) if path}


def assert_sound(root: Path) -> None:
    """The index is HEAD's, and git finds nothing wrong."""
    assert git(root, "diff", "--cached", "--name-status") == ""
    told = subprocess.run(
        ["git", "fsck", "--strict", "--no-dangling", "--no-progress"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")


# Trees ----------------------------------------------------------------------------------------

#: Names whose order differs with and without the slash that a folder's name ends in for git.
NAMES = ["a", "a-", "a.md", "a0", "b", "é", "x y", "\n", "Z", "a\u0301", ":(top)x.md"]

PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
CONTENTS = st.none() | st.tuples(st.sampled_from(["100644", "100755"]), st.sampled_from("12"))


def _without_conflicts(changes: dict[str, tuple[str, str] | None]) -> dict[str, File]:
    """Leave out files that would lie below another new file: no disk holds these."""
    added = {path for path, content in changes.items() if content}
    kept: dict[str, File] = {}
    for path, content in changes.items():
        parts = path.split("/")
        above = {"/".join(parts[:n]) for n in range(1, len(parts))}
        if not content:
            kept[path] = None
        elif not above & added:
            kept[path] = text(content[1], content[0])
    return kept


CHANGES = st.dictionaries(PATHS, CONTENTS, max_size=12).map(_without_conflicts)


class Trees:
    """A repository in which trees are made by us and by git."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.history = open_history(root)

    def ours(self, tree: str, files: Mapping[str, File]) -> str:
        pack = ObjectPack()
        builder = TreeBuilder(self.history.objects, pack)
        entries = {
            path: file and TreeEntry(file[0], pack.add("blob", file[1]))
            for path, file in files.items()
        }
        made = builder.change(tree, entries)
        expected = {path: entry for path, entry in entries.items() if entry}
        assert builder.entries(made, entries) == expected
        pack.write(self.history.git)
        return made

    def gits(self, tree: str, files: Mapping[str, File]) -> str:
        env = {**os.environ, "GIT_INDEX_FILE": str(self.root.parent / "their-index")}

        def run(*arguments: str, stdin: bytes = b"") -> str:
            done = subprocess.run(
                ["git", *arguments], cwd=self.root, env=env, input=stdin, stdout=-1, check=True
            )
            return done.stdout.decode().strip()

        run("read-tree", tree or "--empty")
        lines = [f"0 {'0' * 40}\t{path}\0" for path, file in files.items() if file is None]
        for path, file in files.items():
            if file is not None:
                blob = run("hash-object", "-w", "--stdin", stdin=file[1])
                lines.append(f"{file[0]} {blob}\t{path}\0")
        run("update-index", "-z", "--index-info", stdin="".join(lines).encode())
        return run("write-tree")


@pytest.fixture
def trees(root: Path) -> Iterator[Trees]:
    made = Trees(root)
    yield made
    made.history.close()


@pytest.mark.campaign
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(CHANGES, min_size=1, max_size=3))
def test_a_tree_is_the_one_that_git_would_write(trees: Trees, steps: list[dict[str, File]]) -> None:
    tree = ""
    for files in steps:
        made = trees.ours(tree, files)
        assert made == trees.gits(tree, files)
        tree = made


def test_entries_of_other_kinds_and_untouched_folders_stay(
    root: Path, history: VaultHistory
) -> None:
    write_notes(root, {"notes/a.md": "a\n", "other/deep/b.md": "b\n"})
    (root / "notes/link").symlink_to("a.md")
    git(root, "add", "--all")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},notes/module")
    git(root, "commit", "-q", "-m", "first")
    before = listing(root)

    commit(history, {"notes/a.md": text("changed\n"), "notes/new.md": text("new\n")})

    after = listing(root)
    changed = {"notes/a.md", "notes/new.md"}
    assert {p: m for p, m in after.items() if p not in changed} == {
        p: m for p, m in before.items() if p not in changed
    }
    assert {"notes/link", "notes/module"} <= after.keys()
    assert git(root, "rev-parse", "HEAD:other") == git(root, "rev-parse", "HEAD~1:other")
    assert git(root, "diff", "--cached", "--name-status") == ""


def test_odd_modes_of_old_tools_become_usual_where_a_tree_is_made_anew(
    root: Path, history: VaultHistory
) -> None:
    blob = git(root, "hash-object", "-w", "--stdin", stdin="x")
    raw = b"".join(
        b"%s %s\0%s" % (mode, name, bytes.fromhex(blob))
        for mode, name in [(b"100664", b"a.md"), (b"100775", b"run.sh")]
    )
    done = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"],
        cwd=root,
        input=raw,
        stdout=-1,
        check=True,
    )
    git(root, "reset", "-q", git(root, "commit-tree", done.stdout.decode().strip(), "-m", "old"))

    commit(history, {"b.md": text("b\n")})

    command = ["git", "cat-file", "tree", "HEAD^{tree}"]
    tree = subprocess.run(command, cwd=root, stdout=-1, check=True).stdout
    expected = [b"100644 a.md", b"100644 b.md", b"100755 run.sh"]
    assert [tree[tree.index(each) :][: len(each)] for each in expected] == expected
    assert b"1007" not in tree.replace(b"100755", b"")
    assert b"100664" not in tree


def test_a_folder_a_thousand_deep_comes_and_goes(root: Path, history: VaultHistory) -> None:
    deep = "d/" * 1_200 + "n.md"
    commit(history, {"a.md": text("a\n"), deep: text("deep\n")})
    assert deep in listing(root)

    commit(history, {deep: None})

    assert git(root, "ls-tree", "--name-only", "HEAD") == "a.md"
    assert git(root, "ls-files") == "a.md"


def test_a_file_becomes_a_folder_of_that_name_and_a_file_again(
    root: Path, history: VaultHistory
) -> None:
    commit(history, {"auth": text("file\n"), "x.md": text("x\n")})
    first = git(root, "rev-parse", "HEAD^{tree}")

    commit(history, {"auth": None, "auth/deep/a.md": text("a\n")})
    assert listing(root).keys() == {"auth/deep/a.md", "x.md"}
    assert_sound(root)
    commit(history, {"auth": text("file\n"), "auth/deep/a.md": None})

    assert git(root, "rev-parse", "HEAD^{tree}") == first
    assert_sound(root)


def test_odd_names_are_committed_as_these_very_files(root: Path, history: VaultHistory) -> None:
    names = [":(top)x.md", '"quoted".md', "new\nline.md", "tab\t.md", "-f.md", "*.md", "ü/é.md"]
    files = {f"notes/{name}": text(name) for name in names}
    write_notes(root, {path: file[1] for path, file in files.items() if file})

    commit(history, files)

    assert listing(root).keys() == files.keys()
    assert git(root, "status", "--porcelain") == ""
    assert_sound(root)
    commit(history, dict.fromkeys(files))
    assert git(root, "rev-parse", "HEAD^{tree}") == git(root, "mktree", stdin="")


@pytest.mark.parametrize("name", ["git~1", "GIT~1 . ", "a\\.git", ".g\u200cit", "x/.GIT:z"])
def test_names_that_git_takes_for_its_own_folder_are_told(name: str) -> None:
    assert is_refused_name(f"notes/{name}/a.md")
    assert is_refused_name(name)


@pytest.mark.parametrize("name", ["git~10", ".gitignore", "a.git", "git", ".github/x.md"])
def test_names_that_look_like_it_only_from_afar_are_not(name: str) -> None:
    assert not is_refused_name(name)


# Commits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "identity",
    [
        Identity("Some Body", "some@example.org"),
        Identity("Zoë 日本", "zoë@example.org"),
        Identity(" ,'Name';: \\", " <some@example.org>"),
        Identity("a <b> c", ""),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "XST-5:45", "NST3:30"])
def test_a_commit_is_the_one_that_git_would_write(
    root: Path,
    history: VaultHistory,
    identity: Identity,
    zone: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    first = commit(history, {"a.md": text("a\n")})
    message = "Subject: ü\n\nbody\n"

    made = write_one(history, {"a.md": text("b\n")}, message, first, identity)

    who = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in [
            ("NAME", identity.name),
            ("EMAIL", identity.email or "agent@localhost"),
            ("DATE", f"@{AT} {time.strftime('%z', time.localtime(AT))}"),
        ]
    }
    done = subprocess.run(
        ["git", "commit-tree", "HEAD^{tree}", "-p", first],
        cwd=root,
        env={**os.environ, **who},
        input=message.encode(),
        stdout=-1,
        check=True,
    )
    assert done.stdout.decode().strip() == made
    assert_sound(root)
    monkeypatch.undo()
    time.tzset()


def test_a_name_of_which_nothing_is_left_is_an_agents(root: Path, history: VaultHistory) -> None:
    write_one(history, {"a.md": text("a\n")}, "x\n", "", Identity("<>\n", " "))

    assert git(root, "show", "-s", "--format=%an <%ae>") == "agent <agent@localhost>"
    assert_sound(root)


def test_the_first_commit_of_a_repository_has_no_parent(root: Path, history: VaultHistory) -> None:
    made = commit(history, {"notes/a.md": text("a\n"), "run.sh": text("#!/bin/sh\n", "100755")})

    assert git(root, "rev-list", "--parents", "HEAD") == made
    assert listing(root)["run.sh"].startswith("100755 ")
    assert_sound(root)


def test_commits_are_built_upon_packed_objects_packed_refs_and_alternates(
    root: Path, tmp_path: Path, history: VaultHistory
) -> None:
    commit(history, {"notes/a.md": text("a\n"), "notes/b.md": text("b\n")})
    git(root, "gc", "-q", "--prune=now")
    git(root, "pack-refs", "--all")
    git(tmp_path, "clone", "-q", "--shared", str(root), "borrower")

    for folder in (root, tmp_path / "borrower"):
        one = open_history(folder)
        commit(one, {"notes/a.md": text(f"{folder.name}\n"), "notes/b.md": None})
        one.close()
        assert listing(folder).keys() == {"notes/a.md"}
        assert_sound(folder)


def test_many_files_become_one_pack(root: Path, history: VaultHistory) -> None:
    files = {f"notes/{n % 7}/n{n}.md": text(f"{n}\n" * n) for n in range(300)}

    commit(history, files)

    counted = dict(line.split(": ") for line in git(root, "count-objects", "-v").splitlines())
    assert (counted["count"], counted["packs"]) == ("0", "1")
    assert listing(root).keys() == files.keys()
    assert git(root, "show", "HEAD:notes/6/n293.md") == "\n".join(["293"] * 293)
    assert_sound(root)


def test_a_chain_is_one_move_of_the_branch(root: Path, history: VaultHistory) -> None:
    first = commit(history, {"a.md": text("a\n")})
    moves = len(git(root, "reflog").splitlines())
    drafts = [
        CommitDraft({"a.md": text("b\n")}, "one\n", SOMEBODY, AT),
        CommitDraft({"a.md": None, "b.md": text("b\n")}, "two\n", SOMEBODY, AT),
        CommitDraft({}, "empty\n", SOMEBODY, AT),
    ]

    made = history.write_commits(drafts, first)

    log = git(root, "log", "--reverse", "--format=%H %s").splitlines()
    assert log == [
        f"{first} x",
        *(f"{c} {s}" for c, s in zip(made, ["one", "two", "empty"], strict=True)),
    ]
    assert git(root, "show", f"{made[0]}:a.md") == "b"
    assert git(root, "rev-parse", "HEAD^{tree}") == git(root, "rev-parse", "HEAD~1^{tree}")
    assert len(git(root, "reflog").splitlines()) == moves + 1
    assert_sound(root)


def test_a_chain_upon_another_parent_moves_nothing(root: Path, history: VaultHistory) -> None:
    old = commit(history, {"a.md": text("a\n")})
    new = commit(history, {"a.md": text("b\n")})

    with pytest.raises(RefMovedError):
        write_one(history, {"a.md": text("c\n")}, "x\n", old)

    assert git(root, "rev-parse", "HEAD") == new
    assert_sound(root)


def test_a_merge_has_two_parents_and_the_index_follows_all_of_it(
    root: Path, history: VaultHistory
) -> None:
    write_notes(root, {"a.md": "a\n", "notes/b.md": "b\n"})
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "first")
    git(root, "switch", "-q", "-c", "side")
    write_notes(root, {"notes/side.md": "side\n"})
    (root / "a.md").unlink()
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "side")
    side = git(root, "rev-parse", "HEAD")
    git(root, "switch", "-q", "main")
    draft = CommitDraft(
        {"notes/b.md": text("both\n")}, "merge\n", SOMEBODY, AT, extra_parents=(side,), base=side
    )

    (made,) = history.write_commits([draft], history.head().commit)

    assert git(root, "rev-list", "--parents", "-1", "HEAD").split() == [
        made,
        git(root, "rev-parse", "HEAD^1"),
        side,
    ]
    assert listing(root).keys() == {"notes/b.md", "notes/side.md"}
    assert git(root, "show", "HEAD:notes/b.md") == "both"
    assert_sound(root)


# Branches that are not checked out --------------------------------------------------------------


def test_a_commit_on_another_branch_leaves_index_and_work_tree_alone(
    root: Path, history: VaultHistory
) -> None:
    first = commit(history, {"a.md": text("a\n")})
    git(root, "branch", "other")
    write_notes(root, {"a.md": "staged\n"})
    git(root, "add", "a.md")
    write_notes(root, {"a.md": "not staged\n"})
    before = hash_tree(root, skip=(".git",)), (root / ".git/index").read_bytes()

    made = history.write_branch_commits(
        "refs/heads/other", [CommitDraft({"b.md": text("b\n")}, "there\n", SOMEBODY, AT)], first
    )

    assert (hash_tree(root, skip=(".git",)), (root / ".git/index").read_bytes()) == before
    assert git(root, "rev-parse", "main", "other").split() == [first, *made]
    assert listing(root, "other").keys() == {"a.md", "b.md"}


def test_a_branch_that_moved_is_left_where_it_is(root: Path, history: VaultHistory) -> None:
    first = commit(history, {"a.md": text("a\n")})
    git(root, "branch", "other")
    draft = CommitDraft({"b.md": text("b\n")}, "x\n", SOMEBODY, AT)
    (made,) = history.write_branch_commits("refs/heads/other", [draft], first)

    for parent in (first, ""):
        with pytest.raises(RefMovedError):
            history.write_branch_commits("refs/heads/other", [draft], parent)

    assert git(root, "rev-parse", "other") == made


def test_a_new_branch_begins_with_a_commit_without_parents(
    root: Path, history: VaultHistory
) -> None:
    commit(history, {"a.md": text("a\n")})
    draft = CommitDraft({"b.md": text("b\n")}, "root\n", SOMEBODY, AT)

    (made,) = history.write_branch_commits("refs/heads/alone", [draft], "")

    assert git(root, "rev-list", "--parents", "alone") == made
    assert listing(root, "alone").keys() == {"b.md"}


@pytest.mark.parametrize("where", ["here", "in another work tree", "in a rebase"])
def test_a_branch_that_is_checked_out_is_not_written_behind_its_work_tree(
    root: Path, history: VaultHistory, where: str
) -> None:
    first = commit(history, {"a.md": text("a\n")})
    branch = "main"
    if where == "in another work tree":
        git(root, "worktree", "add", "-q", "-b", "side", str(root.parent / "second"))
        branch = "side"
    if where == "in a rebase":
        git(root, "checkout", "-q", "--detach")
        write_notes(root, {".git/rebase-merge/head-name": "refs/heads/main\n"})
    draft = CommitDraft({"b.md": text("b\n")}, "x\n", SOMEBODY, AT)

    with pytest.raises(VaultError, match=f"{branch}: checked out in .*(repo|second)"):
        history.write_branch_commits(f"refs/heads/{branch}", [draft], first)

    assert git(root, "rev-parse", branch) == first


# The table of what HEAD has ---------------------------------------------------------------------


def test_the_table_of_heads_files_is_never_that_of_another_commit(
    root: Path, history: VaultHistory, tmp_path: Path
) -> None:
    state = StateDatabase(tmp_path / "scratch")
    head = HeadTree(state)

    def check() -> None:
        now = history.head().commit
        head.follow(history, now)
        rows = state.query("SELECT path, mode, blob FROM head_files")
        assert {path: TreeEntry(mode, blob) for path, mode, blob in rows} == history.tree(now)

    check()
    write_notes(root, {"a.md": "a\n", "auth": "file\n", "d/b.md": "b\n", "ü/c.md": "c\n"})
    (root / "link").symlink_to("a.md")
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "one")
    check()
    git(root, "branch", "other")
    (root / "auth").unlink()
    write_notes(root, {"auth/deep.md": "x\n", "d/b.md": "changed\n"})
    (root / "d/b.md").chmod(0o755)
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "two")
    check()
    git(root, "switch", "-q", "other")
    check()
    git(root, "commit", "-q", "--amend", "-m", "another")
    check()
    git(root, "switch", "-q", "main")
    git(root, "branch", "-q", "-D", "other")
    git(root, "reflog", "expire", "--expire=now", "--all")
    git(root, "gc", "-q", "--prune=now")
    check()
    state.close()
    for file in (tmp_path / "scratch").glob("state*.sqlite3*"):
        file.unlink()
    check()
    state.close()


def test_the_table_is_of_one_folder_of_the_repository(
    root: Path, history: VaultHistory, tmp_path: Path
) -> None:
    write_notes(root, {"a.md": "a\n", "memory/b.md": "b\n"})
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "one")
    state = StateDatabase(tmp_path / "scratch")
    inner = open_history(root / "memory", tmp_path / "scratch")
    first = history.head().commit
    HeadTree(state).follow(history, first)
    write_notes(root, {"memory/c.md": "c\n"})
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "two")

    for commit in (first, inner.head().commit):
        HeadTree(state).follow(inner, commit)
        paths = {row[0] for row in state.query("SELECT path FROM head_files")}
        assert paths == inner.tree(commit).keys()
        HeadTree(state).follow(history, first)
    state.close()
    inner.close()


def test_our_own_commits_bring_the_table_along(
    root: Path, history: VaultHistory, tmp_path: Path
) -> None:
    state = StateDatabase(tmp_path / "scratch")
    head = HeadTree(state)
    steps: list[dict[str, File]] = [
        {"auth": text("file\n"), "d/x/b.md": text("b\n"), "d0": text("0\n")},
        {"auth/a.md": text("a\n"), "d": text("file\n")},
        {"auth": text("file\n"), "d/e.md": text("e\n"), "d0": None},
    ]
    head.follow(history, "")
    for files in steps:
        old = history.head().commit
        new = commit(history, files)
        entries = {
            path: file and TreeEntry(file[0], ObjectPack().add("blob", file[1]))
            for path, file in files.items()
        }

        head.advance(history, old, new, entries)

        rows = state.query("SELECT path, mode, blob FROM head_files")
        assert {path: TreeEntry(mode, blob) for path, mode, blob in rows} == history.tree(new)
        head.advance(history, old, "0" * 40, {"wrong.md": None})
        assert state.get("head_files").startswith(new)
    state.close()


# Repositories that cannot be used ---------------------------------------------------------------


def refuse(root: Path) -> str:
    before = hash_tree(root)
    with pytest.raises(VaultError) as refusal:
        open_history(root)
    assert hash_tree(root) == before
    return str(refusal.value)


def test_refs_that_the_git_here_cannot_read_are_told_with_what_to_do(
    home: Path, tmp_path: Path
) -> None:
    root = tmp_path / "repo"
    git(tmp_path, "init", "-q", "repo")
    git(root, "config", "core.repositoryFormatVersion", "1")
    git(root, "config", "extensions.refStorage", "tablets")

    told = refuse(root)

    assert "keeps its refs as tablets" in told
    assert "git 2.45 or newer" in told


def test_a_repository_with_sha256_names_is_refused_with_what_to_do(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "repo").mkdir()
    git(tmp_path, "init", "-q", "--object-format=sha256", "repo")

    told = refuse(tmp_path / "repo")

    assert "SHA-256" in told
    assert "git init --object-format=sha1" in told


def test_a_bare_repository_is_refused_with_what_to_do(home: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare")
    git(tmp_path, "init", "-q", "--bare", "hidden/.git")

    for name in ("bare", "hidden"):
        told = refuse(tmp_path / name)
        assert "bare repository" in told
        assert "git clone" in told
    before = hash_tree(tmp_path / "bare")
    with pytest.raises(VaultError, match="bare"):
        init_repository(tmp_path / "bare")
    assert hash_tree(tmp_path / "bare") == before


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away"
)
def test_somebody_elses_repository_is_refused_until_the_person_trusts_it(root: Path) -> None:
    os.chown(root / ".git", 12345, 12345)

    told = refuse(root)

    assert "belongs to another user" in told
    assert f"git config --global --add safe.directory {root}" in told
    git(root.parent, "config", "--global", "--add", "safe.directory", str(root))
    history = open_history(root)
    commit(history, {"a.md": text("a\n")})
    history.close()
    assert_sound(root)


def test_a_linked_work_tree_of_a_bare_repository_is_a_place_for_commits(
    root: Path, history: VaultHistory
) -> None:
    commit(history, {"a.md": text("a\n")})
    history.close()
    git(root.parent, "clone", "-q", "--bare", str(root), "bare")
    git(root.parent / "bare", "worktree", "add", "-q", str(root.parent / "linked"), "main")

    linked = open_history(root.parent / "linked")
    commit(linked, {"b.md": text("b\n")})
    linked.close()

    assert listing(root.parent / "linked").keys() == {"a.md", "b.md"}
    assert_sound(root.parent / "linked")


def test_git_ends_when_nobody_reads_on(root: Path, history: VaultHistory) -> None:
    process = history.git.start("cat-file", "--batch")
    running = process.proc
    assert running.poll() is None
    del process
    assert running.poll() is not None


def test_git_reads_all_of_its_input_whatever_becomes_of_us(
    root: Path, history: VaultHistory
) -> None:
    """A pipe would end where we are killed, and git would take the half of a list for all."""
    told = history.git.run(
        "-c", "alias.kind=!test -f /dev/stdin && echo file", "kind", stdin=b"x" * 9
    )
    assert told == "file"


def test_a_git_that_cannot_be_started_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = GitRunner(tmp_path, tmp_path / ".git")
    (tmp_path / "git").write_text("#!/nowhere\n")  # Nor can it be where its folder is gone.
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(VaultError, match="git cannot be started"):
        runner.run("status")


_PRUNING = """#!/bin/sh
case "$*" in
*"{command}"*)
    if rmdir "{left}/once" || rmdir "{left}/twice"; then
        {before}
    fi 2>/dev/null ;;
esac
exec "{git}" "$@"
"""


@pytest.mark.skipif(os.name != "posix", reason="it is a shell script")
@pytest.mark.parametrize(
    ("command", "before"),
    [("update-ref", '"{git}" prune --expire=now'), ("unpack-objects", "exit 128")],
)
def test_a_commit_beside_a_gc_that_prunes_all_is_written_again(
    root: Path,
    history: VaultHistory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    before: str,
) -> None:
    """A `git gc --prune=now` that comes right before the ref is moved, or in the midst of it."""
    real = shutil.which("git")
    for time in ("once", "twice"):
        (tmp_path / "left" / time).mkdir(parents=True)
    script = tmp_path / "bin" / "git"
    script.parent.mkdir()
    names = {"git": real, "command": command, "left": tmp_path / "left"}
    script.write_text(_PRUNING.format(before=before.format(git=real), **names))
    script.chmod(0o755)
    write_notes(root, {"a.md": "# A\n"})
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
        made = commit(history, {"a.md": text("# A\n")})
        assert not list((tmp_path / "left").iterdir())
    assert history.head().commit == made
    assert git(root, "fsck", "--strict", "--no-dangling") == ""
    assert git(root, "status", "--porcelain", "a.md") == ""
