"""What two sides said differently: listed, decided in one commit each, and stopped merges ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from branching import NOTE, change, commit_on, is_clean
from conftest import RunCli
from in_process import run_here
from support import git

from vaultmem.services.memory.create_vault import create_vault


def lay(root: Path) -> None:
    """Make a vault whose `side` changed and removed what main changed, and renamed a note."""
    long = "".join(f"Line {n} of the pier.\n\n" for n in range(9))
    commit_on(root, "main", {"notes/a.md": NOTE, "notes/gone.md": "Gone.\n", "notes/pier.md": long})
    git(root, "branch", "side", "main")
    ours = change(NOTE, "opaque", "clear", "weekly", "daily", "state: active", "state: stale")
    commit_on(root, "main", {"notes/a.md": ours, "notes/gone.md": "Gone.\n\nNot yet.\n"})
    theirs = change(NOTE, "opaque", "odd", "weekly", "hourly")
    commit_on(root, "side", {"notes/a.md": theirs, "notes/gone.md": None}, who="Eve <e@x.org>")
    commit_on(root, "main", {"notes/pier.md": None, "notes/ours.md": long})
    commit_on(root, "side", {"notes/pier.md": None, "notes/theirs.md": long}, who="Eve <e@x.org>")
    git(root, "reset", "-q", "--hard")


def read(root: Path, path: str = "notes/a.md") -> str:
    return (root / path).read_text()


@pytest.mark.campaign
def test_conflicts_are_listed_and_each_is_decided_in_one_commit(
    root: Path, run_cli: RunCli
) -> None:
    assert run_here("resolve", cwd=root).out == "No conflicts.\n"
    run_here("merge", "side", cwd=root)
    listed = run_cli("conflicts", "--json", cwd=root).json
    shown = run_here("resolve", cwd=root).out

    assert [(x["path"], x["number"], x["verb"]) for x in listed["conflicts"]] == [
        ("notes/a.md", 1, "Also said"),
        ("notes/a.md", 2, "Also said"),
        ("notes/gone.md", 1, "Removed"),
    ]
    first = listed["conflicts"][0]
    assert (first["ours"], first["theirs"]) == ("Tokens are clear.\n", "Tokens are odd.\n")
    assert (first["author"], first["where"]) == ("Eve", "side")
    lines = read(root).splitlines()
    assert [lines[x["line"] - 1][:13] for x in listed["conflicts"][:2]] == ["> [!conflict]"] * 2
    assert "    there  Tokens are odd.\n" in shown
    assert "vaultmem resolve" in shown

    done = run_here("resolve", "a", "1", "--theirs", "--json", cwd=root).json
    assert (done["resolved"], done["decided"], done["removed"]) == ("notes/a.md", 1, False)
    assert git(root, "log", "-1", "--format=%s") == "resolve: a"
    assert "theirs: Also said by Eve" in git(root, "log", "-1", "--format=%b")
    assert "Tokens are odd." in read(root)
    assert "Tokens are clear." not in read(root)
    assert read(root).count("[!conflict]") == 1

    run_here("resolve", "a", "--both", cwd=root)
    assert "Keys rotate daily.\nKeys rotate hourly.\n" in read(root)
    assert "state: stale\n" in read(root)
    run_here("resolve", "gone", "--ours", cwd=root)
    assert read(root, "notes/gone.md") == "Gone.\n\nNot yet.\n"
    assert run_here("resolve", cwd=root).out == "No conflicts.\n"
    again = run_here("resolve", "gone", "--ours", cwd=root)
    assert (again.code, "no conflict" in again.err) == (4, True)
    assert is_clean(root)


@pytest.mark.campaign
def test_theirs_of_a_note_that_they_removed_is_that_it_goes(root: Path) -> None:
    run_here("merge", "side", cwd=root)
    assert run_here("resolve", "gone", "--theirs", cwd=root).code == 0
    assert not (root / "notes/gone.md").exists()
    assert is_clean(root)


@pytest.mark.campaign
def test_what_was_written_in_an_editor_is_never_lost(root: Path, tmp_path: Path) -> None:
    run_here("merge", "side", cwd=root)
    before = read(root)
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i -e "s/clear/plain/" -e "/^>/d" "$1"\nexit $FAILS\n')
    editor.chmod(0o755)

    def edit(fails: int) -> Any:
        env = {"EDITOR": str(editor), "VISUAL": "", "FAILS": str(fails)}
        return run_here("resolve", "a", "--edit", cwd=root, env=env)

    failed = edit(3)
    assert failed.code != 0
    assert read(root) == before
    kept = Path(failed.err.partition("what you wrote is kept in ")[2].splitlines()[0])
    assert "Tokens are plain." in kept.read_text()
    assert edit(0).code == 0
    assert "Tokens are plain." in read(root)
    assert "[!conflict]" not in read(root)
    assert git(root, "log", "-1", "--format=%s") == "resolve: a"


@pytest.mark.parametrize("words", [("a",), ("a", "--ours", "--both"), ("a", "--all"), ("--ours",)])
def test_what_cannot_be_meant_is_refused(root: Path, words: tuple[str, ...]) -> None:
    done = run_here("resolve", *words, cwd=root)
    assert (done.code, "--ours, --theirs, --both, --edit" in done.err) == (5, True)


@pytest.mark.campaign
@pytest.mark.parametrize("has_driver", [True, False])
def test_a_merge_that_git_stopped_is_brought_to_its_end(root: Path, has_driver: bool) -> None:
    if not has_driver:
        git(root, "config", "--remove-section", "merge.vaultmem")
    git(root, "merge", "-q", "--no-edit", "side", check=False)
    (root / "notes/mine.md").write_text("Mine, and in no commit.\n")
    left = run_here("resolve", "--json", cwd=root).json["unmerged"]
    assert ("notes/gone.md" in left, "notes/a.md" in left) == (True, not has_driver)
    tip = git(root, "rev-parse", "side")

    done = run_here("resolve", "--all", "--json", cwd=root)

    assert done.code == 0, done.err
    assert done.json["merged"]
    assert git(root, "log", "-1", "--format=%P").split()[1] == tip
    assert git(root, "status", "--porcelain") == "?? notes/mine.md"
    assert "Also said by Eve" in read(root)
    assert read(root, "notes/gone.md").startswith("> [!conflict] Removed by Eve")
    names = {file.name for file in (root / "notes").glob("*.md")}
    assert len(names & {"ours.md", "theirs.md"}) == 1
    assert "pier.md" not in names
    assert not any("<<<<<<<" in file.read_text() for file in (root / "notes").glob("*.md"))
    none = run_here("resolve", "--all", cwd=root)
    assert (none.code, "no merge is under way" in none.err) == (4, True)


def test_what_a_person_has_mended_stays_as_they_did(root: Path) -> None:
    git(root, "config", "--remove-section", "merge.vaultmem")
    git(root, "merge", "-q", "--no-edit", "side", check=False)
    mended = change(NOTE, "opaque", "both clear and odd")
    (root / "notes/a.md").write_text(mended)

    run_here("resolve", "--all", cwd=root)

    assert read(root) == mended
    assert read(root, "notes/gone.md").startswith("> [!conflict] Removed by Eve")
    assert is_clean(root)


def _stash_a_change(root: Path, path: str, text: str | None) -> None:
    """Put away a change (None: the removal) of what main has changed since, and take it back."""
    git(root, "config", "--remove-section", "merge.vaultmem")
    git(root, "switch", "-q", "--detach", "main~2")
    (root / path).unlink() if text is None else (root / path).write_text(text)
    git(root, "stash", "-q")
    git(root, "switch", "-q", "main")
    git(root, "stash", "pop", check=False)
    assert git(root, "ls-files", "-u", "--", path)


@pytest.mark.campaign
def test_both_versions_of_a_stash_that_clashes_stay_under_their_names(root: Path) -> None:
    _stash_a_change(root, "notes/a.md", change(NOTE, "opaque", "odd", "logged", "printed"))
    listed = run_here("resolve", cwd=root).out

    done = run_here("resolve", "--all", cwd=root)

    assert "unmerged  notes/a.md\n" in listed
    assert (done.code, "`vaultmem checkpoint NOTE` commits it" in done.out) == (0, True)
    text = read(root)
    assert "Tokens are clear." in text
    assert "> [!conflict] Also said by Maren Person on 20" in text
    assert "(uncommitted)\n> Tokens are odd.\n" in text
    assert "They are never printed." in text
    assert git(root, "diff", "--name-only", "--diff-filter=U") == ""
    assert run_here("checkpoint", "popped", cwd=root).code == 0
    assert is_clean(root)
    again = run_here("resolve", "--all", cwd=root)
    assert (again.code, "no merge is under way" in again.err) == (4, True)


@pytest.mark.parametrize(
    ("choice", "says"),
    [("ours", ["clear"]), ("theirs", ["odd"]), ("both", ["clear", "odd"])],
)
def test_one_note_that_git_has_in_conflict_is_decided(
    root: Path, choice: str, says: list[str]
) -> None:
    _stash_a_change(root, "notes/a.md", change(NOTE, "opaque", "odd", "logged", "printed"))

    done = run_here("resolve", "a", f"--{choice}", "--json", cwd=root).json

    assert (done["resolved"], done["removed"], done["commits"]) == ("notes/a.md", False, [])
    text = read(root)
    assert [word for word in ("clear", "odd") if f"Tokens are {word}." in text] == says
    assert "They are never printed." in text
    assert "Keys rotate daily." in text
    assert "[!conflict]" not in text
    assert "<<<<<<<" not in text
    assert run_here("checkpoint", "popped", cwd=root).code == 0
    assert is_clean(root)


@pytest.mark.campaign
@pytest.mark.parametrize(("choice", "is_there"), [("ours", True), ("theirs", False)])
@pytest.mark.parametrize("how", ["stash", "merge", "cherry-pick"])
def test_a_note_that_one_side_removed_is_decided(
    root: Path, how: str, choice: str, is_there: bool
) -> None:
    if how == "stash":
        _stash_a_change(root, "notes/gone.md", None)
    elif how == "merge":
        git(root, "merge", "-q", "--no-edit", "side", check=False)
    else:
        git(root, "cherry-pick", "side~", check=False)
    text = read(root, "notes/gone.md")

    done = run_here("resolve", "gone", f"--{choice}", cwd=root)
    assert (done.code, "in no commit yet" in done.out) == (0, True), done.err
    if how == "merge":
        assert run_here("resolve", "--all", cwd=root).code == 0
    elif how == "cherry-pick":
        git(root, "-c", "core.editor=true", "cherry-pick", "--continue")
    run_here("checkpoint", "decided", cwd=root)

    assert (root / "notes/gone.md").exists() == is_there
    assert not is_there or read(root, "notes/gone.md") == text
    assert is_clean(root)


@pytest.mark.campaign
def test_what_a_person_staged_of_a_stopped_merge_is_their_decision(root: Path) -> None:
    git(root, "merge", "-q", "--no-edit", "side", check=False)
    git(root, "add", "notes/gone.md")

    assert run_here("resolve", "--all", cwd=root).code == 0

    assert read(root, "notes/gone.md") == "Gone.\n\nNot yet.\n"


def test_what_a_person_has_edited_of_a_conflict_is_not_replaced(root: Path) -> None:
    _stash_a_change(root, "notes/a.md", change(NOTE, "opaque", "odd"))
    mine = change(NOTE, "opaque", "both clear and odd")
    (root / "notes/a.md").write_text(mine)

    done = run_here("resolve", "a", "--theirs", cwd=root)

    assert (done.code, "`git add notes/a.md` keeps that" in done.err) == (5, True)
    assert read(root) == mine


def test_an_agent_does_not_decide_about_what_only_a_person_changes(root: Path) -> None:
    held = change(NOTE, "state: active", "state: quarantined")
    _stash_a_change(root, "notes/a.md", change(held, "opaque", "odd"))

    done = run_here("resolve", "a", "--theirs", "--agent", "codex", cwd=root)

    assert (done.code, "only a person changes it" in done.err) == (5, True)
    assert git(root, "ls-files", "-u", "--", "notes/a.md")


def test_conflicts_outside_of_the_vault_are_left_to_git(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    git(tmp_path, "init", "-q", "project")
    (project / "code.txt").write_text("one\n")
    create_vault(project / "memory").vault.close()
    git(project, "add", "--all")
    git(project, "commit", "-q", "-m", "all")
    (project / "code.txt").write_text("two\n")
    git(project, "stash", "-q")
    (project / "code.txt").write_text("three\n")
    git(project, "commit", "-q", "-am", "three")
    git(project, "stash", "pop", check=False)
    (project / "memory/new.md").write_text("# New\n")

    done = run_here("checkpoint", "new", cwd=project / "memory")

    assert (done.code, "code.txt in conflict; edit it, then `git add` it" in done.err) == (7, True)


@pytest.mark.campaign
def test_a_rebase_that_git_stopped_goes_on_with_what_was_settled(root: Path) -> None:
    git(root, "switch", "-q", "side")
    git(root, "rebase", "main", check=False)
    assert "notes/gone.md" in run_here("resolve", "--json", cwd=root).json["unmerged"]

    done = run_here("resolve", "--all", cwd=root)

    assert (done.code, "git rebase --continue" in done.out) == (0, True), done.err
    assert git(root, "diff", "--name-only", "--diff-filter=U") == ""
    for _ in range(3):
        git(root, "-c", "core.editor=true", "rebase", "--continue", check=False)
        if not git(root, "diff", "--name-only", "--diff-filter=U"):
            break
        assert run_here("resolve", "--all", cwd=root).code == 0
    assert git(root, "symbolic-ref", "--short", "HEAD") == "side"
    assert read(root, "notes/gone.md").startswith("> [!conflict] Removed by Eve")
    assert not any("<<<<<<<" in file.read_text() for file in (root / "notes").glob("*.md"))
    assert is_clean(root)


def test_a_long_line_is_listed_in_part(root: Path) -> None:
    long = "The pier is long. " * 4_000
    commit_on(root, "main", {"notes/long.md": f"{long}\n"})
    git(root, "branch", "long", "main")
    commit_on(root, "main", {"notes/long.md": f"Ours. {long}\n"})
    commit_on(root, "long", {"notes/long.md": f"Theirs. {long}\n"})
    git(root, "reset", "-q", "--hard")
    run_here("merge", "long", cwd=root)

    lines = run_here("resolve", "--ref", "main", cwd=root).out.splitlines()

    assert any("Ours. The pier" in line for line in lines)
    assert any("Theirs. The pier" in line for line in lines)
    assert max(map(len, lines)) < 1_100
