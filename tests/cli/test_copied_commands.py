"""The commands that messages show run as they are, also for names with spaces as in Obsidian."""

from __future__ import annotations

import shlex

from conftest import Make
from in_process import run_here
from support import git

NOTE = "notes/auth/Old tokens.md"


def test_the_command_that_replaces_a_contradicted_note_can_be_copied(make_vault: Make) -> None:
    root = make_vault(
        {NOTE: "---\nagent: claude\n---\n\nSession tokens expire after 15 minutes.\n"}
    )

    run_here("index", cwd=root)
    told = run_here(
        "remember", "Session tokens expire after 30 minutes.", cwd=root
    ).out.splitlines()

    command = shlex.split(told[-1].removeprefix("If it replaces that: vaultmem "))
    assert command[:2] == ["supersede", NOTE]
    assert run_here(*command, cwd=root).code == 0
    assert "state: deprecated" in (root / NOTE).read_text()


def test_the_command_that_brings_a_removed_note_back_can_be_copied(make_vault: Make) -> None:
    root = make_vault({NOTE: "Session tokens expire after 15 minutes.\n"})
    run_here("forget", NOTE, "--reason", "wrong", "--yes", cwd=root)

    told = run_here("blame", NOTE, cwd=root).err

    command = shlex.split(told.partition("`vaultmem ")[2].partition("`")[0])
    assert command[:3] == ["restore", NOTE, "--at"]
    assert run_here(*command, cwd=root).code == 0
    assert (root / NOTE).read_text() == "Session tokens expire after 15 minutes.\n"


def test_the_command_that_promotes_or_edits_a_note_can_be_copied(make_vault: Make) -> None:
    candidate = "notes/auth/Token rule.md"
    root = make_vault(
        {
            NOTE: "---\ntitle: [a\n---\n\nSession tokens expire after 15 minutes.\n",
            candidate: "---\nstate: candidate\n---\n\nA token has a colour.\n",
        }
    )

    refused = run_here("state", candidate, "active", cwd=root)
    listed = run_here("review", "--only", "unreadable", cwd=root).out

    assert f"`{shlex.join(('vaultmem', 'promote', candidate))}`" in refused.err
    assert f"`{shlex.join(('vaultmem', 'edit', NOTE))}`" in listed


def test_the_command_that_shows_the_names_of_a_note_can_be_copied(make_vault: Make) -> None:
    root = make_vault({"a.md": "A.\n"})
    (root / NOTE).parent.mkdir(parents=True)
    (root / NOTE).write_text("Session tokens expire after 15 minutes.\n")
    git(root, "add", ".")
    git(root, "commit", "-m", "tokens")

    told = run_here("blame", NOTE, "--at", "HEAD~1", cwd=root)

    assert told.code == 4
    assert f"`{shlex.join(('vaultmem', 'history', NOTE))}`" in told.err


def test_a_new_name_that_is_hidden_is_refused_with_its_reason(make_vault: Make) -> None:
    root = make_vault({"a.md": "A.\n"})
    for name in ("# ideas", "~draft", ".draft"):
        refused = run_here("mv", "a", f"Plans/{name}", cwd=root)
        assert (refused.code, (root / "a.md").is_file()) == (5, True)
        assert f'"{name}.md" is a hidden name' in refused.err


def test_the_hint_of_forget_restores_a_note_of_emoji_or_of_another_branch(
    make_vault: Make,
) -> None:
    family = "notes/\U0001f468\u200d\U0001f469\u200d\U0001f467 family.md"
    root = make_vault({NOTE: "On main.\n", family: "We are five.\n"})
    git(root, "branch", "side")
    (root / NOTE).write_text("On main, later.\n")
    git(root, "commit", "-q", "-a", "-m", "later")

    for path, options in ((family, []), (NOTE, ["--ref", "side"])):
        told = run_here("forget", path, *options, cwd=root).out
        git(root, "commit", "-q", "--allow-empty", "-a", "-m", "HEAD has moved")
        command = shlex.split(told.partition("`vaultmem ")[2].partition("`")[0])
        assert command[:3] == ["restore", path, "--at"]
        assert run_here(*command, cwd=root).code == 0

    assert (root / family).read_text() == "We are five.\n"
    assert git(root, "show", f"side:{NOTE}") == "On main."
    assert (root / NOTE).read_text() == "On main, later.\n"
