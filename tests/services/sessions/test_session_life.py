"""Sessions live: begun, written to by people and agents at once, closed, killed, recovered."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import Make, Open
from process_server import run_script
from support import git, write_notes

from vaultmem.core.new_memory import Memory
from vaultmem.core.notes.note import Note
from vaultmem.core.sessions.session import SessionLink, SessionRelation, SessionStatus
from vaultmem.errors import NoteNotFoundError, PendingError, RefusedError, SystemFailureError
from vaultmem.services.health.examine import check_sessions
from vaultmem.services.memory.remember import remember
from vaultmem.services.sessions import close
from vaultmem.services.sessions.begin import (
    NewSession,
    fork_session,
    resume_session,
    start_session,
)
from vaultmem.services.sessions.close import close_session, recover_sessions
from vaultmem.services.sessions.edit_session import (
    add_detail,
    add_question,
    decide,
    edit_session,
    summarize,
)
from vaultmem.services.sessions.find_session import (
    find_dead,
    find_unsettled,
    get_session,
    list_facts,
)
from vaultmem.services.sessions.identify import identify_session, require_session
from vaultmem.services.sessions.import_turns import touch_files
from vaultmem.services.sessions.windows import mark_restore
from vaultmem.services.views.update_index import sync_vault
from vaultmem.services.watching.idle import commit_transitions
from vaultmem.storage.lock import find_owner, find_process, is_gone
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.vault import Vault


def log(root: Path) -> list[str]:
    """Return author and event of the commits after the first, oldest first."""
    form = "%an|%(trailers:key=Vault-Event,valueonly,separator=)"
    return git(root, "log", "--reverse", f"--format={form}").splitlines()[1:]


def begin(vault: Vault, session: str, **more: object) -> None:
    start_session(vault, NewSession(session, **more))  # type: ignore[arg-type]


@pytest.fixture
def dead_process() -> int:
    """Return the number of a process that runs when a session is begun; `end_process` ends it."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    _running[process.pid] = process
    return process.pid


_running: dict[int, subprocess.Popen[bytes]] = {}


def end_process(pid: int) -> None:
    process = _running.pop(pid)
    process.kill()
    process.communicate()


def test_people_and_agent_write_the_same_note_and_every_byte_stays(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    vault = opened(root, agent="claude")
    begin(vault, "s-1", goal="Ferries")
    note = root / "sessions/s-1.md"
    by_hand = note.read_text().replace("goal: Ferries", "goal:   Ferries  # mine\nmood: good")
    by_hand = by_hand.replace("## Details\n", "## Details\n\n* hand-made\n\n### Mine\n\nprose\n")
    note.write_text(by_hand)

    add_detail(vault, "s-1", "a note")
    add_question(vault, "s-1", "why?")
    summarize(vault, "s-1", "All is well.")
    touch_files(vault, "s-1", [root / "x.py"], root)
    decide(vault, "s-1", Memory("We sail at six.", title="Six"))
    close_session(vault, "s-1")

    changed = ["status: open", '  - "1: tokens 0-"']
    rest = iter(note.read_text().splitlines())
    assert all(line in rest for line in by_hand.splitlines() if line not in changed)
    session = get_session(vault, "s-1")
    assert [item[-6:] for item in session.details[:2]] == ["d-made", "a note"]
    assert (session.facts.status, session.facts.goal) == ("ok", "Ferries")
    assert [decision.target for decision in session.decisions] == ["six"]
    assert log(root) == ["claude|write", "Maren Person|edit", "claude|session-close"]


def test_a_session_takes_only_its_own_writes_into_its_commit(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    one, two = (
        opened(root, agent="claude", session="s-1"),
        opened(root, agent="codex", session="s-2"),
    )
    begin(one, "s-1")
    begin(two, "s-2")
    remember(one, Memory("mine"))
    remember(two, Memory("theirs"))

    close_session(one, "s-1", SessionStatus.ERROR, "It failed.\nBadly.")

    assert log(root) == ["claude|session-close"]
    body = git(root, "log", "-1", "--format=%b")
    assert body.startswith("session s-1\nagent claude\nstatus error\nIt failed.\n")
    assert "Session-Id: s-1" in body
    assert git(root, "show", "--format=", "--name-only").split() == [
        "notes/inbox/mine.md",
        "sessions/s-1.md",
    ]
    close_session(two, "s-2")
    assert log(root) == ["claude|session-close", "codex|session-close"]
    assert git(root, "status", "--porcelain") == ""


def test_closing_twice_is_closing_once_and_another_end_is_refused(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    vault = opened(root, agent="claude")
    begin(vault, "s-1")
    close_session(vault, "s-1")
    before = (root / "sessions/s-1.md").read_bytes()

    again = close_session(vault, "s-1")

    assert again.report.commits == ()
    assert (root / "sessions/s-1.md").read_bytes() == before
    for wrong in (
        lambda: close_session(vault, "s-1", SessionStatus.ERROR),
        lambda: add_detail(vault, "s-1", "late"),
        lambda: decide(vault, "s-1", Memory("late")),
        lambda: begin(vault, "s-1"),
    ):
        with pytest.raises(RefusedError, match="s-1: it has ended"):
            wrong()
    assert not (root / "notes/inbox").exists()


def test_the_watcher_does_not_close_again_what_a_command_closes(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    vault = opened(root, agent="claude")
    begin(vault, "s-1")
    add_detail(vault, "s-1", "half-way")
    sync_vault(vault)
    assert list(commit_transitions(vault, {})) == []

    (root / ".git/MERGE_HEAD").write_text(git(root, "rev-parse", "HEAD"))
    with pytest.raises(PendingError):
        close_session(vault, "s-1")
    (root / ".git/MERGE_HEAD").unlink()
    assert ActiveSessions(vault.state_folder).find("s-1") is None
    list(commit_transitions(vault, {}))
    remember(vault, Memory("more"))
    begin(vault, "s-2")
    close_session(vault, "s-2")

    assert log(root).count("claude|session-close") == 2
    assert git(root, "status", "--porcelain") == ""


def test_what_was_learned_goes_to_memory_while_there_is_room(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"vaultmem.yaml": "budget: 400\n", "MEMORY.md": "# Memory\n\n## Mine\n\nx\n"})
    vault = opened(root, agent="claude")
    begin(vault, "s-1")
    long = "The tide table says " + "so and so " * 60

    done = close_session(vault, "s-1", learned=["Short\nand good.", "Short and good.", long])

    assert [each.path for each in done.learned[:2]] == ["MEMORY.md", "MEMORY.md"]
    assert done.learned[2].path.startswith("notes/inbox/tide-table-says")
    text = (root / "MEMORY.md").read_text()
    assert text == "# Memory\n\n## Mine\n\nx\n\n## Learned\n\n- Short and good. ([[s-1]])\n"
    assert git(root, "status", "--porcelain") == ""
    assert log(root)[-1] == "claude|session-close"


def test_a_dead_session_is_recovered_with_what_it_left_in_its_own_commit(
    make_vault: Make, opened: Open, dead_process: int
) -> None:
    root = make_vault()
    one = opened(root, agent="claude", session="s-1")
    begin(one, "s-1", pid=dead_process)
    remember(one, Memory("left behind"))
    other = opened(root, agent="codex", session="s-9")
    begin(other, "s-9")
    remember(other, Memory("not mine"))
    assert find_dead(other) == []

    end_process(dead_process)

    assert [record.id for record in find_dead(other)] == ["s-1"]
    assert check_sessions(other, fix=False).verdict == "warning"
    [recovered] = recover_sessions(other)
    assert recovered.left == ("notes/inbox/left-behind.md",)
    assert log(root) == ["claude|recover"]
    facts = get_session(other, "s-1").facts
    assert (facts.status, bool(facts.ended), bool(facts.pending)) == ("interrupted", True, True)
    assert recover_sessions(other) == []
    assert check_sessions(other, fix=True).verdict == "ok"
    assert find_unsettled(other) == []
    assert sorted(git(root, "status", "--porcelain", "-uall").split()[1::2]) == [
        "notes/inbox/not-mine.md",
        "sessions/s-9.md",
    ]


def test_a_session_that_writes_again_after_its_recovery_is_open_again(
    make_vault: Make, opened: Open, dead_process: int
) -> None:
    root = make_vault()
    vault = opened(root, agent="claude")
    begin(vault, "s-1", pid=dead_process)
    end_process(dead_process)
    recover_sessions(vault)

    session = add_detail(vault, "s-1", "still here")

    assert (session.facts.status, session.facts.ended) == ("open", "")
    assert find_dead(vault) == []
    close_session(vault, "s-1")
    assert log(root) == ["claude|recover", "claude|session-close"]


@pytest.mark.parametrize("step", ["sync_paths", "commit_event"])
def test_a_close_that_was_killed_is_completed_by_the_next_start(
    make_vault: Make, opened: Open, step: str
) -> None:
    root = make_vault()
    vault = opened(root, agent="claude")
    begin(vault, "s-1", pid=os.getpid())
    decide(vault, "s-1", Memory("A decision"))
    home = (
        "vaultmem.services.changes.write"
        if step == "sync_paths"
        else "vaultmem.services.sessions.close"
    )
    script = (
        f"import os, sys, {home} as home\n"
        "from vaultmem import open_vault\n"
        "from vaultmem.services.sessions.close import close_session\n"
        f"home.{step} = lambda *_: os.kill(os.getpid(), 9)\n"
        "close_session(open_vault(sys.argv[1], agent='claude'), 's-1', summary='Done.')\n"
    )
    assert run_script(script, root) == -signal.SIGKILL
    assert "status: ok" in (root / "sessions/s-1.md").read_text()
    assert log(root) == []

    sync_vault(vault)
    begin(vault, "s-2")

    assert log(root) == ["claude|session-close"]
    assert git(root, "log", "-1", "--format=%b").startswith("session s-1\nagent claude\nstatus ok")
    assert git(root, "status", "--porcelain", "-uall") == "?? sessions/s-2.md"


def test_a_decision_whose_link_a_kill_prevented_is_linked_at_the_end(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    vault = opened(root, agent="claude", session="s-1")
    begin(vault, "s-1")
    script = (
        "import os, sys, vaultmem.services.sessions.edit_session as home\n"
        "from vaultmem import open_vault, Memory\n"
        "home.link_decision = lambda *_: os.kill(os.getpid(), 9)\n"
        "home.decide(open_vault(sys.argv[1], agent='claude'), 's-1', Memory('Sail at six'))\n"
    )
    assert run_script(script, root) == -signal.SIGKILL
    assert get_session(vault, "s-1").decisions == ()
    sync_vault(vault)

    close_session(vault, "s-1")

    assert [each.target for each in get_session(vault, "s-1").decisions] == ["sail-at-six"]


def test_a_start_that_was_killed_leaves_no_session_that_stays_open(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    script = (
        "import os, sys, vaultmem.services.sessions.begin as home\n"
        "import vaultmem.services.changes.write as folder\n"
        "from vaultmem import open_vault\n"
        "folder.sync_paths = lambda *_: os.kill(os.getpid(), 9)\n"
        "home.start_session(open_vault(sys.argv[1], agent='claude'),"
        " home.NewSession('s-1', pid=os.getpid()))\n"
    )
    assert run_script(script, root) == -signal.SIGKILL

    vault = opened(root, agent="claude")
    [recovered] = recover_sessions(vault)

    assert recovered.session == "s-1"
    assert log(root) == ["claude|recover"]


def test_a_start_that_could_not_write_leaves_no_active_session(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({})
    (root / "sessions").touch()
    vault = opened(root, agent="claude")
    with pytest.raises(RefusedError, match="sessions"):
        start_session(vault)
    assert ActiveSessions(vault.state_folder).all() == []
    assert identify_session(vault).session == ""
    (root / "sessions").unlink()
    assert start_session(vault).is_new


@pytest.mark.campaign
def test_processes_write_to_one_session_at_once_and_nothing_is_lost(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    vault = opened(root, agent="claude")
    begin(vault, "s-1")
    script = (
        "import sys\nfrom vaultmem import open_vault\n"
        "from vaultmem.services.sessions.edit_session import add_detail\n"
        "from vaultmem.services.sessions.windows import add_turns\n"
        "from vaultmem.core.sessions.turns import Turn\n"
        "vault = open_vault(sys.argv[1], agent='claude')\n"
        "for n in range(5):\n"
        "    add_detail(vault, 's-1', f'{sys.argv[2]} {n}')\n"
        "    add_turns(vault, 's-1', [Turn('user', f'{sys.argv[2]} {n}')])\n"
    )
    with ThreadPoolExecutor() as pool:
        started = [pool.submit(run_script, script, root, name) for name in ("a", "b")]
        pool.submit(append_by_hand, root / "sessions/s-1.md").result()
        assert [each.result() for each in started] == [0, 0]

    session = get_session(vault, "s-1")
    assert sorted(item[6:] for item in session.details) == [
        f"{w} {n}" for w in "ab" for n in range(5)
    ]
    assert session.questions == tuple(f"by hand {n}?" for n in range(5))
    close_session(vault, "s-1")
    assert get_session(vault, "s-1").facts.turns == 10


def append_by_hand(note: Path) -> None:
    """Save as an editor does, only where the note is still what was read."""
    for number in range(5):
        while True:
            text = note.read_text()
            spare = note.with_name(".spare.tmp")
            spare.write_text(f"{text}{'' if number else chr(10)}- by hand {number}?\n")
            if note.read_text() == text:
                os.replace(spare, note)
                break


def test_pending_restores_are_picked_up_by_the_same_agent_and_workspace_alone(
    make_vault: Make, opened: Open, tmp_path: Path
) -> None:
    root = make_vault()
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    claude, codex = opened(root, agent="claude"), opened(root, agent="codex")
    begin(claude, "s-1", workspace=here)
    mark_restore(claude, "s-1")
    close_session(claude, "s-1")

    for vault, session, place in ((codex, "s-2", here), (claude, "s-3", there)):
        assert start_session(vault, NewSession(session, workspace=place)).restore == ""
    fresh = start_session(claude, NewSession("s-4", workspace=here), False)
    assert fresh.restore == ""
    begun = start_session(claude, NewSession("s-5", workspace=here))

    assert begun.restore == "s-1"
    assert begun.session.facts.edges == (SessionLink(SessionRelation.CONTINUES, "s-1"),)
    assert get_session(claude, "s-1").facts.pending == ""
    assert start_session(claude, NewSession("s-6", workspace=here)).restore == ""


def test_the_chain_of_sources_names_the_session(
    make_vault: Make, opened: Open, tmp_path: Path
) -> None:
    term = {"TERM_SESSION_ID": "w0t0p0:5A1C"}
    root = make_vault()
    vault = opened(root, agent="claude", environment=term)
    assert identify_session(vault, "", tmp_path).session == ""
    start_session(vault, NewSession(workspace=tmp_path))
    mapped = identify_session(vault, "", tmp_path).session
    assert mapped.startswith("s-w0t0p0-5A1C-")
    begin(vault, "s-1", workspace=tmp_path)
    environ = dict(term)
    for source, variable, expected in (
        (f"active session of agent claude in {tmp_path}", "", "s-1"),
        ("$CLAUDE_SESSION_ID", "claude-1", "claude-1"),
        ("$OPENCODE_SESSION_ID", "ses_1", "ses_1"),
        ("$CURSOR_SESSION_ID", "cursor-1", "cursor-1"),
        ("$COPILOT_AGENT_SESSION_ID", "copilot-1", "copilot-1"),
        ("$CODEX_THREAD_ID", "code/x", "s-code-x-"),
        ("$CLAUDE_CODE_SESSION_ID", "0f1e-2d", "0f1e-2d"),
        ("$VAULTMEM_SESSION_ID", "s-7", "s-7"),
    ):
        if variable:
            environ[source[1:]] = variable
        vault = opened(root, agent="claude", environment=environ)
        found = identify_session(vault, "", tmp_path)
        assert found.source == source
        assert found.session.startswith(expected)
    assert identify_session(vault, "s-8", tmp_path).source == "--session"
    assert identify_session(opened(root, agent="codex"), "", tmp_path).session == ""
    with pytest.raises(RefusedError, match="cannot be a session's id"):
        identify_session(opened(root, environment={"VAULTMEM_SESSION_ID": "../x"}), "", tmp_path)
    with pytest.raises(NoteNotFoundError, match=r"from \$CLAUDE_CODE_SESSION_ID"):
        require_session(opened(root, environment={"CLAUDE_CODE_SESSION_ID": "none"}), "", tmp_path)
    with pytest.raises(NoteNotFoundError, match="none is named"):
        require_session(opened(root), "", tmp_path)


def test_a_fork_and_a_resume_know_where_they_come_from(make_vault: Make, opened: Open) -> None:
    root = make_vault()
    vault = opened(root, agent="claude")
    begin(vault, "s-1", goal="Ferries")
    named = opened(root, agent="claude", environment={"CLAUDE_CODE_SESSION_ID": "s-1"})
    fork = fork_session(named, "s-1").session
    assert fork.facts.edges == (SessionLink(SessionRelation.FORKED_FROM, "s-1"),)
    assert fork.facts.goal == "Ferries"
    close_session(vault, "s-1")

    again = resume_session(vault, "s-1")

    assert (again.is_new, again.session.facts.status, again.session.facts.ended) == (
        True,
        "open",
        "",
    )
    assert identify_session(vault).session == "s-1"
    with pytest.raises(NoteNotFoundError):
        fork_session(vault, "s-none")


def test_facts_follow_the_notes_and_only_changed_notes_are_read(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault(
        {f"sessions/s-{n}.md": f"---\nstarted: 2026-01-0{n}\n---\n" for n in range(1, 8)}
    )
    vault = opened(root)
    sync_vault(vault)
    assert [each.id for each in list_facts(vault)] == [f"s-{n}" for n in range(7, 0, -1)]
    write_notes(root, {"sessions/s-3.md": "---\nstatus: error\nended: 2026-01-04\n---\n"})
    (root / "sessions/s-5.md").unlink()
    sync_vault(vault)
    read: list[str] = []
    from vaultmem.services.sessions import find_session as home

    parse = home.parse_note
    monkeypatch.setattr(home, "parse_note", lambda p, d: (read.append(str(p)), parse(p, d))[1])

    facts = {each.id: each.status for each in list_facts(vault)}

    assert facts == {"s-1": "open", "s-2": "open", "s-3": "error", "s-4": "open"} | {
        "s-6": "open",
        "s-7": "open",
    }
    assert read == ["sessions/s-3.md"]


def test_a_full_note_refuses_more(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault(), agent="claude")
    begin(vault, "s-1")

    def grow(note: Note) -> str:
        return note.text + "x" * 1024 * 1024

    with pytest.raises(RefusedError, match="its note is full"):
        edit_session(vault, "s-1", grow)
    with pytest.raises(RefusedError, match="400 files already"):
        touch_files(vault, "s-1", [f"f{n}" for n in range(401)], vault.root)
    with pytest.raises(RefusedError, match="credential"):
        add_detail(vault, "s-1", "AKIA" + "ABCDEFGHIJKLMNOP")


def test_a_note_whose_properties_cannot_be_read_is_left_alone(
    make_vault: Make, opened: Open
) -> None:
    broken = "---\nstatus: open\nx: [\n---\n## Details\n"
    root = make_vault({"sessions/s-1.md": broken, "sessions/s-2.md": b"\xff\x00"})
    vault = opened(root, agent="claude")
    sync_vault(vault)
    assert [each.status for each in list_facts(vault)] == ["open"]
    for session in ("s-1", "s-2"):
        with pytest.raises(RefusedError, match=f"sessions/{session}.md: "):
            add_detail(vault, session, "x")
    assert (root / "sessions/s-1.md").read_text() == broken


def test_sessions_work_without_git(tmp_path: Path, home: Path, opened: Open) -> None:
    root = tmp_path / "plain"
    write_notes(root, {"vaultmem.yaml": ""})
    vault = opened(root, agent="claude")
    begin(vault, "s-1")
    add_detail(vault, "s-1", "a note")

    done = close_session(vault, "s-1")

    assert done.report.commits == ()
    assert get_session(vault, "s-1").facts.status == "ok"
    assert ActiveSessions(vault.state_folder).all() == []


def test_a_process_is_known_by_its_start_and_not_by_its_number(dead_process: int) -> None:

    process = find_process(dead_process)
    assert process is not None
    assert not is_gone(process)
    assert is_gone(process._replace(started="0"))
    assert not is_gone(process._replace(started="0", place=("elsewhere", "", "")))
    assert not is_gone(process._replace(started="0", place=(*process.place[:2], "pid:[1]")))
    end_process(dead_process)
    assert is_gone(process)
    assert find_process(dead_process) is None


def test_the_owner_of_a_command_is_not_the_shell_that_started_it(home: Path) -> None:
    ask = "from vaultmem.storage.lock import find_owner; print(find_owner().pid)"
    command = ["sh", "-c", f"env {sys.executable} -c '{ask}'; true"]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert int(done.stdout) == os.getpid()
    assert find_owner() is not None


def test_a_disk_that_fails_behind_the_end_of_a_session_is_told_with_what_came_of_it(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault({"notes/a.md": "a\n"})
    begin(opened(root), "s-1")

    def fail(_: Vault) -> None:
        raise SystemFailureError("index: Read-only file system", "the index is not updated")

    monkeypatch.setattr(close, "find_pending", fail)
    with pytest.raises(
        SystemFailureError, match=r"^not committed, but the notes are safe on disk: index"
    ):
        close_session(opened(root), "s-1")
    monkeypatch.undo()

    assert close_session(opened(root), "s-1").report.commit
    assert git(root, "status", "--porcelain") == ""
