"""The commit that made a memory wrong: found by plain `git bisect run`, and by vaultmem itself."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from branching import copy_vault
from conftest import RunCli
from in_process import run_here
from support import git, write_notes

from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.changes.edit_notes import edit_note
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.views.read_notes import resolve_address
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import open_vault


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Make a vault in which an agent's session made a fact wrong; name the commit that did."""
    root = tmp_path_factory.mktemp("template") / "vault"
    create_vault(root).vault.close()
    vault = open_vault(root, agent="claude", session="s-1")
    done = remember(vault, Memory("Auth tokens are signed with RS256.", title="Auth tokens"))
    save_checkpoint(vault, "tokens")
    wrong = ""
    for number in range(12):
        if number == 7:
            codex = open_vault(root, agent="codex", session="s-9")
            sync_vault(codex)
            path, _ = resolve_address(codex, done.path)
            edit_note(codex, path, lambda note: note.text.replace("RS256", "HS256"))
            wrong = save_checkpoint(codex, "simpler tokens").commit
            codex.close()
        write_notes(root, {f"notes/log-{number}.md": f"# Day {number}\n\nNothing of note.\n"})
        save_checkpoint(vault, f"day {number}")
    vault.close()
    return root, wrong


@pytest.fixture
def wrong(home: Path, template: tuple[Path, str], tmp_path: Path) -> tuple[Path, str]:
    """Return a copy of that vault, and the commit."""
    return copy_vault(template[0], tmp_path / "vault"), template[1]


@pytest.mark.campaign
def test_git_bisect_run_finds_it_with_assert(wrong: tuple[Path, str]) -> None:
    root, commit = wrong
    first = git(root, "rev-list", "--max-parents=0", "HEAD")
    git(root, "bisect", "start", "HEAD", f"{first}", "--")
    git(root, "bisect", "skip", first, check=False)
    checked = run_here("assert", "auth tokens", "--contains", "RS256", cwd=root)
    assert checked.code in {0, 1}
    held = run_here("checkpoint", "while bisecting", cwd=root)
    assert held.code == 7
    assert "a bisect is under way" in held.err
    git(root, "bisect", "reset")
    good = git(root, "log", "--format=%H", "--grep=checkpoint: tokens")
    git(root, "bisect", "start", "HEAD", good, "--")
    command = [sys.executable, "-m", "vaultmem", "assert", "auth tokens", "--contains", "RS256"]
    out = git(root, "bisect", "run", *command)
    assert f"{commit} is the first bad commit" in out
    git(root, "bisect", "reset")
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.campaign
def test_vaultmem_bisect_names_commit_author_session_and_change(
    wrong: tuple[Path, str], run_cli: RunCli
) -> None:
    root, commit = wrong
    good = git(root, "log", "--format=%H", "--grep=checkpoint: tokens")
    asked = ["--good", good, "--bad", "HEAD", "--", "auth tokens", "--contains", "RS256"]
    done = run_cli("bisect", *asked, cwd=root)
    assert done == run_here("bisect", *asked, cwd=root)
    assert done.code == 0
    assert f"first bad commit  {commit}" in done.out
    assert re.search(r"codex, session s-9, checkpoint", done.out)
    assert "-Auth tokens are signed with RS256." in done.out
    assert "+Auth tokens are signed with HS256." in done.out
    found = run_here("bisect", "--json", *asked, cwd=root).json
    assert [each["commit"] for each in found["first_bad"]] == [commit]
    assert found["first_bad"][0]["agent"] == "codex"
    assert {step["verdict"] for step in found["steps"]} == {"good", "bad"}


@pytest.mark.campaign
def test_assert_tells_apart_wrong_from_not_to_be_judged(
    wrong: tuple[Path, str], tmp_path: Path
) -> None:
    root, _ = wrong
    run_cli, ask = run_here, ["assert", "auth tokens"]
    assert run_cli(*ask, "--contains", "HS256", cwd=root).code == 0
    failed = run_cli(*ask, "--contains", "RS256", cwd=root)
    assert (failed.code, failed.out) == (1, 'no section of the pack contains "RS256"\n')
    assert run_cli(*ask, "--contains", "RS256", "--absent", cwd=root).code == 0
    assert run_cli(*ask, "--contains-note", "notes/inbox/auth-tokens.md", cwd=root).code == 0
    assert run_cli(*ask, "--contains", "RS256", "--at", "HEAD~14", cwd=root).code in {0, 1}
    assert run_cli(*ask, "--contains", "RS256", "--json", cwd=root).json["as_expected"] is False
    nowhere = run_cli(*ask, "--contains", "RS256", cwd=tmp_path)
    assert nowhere.code == 125
    assert run_cli(*ask, cwd=root).code == 125
    assert run_cli(*ask, "--contains", "x", "--at", "nope", cwd=root).code == 125
