"""Whose words are whose: a change by one author never takes over another's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path, PurePosixPath

import pytest
from conftest import Make, Open
from in_process import run_here
from support import git, write_notes

from vaultmem import Memory, promote_notes, remember, save_checkpoint, sync_vault
from vaultmem.core.lifecycle import NoteState
from vaultmem.core.text.blob import blob_id
from vaultmem.errors import PendingError
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.edit_notes import change_tags
from vaultmem.services.changes.ownership import find_pending
from vaultmem.services.changes.write import write
from vaultmem.services.history.blame import blame_note, trace_note
from vaultmem.services.history.commits import CommitFilter, list_commits
from vaultmem.services.history.explain import explain_text
from vaultmem.services.lifecycle.supersede import supersede_note
from vaultmem.services.memory.forget import forget_notes, select_notes
from vaultmem.services.merging.branches import check_clean
from vaultmem.services.sessions.begin import NewSession, start_session
from vaultmem.services.sessions.close import close_session
from vaultmem.services.views.read_notes import resolve_address


def test_an_agents_tag_leaves_a_persons_uncommitted_words_to_the_person(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/n.md": "old\n"})
    save_checkpoint(opened(root), "start")
    write_notes(root, {"notes/n.md": "the person's new line\n"})
    vault = opened(root, agent="bot")
    sync_vault(vault)

    change_tags(vault, resolve_address(vault, "n")[0], ("tide",), ())
    save_checkpoint(vault, "tagged")

    blame = git(root, "blame", "--line-porcelain", "notes/n.md")
    authors = [line for line in blame.splitlines() if line.startswith("author ")]
    assert authors[-1] == "author Maren Person"
    assert "author bot" in authors


def test_a_promote_leaves_a_candidate_to_the_agent_that_wrote_it(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({})
    note = remember(opened(root, agent="scribe"), Memory("noon tide", state=NoteState.CANDIDATE))

    promote_notes(opened(root, agent="editor"), [note.path])

    assert git(root, "log", "--format=%an", "--", note.path).split() == ["editor", "scribe"]


def test_the_session_that_wrote_a_note_is_named_by_a_checkpoint_that_names_none(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({})
    remember(opened(root, agent="bot", session="s-9"), Memory("the tide turns at noon"))

    save_checkpoint(opened(root, agent="bot"), "noon")

    assert "Session-Id: s-9" in git(root, "log", "-1", "--format=%B")


def test_a_forgotten_note_that_no_commit_had_can_be_had_back_from_git(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({})
    vault = opened(root, agent="bot")
    note = remember(vault, Memory("the tide turns at noon"))

    forget_notes(vault, select_notes(vault, [note.path]).notes)

    assert "the tide turns at noon" in git(root, "show", f"HEAD:{note.path}")
    assert _log(root, 1) == [f"bot|write: {Path(note.path).stem}||write"]


def _edit_by_hand(file: Path, added: str = "Four of them.") -> None:
    file.write_text(f"{file.read_text()}{added}\n")


def _authors(root: Path, path: str) -> dict[str, str]:
    """Return who wrote each line of a note, as plain git has it."""
    shown = git(root, "blame", "--line-porcelain", path).splitlines()
    names = [line.removeprefix("author ") for line in shown if line.startswith("author ")]
    return dict(zip((line[1:] for line in shown if line.startswith("\t")), names, strict=True))


@pytest.mark.parametrize("by", ["person", "agent", "other"])
@pytest.mark.parametrize("event", ["checkpoint", "promote", "tag", "supersede"])
def test_what_a_person_changed_of_an_uncommitted_note_is_theirs_and_the_rest_the_agents(
    make_vault: Make, opened: Open, by: str, event: str
) -> None:
    root = make_vault({"notes/old.md": "# Old\n\nNobody rings.\n"})
    memory = Memory("Ring the bell twice.", title="Bell", state=NoteState.CANDIDATE)
    path = remember(opened(root, agent="claude", session="s-1"), memory).path
    _edit_by_hand(root / path)
    vault = opened(root, agent={"person": "", "agent": "claude", "other": "bot"}[by])
    sync_vault(vault)

    blamed = {line.text: line.author for line in blame_note(vault, path).lines}
    if event == "promote":
        promote_notes(vault, [path])
    if event == "tag":
        change_tags(vault, resolve_address(vault, path)[0], ("tide",), ())
    if event == "supersede":
        supersede_note(vault, "notes/old.md", path)
    save_checkpoint(vault, "all")

    assert blamed["Ring the bell twice."] == "claude"
    assert blamed["Four of them."] == "Maren Person"
    authors = _authors(root, path)
    assert authors["Ring the bell twice."] == "claude"
    assert authors["Four of them."] == "Maren Person"
    assert authors["agent: claude"] == "claude"


@pytest.mark.guarantee
@pytest.mark.parametrize("how", ["as it was", "edited", "amended", "pieces"])
def test_an_agents_note_that_plain_git_commits_is_still_the_agents(
    make_vault: Make, opened: Open, how: str
) -> None:
    root = make_vault({"notes/old.md": "# Old\n\nNobody rings.\n"})
    vault = opened(root, agent="claude", session="s-1")
    path = remember(vault, Memory("Ring the bell twice.", title="Bell")).path
    if how != "as it was":
        _edit_by_hand(root / path)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "vault backup")
    if how in {"amended", "pieces"}:
        sync_vault(opened(root))
    if how == "amended":
        git(root, "commit", "-q", "--amend", "-m", "vault backup, again")
    if how == "pieces":
        _edit_by_hand(root / path, "Five of them.")
        git(root, "commit", "-q", "-am", "more")
    vault = opened(root)
    sync_vault(vault)

    blamed = {line.text: (line.author, line.session) for line in blame_note(vault, path).lines}
    assert blamed["Ring the bell twice."] == ("claude", "s-1")
    assert blamed.get("Four of them.", ("Maren Person", "")) == ("Maren Person", "")
    assert blamed.get("Five of them.", ("Maren Person", "")) == ("Maren Person", "")
    grounds = explain_text(vault, "ring the bell")
    assert {step.author for step in grounds[0].steps} == {who for who, _ in blamed.values()}
    log = list_commits(vault, CommitFilter(agents=frozenset(["claude"]))).commits
    assert [(each.author, each.shown) for each in log] == [("Maren Person", "claude")]
    versions = trace_note(vault, path).versions
    assert versions[-1].author == "claude"
    if how == "pieces":
        assert versions[0].author == "Maren Person"
    shown = run_here("show", log[0].commit, cwd=root).out
    assert "claude" in shown
    assert not vault.journal.agents_paths()
    assert git(root, "notes", "--ref=vaultmem", "show", log[0].commit).count("\n") == 0
    assert find_pending(vault).files == {}


@pytest.mark.parametrize("mark", ["", "- "])
def test_a_line_that_somebody_moved_is_still_of_whoever_said_it(
    make_vault: Make, opened: Open, mark: str
) -> None:
    said = "Ring the bell twice at noon."
    root = make_vault({"notes/a.md": "# A\n\nOne.\n", "notes/b.md": "# B\n\nTwo.\n"})
    agent = opened(root, agent="claude", session="s-1")
    path = remember(agent, Memory(said, title="Bell", context="ship")).path
    save_checkpoint(agent, "said")
    note = (root / path).read_text()
    assert said in note

    write_notes(root, {path: note.replace(said, "")})
    write_notes(root, {"notes/a.md": f"# A\n\n{mark}{said}\n\nOne, and one more.\n"})
    save_checkpoint(opened(root), "moved")
    (root / path).unlink()
    write_notes(root, {"notes/a.md": "# A\n", "notes/b.md": f"# B\n\nTwo.\n\n{said}\n"})
    git(root, "commit", "-q", "-am", "moved again")
    copy = f"---\nagent: claude\n---\n# C\n\n{said}\n"
    write_notes(root, {"notes/c.md": copy})
    save_checkpoint(opened(root), "copied")
    vault = opened(root)
    sync_vault(vault)

    who = {line.text: (line.author, line.session) for line in blame_note(vault, "notes/b.md").lines}
    assert who[said] == ("claude", "s-1")
    assert who["Two."] == ("Maren Person", "")
    copied = {line.text: line.author for line in blame_note(vault, "notes/c.md").lines}
    assert set(copied.values()) == {"Maren Person"}
    grounds = {each.hit.record.path: each.steps for each in explain_text(vault, said)}
    assert "claude" in {step.author for step in grounds["notes/b.md"]}
    assert {step.author for step in grounds["notes/c.md"]} == {"Maren Person"}


@pytest.mark.parametrize("by", ["checkpoint", "plain git"])
def test_an_agents_note_that_somebody_moved_before_a_commit_is_still_the_agents(
    make_vault: Make, opened: Open, by: str
) -> None:
    root = make_vault({"notes/old.md": "# Old\n"})
    path = remember(opened(root, agent="claude"), Memory("Ring the bell.", title="Bell")).path
    (root / "notes/ship").mkdir()
    (root / path).rename(root / "notes/ship/bell.md")
    if by == "checkpoint":
        save_checkpoint(opened(root), "all")
        assert set(_authors(root, "notes/ship/bell.md").values()) == {"claude"}
    else:
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "vault backup")
    vault = opened(root)
    sync_vault(vault)

    assert {line.author for line in blame_note(vault, "notes/ship/bell.md").lines} == {"claude"}
    assert not vault.journal.agents_paths()


@pytest.mark.campaign
def test_what_cannot_be_noted_at_once_is_noted_later(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/old.md": "# Old\n"})
    path = remember(opened(root, agent="claude"), Memory("Ring the bell.", title="Bell")).path
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "vault backup")
    lock = root / ".git/refs/notes/vaultmem.lock"
    lock.parent.mkdir()
    lock.touch()

    assert "Ring the bell." in run_here("recall", "bell", cwd=root).out
    lock.unlink()
    git(root, "commit", "-q", "--allow-empty", "-m", "more")

    assert "Ring the bell." in run_here("recall", "bell", cwd=root).out
    blamed = {line.text: line.author for line in blame_note(opened(root), path).lines}
    assert blamed["Ring the bell."] == "claude"


def test_what_somebody_planted_as_notes_stops_nothing(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/old.md": "# Old\n\nNobody rings.\n"})
    line = '{"path": "notes/old.md", "lines": "1-x,-,99999999999", "agent": "a", "session": 1}'
    planted = f"\0\0{line}\n{'[' * 100_000}\n[]\nnull\n\x1b[31m\n\ud800"
    blob = git(
        root, "hash-object", "-w", "--stdin", stdin=planted.encode("utf-8", "replace").decode()
    )
    git(root, "notes", "--ref=vaultmem", "add", "-C", blob, "HEAD")
    vault = opened(root)
    sync_vault(vault)

    assert {line.author for line in blame_note(vault, "notes/old.md").lines} == {"Maren Person"}
    assert trace_note(vault, "notes/old.md").versions[0].commit is not None


def test_what_was_taken_out_by_hand_and_looks_like_a_key_is_in_no_commit(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault({"vaultmem.yaml": 'allow_secrets: ["notes/**"]\n'})
    path = remember(opened(root, agent="claude"), Memory("AKIAZ7Q2XW4BN6MV3KLP is it.")).path
    write_notes(root, {"vaultmem.yaml": "", path: "# Gone\n"})

    save_checkpoint(opened(root), "all")

    assert not git(root, "log", "-S", "AKIAZ7Q2XW4BN6MV3KLP", "--format=%h", "--", path)
    assert "# Gone" in git(root, "show", f"HEAD:{path}")


def test_a_change_that_did_not_come_about_is_in_no_commit(make_vault: Make, opened: Open) -> None:
    root = make_vault({})
    vault = opened(root, agent="claude")
    path = remember(vault, Memory("Ring the bell twice.", title="Bell")).path
    written = (root / path).read_text()
    lost = f"{written}Never there.\n".encode()
    vault.journal.record(path, blob_id(lost), vault.author, vault.now(), lost)
    _edit_by_hand(root / path)

    save_checkpoint(vault, "all")

    assert git(root, "show", f"HEAD~2:{path}") == written.rstrip("\n")
    assert not git(root, "log", "-S", "Never there.", "--format=%h", "--", path)


def test_words_that_were_gone_for_a_moment_of_a_save_are_still_the_persons(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/n.md": "old\n"})
    vault = opened(root, agent="bot")
    saves = iter([("old\nquagga\n", "old\n"), ("old\nquagga\nmore\n", "")])

    def plan(change: Change) -> None:
        before, meanwhile = next(saves)
        write_notes(root, {"notes/n.md": before})
        sync_vault(vault)
        note = change.read(PurePosixPath("notes/n.md"))
        change.replace(note.path, b"---\ntags: [t]\n---\n" + before.encode(), note.blob)
        change.leave(Event("write", "", vault.author))
        if meanwhile:  # An editor writes the file in parts.
            write_notes(root, {"notes/n.md": meanwhile})

    write(vault, plan)
    save_checkpoint(vault, "tagged")

    assert git(root, "log", "--format=%an", "-Squagga", "--", "notes/n.md") == "Maren Person"
    blame = git(root, "blame", "--line-porcelain", "notes/n.md").splitlines()
    authors = [line.partition(" ")[2] for line in blame if line.startswith("author ")]
    assert authors == ["bot"] * 3 + ["Maren Person"] * 3


def test_an_agents_own_note_that_is_replaced_at_once_is_its_own_write(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/old.md": "# Old\n\nNobody rings.\n"})
    vault = opened(root, agent="claude")
    path = remember(vault, Memory("Ring the bell twice.", title="Bell")).path

    supersede_note(vault, "notes/old.md", path)

    assert _log(root, 2) == [
        "claude|write: bell||write",
        "claude|supersede: old by bell||supersede",
    ]


def _log(root: Path, count: int) -> list[str]:
    """Return author, subject and the trailers of session and event, oldest first."""
    keys = ("Session-Id", "Vault-Event")
    trailers = "|".join(f"%(trailers:key={key},valueonly,separator=%x20)" for key in keys)
    shown = git(root, "log", "--reverse", f"-{count}", f"--format=%an|%s|{trailers}")
    return shown.splitlines()


def test_what_another_session_left_is_committed_under_its_agents_name(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/n.md": "old\n"})
    remember(opened(root, agent="alice", session="s-1"), Memory("one", title="one"))
    remember(opened(root, agent="alice"), Memory("two", title="two"))
    remember(opened(root, agent="bot", session="s-8"), Memory("three", title="three"))
    write_notes(root, {"notes/n.md": "by hand\n"})
    bot = opened(root, agent="bot", session="s-9")
    remember(bot, Memory("four", title="four"))
    remember(opened(root, agent="bot"), Memory("five", title="five"))

    report = save_checkpoint(bot, "mine")

    assert _log(root, 5) == [
        "Maren Person|edit: n||edit",
        "alice|write: two||write",
        "alice|write: one|s-1|write",
        "bot|write: three|s-8|write",
        "bot|checkpoint: mine|s-9|checkpoint",
    ]
    assert report.paths == ("notes/inbox/five.md", "notes/inbox/four.md")
    files = git(root, "log", "--reverse", "-4", "--format=", "--name-only").split()
    assert [Path(file).stem for file in files] == ["two", "one", "three", "five", "four"]
    assert len(git(root, "reflog").splitlines()) == len(git(root, "log", "--format=%h").split()) - 4


def test_what_a_session_wrote_that_goes_on_stays_its_own(make_vault: Make, opened: Open) -> None:
    root = make_vault({})
    with subprocess.Popen(["sleep", "60"]) as process:
        for session, pid in (("s-1", os.getpid()), ("s-2", process.pid)):
            alice = opened(root, agent="alice", session=session, pid=pid)
            start_session(alice, NewSession(id=session), pick_up=False)
            remember(alice, Memory(f"one of {session}", title=f"of {session}"))
        process.kill()
    bot = opened(root, agent="bot", session="s-9")
    remember(bot, Memory("two", title="two"))

    report = save_checkpoint(bot, "mine")

    assert [subject for _, subject in report.commits] == [
        "write: of-s-2 and session s-2",
        "checkpoint: mine",
    ]
    goes_on = "of alice's session s-1, which goes on"
    assert report.skipped == dict.fromkeys(("notes/inbox/of-s-1.md", "sessions/s-1.md"), goes_on)
    with pytest.raises(PendingError, match=f"of-s-1.md is {goes_on}; try again after its end"):
        check_clean(bot, "merged")
    close_session(opened(root, agent="alice", session="s-1"), "s-1")
    check_clean(bot, "merged")
    assert _log(root, 1) == ["alice|session-close: s-1|s-1|session-close"]
    assert git(root, "status", "--porcelain") == ""
    start_session(opened(root, agent="bot"), NewSession(id="s-9", pid=os.getpid()), pick_up=False)
    save_checkpoint(opened(root), "all there is")
    assert git(root, "status", "--porcelain") == ""


def test_a_checkpoint_without_a_session_claims_none_of_several(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({})
    for session in ("s-1", "s-2", ""):
        remember(opened(root, agent="bot", session=session), Memory("x", title=f"n{session}"))

    report = save_checkpoint(opened(root, agent="bot"), "mine")

    assert _log(root, 3) == [
        "bot|write: ns-1|s-1|write",
        "bot|write: ns-2|s-2|write",
        "bot|checkpoint: mine||checkpoint",
    ]
    assert report.paths == ("notes/inbox/n.md",)


def test_a_tag_leaves_another_sessions_words_to_that_session(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({})
    note = remember(opened(root, agent="bot", session="s-1"), Memory("noon tide"))
    later = opened(root, agent="bot", session="s-2")

    change_tags(later, resolve_address(later, note.path)[0], ("tide",), ())
    save_checkpoint(later, "tagged")

    assert _log(root, 2) == [
        f"bot|write: {Path(note.path).stem}|s-1|write",
        "bot|checkpoint: tagged|s-2|checkpoint",
    ]


def test_a_persons_own_writes_are_edits(make_vault: Make, opened: Open) -> None:
    root = make_vault({})
    remember(opened(root), Memory("by command", title="a"))
    write_notes(root, {"notes/b.md": "by hand\n"})

    save_checkpoint(opened(root, agent="bot", session="s-1"), "x")

    assert _log(root, 2) == ["Maren Person|edit: b and a||edit", "bot|checkpoint: x|s-1|checkpoint"]


def test_with_edit_commits_off_hand_edits_join_the_event_and_other_sessions_do_not(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"vaultmem.yaml": "commit_edits: false\n"})
    remember(opened(root, agent="alice", session="s-1"), Memory("x", title="a"))
    write_notes(root, {"notes/b.md": "by hand\n"})
    bot = opened(root, agent="bot")
    remember(bot, Memory("x", title="c"))

    report = save_checkpoint(bot, "x")

    assert _log(root, 2) == [
        "alice|write: a|s-1|write",
        "bot|checkpoint: x||checkpoint",
    ]
    assert report.paths == ("notes/b.md", "notes/inbox/c.md")


def test_rewritten_history_stops_no_command(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/n.md": "tide\n"})
    save_checkpoint(opened(root), "one")
    sync_vault(opened(root))
    git(root, "commit", "-q", "--amend", "-m", "another")
    git(root, "reflog", "expire", "--expire=now", "--all")
    git(root, "gc", "-q", "--prune=now")

    vault = opened(root)
    sync_vault(vault)

    assert [record.path for record in vault.view.records("d.path = 'notes/n.md'")]


@pytest.mark.parametrize("way", ["environment", "include", "author", "agent"])
def test_a_persons_name_is_the_one_that_git_takes(
    make_vault: Make, home: Path, tmp_path: Path, way: str
) -> None:
    root = make_vault({"notes/n.md": "old\n"})
    env = {}
    if way == "environment":
        env = {"GIT_AUTHOR_NAME": "Jan Ev", "GIT_AUTHOR_EMAIL": "jan@example.org"}
        env["GIT_DIR"] = str(tmp_path / "elsewhere")
    if way == "include":
        (home / "work").write_text("[user]\nname = Jan Ev\nemail = jan@example.org\n")
        git(root, "config", "--global", f"includeIf.gitdir:{root}/.path", str(home / "work"))
    if way == "author":
        git(root, "config", "author.name", "Jan Ev")
        git(root, "config", "author.email", "jan@example.org")
    write_notes(root, {"notes/n.md": "new\n"})
    agent = ["--agent", "bot"] if way == "agent" else []

    assert run_here("checkpoint", "x", *agent, cwd=root, env=env).code == 0

    who = "Maren Person <maren@example.org>" if agent else "Jan Ev <jan@example.org>"
    assert git(root, "log", "-1", "--format=%an <%ae>", "--", "notes/n.md") == who


@pytest.mark.campaign
def test_where_git_knows_no_name_everybody_is_told(
    make_vault: Make, home: Path, tmp_path: Path
) -> None:
    root = make_vault({"notes/n.md": "old\n"})
    (home / ".gitconfig").write_text("[user]\nuseConfigOnly = true\n")
    write_notes(root, {"notes/n.md": "new\n"})
    told = "git does not know who you are, so what you write is committed as person <person@localh"
    remedy = "git config --global user.name NAME"

    made = run_here("init", "new", cwd=tmp_path)
    status = run_here("status", cwd=root)
    doctor = run_here("doctor", cwd=root)

    for shown in (made, status, doctor):
        assert told in shown.out
        assert remedy in shown.out
    assert run_here("status", "--json", cwd=root).json["git"]["person_problem"].startswith(told)
    assert run_here("checkpoint", "x", cwd=root).code == 0
    assert git(root, "log", "-1", "--format=%an <%ae>") == "person <person@localhost>"
    git(root, "config", "user.name", "Jan")
    git(root, "config", "user.email", "jan@example.org")
    assert "your name" not in run_here("status", cwd=root).out
    assert "your name           Jan <jan@example.org>" in run_here("doctor", cwd=root).out
