"""What was said by a file's edit is an event of its own, whoever makes the next commit."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Make, Open
from in_process import run_here
from support import git, write_notes

from vaultmem.core.lifecycle import NoteState
from vaultmem.errors import PendingError, RefusedError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.changes.edit_notes import change_tags
from vaultmem.services.history.explain import explain_text
from vaultmem.services.lifecycle.supersede import supersede_note
from vaultmem.services.lifecycle.transition import change_state, promote_notes
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.forget import forget_notes, select_notes
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.sessions.begin import NewSession, start_session
from vaultmem.services.sessions.close import close_session
from vaultmem.services.views.read_notes import resolve_address
from vaultmem.services.views.update_index import sync_vault
from vaultmem.services.watching.idle import commit_transitions
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.vault import Vault

EVENT = "%(trailers:key=Vault-Event,valueonly,separator=)"
RULE = "---\nkind: policy_rule\nstate: {state}\n---\n# Rule\n\nRing the bell at noon.\n"
SESSION = "---\nagent: claude\nstatus: open\n---\n# S\n\n## Summary\n\nGot it done.\n"
NOTES = {
    "notes/rule.md": RULE.format(state="candidate"),
    "notes/other.md": "---\nstate: candidate\n---\n# Other\n\nAnother bell.\n",
    "notes/old.md": "# Old\n\nThe mast is tall.\n",
    "notes/new.md": "# New\n\nThe mast is taller.\n",
    "sessions/s-7.md": SESSION,
}


def say(root: Path, path: str, before: str, after: str) -> None:
    """Say something by file: edit one property of a note."""
    text = (root / path).read_text()
    assert before in text
    (root / path).write_text(text.replace(before, after, 1))


def tick(root: Path, path: str = "notes/rule.md") -> None:
    say(root, path, "state: candidate", "state: active")


def told(root: Path, path: str) -> list[str]:
    """Return author and event of the commits of a note after its first, oldest first."""
    return git(root, "log", "--reverse", f"--format=%an: {EVENT}", "--", path).splitlines()[1:]


def commit_by(vault: Vault, event: str) -> None:
    """Make a commit of an event that is about another note."""
    other, old, new = (
        resolve_address(vault, f"notes/{name}.md")[0] for name in ("other", "old", "new")
    )
    if event == "checkpoint":
        save_checkpoint(vault, "noon")
    elif event == "promote":
        promote_notes(vault, [str(other)])
    elif event == "state":
        change_state(vault, [str(old)], NoteState.STALE, "too old")
    elif event == "supersede":
        supersede_note(vault, str(old), str(new))
    elif event == "forget":
        forget_notes(vault, select_notes(vault, [str(old)]).notes, "not needed")
    elif event == "session-close":
        start_session(vault, NewSession("s-8"))
        close_session(vault, "s-8")


@pytest.mark.parametrize(
    ("event", "agent"),
    [
        ("checkpoint", ""),
        ("checkpoint", "claude"),
        ("promote", "claude"),
        ("state", ""),
        ("supersede", "claude"),
        ("forget", ""),
        ("session-close", "claude"),
    ],
)
def test_a_tick_in_the_moment_of_another_commit_is_a_promotion(
    make_vault: Make, opened: Open, event: str, agent: str
) -> None:
    root = make_vault(NOTES)
    vault = opened(root, agent=agent)
    sync_vault(vault)
    write_notes(root, {"notes/mine.md": "# Mine\n"})
    tick(root)

    commit_by(vault, event)

    assert told(root, "notes/rule.md") == ["Maren Person: promote"]
    body = git(root, "log", "-1", "--format=%b", "--", "notes/rule.md")
    assert body.startswith("notes/rule.md: candidate to active\n\nIntent: refine\nVault-Event: pro")
    with_mine = "checkpoint: noon" if event == "checkpoint" and not agent else "edit: mine"
    assert git(root, "log", "--format=%s", "--", "notes/mine.md") == with_mine
    sync_vault(vault)
    assert not [*commit_transitions(vault, {})]


@pytest.mark.parametrize("agent", ["", "claude"])
def test_a_change_of_a_ticked_note_by_command_leaves_the_tick_a_promotion(
    make_vault: Make, opened: Open, agent: str
) -> None:
    root = make_vault({**NOTES, "vaultmem.yaml": "commit_edits: false\n"})
    vault = opened(root, agent=agent)
    tick(root)
    sync_vault(vault)

    change_tags(vault, resolve_address(vault, "notes/rule.md")[0], ("tide",), ())

    assert told(root, "notes/rule.md") == ["Maren Person: promote"]
    assert "tide" not in git(root, "show", "HEAD:notes/rule.md")


@pytest.mark.parametrize(
    ("event", "agent"),
    [
        ("checkpoint", ""),
        ("checkpoint", "claude"),
        ("promote", "codex"),
        ("session-close", "claude"),
    ],
)
def test_a_session_that_ended_in_the_moment_of_another_commit_is_closed(
    make_vault: Make, opened: Open, event: str, agent: str
) -> None:
    root = make_vault(NOTES)
    claude = opened(root, agent="claude", session="s-9")
    start_session(claude, NewSession("s-9", goal="Look for the bell"))
    done = remember(claude, Memory("The bell hangs in the mast."))
    vault = opened(root, agent=agent)
    say(root, "sessions/s-7.md", "status: open", "status: error")
    say(root, "sessions/s-9.md", "status: open", "status: ok")

    sync_vault(vault)
    commit_by(vault, event)

    closed = git(root, "log", "--format=%H", "--author=claude", "--grep=^session s-9")
    shown = git(root, "show", "--name-only", f"--format=%an: {EVENT}", closed).splitlines()
    assert shown[0] == "claude: session-close"
    assert {"sessions/s-9.md", done.path} <= {*shown}
    assert told(root, "sessions/s-7.md") == ["claude: session-close"]
    assert "edit" not in git(root, "log", f"--format={EVENT}")
    assert ActiveSessions(vault.state_folder).find("s-9") is None
    sync_vault(vault)
    assert not [*commit_transitions(vault, {})]


def test_a_checkpoint_by_command_says_what_files_said(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    tick(root)
    say(root, "sessions/s-7.md", "status: open", "status: ok")
    write_notes(root, {"notes/mine.md": "# Mine\n"})

    said = run_here("checkpoint", "noon", "--agent", "codex", cwd=root).out

    subjects = [line.partition("  ")[2] for line in said.splitlines()]
    assert subjects[:4] == ["edit: mine", "promote: rule", "session-close: S", "checkpoint: noon"]
    for event, who in (("promote", "Maren Person"), ("session-close", "claude")):
        shown = run_here("log", "--event", event, cwd=root).out.splitlines()
        assert len([line for line in shown if who in line]) == 1, shown
    assert "session-close" in run_here("log", "--session", "s-7", cwd=root).out
    blamed = run_here("blame", "notes/rule.md", cwd=root).out.splitlines()
    assert ["promote" in line for line in blamed if "state: active" in line] == [True]


def test_a_checkpoint_tells_an_agents_candidate_from_the_tick(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(NOTES)
    path = remember(opened(root, agent="claude"), Memory("Twice.", state=NoteState.CANDIDATE)).path
    tick(root, path)

    save_checkpoint(vault := opened(root), "noon")

    (step,) = explain_text(vault, "twice")[0].steps
    assert step.commit is not None
    assert (step.commit.agent, step.commit.event) == ("claude", "write")
    log = git(root, "log", f"--format=%an: {EVENT}", "--", path).splitlines()
    assert log == ["Maren Person: promote", "claude: write"]


def test_a_tick_while_an_event_had_to_wait_is_a_promotion(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    vault = opened(root, agent="claude")
    sync_vault(vault)
    (root / ".git/MERGE_HEAD").write_text(git(root, "rev-parse", "HEAD"))
    with pytest.raises(PendingError):
        promote_notes(vault, ["notes/other.md"])
    tick(root)
    (root / ".git/MERGE_HEAD").unlink()

    save_checkpoint(vault, "noon")

    assert told(root, "notes/other.md") == ["claude: promote"]
    assert told(root, "notes/rule.md") == ["Maren Person: promote"]


def test_a_tick_with_a_credential_holds_up_no_other(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    vault = opened(root, agent="claude")
    for path in ("notes/rule.md", "notes/other.md"):
        tick(root, path)
    say(root, "notes/other.md", "Another bell.", "key AKIAZ7Q2XW4BN6MV3KLP")
    sync_vault(vault)

    with pytest.raises(RefusedError, match=r"notes/other\.md looks like a credential"):
        list(commit_transitions(vault, {}))
    promote_notes(vault, ["notes/new.md"])

    assert told(root, "notes/rule.md") == ["Maren Person: promote"]
    assert told(root, "notes/other.md") == []


def test_a_vaults_first_commit_ends_no_session(home: Path, tmp_path: Path) -> None:
    root = tmp_path / "notes"
    write_notes(root, {"sessions/s-1.md": SESSION.replace("open", "ok")})

    create_vault(root)

    assert "session-close" not in git(root, "log", f"--format={EVENT}")
