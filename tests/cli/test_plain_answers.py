"""Small commands say what they did, what was wrong first, and how to go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Make
from in_process import run_here
from support import git, write_notes

from vaultmem import open_vault, save_checkpoint
from vaultmem.storage import user_files

NOTE = "notes/tide.md"
NOTES = {NOTE: "The tide is at noon.\n", "notes/bell.md": "The bell rings twice.\n"}


def test_a_note_that_is_not_pinned_is_not_unpinned(root: Path) -> None:
    assert run_here("pin", "--remove", "tide", cwd=root).out == f"not pinned  {NOTE}\n"
    run_here("pin", "tide", cwd=root)
    assert run_here("pin", "--remove", "tide", cwd=root).out == f"unpinned  {NOTE}\n"


@pytest.mark.parametrize("reason", [(), ("--reason", "It is wrong.")])
def test_forget_says_how_the_note_comes_back(root: Path, reason: tuple[str, ...]) -> None:
    told = run_here("forget", "tide", *reason, cwd=root).out.splitlines()[-1]
    assert not (root / NOTE).exists()
    command = told.split("`")[1]
    assert run_here(*command.split()[1:], cwd=root).code == 0
    assert (root / NOTE).read_text() == NOTES[NOTE]


@pytest.mark.parametrize("when", ["yesterday", "2 days ago", "last.week", "26.hours.ago"])
def test_gits_words_for_a_date_are_dates(make_vault: Make, when: str) -> None:
    root = make_vault(NOTES)
    old = {"GIT_COMMITTER_DATE": "2020-01-01T09:00:00", "GIT_AUTHOR_DATE": "2020-01-01T09:00:00"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in old.items():
            patch.setenv(name, value)
        git(root, "commit", "-q", "--amend", "--no-edit")
    write_notes(root, {NOTE: "The tide is at ten.\n"})
    vault = open_vault(root)
    save_checkpoint(vault, "ten")
    vault.close()

    assert run_here("show", "tide", "--at", when, cwd=root).out == NOTES[NOTE]
    git(root, "branch", "yesterday")
    assert "ten" in run_here("show", "tide", "--at", "yesterday", cwd=root).out
    unknown = run_here("show", "tide", "--at", "the day before", cwd=root)
    assert unknown.code == 4


def test_merge_names_a_wrong_branch_before_uncommitted_files(root: Path) -> None:
    write_notes(root, {NOTE: "Changed.\n"})
    done = run_here("merge", "nope", cwd=root)
    assert (done.code, "nope: no branch" in done.err) == (4, True)


def test_help_lists_the_topics(root: Path) -> None:
    assert "exit-codes\n" in run_here("help", "topics", cwd=root).out
    git_help = run_here("help", "git", cwd=root)
    assert (git_help.code, "Topics: agents, commits" in git_help.err) == (2, True)
    assert "Did you mean `remember`?" in run_here("help", "remmember", cwd=root).err


def test_prime_without_a_source_says_what_is_missing(root: Path) -> None:
    done = run_here("reference", "manual.md", cwd=root)
    assert done.code == 2
    assert "--source is missing: `vaultmem reference manual.md --source NAME`" in done.err


def test_a_false_end_of_bisect_is_the_only_line(root: Path) -> None:
    write_notes(root, {NOTE: "The tide is at ten.\n"})
    vault = open_vault(root)
    save_checkpoint(vault, "ten")
    vault.close()
    done = run_here("bisect", "--good", "HEAD~1", "--", "bell", "--contains", "twice", cwd=root)
    assert (done.code, done.out) == (5, "")
    assert "HEAD: not bad" in done.err


def test_a_missing_extra_is_named_as_pip_and_uv_take_it() -> None:
    assert user_files.how_to_install("web") == "run `pip install 'vaultmem-notes[web]'`"
    assert user_files.how_to_install("nonsense") == "run `pip install '.[nonsense]'`"


@pytest.mark.parametrize(
    ("command", "code"),
    [("show nowhere", 4), ("show ../x", 5), ("show nope", 4), ("forget ../x", 5)],
)
def test_an_error_is_json_where_json_is_asked_for(root: Path, command: str, code: int) -> None:
    plain = run_here(*command.split(), cwd=root)
    done = run_here(*command.split(), "--json", cwd=root)
    told = json.loads(done.err)
    assert (plain.code, done.code, done.out) == (code, code, "")
    assert plain.err == f"vaultmem: error: {told['error']}\n"
    assert told["exit_code"] == code


def test_status_counts_one_standing_wish(make_vault: Make) -> None:
    wish = "---\nkind: preference\nstate: candidate\n---\nAlways answer in metric units.\n"
    root = make_vault({"notes/wish.md": wish})
    assert "1 standing wish; " in run_here("status", cwd=root).out
