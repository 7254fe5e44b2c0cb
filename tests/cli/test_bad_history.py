"""What a repository, a ref, a date or a path may be: each a clear error, and nothing changed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from branching import NOTE, change, commit_on, list_refs, look_around
from conftest import Result
from in_process import run_here
from support import git, hash_tree, lock_git, write_notes

#: Every command that takes a ref; `{}` is where it stands.
WITH_REF: dict[str, tuple[str, ...]] = {
    "recall": ("recall", "x", "--at={}"),
    "pack": ("pack", "x", "--at={}"),
    "show note": ("show", "a", "--at={}"),
    "list": ("list", "--ref={}"),
    "include": ("recall", "x", "--include-refs=main,{}"),
    "remember": ("remember", "x", "--branch={}"),
    "pin": ("--ref={}", "pin", "a"),
    "checkpoint": ("checkpoint", "x", "--ref={}"),
    "promote": ("promote", "c", "--ref={}"),
    "take": ("promote", "a", "--from={}"),
    "merge": ("merge", "--", "{}"),
    "merge into": ("merge", "side", "--ref={}"),
    "switch": ("switch", "--", "{}"),
    "branch": ("branch", "new", "--from={}"),
    "delete": ("branch", "--delete", "--", "{}"),
    "show": ("show", "--", "{}"),
    "diff": ("diff", "--", "{}"),
    "diff both": ("diff", "--", "main", "{}"),
    "log": ("log", "--ref={}"),
    "blame": ("blame", "a", "--at={}"),
    "restore": ("restore", "a", "--at={}"),
    "trace": ("trace", "x", "--ref={}"),
    "bisect": ("bisect", "--good={}", "--", "x", "--contains", "y"),
    "assert": ("assert", "x", "--contains", "y", "--at={}"),
}

#: Commands that take a branch alone say so of anything else.
BRANCH_ONLY = {"switch", "delete"}

#: Refs that every command is asked for; the others are read by the same code, and a few will do.
ASKED_OF_ALL = {"nowhere", "1/2/2026", "-x"}
FEW = ("recall", "take", "merge", "branch", "restore", "assert", "switch")

BAD_REFS: dict[str, tuple[int, str]] = {
    "nowhere": (4, "nowhere: no branch, tag or commit is called that.*`vaultmem branch`"),
    "HEAD~99": (4, "HEAD~99: no branch, tag or commit is called that; see .* and `vaultmem log`$"),
    "HEAD:notes/a.md": (4, "no branch, tag or commit is called that"),
    "1999-01-01": (4, "1999-01-01: no commit is that old"),
    "1/2/2026": (5, "an ambiguous day; write a day as 2026-10-01"),
    "2026-13-45": (5, "no such time.*write a day as 2026-10-01"),
    "2026-10-01": (5, "a date and the name of a branch or tag; write refs/heads/2026-10-01"),
    "-x": (5, '"-x" names no branch, tag, commit or date; see `vaultmem branch`'),
    "--output=pwned": (5, '"--output=pwned" names no branch'),
    "a\x1b[2Jb": (5, "names no branch"),
}

#: Every command that takes a path.
WITH_PATH: dict[str, tuple[str, ...]] = {
    "show": ("show", "{}"),
    "show at": ("show", "{}", "--at=HEAD"),
    "blame": ("blame", "{}"),
    "blame at": ("blame", "{}", "--at=HEAD"),
    "history": ("history", "{}"),
    "restore": ("restore", "{}", "--at=HEAD"),
    "promote": ("promote", "{}"),
    "take": ("promote", "{}", "--from=side"),
    "forget": ("forget", "{}", "--yes"),
    "pin": ("pin", "{}"),
    "pin there": ("--ref=side", "pin", "{}"),
    "unpin": ("pin", "{}", "--remove"),
    "tag": ("tag", "{}", "new"),
    "edit": ("edit", "{}"),
    "log": ("log", "--path={}"),
    "assert": ("assert", "x", "--contains-note={}"),
}

BAD_PATHS = ("../x.md", "/etc/passwd", ".git/config", ".GIT/config", "notes/../../x.md", "a\\..\\b")


def lay(root: Path) -> None:
    """Make a vault with a branch `side` that could be merged, and a branch whose name is a date."""
    candidate = change(NOTE, "state: active", "state: candidate")
    commit_on(root, "main", {"notes/a.md": NOTE, "notes/c.md": candidate})
    git(root, "branch", "side", "main")
    git(root, "branch", "2026-10-01", "main")
    theirs = {"notes/a.md": change(NOTE, "weekly", "daily"), "notes/d.md": candidate}
    commit_on(root, "side", theirs)
    commit_on(root, "main", {"notes/a.md": change(NOTE, "hour", "day"), "notes/b.md": "b\n"})
    git(root, "reset", "-q", "--hard")


def run(root: Path, *words: str) -> Result:
    """Run a command, which ends with an error of one line or none."""
    done = run_here(*words, cwd=root, env={"EDITOR": "true"})
    told = ("vaultmem: receipt", "vaultmem: a clone: ", "hint: ")
    lines = [line for line in done.err.splitlines() if not line.startswith(told)]
    assert len(lines) == (done.code not in {0, 1} or bool(lines)), done
    assert all(line.startswith("vaultmem: ") for line in lines)
    assert "\x1b" not in done.out + done.err
    return done


def everything(root: Path) -> tuple[Any, ...]:
    """Return what a command that fails leaves as it was: files, index, refs."""
    around = look_around(root)
    files = {name: (each[0], each[3]) for name, each in around.pop("files").items()}
    return around, files, list_refs(root)


def fill(words: tuple[str, ...], value: str) -> list[str]:
    return [word.replace("{}", value) for word in words]


@pytest.mark.campaign
@pytest.mark.parametrize("ref", BAD_REFS)
def test_a_ref_or_date_of_nothing_is_refused(root: Path, ref: str) -> None:
    before, (code, told) = everything(root), BAD_REFS[ref]

    for name in WITH_REF if ref in ASKED_OF_ALL else FEW:
        words = WITH_REF[name]
        if name in BRANCH_ONLY and ref == "2026-10-01":
            continue  # They take it for the branch that it is.
        done = run(root, *fill(words, ref))
        if name in BRANCH_ONLY:
            assert done.code in {4, 5}, (name, done)
        else:
            assert done.code == (125 if name == "assert" else code), (name, done)
            is_name = name == "show" and ref == "nowhere"  # A note is looked for first.
            assert re.search('no note is called "nowhere"' if is_name else told, done.err), name

    assert everything(root) == before
    assert not (root / "pwned").exists()


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_outside_the_vault_is_refused_by_every_command(root: Path, path: str) -> None:
    before = everything(root)

    for name, words in WITH_PATH.items():
        done = run(root, *fill(words, path))
        assert done.code == (125 if name == "assert" else 5), (name, done)
        assert re.search(r"name (a|the) note", done.err), (name, done.err)
        assert "root:" not in done.out

    assert everything(root) == before


# ---- repositories in a state of their own

Prepare = Callable[[Path], object]

#: What writes through git, and what only reads it.
WRITES: dict[str, tuple[str, ...]] = {
    "checkpoint": ("checkpoint", "x"),
    "take": ("promote", "d", "--from=side"),
    "merge": ("merge", "side"),
    "switch": ("switch", "side"),
    "create": ("switch", "--create", "new"),
    "branch": ("branch", "new"),
    "remember": ("remember", "x", "--branch=side"),
    "restore": ("restore", "a", "--at=main~1"),
}
READS: dict[str, tuple[str, ...]] = {
    "log": ("log",),
    "show": ("show",),
    "diff": ("diff",),
    "blame": ("blame", "a"),
    "history": ("history", "a"),
    "branches": ("branch",),
    "trace": ("trace", "tokens"),
    "recall": ("recall", "tokens", "--at=HEAD"),
    "bisect": ("bisect", "--good=main~1", "--", "tokens", "--contains", "an day", "--absent"),
}


def _remove_git(root: Path) -> None:
    shutil.rmtree(root / ".git")


def _break_git(root: Path) -> None:
    shutil.rmtree(root / ".git")
    (root / ".git").write_text("gitdir: /nowhere/at/all\n")


def _make_bare(root: Path) -> None:
    git(root, "config", "core.bare", "true")


def _give_away(root: Path) -> None:
    for file in (root, *root.rglob("*")):
        os.chown(file, 12345, 12345, follow_symlinks=False)


NO_REPOSITORY: dict[str, tuple[Prepare, str]] = {
    "missing": (_remove_git, r"not in a git repository; run `vaultmem init` there"),
    "broken": (_break_git, r"\.git: leads to no repository; fix it, or move it away and run"),
    "bare": (_make_bare, r"a bare repository, which has no files; `git clone .*` it and make"),
    "foreign": (
        _give_away,
        r"belongs to another user.*`git config --global --add safe.directory .*`",
    ),
}


@pytest.mark.parametrize("kind", NO_REPOSITORY)
def test_where_there_is_no_repository_to_use_every_command_says_so(root: Path, kind: str) -> None:
    if kind == "foreign" and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    prepare, told = NO_REPOSITORY[kind]
    prepare(root)
    before = hash_tree(root)

    for name, words in {**WRITES, **READS}.items():
        done = run(root, *words)
        assert done.code == 1, (name, done)
        assert re.search(told, done.err), (name, done.err)
    if kind in {"broken", "bare", "foreign"}:
        assert re.search(told, run(root, "init").err)

    # A write that was refused gave the vault its id.
    if (root / ".git").is_dir():
        (root / ".git/vaultmem-id").unlink(missing_ok=True)
    assert hash_tree(root) == before


def test_a_folder_that_is_itself_a_bare_repository_is_no_vault(root: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    git(tmp_path, "clone", "-q", "--bare", str(root), str(bare))
    (bare / "vaultmem.yaml").write_text("")
    before = hash_tree(bare)

    for words in (*WRITES.values(), *READS.values(), ("init",)):
        if words == READS["trace"]:
            continue  # There is no note that git would have to be asked of.
        done = run(bare, *words)
        assert done.code in {1, 4}, words
        assert re.search("a bare repository|no note is called", done.err), words

    assert hash_tree(bare) == before


@pytest.mark.campaign
@pytest.mark.parametrize("date", ["300000000000 +0000", "1794000000 +9999"])
def test_a_commit_of_a_date_that_no_calendar_has_is_read_as_others(root: Path, date: str) -> None:
    git(root, "commit", "-q", "--allow-empty", "-m", "far")
    write_notes(root, {"notes/far.md": "# Far\n\nThe pier is far.\n"})
    git(root, "add", "--all")
    tree = git(root, "write-tree")
    made = git(root, "cat-file", "commit", "HEAD").replace(
        git(root, "rev-parse", "HEAD^{tree}"), tree
    )
    dated = re.sub(r"^((?:author|committer) .*>) .*$", rf"\g<1> {date}", made, flags=re.MULTILINE)
    storing = ("hash-object", "-t", "commit", "-w", "--literally", "--stdin")
    git(root, "update-ref", "HEAD", git(root, *storing, stdin=f"{dated}\n"))

    for name in READS.keys() - {"bisect"}:  # It counts commits from the last.
        assert run(root, *READS[name]).code == 0, name
    for words in (("pack", "pier"), ("recall", "pier", "--json"), ("blame", "notes/far.md")):
        assert "far" in run(root, *words).out


@pytest.mark.campaign
@pytest.mark.parametrize("change_first", [False, True])
def test_on_no_branch_nothing_is_committed_and_reading_works(
    root: Path, change_first: bool
) -> None:
    git(root, "checkout", "-q", "--detach")
    if change_first:
        write_notes(root, {"notes/hand.md": "by hand\n"})
    before = everything(root)

    for name in ("checkpoint", "take", "merge", "restore"):
        words = (*WRITES[name][:2], "--at=side") if name == "restore" else WRITES[name]
        done = run(root, *words)
        if name == "restore":  # Nothing of ours is uncommitted, so this is an ordinary write.
            assert done.code == 0
            git(root, "checkout", "-q", "--", "notes/a.md")
            continue
        assert done.code == 7, (name, done)
        assert "no branch is checked out (HEAD is detached); `vaultmem switch" in done.err
    if change_first:
        done = run(root, *WRITES["switch"])
        assert (done.code, "switch --create NAME" in done.err) == (7, True)
    for name, words in READS.items():
        assert run(root, *words).code == 0, name

    assert everything(root) == before
    assert run(root, *WRITES["create"]).code == 0
    assert git(root, "symbolic-ref", "--short", "HEAD") == "new"


def test_before_the_first_commit_every_command_says_so(home: Path, tmp_path: Path) -> None:
    root = tmp_path / "unborn"
    write_notes(root, {"vaultmem.yaml": "", "notes/a.md": "tokens\n"})
    git(root, "init", "-q", "-b", "main")
    before = hash_tree(root)
    wanted = {
        **dict.fromkeys(("show", "recall", "bisect", "remember", "restore", "take", "switch"), 4),
        **dict.fromkeys(("merge", "create", "branch"), (4, 7)),
        **dict.fromkeys(("log", "diff", "blame", "history", "branches", "trace"), 0),
    }

    for name, codes in wanted.items():
        done = run(root, *{**WRITES, **READS}[name])
        assert done.code in (codes if isinstance(codes, tuple) else (codes,)), (name, done)
        if done.code:
            assert re.search("nothing is committed|is called that|no such branch|not com", done.err)
    for words in (
        ("recall", "x", "--at=HEAD"),
        ("bisect", "--good=HEAD~1", "--", "x", "--contains", "y"),
        ("check", "--since=HEAD"),
    ):
        done = run(root, *words)
        assert "nothing is committed here yet; `vaultmem checkpoint NOTE`" in done.out + done.err

    (root / ".git/vaultmem-id").unlink()  # A write that was refused gave the vault its id.
    assert hash_tree(root) == before
    assert run(root, "checkpoint", "first").code == 0


LOCKS = {
    "index.lock": ("checkpoint", "take", "merge", "switch", "create"),
    "HEAD.lock": ("checkpoint", "take", "merge", "switch", "create"),
    "refs/heads/main.lock": ("checkpoint", "take", "merge"),
    "refs/heads/side.lock": ("remember",),
    "refs/heads/new.lock": ("branch", "create"),
}


@pytest.mark.parametrize("lock", LOCKS)
def test_what_another_git_holds_is_waited_for_and_never_removed(root: Path, lock: str) -> None:
    file = lock_git(root, lock)
    before = everything(root)

    for name in LOCKS[lock]:
        if name == "checkpoint":
            write_notes(root, {"notes/hand.md": "by hand\n"})
        done = run(root, *WRITES[name])
        if name == "checkpoint":
            (root / "notes/hand.md").unlink()
        assert done.code == 7, (name, done)
        assert re.search(rf"another git is at work \(.*{lock} exists\); wait for it", done.err), (
            done
        )
        assert everything(root) == before, name

    assert file.read_text() == "theirs"
    file.unlink()
    assert run(root, *WRITES[LOCKS[lock][0]]).code == 0


@pytest.mark.campaign
def test_a_shallow_clone_says_what_it_cannot_know_and_how_to_get_it(
    home: Path, template: Path, tmp_path: Path
) -> None:
    root = tmp_path / "shallow"
    source = f"file://{template}"
    git(tmp_path, "clone", "-q", "--depth=1", "--no-single-branch", source, str(root))
    before = everything(root)

    for words, code in (
        (("recall", "x", "--at=HEAD~1"), 4),
        (("recall", "x", "--at=2020-01-01"), 4),
        (("promote", "d", "--from=side"), 4),
        (("bisect", "--good=HEAD~1", "--", "x", "--contains", "y"), 4),
        (("merge", "origin/side"), 1),
    ):
        done = run(root, *words)
        assert (done.code, "`git fetch --unshallow` gets" in done.err) == (code, True), done
    for name in ("log", "history"):
        assert "it is shallow. `git fetch --unshallow`" in run(root, *READS[name]).out
    assert run(root, "switch", "side").code == 4
    for name in ("show", "blame", "diff", "branches", "trace", "recall"):
        assert run(root, *READS[name]).code == 0, name

    assert everything(root) == before
    write_notes(root, {"notes/hand.md": "by hand\n"})
    assert run(root, "checkpoint", "works").code == 0
    assert "error" not in git(root, "fsck", "--no-dangling", "--no-progress")


def test_a_submodule_is_left_to_git(root: Path, template: Path) -> None:
    allowed = ("-c", "protocol.file.allow=always")
    git(root, *allowed, "submodule", "add", "-q", str(template), "sub")
    git(root, "commit", "-qm", "sub")
    inside = hash_tree(root / "sub")
    before = everything(root)

    listed = run(root, "list", "--json").json["notes"]
    switched = run(root, "switch", "side")
    restored = run(root, "restore", "sub", "--at=HEAD")
    clean = run(root, "checkpoint", "x")

    assert not [note["path"] for note in listed if note["path"].startswith("sub/")]
    assert (switched.code, "use git itself" in switched.err) == (5, True)
    assert restored.code == 4
    assert clean.out == "Nothing has changed since the last commit.\n"
    assert everything(root) == before
    merged = run(root, "merge", "side", "--json").json
    assert merged["merged"]
    assert git(root, "ls-tree", "HEAD", "sub").startswith("160000 commit")
    assert git(root, "status", "--porcelain") == ""
    assert hash_tree(root / "sub") == inside
