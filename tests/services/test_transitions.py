"""Moments told with nothing but a file: each becomes one commit, whoever else is at work."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Make, Open
from support import git, wait_until, write_notes
from watchers import shell, watched

from vaultmem.core.lifecycle import NoteState
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.lifecycle.transition import promote_notes
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.sessions.begin import NewSession, start_session
from vaultmem.services.sessions.edit_session import add_detail
from vaultmem.services.views.update_index import sync_vault
from vaultmem.services.watching.idle import Examined, commit_transitions
from vaultmem.services.watching.watch import WatchEvent, WatchLoop
from vaultmem.vault import Vault

Watch = Callable[[Path], tuple[WatchLoop, list[WatchEvent]]]

CANDIDATE = "---\nkind: policy_rule\nstate: candidate\n---\n# Rule {n}\n\nRing the bell {n}.\n"
SESSION = "---\nagent: claude\nstatus: open\n---\n# S\n\n## Summary\n\nGot it done.\n"
TICK = "sed -i 's/^state: candidate$/state: active/' {path}"


def subjects(root: Path) -> list[str]:
    """Return subject and author of the commits of events, newest first."""
    return git(root, "log", "--format=%s|%an", "--grep=^Vault-Event").splitlines()


def settle(root: Path, loop: WatchLoop, subject: str) -> None:
    """Wait for a commit, and for what the watcher does after it."""
    wait_until(lambda: any(line.startswith(subject) for line in subjects(root)))
    assert loop.settle(20)


def wait_for_candidates(vault: Vault, *paths: str) -> None:
    """Wait until the watcher has noted that these are candidates: it does so last."""
    wait_until(lambda: vault.journal.candidates().issuperset(paths))


def test_a_tick_is_one_promote_of_the_person(make_vault: Make, watch: Watch, opened: Open) -> None:
    root = make_vault({"notes/rule.md": CANDIDATE.format(n=1)})
    loop, _ = watch(root)
    shell(root, TICK.format(path="notes/rule.md"))
    settle(root, loop, "promote: ")
    shown = git(root, "log", "-1", "--format=%an|%ae|%b")
    assert shown.startswith("Maren Person|maren@example.org|notes/rule.md: candidate to active")
    assert "Intent: refine\nVault-Event: promote" in shown
    assert "Agent-Id" not in shown
    assert git(root, "show", "--name-only", "--format=", "HEAD") == "notes/rule.md"
    assert subjects(root).count("promote: rule|Maren Person") == 1
    assert opened(root).trust.notes() == {}


@pytest.mark.campaign
def test_what_no_commit_had_is_promoted_too(make_vault: Make, watch: Watch, opened: Open) -> None:
    root = make_vault({"notes/a.md": "# A\n"})
    loop, _ = watch(root)
    memory = Memory("Ring the bell twice.", state=NoteState.CANDIDATE)
    path = remember(opened(root, agent="claude"), memory).path
    write_notes(root, {"notes/mine.md": CANDIDATE.format(n=2)})
    wait_for_candidates(opened(root), path, "notes/mine.md")
    shell(root, TICK.format(path=f"{path} notes/mine.md"))
    settle(root, loop, "promote: ")
    assert subjects(root)[0].endswith("and mine|Maren Person")
    assert sorted(git(root, "log", "-1", "--format=%b").splitlines()[:2]) == sorted(
        [f"{path}: candidate to active", "notes/mine.md: candidate to active"]
    )


def test_an_agents_candidate_is_promoted_by_file_though_nobody_saw_it(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "# A\n"})
    vault = opened(root, agent="claude")
    path = remember(vault, Memory("Ring the bell twice.", state=NoteState.CANDIDATE)).path
    shell(root, TICK.format(path=path))
    sync_vault(vault)

    list(commit_transitions(vault, {}))

    name = Path(path).stem
    assert subjects(root)[:2] == [f"promote: {name}|Maren Person", f"write: {name}|claude"]
    assert git(root, "show", "--format=", "HEAD", "--", path).count("\n+state: active") == 1


def test_other_edits_of_a_note_are_no_moments(make_vault: Make, watch: Watch) -> None:
    archived = "---\nstate: archived\n---\n# Old\n"
    notes = {"notes/rule.md": CANDIDATE.format(n=1), "notes/old.md": archived}
    root = make_vault({**notes, "sessions/s-1.md": SESSION.replace("open", "ok")})
    head = git(root, "rev-parse", "HEAD")
    loop, _ = watch(root)
    shell(
        root, "echo more >> notes/rule.md; sed -i 's/state: archived/state: active/' notes/old.md"
    )
    shell(root, "sed -i 's/status: ok/status: error/; s/Got/Had/' sessions/s-1.md")
    write_notes(root, {"notes/new.md": "---\nstate: active\n---\n# New\n"})
    assert loop.settle(20)
    assert git(root, "rev-parse", "HEAD") == head


@pytest.mark.parametrize("status", ["ok", "error", "canceled", "interrupted"])
def test_a_session_that_is_closed_is_one_commit_of_its_agent(
    make_vault: Make, watch: Watch, opened: Open, status: str
) -> None:
    root = make_vault({"sessions/s-7.md": SESSION})
    loop, _ = watch(root)
    done = remember(opened(root, agent="claude", session="s-7"), Memory("The mast is tall."))
    remember(opened(root, agent="claude", session="s-8"), Memory("Of another session."))
    write_notes(root, {"notes/mine.md": "# Mine\n\nnot the session's\n"})
    shell(root, f"sed -i 's/status: open/status: {status}/' sessions/s-7.md")
    settle(root, loop, "session-close: S")
    body = git(root, "log", "-1", "--format=%an%n%ae%n%b").splitlines()
    assert body[:6] == [
        *("claude", "claude@agents.localhost", "session s-7", "agent claude"),
        *(f"status {status}", "Got it done."),
    ]
    assert "Agent-Id: claude" in body
    assert "Session-Id: s-7" in body
    assert "Vault-Event: session-close" in body
    changed = git(root, "show", "--name-only", "--format=", "HEAD").splitlines()
    assert sorted(changed) == sorted(["sessions/s-7.md", done.path])
    assert [x for x in subjects(root) if "session-close" in x] == ["session-close: S|claude"]


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_session_that_nobody_saw_open_is_closed_too(
    make_vault: Make, opened: Open, is_committed: bool
) -> None:
    root = make_vault({"notes/a.md": "# A\n"})
    vault = opened(root, agent="claude")
    start_session(vault, NewSession(id="s-9", goal="Look for the bell"))
    if is_committed:
        save_checkpoint(vault, "begun")
    add_detail(vault, "s-9", "It hangs in the mast.")
    shell(root, "sed -i 's/status: open/status: ok/' sessions/s-9.md")
    sync_vault(vault)
    seen: Examined = {}

    made = [report.commit for report in commit_transitions(vault, seen)]

    assert subjects(root)[:1] == ["session-close: Look for the bell|claude"]
    assert made == [git(root, "rev-parse", "HEAD")]
    assert "status: ok" in git(root, "show", "HEAD:sessions/s-9.md")
    assert not [*commit_transitions(vault, seen)]


@pytest.mark.campaign
def test_a_checkpoint_file_is_one_checkpoint(make_vault: Make, watch: Watch) -> None:
    root = make_vault({"notes/a.md": "# A\n"})
    loop, told = watch(root)
    write_notes(root, {"notes/b.md": "# B\n"})
    shell(
        root, "touch .checkpoint; sleep 0.4; echo x > .checkpoint; sed -i 's/x/ before  it/' .chec*"
    )
    settle(root, loop, "checkpoint: before it")
    wait_until(lambda: not (root / ".checkpoint").exists())
    assert loop.settle(20)
    assert subjects(root)[0] == "checkpoint: before it|Maren Person"
    assert git(root, "show", "--name-only", "--format=", "HEAD") == "notes/b.md"
    assert git(root, "log", "--format=%s").count("before it") == 1
    assert git(root, "log", "-1", "--format=%b").startswith("wrote notes/b.md\n\nIntent")
    (root / ".checkpoint").write_text("again\n")
    wait_until(lambda: any("no changes" in each.text for each in told))
    assert not (root / ".checkpoint").exists()


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("printf '\\377' > .checkpoint", "it is not UTF-8"),
        ("ln -s notes/a.md .checkpoint", "cannot be read safely"),
        ("head -c 5000 /dev/zero | tr '\\0' x > .checkpoint", "larger than"),
        (
            "echo AKIAIOSFODNN7EXAMPLF > notes/b.md; echo aws >> notes/b.md; "
            "echo 'key AKIAZ7Q2XW4BN6MV3KLP' > notes/b.md; echo go > .checkpoint",
            "credential",
        ),
    ],
)
def test_a_request_that_cannot_be_met_is_told_once_and_kept(
    make_vault: Make, watch: Watch, made: str, why: str
) -> None:
    root = make_vault({"notes/a.md": "# A\n"})
    head = git(root, "rev-parse", "HEAD")
    loop, told = watch(root)
    shell(root, made)
    wait_until(lambda: any(why in each.text for each in told))
    for number in range(3):
        write_notes(root, {"notes/c.md": f"# C{number}\n"})
        assert loop.settle(20)
    assert sum(why in each.text for each in told) == 1
    assert git(root, "rev-parse", "HEAD") == head
    shell(root, "rm -f notes/b.md .checkpoint; echo go > .checkpoint")
    settle(root, loop, "checkpoint: go")


@pytest.mark.campaign
def test_a_command_that_says_the_same_at_the_same_time_makes_one_commit(
    make_vault: Make, watch: Watch, opened: Open
) -> None:
    names = [f"notes/rule{n}.md" for n in range(8)]
    root = make_vault({name: CANDIDATE.format(n=name) for name in names})
    loop, _ = watch(root)
    for number, name in enumerate(names):
        tick = threading.Thread(target=shell, args=(root, TICK.format(path=name)))
        tick.start()
        if number % 2:
            tick.join()
        vault = opened(root, agent="claude" if number % 4 < 2 else "")
        sync_vault(vault)
        promote_notes(vault, [name])
        tick.join()
    assert loop.settle(20)
    bodies = git(root, "log", "--format=%b", "--grep=Vault-Event: promote").splitlines()
    for name in names:
        assert [line for line in bodies if line.startswith(name)] == [
            f"{name}: candidate to active"
        ], name
        assert git(root, "show", f"HEAD:{name}").splitlines()[2] == "state: active"


@pytest.mark.campaign
def test_a_checkpoint_by_command_and_by_file_is_one(
    make_vault: Make, watch: Watch, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "# A\n"})
    loop, _ = watch(root)
    for number in range(4):
        remember(opened(root, agent="claude"), Memory(f"Number {number} is here."))
        (root / ".checkpoint").write_text(f"round {number}\n")
        save_checkpoint(opened(root, agent="claude"), f"round {number}")
        wait_until(lambda: not (root / ".checkpoint").exists())
        assert loop.settle(20)
        made = [line for line in subjects(root) if f"round {number}|" in line]
        assert len(made) == 1, made


@pytest.mark.campaign
def test_all_waits_while_a_person_is_in_the_middle_of_something(
    make_vault: Make, watch: Watch
) -> None:
    root = make_vault({"notes/rule.md": CANDIDATE.format(n=1)})
    head = git(root, "rev-parse", "HEAD")
    git(root, "bisect", "start")
    loop, told = watch(root)
    shell(root, f"{TICK.format(path='notes/rule.md')}; echo later > .checkpoint")
    wait_until(lambda: any("a bisect is under way" in each.text for each in told))
    for number in range(3):
        write_notes(root, {f"notes/n{number}.md": "# N\n"})
        assert loop.settle(20)
    assert git(root, "rev-parse", "HEAD") == head
    assert sum("a bisect is under way" in each.text for each in told) == 1
    git(root, "bisect", "reset")
    settle(root, loop, "checkpoint: later")
    made = [line.partition("|")[0] for line in subjects(root)]
    assert made[:3] == ["checkpoint: later", "promote: rule", "edit: n0, n1 and n2"]
    assert sum("promote" in each for each in made) == 1


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform != "linux", reason="processes are seen on Linux")
def test_a_pull_is_not_overtaken_by_a_commit(
    make_vault: Make, watch: Watch, opened: Open, tmp_path: Path
) -> None:
    root = make_vault({"notes/rule.md": CANDIDATE.format(n=1), "notes/b.md": "# B\n"})
    git(root, "clone", "-q", "--bare", ".", str(tmp_path / "there"))
    git(root, "clone", "-q", str(tmp_path / "there"), str(tmp_path / "other"))
    write_notes(tmp_path / "other", {"notes/b.md": "# B\n\nFrom there.\n"})
    git(tmp_path / "other", "commit", "-qam", "theirs")
    git(tmp_path / "other", "push", "-q")
    git(root, "remote", "add", "origin", str(tmp_path / "there"))
    git(root, "config", "remote.origin.uploadpack", "sleep 2; git-upload-pack")
    loop, _ = watch(root)
    command = ["git", "pull", "-q", "--no-rebase", "origin", "main"]
    with subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) as pull:
        wait_until(lambda: "`git pull` is at work" in opened(root).history.obstacle())
        shell(root, TICK.format(path="notes/rule.md"))
        write_notes(root, {"notes/mine.md": "# Mine\n"})
        assert pull.communicate()[1] == ""
    assert pull.returncode == 0
    settle(root, loop, "promote: ")
    assert (root / "notes/b.md").read_text() == "# B\n\nFrom there.\n"
    assert git(root, "status", "--porcelain") == ""


def test_moments_told_while_nobody_watched_are_made_up_for(
    make_vault: Make, home: Path, opened: Open
) -> None:
    sessions = {"sessions/s-7.md": SESSION, "sessions/s-8.md": SESSION}
    root = make_vault({"notes/rule.md": CANDIDATE.format(n=1), **sessions})
    write_notes(root, {"notes/mine.md": "# Mine\n"})
    shell(root, TICK.format(path="notes/rule.md"))
    shell(root, "sed -i 's/status: open/status: ok/' sessions/*.md; echo now > .checkpoint")
    with watched(root):
        wait_until(lambda: subjects(root)[0].startswith("checkpoint: now"))
    made = [line.partition("|")[0] for line in subjects(root)]
    assert made[:4] == ["checkpoint: now", "session-close: S", "session-close: S", "promote: rule"]
    assert made[4] == "edit: mine"
    with pytest.raises(NoteNotFoundError):
        opened(root).history.objects.read("HEAD:.checkpoint")
