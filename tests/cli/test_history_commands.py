"""The commands that read history: what they print, and how they end."""

from __future__ import annotations

from pathlib import Path

import pytest
from branching import commit_on
from conftest import Make, RunCli
from in_process import run_here
from support import git, hash_tree, lock_git, write_notes

from vaultmem import Memory, open_vault, promote_notes, remember, save_checkpoint, sync_vault
from vaultmem.core.lifecycle import NoteState

NOTE = "notes/harbour/ebb-is-at-noon.md"


@pytest.fixture
def run_cli(home: Path) -> RunCli:
    """Run commands in this process: what they print and how they end is what matters here."""
    return run_here


def lay(root: Path) -> None:
    """Make a vault with a note that an agent wrote and a person promoted and edited since."""
    commit_on(root, "main", {"notes/old.md": "---\nstate: archived\n---\nEbb is at ten.\n"})
    git(root, "reset", "-q", "--hard")
    agent = open_vault(root, agent="claude", session="s-1", tool_call="t-1")
    text = "Ebb is at noon.\n\n## Source\n\nThe harbour master."
    remember(agent, Memory(text, context="harbour", state=NoteState.CANDIDATE))
    save_checkpoint(agent, "heard\x1b[2J")
    agent.close()
    person = open_vault(root)
    sync_vault(person)
    promote_notes(person, [NOTE])
    person.close()
    write_notes(root, {NOTE: (root / NOTE).read_text().replace("harbour master", "tide table")})


def test_log_filters_and_keeps_its_format(run_cli: RunCli, root: Path) -> None:
    text = run_cli("log", "-n", "1", cwd=root).out
    found = run_cli(
        "log", "--from-agent", "claude", "--event", "checkpoint", "--json", cwd=root
    ).json
    none = run_cli("log", "--session", "s-2", cwd=root)
    folder = run_cli("log", "--path", "notes/harbour", "--since", "2020-01-01", cwd=root).out
    wrong = run_cli("log", "--since", "1/2/2026", cwd=root)

    head = git(root, "log", "-1", "--format=%h %cd %an", "--date=format:%Y-%m-%d %H:%M")
    short, day, minute, *name = head.split()
    assert text == f"{short[:7]}  {day} {minute}  {' '.join(name):<16}  promote: ebb-is-at-noon\n"
    [only] = found["commits"]
    assert only["commit"] == git(root, "rev-parse", "HEAD~1")
    assert (only["event"], only["agent"], only["session"]) == ("checkpoint", "claude", "s-1")
    assert (only["intent"], only["confidence"], only["tool_call"]) == ("checkpoint", None, "t-1")
    assert found["shallow"] is False
    assert (none.code, none.out) == (0, "No event matches.\n")
    assert folder.count("\n") == 2
    assert (wrong.code, wrong.err.count("\n")) == (5, 1)
    assert "2026-10-01" in wrong.err


def test_log_follows_a_renamed_note(run_cli: RunCli, root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Add the source")
    git(root, "mv", NOTE, "notes/harbour/ebb.md")
    git(root, "commit", "-qm", "Rename the note")

    def count(*words: str) -> int:
        return len(run_cli("log", "--all", "--json", *words, cwd=root).json["commits"])

    assert count("--path", "notes/harbour/ebb.md") == 1
    assert count("--path", "notes/harbour/ebb", "--follow") == 4
    assert count("--path", "notes/harbour/ebb", "--follow", "-n", "2") == 2
    assert count("HEAD~2..HEAD", "--path", "notes/harbour/ebb", "--follow") == 2
    alone = run_cli("log", "--follow", cwd=root)
    assert (alone.code, "--path NOTE --follow" in alone.err) == (2, True)


def test_blame_has_the_confidence_that_was_stated_with_a_line(run_cli: RunCli, root: Path) -> None:
    words = ("--agent", "claude", "--confidence", ".8", "--json")
    path = run_cli("remember", "The pier is closed.", *words, cwd=root).json["path"]

    def stated() -> dict[str, float | None]:
        lines = run_cli("blame", path, "--json", cwd=root).json
        return {line["text"]: line["confidence"] for line in lines if line["text"][:3] == "The"}

    assert stated() == {"The pier is closed.": 0.8}
    run_cli("checkpoint", cwd=root)
    (root / path).write_text((root / path).read_text() + "\nThe quay is open.\n")
    assert stated() == {"The pier is closed.": 0.8, "The quay is open.": None}
    rows = run_cli("blame", path, cwd=root).out.splitlines()
    assert "0.8" in next(row for row in rows if row.endswith("The pier is closed."))


def test_show_tells_who_why_and_what_in_the_notes_words(run_cli: RunCli, root: Path) -> None:
    text = run_cli("show", cwd=root).out
    shown = run_cli("show", "HEAD~1", "--json", cwd=root).json
    agent = run_cli("show", "HEAD~1", cwd=root).out
    missing = run_cli("show", "no-such-branch", cwd=root)

    assert text.splitlines()[0] == f"commit {git(root, 'rev-parse', 'HEAD')}"
    assert "event       promote\n" in text
    assert f"\nchanged  {NOTE}\n  state: candidate -> active\n" in text
    assert "@@" not in text
    assert "session     s-1\n" in agent
    assert "tool call   t-1\n" in agent
    assert "\x1b" not in agent
    [operation] = shown["operations"]
    assert (operation["operation"], operation["path"], operation["from"]) == ("add", NOTE, None)
    assert operation["blob"] == git(root, "rev-parse", f"HEAD~1:{NOTE}")
    assert operation["old_blob"] is None
    assert {"operation": "add", "name": "state", "old": None, "new": "candidate"} in operation[
        "properties"
    ]
    assert operation["body"]["added"] == 6
    assert "\n+Ebb is at noon.\n" in operation["body"]["diff"]
    assert missing.code == 4


def test_blame_names_commit_day_author_event_and_session_of_each_line(
    run_cli: RunCli, root: Path
) -> None:
    rows = run_cli("blame", NOTE, cwd=root).out.splitlines()
    lines = run_cli("blame", NOTE, "--json", cwd=root).json
    section = run_cli("blame", "ebb-is-at-noon#source", "--at", "HEAD", cwd=root).out

    made, promoted = git(root, "rev-parse", "HEAD~1", "HEAD").split()
    assert [line["text"] for line in lines] == (root / NOTE).read_text().splitlines()
    by_text = {line["text"]: line for line in lines}
    assert by_text["Ebb is at noon."]["commit"] == made
    assert by_text["Ebb is at noon."]["session"] == "s-1"
    assert by_text["state: active"]["commit"] == promoted
    assert by_text["state: active"]["agent"] == ""
    assert by_text["The tide table."]["committed"] is False
    assert by_text["The tide table."]["who"] == "Maren Person"
    assert len(rows) == len(lines)
    fact = next(row for row in rows if row.endswith("Ebb is at noon."))
    day = git(root, "log", "-1", "--format=%cs", made)
    assert fact.split()[:5] == [made[:7], day, "claude", "checkpoint", "s-1"]
    assert "Maren Person  not committed" in rows[-1]
    texts = [(row, line["text"]) for row, line in zip(rows, lines, strict=True) if line["text"]]
    assert len({len(row) - len(text) for row, text in texts}) == 1
    assert all(row.endswith(text) for row, text in texts)
    assert [row.split()[0] for row in section.splitlines()] == [made[:7]] * 3
    assert section.splitlines()[2].endswith("The harbour master.")


def test_diff_is_a_list_of_operations_or_one_line_a_note(run_cli: RunCli, root: Path) -> None:
    (root / "notes/old.md").rename(root / "notes/older.md")
    text = run_cli("diff", cwd=root).out
    brief = run_cli("diff", "--brief", "HEAD~2", cwd=root).out
    operations = run_cli("diff", "HEAD~1..HEAD", "--json", cwd=root).json
    now = run_cli("diff", "--json", cwd=root).json

    assert f"changed  {NOTE}\n  @@ " in text
    assert "\n  -The harbour master.\n  +The tide table.\n" in text
    assert "\nrenamed  notes/older.md  (was notes/old.md)\n" in text
    assert brief.splitlines() == [
        f"added    {NOTE}  new note, body +6",
        f"renamed  {'notes/older.md':<{len(NOTE)}}  renamed from notes/old.md",
    ]
    assert operations == [
        {
            "operation": "replace",
            "path": NOTE,
            "from": None,
            "blob": git(root, "rev-parse", f"HEAD:{NOTE}"),
            "old_blob": git(root, "rev-parse", f"HEAD~:{NOTE}"),
            "properties": [
                {"operation": "replace", "name": "state", "old": "candidate", "new": "active"}
            ],
            "body": {"added": 0, "removed": 0, "diff": ""},
            "frontmatter_diff": operations[0]["frontmatter_diff"],
            "remark": None,
        }
    ]
    assert [(each["operation"], each["path"], each["from"]) for each in now] == [
        ("replace", NOTE, None),
        ("replace", "notes/older.md", "notes/old.md"),
    ]
    assert run_cli("diff", "HEAD", "HEAD", cwd=root).out == "Nothing differs.\n"


def test_history_tells_each_change_of_a_note(run_cli: RunCli, root: Path) -> None:
    git(root, "mv", NOTE, "notes/ebb.md")
    git(root, "commit", "-q", "-m", "moved")

    rows = run_cli("history", "ebb", cwd=root).out.splitlines()
    told = run_cli("history", "notes/ebb.md", "-n", "2", "--json", cwd=root).json

    assert len(rows) == 4
    assert "Maren Person  not committed" in rows[0] or "moved" not in rows[0]
    assert rows[-1].endswith(f"new note, body +6  ({NOTE})")
    assert "state: candidate -> active" in rows[-2]
    assert told["path"] == "notes/ebb.md"
    assert [v["commit"] and v["commit"]["subject"] for v in told["versions"]] == [
        None,
        "moved",
        "promote: ebb-is-at-noon",
    ]
    assert told["versions"][1]["from"] == NOTE
    assert run_cli("history", "never", cwd=root).code == 4


def test_restore_brings_back_and_says_what_it_saved(run_cli: RunCli, root: Path) -> None:
    before = hash_tree(root, skip=(".git",))
    first = run_cli("restore", NOTE, "--at", "HEAD~1", "--agent", "bot", cwd=root)
    again = run_cli("restore", NOTE, "--at", "HEAD~2", "--json", cwd=root)

    assert first.code == 0
    saved, restored = first.out.splitlines()
    assert saved == f"{git(root, 'rev-parse', 'HEAD')[:7]}  edit: ebb-is-at-noon"
    assert restored.startswith(f"restored  {NOTE}  (as in ")
    assert "state: candidate" in (root / NOTE).read_text()
    assert "The tide table." in git(root, "show", f"HEAD:{NOTE}")
    assert again.json["changed"] is False
    assert again.json["old_blob"] == again.json["blob"]
    git(root, "checkout", "-q", "--", NOTE)
    assert hash_tree(root, skip=(".git",)) == before
    (root / NOTE).write_text("mine\n")
    lock_git(root)
    refused = run_cli("restore", NOTE, "--at", "HEAD", cwd=root)
    assert (refused.code, refused.err.count("\n")) == (7, 1)
    assert (root / NOTE).read_text() == "mine\n"


def test_restore_lists_the_versions_of_a_removed_note_by_its_bare_name(
    run_cli: RunCli, root: Path
) -> None:
    write_notes(
        root, {"notes/a [1].md": "old\n", "notes/x/twin.md": "1\n", "notes/y/twin.md": "2\n"}
    )
    run_cli("checkpoint", "added", cwd=root)
    run_cli("forget", "a [1]", cwd=root)
    uncommitted = run_cli("restore", "a [1]", cwd=root)
    run_cli("forget", "x/twin", "y/twin", "--yes", cwd=root)
    run_cli("checkpoint", "removed", cwd=root)
    committed = run_cli("history", "A [1]", cwd=root)
    twins = run_cli("restore", "twin", cwd=root)
    pattern = run_cli("restore", "a*", cwd=root)

    assert "new note" in uncommitted.out
    assert [line.split("  ")[-1] for line in committed.out.splitlines()] == [
        "removed, body -1",
        "new note, body +1",
    ]
    assert twins.err == (
        'vaultmem: error: "twin" could be notes/x/twin.md, notes/y/twin.md; name one\n'
    )
    assert (pattern.code, "no note is called" in pattern.err) == (4, True)
    restored = run_cli("restore", "a [1]", "--at", "HEAD~1", cwd=root)
    assert (restored.code, (root / "notes/a [1].md").read_text()) == (0, "old\n")


def test_why_names_the_commits_behind_a_fact_and_what_it_replaced(
    run_cli: RunCli, root: Path
) -> None:
    text = (root / NOTE).read_text()
    write_notes(root, {NOTE: text.replace("---\n", "---\nsupersedes: ['[[old]]']\n", 1)})

    told = run_cli("trace", "ebb", cwd=root).out
    grounds = run_cli("trace", "ebb", "--json", cwd=root).json["grounds"]

    assert f"{NOTE}   [@claude | " in told
    assert "    supersedes  notes/old.md\n" in told
    assert f"    superseded by  {NOTE}\n" in told
    first = next(each for each in grounds if each["path"] == NOTE and not each["heading"])
    [step] = first["steps"]
    assert (step["commit"], step["who"]) == (git(root, "rev-parse", "HEAD~1"), "claude")
    assert (step["event"], step["session"], step["lines"]) == ("checkpoint", "s-1", 1)
    assert first["supersedes"] == [{"name": "old", "path": "notes/old.md"}]
    assert run_cli("trace", "zeppelin", cwd=root).out.startswith("No fact and no decision")


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_old_name_of_a_note_leads_to_the_new_one(
    run_cli: RunCli, make_vault: Make, is_committed: bool
) -> None:
    root = make_vault({"notes/quay.md": "# Quay\n\nThe quay lantern burns whale oil.\n"})
    run_cli("mv", "notes/quay.md", "notes/port/lantern.md", cwd=root)
    if is_committed:
        git(root, "add", "-A")
        git(root, "commit", "-qm", "Move it")

    blamed = run_cli("blame", "notes/quay.md", cwd=root)
    spread = run_cli("trace", "--spread", "notes/quay.md", cwd=root)

    assert blamed.code == 4
    if is_committed:
        commit = git(root, "rev-parse", "--short=7", "HEAD")
        assert f"in {commit}; its new name is notes/port/lantern.md\n" in blamed.err
    assert (spread.out, spread.code) == ("notes/port/lantern.md: shown to 0 sessions\n", 0)


@pytest.mark.parametrize("command", ["blame", "history", "restore"])
def test_a_path_out_of_the_vault_is_refused(run_cli: RunCli, root: Path, command: str) -> None:
    more = ["--at", "HEAD"] if command == "restore" else []

    for path in ("../../etc/passwd", ".GIT/config"):
        assert run_cli(command, path, *more, cwd=root).code == 5


def test_before_the_first_commit_each_command_says_so(run_cli: RunCli, tmp_path: Path) -> None:
    root = tmp_path / "v"
    write_notes(root, {"vaultmem.yaml": "", "notes/a.md": "a\n"})
    git(root, "init", "-q", "-b", "main")

    assert run_cli("log", cwd=root).out.startswith("No events yet")
    shown = run_cli("show", cwd=root)
    assert (shown.code, "nothing is committed" in shown.err) == (4, True)
    assert run_cli("blame", "a", cwd=root).out == "Maren Person  not committed  1  a\n"
    assert run_cli("history", "a", cwd=root).out.endswith("new note, body +1\n")
    assert "added  notes/a.md" in run_cli("diff", cwd=root).out
    assert run_cli("restore", "a", "--at", "HEAD", cwd=root).code == 4


def test_control_characters_of_notes_and_messages_do_not_reach_the_terminal(
    run_cli: RunCli, make_vault: Make
) -> None:
    name = "notes/a\x1b[2J\u202eb.md"
    root = make_vault({name: "---\nx: \x1b]0;t\x07\n---\n\x1b[31mred\u202e\x9b\n"})
    evil = "evil\x1b[2J\u202e\n\n\x1b]0;t\x07\n\nAgent-Id: \x1b[31mclaude\nVault-Event: \x9bedit\n"
    write_notes(root, {name: "\x1b[31mblue\u202e\n\x1b\n"})
    git(root, "commit", "-q", "-a", "-F", "-", stdin=evil)
    write_notes(root, {name: "\x1b[31mgreen\u202e\n"})

    for command in (["log"], ["show"], ["blame", name], ["diff"], ["diff", "--brief", "HEAD~1"]):
        done = run_cli(*command, cwd=root)
        assert done.code == 0
        assert not set("\x1b\x07\x9b\u202e") & set(done.out + done.err), command
    assert not set("\x1b\x9b\u202e") & set(run_cli("history", name, cwd=root).out)


def test_a_session_is_followed_and_undone(run_cli: RunCli, root: Path) -> None:
    def as_agent(session: str, *words: str) -> None:
        done = run_cli("--agent", "claude", "--session", session, *words, cwd=root)
        assert done.code == 0, done.err

    fact = "Guests log in on port 6543."
    as_agent("s-7", "remember", fact, "--title", "Guest port")
    as_agent("s-8", "recall", "guest port")
    as_agent("s-8", "remember", f"Firewall: {fact}", "--title", "Firewall", "--force")
    run_cli("checkpoint", "ports", cwd=root)

    followed = run_cli("trace", "--spread", "s-7", "--json", cwd=root).json
    shown = run_cli("trace", "--spread", "guest-port", cwd=root).out
    for number in range(9):
        git(root, "branch", f"plan-{number}")
    branched = run_cli("trace", "--spread", "guest-port", cwd=root).out
    before = hash_tree(root, skip=(".git",))
    planned = run_cli("undo", "--session", "s-7", "--spread", "--json", cwd=root).json
    assert hash_tree(root, skip=(".git",)) == before
    undone = run_cli("undo", "--session", "s-7", "--spread", "--apply", "--json", cwd=root).json
    wrong = run_cli("undo", "HEAD", "--apply", cwd=root)
    missing = run_cli("undo", cwd=root)

    written = run_cli("history", "firewall", "--json", cwd=root).json["versions"][-1]
    commit = run_cli("show", written["commit"]["commit"], "--json", cwd=root).json
    assert [each["path"] for each in commit["shown_notes"]] == ["notes/inbox/guest-port.md"]
    assert written["shown_notes"] == commit["shown_notes"]
    listed = run_cli("show", written["commit"]["commit"], cwd=root).out
    assert "before, its session was shown" in listed
    assert "notes/inbox/guest-port.md" in listed.partition("was shown")[2]

    [reader] = followed["readers"]
    assert (reader["session"], reader["kind"]) == ("s-8", "recall")
    [writing] = reader["writings"]
    assert (writing["how"], writing["branches"]) == ("repeats", ["main"])
    assert "repeats   notes/inbox/firewall.md  (main " in shown
    assert "firewall.md  (main, plan-0, plan-1 and 7 more " in branched
    actions = {each["path"]: each["action"] for each in planned["notes"]}
    assert actions == {
        "notes/inbox/guest-port.md": "remove",
        "notes/inbox/firewall.md": "quarantine",
    }
    assert (planned["applied"], planned["commit"]) == (False, None)
    assert undone["notes"] == planned["notes"]
    assert undone["commit"] == git(root, "rev-parse", "HEAD")
    assert (wrong.code, missing.code) == (2, 2)
    assert "name a commit, or a session with --session ID" in missing.err


def test_restore_and_undo_name_the_folder_that_took_a_notes_place(root: Path) -> None:
    write_notes(root, {"place.md": "A note.\n"})
    run_here("checkpoint", "a note", cwd=root)
    (root / "place.md").unlink()
    write_notes(root, {"place.md/inside.md": "Another note.\n"})
    run_here("checkpoint", "a folder", cwd=root)

    for command in (("restore", "place.md", "--at", "HEAD~1"), ("undo", "HEAD")):
        refused = run_here(*command, cwd=root)
        assert refused.code == 5
        assert "place.md: it is not a regular file; rename it, then repeat" in refused.err
    assert (root / "place.md/inside.md").read_text() == "Another note.\n"
