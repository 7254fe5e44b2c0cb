"""Git merges notes with `vaultmem merge-driver`: real repositories, real merges."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import RunCli
from support import git, hash_tree, write_notes

BASE = "---\ntitle: Tokens\nstate: candidate\ntags:\n  - auth\n---\n# Tokens\n\n- opaque\n"


@pytest.fixture
def repository(home: Path, tmp_path: Path) -> Path:
    """Make a repository whose notes are merged by this very interpreter's vaultmem."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    driver = f'"{sys.executable}" -m vaultmem merge-driver %O %A %B %P'
    git(root, "config", "merge.vaultmem.driver", driver)
    (root / ".git/info/attributes").write_text("*.md merge=vaultmem\n")
    return root


def fork(root: Path, base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """Commit a base and two sides, merge theirs into ours and return what git said."""
    write_notes(root, base or {"other.txt": "x"})
    commit(root, "base")
    git(root, "checkout", "-q", "-b", "theirs")
    write_notes(root, theirs)
    commit(root, "theirs")
    git(root, "checkout", "-q", "main")
    write_notes(root, ours)
    commit(root, "ours")
    done = subprocess.run(
        ["git", "merge", "-q", "--no-edit", "theirs"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def commit(root: Path, subject: str) -> None:
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", subject)


def leftovers(root: Path) -> list[str]:
    return [str(file) for file in root.rglob("*") if ".vaultmem-" in file.name]


@pytest.mark.parametrize("name", ["notes/auth/tokens.md", 'notes/it\'s "odd" ü.md', "-f.md"])
def test_git_merge_takes_both_sides_of_a_note(repository: Path, name: str) -> None:
    ours = BASE.replace("candidate", "active").replace("  - auth\n", "  - auth\n  - ours\n")
    theirs = BASE.replace("title: Tokens", "title: All tokens").replace(
        "  - auth", "  - auth\n  - b"
    )
    said = fork(
        repository,
        {name: BASE},
        {name: ours + "- ours\n"},
        {name: theirs + "- theirs\n"},
    )

    assert said == f"Auto-merging {name}\n"
    assert (repository / name).read_text() == (
        "---\ntitle: All tokens\nstate: active\ntags:\n  - auth\n  - ours\n  - b\n---\n"
        "# Tokens\n\n- opaque\n- ours\n- theirs\n"
    )
    assert git(repository, "status", "--porcelain") == ""
    assert len(git(repository, "log", "-1", "--format=%P").split()) == 2
    assert leftovers(repository) == []


def test_what_both_sides_changed_is_merged_and_said_and_git_commits_it(repository: Path) -> None:
    """The later commit's value wins, a state is never freer, and no marker is left."""
    ours, theirs = (
        BASE.replace("candidate", state)
        .replace("Tokens\ns", f"{title}\ns")
        .replace("opaque", words)
        for state, title, words in (("active", "A", "clear"), ("archived", "B", "secret"))
    )
    said = fork(repository, {"a.md": BASE}, {"a.md": ours}, {"a.md": theirs})

    assert "CONFLICT" not in said
    assert "vaultmem: a.md: both sides changed line 9; ours stays, theirs follows it" in said
    assert 'vaultmem: lost a.md: property "state": active' in said
    day = git(repository, "log", "-1", "--format=%cI", "theirs")[:10]
    name = git(repository, "log", "-1", "--format=%an", "theirs")
    text = (repository / "a.md").read_text()
    assert text.partition("# Tokens")[2] == (
        f"\n\n- clear\n\n> [!conflict] Also said by {name} on {day} (theirs)\n> - secret\n"
    )
    assert "state: archived\n" in text
    assert text.count("title:") == 1
    assert git(repository, "status", "--porcelain") == ""
    assert leftovers(repository) == []


def test_in_a_rebase_the_author_of_the_replayed_commit_is_named(repository: Path) -> None:
    write_notes(repository, {"a.md": BASE})
    commit(repository, "base")
    git(repository, "checkout", "-q", "-b", "theirs")
    write_notes(repository, {"a.md": BASE.replace("opaque", "secret")})
    git(repository, "commit", "-qam", "theirs", "--author", "Ole <ole@example.org>")
    git(repository, "checkout", "-q", "main")
    write_notes(repository, {"a.md": BASE.replace("opaque", "clear")})
    commit(repository, "ours")
    git(repository, "checkout", "-q", "theirs")
    git(repository, "rebase", "main")

    day = git(repository, "log", "-1", "--format=%cI")[:10]
    assert (
        (repository / "a.md")
        .read_text()
        .endswith(f"- clear\n\n> [!conflict] Also said by Ole on {day}\n> - secret\n")
    )


def test_in_a_rebase_the_replayed_value_counts_for_the_other_stays_in_history(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_notes(repository, {"a.md": BASE})
    commit(repository, "base")
    git(repository, "checkout", "-q", "-b", "theirs")
    write_notes(repository, {"a.md": BASE.replace("title: Tokens", "title: Replayed")})
    git(repository, "commit", "-qam", "theirs")
    git(repository, "checkout", "-q", "main")
    write_notes(repository, {"a.md": BASE.replace("title: Tokens", "title: Upstream")})
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2099-01-01T00:00:00Z")
    git(repository, "commit", "-qam", "ours")
    monkeypatch.delenv("GIT_COMMITTER_DATE")
    git(repository, "checkout", "-q", "theirs")
    git(repository, "rebase", "main")

    assert "title: Replayed\n" in (repository / "a.md").read_text()
    assert "title: Upstream\n" in git(repository, "show", "HEAD~1:a.md")


def test_a_note_that_both_sides_added_is_merged_from_nothing(repository: Path) -> None:
    said = fork(
        repository, {}, {"MEMORY.md": "# Memory\n\n- ours\n"}, {"MEMORY.md": "# Memory\n\n- t\n"}
    )
    assert said == "Auto-merging MEMORY.md\n"
    assert (repository / "MEMORY.md").read_text() == "# Memory\n\n- ours\n- t\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "why"),
    [
        (b"caf\xe9\n", b"b\n", "not UTF-8 (byte 3)"),
        (b"b\n", b"caf\xe9\n", "not UTF-8 (byte 3)"),
        (b"b\n", b"a\0\n", "NUL bytes"),
    ],
)
def test_git_keeps_our_bytes_of_a_note_that_is_no_text(
    repository: Path, ours: bytes, theirs: bytes, why: str
) -> None:
    said = fork(repository, {"a.md": b"a\n"}, {"a.md": ours}, {"a.md": theirs})

    assert "vaultmem: a.md: not merged: a version" in said
    assert why in said
    assert (repository / "a.md").read_bytes() == ours
    assert git(repository, "status", "--porcelain") == "UU a.md"


def test_a_version_that_is_missing_leaves_ours_and_says_why(
    run_cli: RunCli, tmp_path: Path
) -> None:
    write_notes(tmp_path, {"v/base": "a\n", "v/ours": "b\n", "v/theirs": "c\n"})
    folder = tmp_path / "v"
    before = hash_tree(folder)
    for names in (("none", "ours", "theirs"), ("base", "none", "theirs"), ("base", "ours", ".")):
        done = run_cli("merge-driver", *names, "x\n.md", cwd=folder)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("vaultmem: x\\n.md: not merged: ")
        assert done.err.count("\n") == 1
    assert hash_tree(folder) == before


def test_a_disk_that_takes_only_half_of_the_result_leaves_ours(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    write_notes(folder, {"base": "a\n", "ours": "a\nb\n", "theirs": "c\n" * 99 + "a\n"})
    before = hash_tree(folder)
    code = (
        "import os, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
        "arguments = ['merge-driver', 'base', 'ours', 'theirs', 'x.md']\n"
        "os.execv(sys.executable, [sys.executable, '-B', '-m', 'vaultmem', *arguments])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "vaultmem: x.md: not merged: File too large\n"
    assert hash_tree(folder) == before


@pytest.mark.parametrize("path", ["-h.md", "--help", "--vault", "-"])
def test_the_path_of_a_note_is_never_an_option(run_cli: RunCli, tmp_path: Path, path: str) -> None:
    write_notes(tmp_path, {"base": "a\n", "ours": "a\nb\n", "theirs": "a\n"})
    (tmp_path / "ours").chmod(0o640)
    done = run_cli("merge-driver", "base", "ours", "theirs", path, cwd=tmp_path)

    assert (done.code, done.out, done.err) == (0, "", "")
    assert (tmp_path / "ours").read_text() == "a\nb\n"
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o640


def test_the_driver_starts_without_heavy_libraries(run_cli: RunCli, tmp_path: Path) -> None:
    write_notes(tmp_path, {"base": BASE, "ours": BASE + "x\n", "theirs": BASE.replace("T", "t")})
    code = (
        "import sys; from vaultmem.cli.app import main\n"
        "sys.argv[1:] = ['merge-driver', 'base', 'ours', 'theirs', 'a.md']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'numpy', 'whoosh', 'git', 'pydantic', 'sqlite3', 'vaultmem.vault'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
    assert (tmp_path / "ours").read_text() == BASE.replace("T", "t") + "x\n"
