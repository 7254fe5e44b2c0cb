"""The first write that no commit has says, once a vault, what will commit it."""

from __future__ import annotations

import pytest
from conftest import Make
from in_process import run_here

PERSONS = "hint: not committed yet; the next `vaultmem checkpoint` commits it\n"
AGENTS = PERSONS.replace(" commits", " or the end of the session commits")
WATCHED = (
    "hint: not committed yet; `vaultmem watch` commits it after 600 seconds without a save, "
    "`vaultmem checkpoint` at once\n"
)


@pytest.mark.parametrize(
    ("agent", "setting", "hint"),
    [
        ("", "", PERSONS),
        ("claude", "", AGENTS),
        ("", "commit_edits_after_seconds: 600\n", WATCHED),
        ("claude", "commit_edits_after_seconds: 600\n", AGENTS),
    ],
)
def test_the_first_uncommitted_write_says_once_what_commits_it(
    make_vault: Make, agent: str, setting: str, hint: str
) -> None:
    root = make_vault({"notes/a.md": "# A\n", "vaultmem.yaml": setting})
    who = ["--agent", agent] if agent else []

    assert "hint" not in run_here("recall", "gulls", cwd=root).err
    first = run_here("remember", "Gulls nest in May.", *who, cwd=root)
    again = run_here("tag", "a", "gulls", *who, cwd=root)

    assert first.err == hint
    assert again.err == ""


def test_json_a_commit_and_a_hook_have_no_hint(make_vault: Make) -> None:
    root = make_vault({"notes/rule.md": "---\nstate: candidate\n---\n# Rule\n"})

    assert run_here("promote", "rule", cwd=root).err == ""
    assert run_here("remember", "Gulls nest in May.", "--json", cwd=root).err == ""
    event = f'{{"hook_event_name": "SessionStart", "session_id": "s-1", "cwd": "{root}"}}'
    hooked = run_here("hook", "session-start", "--wait", cwd=root, stdin=event)

    assert "hint" not in hooked.out + hooked.err
    assert run_here("remember", "Terns nest in June.", cwd=root).err == PERSONS
