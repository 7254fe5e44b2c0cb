"""New values of old facts: told by `remember`, proposed by `curate`, decided by one command."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import pytest
from conftest import Make, Open
from support import read_property

from vaultmem.core.curation.proposal import PART, ProposalChoice
from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.note import parse_note
from vaultmem.core.search.query import NoteFilter, parse_query
from vaultmem.core.similarity.compare import KnownText
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.curation.curate import curate
from vaultmem.services.curation.decide import decide
from vaultmem.services.curation.review import list_queue
from vaultmem.services.lifecycle.supersede import supersede_note
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.packs.build import make_pack
from vaultmem.services.search.recall import find_hits
from vaultmem.services.search.vault_set import VaultSet
from vaultmem.services.similarity.pairs import read_apart
from vaultmem.services.similarity.value_updates import list_untrusted, list_updates
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

NOTE = "---\ntitle: {text}\nagent: {agent}\ncreated: {created}\n---\n\n{text}\n"


def fact(text: str, created: str, agent: str = "claude") -> str:
    return NOTE.format(text=text, created=created, agent=agent)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Maria lives in Boston.", "Maria moved to Denver."),
        ("CI runs on Jenkins.", "CI runs on GitHub Actions."),
        ("The importer is written in Python.", "The importer was rewritten in Rust."),
    ],
)
def test_remember_finds_the_old_value_whatever_else_is_said_of_the_subject(
    make_vault: Make, opened: Open, old: str, new: str
) -> None:
    subject = old.split()[0] if old[:3] != "The" else "The importer"
    notes = {f"notes/{n}.md": f"{subject} was seen in room {n} with {n * 7}.\n" for n in range(40)}
    vault = opened(make_vault(notes), agent="claude")
    sync_vault(vault)
    known = remember(vault, Memory(old))

    done = remember(vault, Memory(new))

    told = [each for each in done.similar if each.contradicts]
    assert [(each.path, each.says) for each in told] == [(known.path, old)]
    assert told[0].differences[0].kind == "update"
    assert read_property(vault.root, done.path, "contradicts") == (f"[[{Path(known.path).stem}]]",)


def test_what_is_said_of_the_same_subject_is_no_update(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault({}), agent="claude")
    remember(vault, Memory("Maria lives in Boston."))
    remember(vault, Memory("Kim and Ana talked on 3 June 2023 about the garden."))

    others = (
        "Maria works at Acme.",
        "Maria's sister moved to Denver.",
        "Kim and Ana talked on 3 July 2023 about the garden.",
    )
    told = [each for text in others for each in remember(vault, Memory(text)).similar]

    assert not any(each.contradicts for each in told)


def test_a_vault_lists_each_old_value_with_the_next_one(make_vault: Make, opened: Open) -> None:
    vault = opened(
        make_vault(
            {
                "notes/c.md": fact("Maria moved to Austin.", "2026-03-01"),
                "notes/a.md": fact("Maria lives in Boston.", "2026-01-01"),
                "notes/b.md": fact("Maria moved to Denver. She likes it.", "2026-02-01"),
                "notes/d.md": fact("Maria works at Acme.", "2026-04-01"),
                "sessions/s.md": fact("Maria moved to Paris.", "2026-05-01"),
            }
        )
    )
    sync_vault(vault)

    found = list_updates(vault)

    assert [(str(each.old.path), str(each.new.path), each.description) for each in found] == [
        ("notes/a.md", "notes/b.md", "city: Boston, now Denver"),
        ("notes/b.md", "notes/c.md", "city: Denver, now Austin"),
    ]


def test_curate_proposes_what_came_by_a_pull_too(make_vault: Make, opened: Open) -> None:
    notes = {
        "notes/a.md": fact("Maria lives in Boston.", "2026-01-01"),
        "notes/b.md": fact("The demo was given on 3 June 2026.", "2026-06-03"),
    }
    root = make_vault(notes)
    vault = opened(root, agent="claude")
    sync_vault(vault)
    (root / "notes/c.md").write_text(fact("Maria moved to Denver.", "2026-02-01", "codex"))
    (root / "notes/d.md").write_text(fact("The demo was given on 3 July 2026.", "2026-07-03"))
    sync_vault(vault)

    found = [each for each in curate(vault).proposals if each.into]

    assert [(each.path, each.into) for each in found] == [("notes/a.md", "notes/c.md")]
    assert found[0].evidence == ("update: Boston here, Denver there",)


LONG = "Maria lives in Boston. She plays the cello."


def test_an_update_of_a_part_leaves_the_rest_of_the_note(make_vault: Make, opened: Open) -> None:
    root = make_vault({})
    vault = opened(root, agent="claude")
    old = remember(vault, Memory(LONG)).path
    done = remember(vault, Memory("Maria moved to Denver."))
    assert [each.says_more for each in done.similar if each.contradicts] == [True]
    save_checkpoint(vault, "said")
    person = opened(root)
    sync_vault(person)
    (waits,) = list_queue(person).proposals
    assert waits.evidence[-1] == "it has more, and stays: She plays the cello."

    decided = decide(person, waits, ProposalChoice.ACCEPT)

    assert decided.message == PART
    assert [subject for _, subject in decided.report.commits] == [
        "supersede: maria-lives-in-boston..., in part, by maria-moved-to-denver"
    ]
    sync_vault(person)
    assert {each.state for each in person.view.records()} == {"active"}
    assert list_queue(person).proposals == ()
    assert read_property(root, done.path, "supersedes_part") == (f"[[{Path(old).stem}]]",)
    assert read_property(root, done.path, "contradicts") is None
    assert read_property(root, old, "valid_until") is None
    text = make_pack(person, "Where does Maria live?").text
    assert "it supersedes a part of the other" in text
    assert text.index("moved to Denver") < text.index("lives in Boston")
    assert "She plays the cello" in make_pack(person, "Who plays the cello?").text


def test_what_says_the_rest_too_replaces_the_whole_note(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault({}))
    old = remember(vault, Memory(LONG)).path
    new = remember(vault, Memory("Maria moved to Denver. She plays the cello."), force=True).path
    sync_vault(vault)
    (waits,) = list_queue(vault).proposals
    decide(vault, waits, ProposalChoice.ACCEPT)
    assert read_property(vault.root, old, "state") == "deprecated"
    assert supersede_note(vault, old, new).unsaid == ()


@pytest.mark.parametrize(
    ("one", "other", "left"),
    [
        ("CI runs on Jenkins.", "CI runs on GitHub Actions.", []),
        ("The site is down.", "The site is up again.", []),
        ("# Tracker\n\nWe use Jira.", "We switched from Jira to Linear.", []),
        ("We use Jira. Ole owns it.", "We switched from Jira to Linear.", ["Ole owns it."]),
    ],
)
def test_what_a_note_says_besides_is_the_same_whichever_gives_way(
    one: str, other: str, left: list[str]
) -> None:
    older, newer = (parse_note(PurePosixPath("n.md"), each.encode()) for each in (one, other))
    assert list_untrusted(older, KnownText(other)) == left
    assert list_untrusted(newer, KnownText(one)) == []


def test_two_of_which_somebody_said_that_both_hold_are_left(make_vault: Make, opened: Open) -> None:
    newer = fact("Maria moved to Denver.", "2026-02-01")
    newer = newer.replace("---\n\n", "differs_from:\n  - '[[a|where she lived]]'\n---\n\n")
    notes = {"notes/a.md": fact("Maria lives in Boston.", "2026-01-01"), "notes/b.md": newer}
    vault = opened(make_vault(notes))
    sync_vault(vault)

    assert list_updates(vault)
    assert list_updates(vault, read_apart(vault)) == []
    assert curate(vault).proposals == ()


@pytest.fixture
def moved(make_vault: Make, opened: Open) -> Vault:
    """A vault in which one value took the place of another, among other notes."""
    notes = {
        "notes/a.md": fact("Maria lives in Boston.", "2026-01-01"),
        "notes/b.md": fact("Maria moved to Denver.", "2026-06-10"),
        "notes/c.md": fact("Karin wohnt in Bremen.", "2025-03-01"),
        "notes/d.md": fact("Karin ist nach Leipzig gezogen.", "2026-02-01"),
        "notes/e.md": fact("Maria works at Acme.", "2026-01-01"),
    }
    vault = opened(make_vault(notes), agent="claude")
    sync_vault(vault)
    supersede_note(vault, "notes/a.md", "notes/b.md")
    supersede_note(vault, "notes/c.md", "notes/d.md")
    return vault


def ask(vault: Vault, question: str, note_filter: NoteFilter | None = None) -> list[str]:
    query = parse_query(question, 5, note_filter)
    _, hits = find_hits(VaultSet([vault]), query, 5, by_note=True)
    return [hit.record.path for hit in hits]


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Where did Maria live before June 2026?", "notes/a.md"),
        ("Where did Maria live in February 2026?", "notes/a.md"),
        ("Wo hat Karin vor Januar 2026 gewohnt?", "notes/c.md"),
        ("Wo wohnte Karin am 03.05.2025?", "notes/c.md"),
        ("Wo wohnte Karin fr\u00fcher?", "notes/c.md"),
    ],
)
def test_a_question_about_the_past_finds_what_held_then(
    moved: Vault, question: str, first: str
) -> None:
    assert ask(moved, question)[0] == first


def test_what_held_then_stands_before_what_replaced_it(moved: Vault) -> None:
    found = ask(moved, "Where did Maria live previously?")

    assert found.index("notes/a.md") + 1 == found.index("notes/b.md")


@pytest.mark.parametrize(
    "question",
    ["Where does Maria live?", "Where did Maria live before 2025?", "Maria Denver in July 2026"],
)
def test_other_questions_find_what_holds_now(moved: Vault, question: str) -> None:
    assert "notes/a.md" not in ask(moved, question)


def test_what_held_then_says_when_in_a_pack_too(moved: Vault) -> None:
    text = make_pack(moved, "Where did Maria live before June 2026?").text

    assert "held from 2026-01-01 until 2026-06-10" in text
    assert "Maria lives in Boston." in text


def test_a_filter_by_state_is_kept(moved: Vault) -> None:
    question = "Where did Maria live before June 2026?"

    assert "notes/a.md" not in ask(
        moved, question, NoteFilter(states=frozenset({NoteState.ACTIVE}))
    )


def test_a_pack_shows_both_in_their_order_where_nobody_decided(
    make_vault: Make, opened: Open
) -> None:
    newer = fact("Maria moved to Denver.", "2026-06-10")
    newer = newer.replace("---\n\n", "contradicts:\n  - '[[notes/a]]'\n---\n\n")
    notes = {"notes/a.md": fact("Maria lives in Boston.", "2026-01-01"), "notes/b.md": newer}
    vault = opened(make_vault(notes))
    sync_vault(vault)

    text = make_pack(vault, "Where does Maria live?").text

    assert re.search(r"In conflict: \[\w+\] counts more than \[\w+\], it is later\.", text)
    assert text.index("lives in Boston") < text.index("moved to Denver")
