"""Supersession: the old note leaves recall, each names the other, in one commit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from conftest import Make, Open
from support import git, hash_tree, read_property

from vaultmem.core.lifecycle import NoteKind
from vaultmem.core.new_memory import Memory
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.search.query import parse_query
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.lifecycle.supersede import supersede_note
from vaultmem.services.lifecycle.transition import promote_notes
from vaultmem.services.memory.new_note import NoteUpdate, update_note
from vaultmem.services.memory.remember import find_replaced, remember
from vaultmem.services.search.link_walk import list_links
from vaultmem.services.search.recall import recall
from vaultmem.services.views.update_index import sync_vault

Run = Callable[..., Any]

NOTES = {
    "notes/old.md": "---\ntitle: Old\nagent: claude\n---\n\nTokens live 15 minutes.\n",
    "notes/new.md": "---\ntitle: New\n---\n\nTokens live 30 minutes.\n",
}


def read_new(root: Path, path: str) -> Note:
    return parse_note(PurePosixPath(path), (root / path).read_bytes())


def test_both_notes_name_each_other_and_only_the_new_one_is_recalled(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(NOTES)
    vault = opened(root, agent="claude")
    sync_vault(vault)
    head = git(root, "rev-parse", "HEAD")

    done = supersede_note(vault, "old", "new", "measured again")

    assert read_property(root, "notes/old.md", "state") == "deprecated"
    assert read_property(root, "notes/old.md", "state_reason") == "measured again"
    assert read_property(root, "notes/old.md", "superseded_by") == ("[[new]]",)
    assert read_property(root, "notes/new.md", "supersedes") == ("[[old]]",)
    assert [hit.record.path for hit in recall(vault, parse_query("tokens"))] == ["notes/new.md"]
    assert [link.target for link in list_links(vault, "notes/old.md")] == ["notes/new.md"]
    assert git(root, "rev-list", f"{head}..") == done.report.commit
    assert git(root, "log", "-1", "--format=%an: %s") == "claude: supersede: old by new"
    assert git(root, "show", "HEAD~1:notes/old.md") + "\n" == NOTES["notes/old.md"]


def test_the_texts_of_both_stay_as_they_were(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)

    supersede_note(opened(root), "notes/old.md", "notes/new.md")

    for path, text in NOTES.items():
        note = parse_note(PurePosixPath(path), (root / path).read_bytes())
        assert note.body == text.split("---\n", 2)[2]
        assert note.text.startswith(text.split("\n---", 1)[0].replace("state: active\n", ""))


def test_what_cannot_be_is_refused_and_nothing_changes(make_vault: Make, opened: Open) -> None:
    root = make_vault(
        {
            **NOTES,
            "notes/bad.md": "---\nstate: quarantined\n---\nx\n",
            "notes/kept.md": "---\npinned: true\n---\nx\n",
            "notes/rule.md": "---\nkind: policy_rule\n---\nx\n",
        }
    )
    before = hash_tree(root, skip=(".git",))
    vault = opened(root, agent="claude")

    for old, new, why in [
        ("notes/old.md", "notes/old.md", "itself"),
        ("notes/old.md", "notes/gone.md", "no note is called"),
        ("notes/old.md", "notes/bad.md", "quarantined itself"),
        ("notes/kept.md", "notes/new.md", "pinned"),
        ("notes/bad.md", "notes/new.md", "only a person"),
        ("notes/rule.md", "notes/new.md", "promoting_agents"),
    ]:
        with pytest.raises((RefusedError, NoteNotFoundError), match=why):
            supersede_note(vault, old, new)

    assert hash_tree(root, skip=(".git",)) == before


def test_a_note_can_replace_several(make_vault: Make, opened: Open) -> None:
    root = make_vault({**NOTES, "notes/older.md": "Tokens live 5 minutes.\n"})
    vault = opened(root)
    sync_vault(vault)

    supersede_note(vault, "notes/older.md", "notes/new.md")
    supersede_note(vault, "notes/old.md", "notes/new.md")

    assert read_property(root, "notes/new.md", "supersedes") == (
        "[[older]]",
        "[[old]]",
    )


def test_what_was_a_contradiction_is_none_any_more(make_vault: Make, opened: Open) -> None:
    new = '---\ntitle: New\ncontradicts:\n  - "[[notes/old]]"\n---\n\nTokens live 30 minutes.\n'
    root = make_vault({**NOTES, "notes/new.md": new})

    supersede_note(opened(root), "notes/old.md", "notes/new.md")

    assert read_property(root, "notes/new.md", "contradicts") is None


def test_on_another_branch_it_is_a_commit_there(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    git(root, "branch", "draft")
    vault = opened(root, ref="draft")
    sync_vault(vault)

    supersede_note(vault, "notes/old.md", "notes/new.md")

    assert "superseded_by" in git(root, "show", "draft:notes/old.md")
    assert "supersedes" in git(root, "show", "draft:notes/new.md")
    assert (root / "notes/old.md").read_text() == NOTES["notes/old.md"]


def test_the_old_value_keeps_when_it_held(make_vault: Make, opened: Open) -> None:
    note = "---\ntitle: {0}\nagent: claude\ncreated: {1}\n---\n\n{0}\n"
    root = make_vault(
        {
            "notes/old.md": note.format("Maria lives in Boston.", "2026-01-05T10:00:00"),
            "notes/new.md": note.format("Maria moved to Denver in May.", "2026-06-20"),
        }
    )

    supersede_note(opened(root, agent="claude"), "notes/old.md", "notes/new.md")

    days = [
        (path, name, str(read_property(root, f"notes/{path}.md", name)))
        for path in ("old", "new")
        for name in ("valid_from", "valid_until")
    ]
    assert days == [
        ("old", "valid_from", "2026-01-05"),
        ("old", "valid_until", "2026-05-01"),
        ("new", "valid_from", "2026-05-01"),
        ("new", "valid_until", "None"),
    ]
    assert "valid_until: 2026-05-01\n" in (root / "notes/old.md").read_text()


def test_a_day_that_a_note_says_itself_stays(make_vault: Make, opened: Open) -> None:
    root = make_vault(
        {
            "notes/old.md": "---\nvalid_from: 2020-02-02\n---\nTokens live 15 minutes.\n",
            "notes/new.md": "---\nvalid_from: 2024-04-04\n---\nTokens live 30 minutes.\n",
        }
    )

    supersede_note(opened(root), "notes/old.md", "notes/new.md")

    assert "valid_from: 2020-02-02\n" in (root / "notes/old.md").read_text()
    assert "valid_until: 2024-04-04\n" in (root / "notes/old.md").read_text()
    assert "valid_from: 2024-04-04\n" in (root / "notes/new.md").read_text()


def test_what_was_written_and_replaced_on_one_day_has_both_days(
    make_vault: Make, opened: Open
) -> None:
    day = "---\ncreated: 2026-03-03\n---\n{}\n"
    root = make_vault(
        {
            "notes/old.md": day.format("Tokens live 15 minutes."),
            "notes/new.md": day.format("Tokens live 30 minutes."),
        }
    )

    supersede_note(opened(root), "notes/old.md", "notes/new.md")

    days = [read_property(root, "notes/old.md", name) for name in ("valid_from", "valid_until")]
    assert list(map(str, days)) == ["2026-03-03", "2026-03-03"]


def test_remember_replaces_a_note_in_one_commit_and_keeps_what_is_known_of_it(
    make_vault: Make, run_cli: Run
) -> None:
    old = "---\nkind: decision\ntags: [auth]\nproject: shop\n---\n\nTokens live 15 minutes.\n"
    root = make_vault({"notes/api/old.md": old})
    run_cli("checkpoint", "first", cwd=root)
    head = git(root, "rev-parse", "HEAD")

    done = run_cli("remember", "Tokens live 30 minutes.", "--supersedes", "old", "--json", cwd=root)

    path, made = done.json["path"], read_new(root, done.json["path"])
    assert path == "notes/api/tokens-live-30-minutes.md"
    assert (made.kind, made.tags, made.project) == (NoteKind.DECISION, ("auth",), "shop")
    assert read_property(root, path, "supersedes") == ("[[old]]",)
    assert read_property(root, "notes/api/old.md", "superseded_by") == (
        "[[tokens-live-30-minutes]]",
    )
    assert read_property(root, "notes/api/old.md", "state") == "deprecated"
    assert done.json["superseded"] == "notes/api/old.md"
    assert git(root, "rev-list", f"{head}..") == done.json["commit"]
    assert git(root, "log", "-1", "--format=%s") == "supersede: old by tokens-live-30-minutes"
    assert git(root, "status", "--porcelain") == ""


def test_a_new_note_can_differ_from_the_one_that_it_replaces(
    make_vault: Make, run_cli: Run
) -> None:
    old = "---\nkind: decision\ntags: [auth]\nproject: shop\n---\n\nTokens live 15 minutes.\n"
    root = make_vault({"notes/api/old.md": old})

    done = run_cli(
        *("remember", "Tokens live 30 minutes.", "--supersedes", "old", "--tag", "token"),
        *("--kind", "semantic_fact", "--context", "web", "--global", "--json"),
        cwd=root,
    )

    made = read_new(root, done.json["path"])
    assert str(made.path) == "notes/web/tokens-live-30-minutes.md"
    assert (made.kind, made.tags, made.project) == (NoteKind.SEMANTIC_FACT, ("token",), "")


def test_a_text_that_another_note_states_lets_that_note_replace_the_old_one(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/old.md": NOTES["notes/old.md"]})
    vault = opened(root, agent="claude")
    memory = Memory("The tokens of the shop live for 30 minutes.")
    known = remember(vault, memory)

    done = remember(vault, memory, supersedes="old")

    assert (done.path, done.outcome) == (known.path, "known")
    assert read_property(root, known.path, "supersedes") == ("[[old]]",)


@pytest.mark.parametrize(
    ("old", "why"),
    [
        ("pinned: true\n", "pinned"),
        ("state: quarantined\n", "only a person"),
        ("kind: policy_rule\n", "promoting_agents"),
        ("kind: procedural_skill\n", "promoting_agents"),
    ],
)
def test_an_agent_replaces_no_note_of_the_owner_and_writes_nothing(
    old: str, why: str, make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/old.md": f"---\n{old}---\n\nTokens live 15 minutes.\n"})
    before = hash_tree(root, skip=(".git",))
    vault = opened(root, agent="claude")
    sync_vault(vault)

    replaced = find_replaced(vault, "old")
    memory = Memory("Tokens live 30 minutes.", kind=replaced.kind)
    with pytest.raises(RefusedError, match=why):
        remember(vault, memory, supersedes="old")

    assert hash_tree(root, skip=(".git",)) == before


@pytest.mark.parametrize("agent", ["", "claude"])
def test_the_owner_and_promoting_agents_replace_a_policy_by_one_that_instructs(
    agent: str, make_vault: Make, opened: Open
) -> None:
    old = "---\nkind: policy_rule\n---\n\nAsk before each push.\n"
    settings = "promoting_agents: [claude]\n"
    root = make_vault({"notes/old.md": old, "vaultmem.yaml": settings})
    vault = opened(root, agent=agent)
    vault.trust.record({})
    sync_vault(vault)
    promote_notes(vault, ["old"])

    memory = Memory("Ask before each push to main.", kind=NoteKind.POLICY_RULE)
    done = remember(vault, memory, supersedes="old")

    assert done.state == "active"
    assert done.path in vault.trust.notes()


def test_a_quarantined_note_that_says_nearly_the_same_lets_nothing_be_replaced(
    make_vault: Make, opened: Open
) -> None:
    held = "---\nstate: quarantined\n---\n\nTokens of the shop live for 30 long minutes.\n"
    root = make_vault({**NOTES, "notes/held.md": held})
    before = hash_tree(root, skip=(".git",))
    vault = opened(root, agent="claude")
    sync_vault(vault)

    memory = Memory("Tokens of the shop live for 30 short minutes.")
    with pytest.raises(RefusedError, match="quarantined"):
        remember(vault, memory, supersedes="old")

    assert hash_tree(root, skip=(".git",)) == before


def test_a_killed_supersession_leaves_both_notes_or_none(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    before = hash_tree(root, skip=(".git",))
    words = ["vaultmem", "remember", "Tokens live 60 minutes.", "--supersedes", "old"]
    script = (
        "import os, sys\nfrom vaultmem.services.changes import write\n"
        "write.commit_event = lambda *_: os._exit(9)\n"
        f"sys.argv = {words}\nfrom vaultmem.cli.start import main\nmain()\n"
    )

    killed = subprocess.run([sys.executable, "-c", script], cwd=root, check=False)
    assert killed.returncode == 9
    assert hash_tree(root, skip=(".git",)) != before
    save_checkpoint(opened(root), "after")

    assert hash_tree(root, skip=(".git",)) == before


def test_setting_superseded_by_replaces_the_note_in_one_commit(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(NOTES)
    vault = opened(root, agent="claude")
    sync_vault(vault)
    head = git(root, "rev-parse", "HEAD")

    path = PurePosixPath("notes/old.md")
    update_note(vault, path, NoteUpdate({"superseded_by": "[[new]]", "tags": ["x"]}, reason="why"))

    assert read_property(root, "notes/old.md", "state") == "deprecated"
    assert read_property(root, "notes/old.md", "state_reason") == "why"
    assert read_property(root, "notes/old.md", "tags") == ("x",)
    assert read_property(root, "notes/new.md", "supersedes") == ("[[old]]",)
    assert git(root, "log", "--format=%s", f"{head}..").startswith("supersede: old by new")
    assert git(root, "status", "--porcelain") == ""
