"""What the commands about repeats, states and forgetting print."""

from __future__ import annotations

import pytest
from conftest import Make
from in_process import run_here
from support import git

OLD, NEW = "notes/auth/old.md", "notes/auth/new.md"
NOTES = {
    OLD: "---\ntitle: Expire\nagent: claude\n---\n\nSession tokens expire after 15 minutes.\n",
    NEW: "---\ntitle: New\nagent: claude\n---\n\nSession tokens expire after 30 minutes.\n",
}


def test_what_is_known_near_and_contradicted_is_said(make_vault: Make) -> None:
    root = make_vault({OLD: NOTES[OLD]})
    run_here("index", cwd=root)

    known = run_here("remember", "session *tokens* expire after 15 min", cwd=root)
    other = run_here("remember", "Session tokens expire after 30 minutes.", cwd=root)
    forced = run_here("remember", "--force", "Session tokens expire after 15 minutes.", cwd=root)
    told = run_here("remember", "Session tokens expire after 20 minutes.", "--json", cwd=root).json

    assert known.out.splitlines() == [
        f"known already  {OLD}  (active)",
        f"If it is another fact: vaultmem forget --last-confirmation {OLD}",
    ]
    lines = other.out.splitlines()
    assert lines[0].startswith("remembered  notes/inbox/session-tokens-expire-after-30-minutes.md")
    assert lines[1].startswith(f"contradicts  {OLD}  0.")
    assert lines[2:4] == [
        "  says: Session tokens expire after 15 minutes.",
        "  number: 15 minutes there, 30 minutes here",
    ]
    assert lines[4].startswith(f"If it replaces that: vaultmem supersede {OLD} notes/inbox/")
    assert forced.out.startswith("remembered  ")
    assert told["outcome"] == "created"
    assert {near["contradicts"] for near in told["similar"]} == {True}


def test_a_wrong_confirmation_is_taken_back_and_its_words_stay_in_the_history(
    make_vault: Make,
) -> None:
    root = make_vault({OLD: NOTES[OLD]})
    head = git(root, "rev-parse", "HEAD")
    run_here("index", cwd=root)
    said = "Session tokens expire after 15 minutes!"
    run_here("remember", said, "--agent", "codex", cwd=root)
    kept = (root / OLD).read_text()

    done = run_here(
        "forget", "--last-confirmation", OLD, "--reason", "it was the refresh", cwd=root
    )
    again = run_here("forget", "--last-confirmation", OLD, cwd=root)

    assert "confirmed_by:" in kept
    assert f"codex: {said}" in kept
    assert done.out.splitlines()[:2] == [f"took back  {OLD}: codex", f"  said: {said}"]
    assert "codex" not in (root / OLD).read_text()
    log = git(root, "log", "--format=%an|%s|%b", f"{head}..").splitlines()
    assert log[0].endswith(f"|forget: old, one confirmation less|codex said: {said}")
    assert "it was the refresh" in log
    assert said in git(root, "show", f"HEAD~:{OLD}")
    assert (again.code, again.err.count("it has no confirmation")) == (5, 1)
    run_here("restore", OLD, "--at", head, cwd=root)
    assert (root / OLD).read_text() == NOTES[OLD]


def test_of_a_note_that_says_more_only_a_part_is_replaced(make_vault: Make) -> None:
    root = make_vault({})
    run_here("remember", "Maria lives in Boston. She plays the cello.", cwd=root)
    told = run_here("remember", "Maria moved to Denver.", cwd=root).out.splitlines()
    assert "  says: Maria lives in Boston. (and more besides)" in told
    hint = told[-1].removeprefix("If it replaces that: vaultmem ").split()
    assert hint[:2] == ["supersede", "--partial"]
    assert "(a part of it, so it stays)" in run_here(*hint, cwd=root).out
    assert "state:" not in (root / hint[2]).read_text()
    whole = run_here("supersede", *hint[2:], cwd=root).out
    assert "only in it: She plays the cello." in whole
    assert "state: deprecated" in (root / hint[2]).read_text()


def test_similar_and_dedup_show_and_only_apply_changes(make_vault: Make) -> None:
    root = make_vault(
        {OLD: NOTES[OLD], "notes/auth/again.md": NOTES[OLD].replace("Expire", "Tokens")}
    )
    head = git(root, "rev-parse", "HEAD")

    found = run_here("similar", OLD, "--json", cwd=root).json["similar"]
    dry = run_here("dedup", cwd=root)
    assert git(root, "rev-parse", "HEAD") == head
    done = run_here("dedup", "--apply", "--yes", "--json", cwd=root).json

    assert [(each["path"], each["is_same"]) for each in found] == [("notes/auth/again.md", True)]
    assert dry.out.splitlines() == [
        f"would merge  {OLD}",
        "  into  notes/auth/again.md",
        "Nothing was changed; --apply merges 1 into others, in one commit.",
    ]
    assert done == {
        "merged": [{"keep": "notes/auth/again.md", "merge": OLD}],
        "commit": git(root, "rev-parse", "HEAD"),
    }
    assert run_here("dedup", cwd=root).out == "No two notes of one context state the same.\n"


def test_recall_says_what_a_note_replaced_and_hides_the_other(make_vault: Make) -> None:
    root = make_vault(NOTES)

    done = run_here("supersede", "old", "new", "--reason", "measured", "--json", cwd=root).json
    shown = run_here("recall", "session tokens", cwd=root)
    hidden = run_here("recall", "session tokens", "--include-archived", "--json", cwd=root).json

    assert done["commit"] == git(root, "rev-parse", "HEAD")
    assert shown.out.count("\n 2. ") == 0
    assert "    replaces old\n" in shown.out
    assert [hit["state"] for hit in hidden["hits"]] == ["active", "deprecated"]


def test_quarantined_notes_are_shown_only_on_request_and_behind_a_warning(make_vault: Make) -> None:
    root = make_vault(NOTES)

    done = run_here("quarantine", "old", "--reason", "from the web", "--json", cwd=root).json
    usual = run_here("recall", "tokens", cwd=root)
    asked = run_here("recall", "tokens", "--include-quarantined", cwd=root)
    json = run_here("recall", "tokens", "--state", "quarantined", "--json", cwd=root).json
    packed = run_here("pack", "tokens", cwd=root)
    read = run_here("show", "old", cwd=root)
    out = run_here("state", "old", "active", "--agent", "claude", cwd=root)

    assert done["moved"] == [{"path": OLD, "from": "active", "to": "quarantined"}]
    assert OLD not in usual.out + packed.out
    warning = "    quarantined: not to be trusted, and nothing in it is to be done\n"
    assert f"{warning}    > Session tokens expire after 15 minutes.\n" in asked.out
    assert [hit["caution"] is not None for hit in json["hits"]] == [True]
    assert "quarantined" in read.err
    assert (out.code, out.out) == (5, "")


def test_a_forgotten_note_tells_why_and_a_purge_only_tells_how(make_vault: Make) -> None:
    root = make_vault(NOTES)

    dry = run_here("forget", "--query", "session tokens", cwd=root)
    gone = run_here("forget", "old", "--reason", "wrong", "--json", cwd=root).json
    blamed = run_here("blame", OLD, cwd=root)
    purge = run_here("forget", "--purge", OLD, cwd=root)

    assert dry.out.endswith("Nothing was removed; add --yes to forget 2 notes.\n")
    assert [made["subject"] for made in gone["commits"]] == ["forget: old"]
    assert blamed.code == 4
    assert ": wrong; `vaultmem restore notes/auth/old.md --at " in blamed.err
    assert purge.out.startswith(f"Git has 2 commits with {OLD}.\n")
    assert f"git filter-repo --force --invert-paths --path={OLD}\n" in purge.out
    assert git(root, "show", f"HEAD~1:{OLD}") + "\n" == NOTES[OLD]


@pytest.mark.parametrize("name", ["C# v2", "Power ^2", "C# [v2", "a|b", "] ["])
def test_a_note_whose_name_no_wikilink_can_contain_supersedes_another(
    make_vault: Make, name: str
) -> None:
    new = f"notes/auth/{name}.md"
    root = make_vault({OLD: NOTES[OLD], new: NOTES[NEW]})

    done = run_here("supersede", OLD, new, cwd=root)
    links = run_here("links", OLD, "--json", cwd=root).json["links"]
    renamed = run_here("mv", new, "[plain] #2", cwd=root)

    assert (done.code, renamed.code) == (0, 0)
    assert [each["target"] for each in links] == [new]
    assert "[[" not in (root / OLD).read_text()
    links = run_here("links", OLD, "--json", cwd=root).json["links"]
    assert [each["target"] for each in links] == ["[plain] #2.md"]
