"""Several vaults asked as one: the same hits with the same scores, each with its vault."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import write_notes
from vaultmem.services.finding.any_question import recall_any
from vaultmem.services.finding.together import choose_parts

from vaultmem.core.finding.query import NoteFilter, parse_query
from vaultmem.core.finding.statistics import Statistics, add_statistics
from vaultmem.core.finding.weights import WEIGHTS
from vaultmem.core.notes.record import find_place
from vaultmem.core.packs.division import name_vaults, share_room
from vaultmem.services.finding import plain_words
from vaultmem.services.finding.ask import Ask, run_query
from vaultmem.services.finding.ask_pack import AskPack, ask_pack
from vaultmem.services.finding.eligible import choose_sections
from vaultmem.services.finding.recall import recall
from vaultmem.services.finding.receipts import replay_receipt
from vaultmem.services.finding.trust import trust_vault
from vaultmem.vault import Vault

Make = Callable[..., Path]
Open = Callable[..., Vault]

_WORDS = [
    *("harbour", "gangway", "ferry", "token", "rotation", "invoice", "ledger", "tide", "cargo"),
    *("crane", "berth", "pilot", "weekly", "key", "signal", "mooring", "captain", "customs"),
]


def make_notes(count: int) -> dict[str, str]:
    """Return notes of random words: some of one session or tag, some alike, some with headings."""
    rng = random.Random(7)
    notes = {}
    for number in range(count):
        words = " ".join(rng.choices(_WORDS, k=rng.randint(4, 60)))
        tag, day = rng.choice(["port", "money", "crew"]), rng.randint(1, 28)
        head = f"created: 2026-03-{day:02}\ntags: [{tag}]\nsession: s{number % 9}\n"
        more = f"\n## {rng.choice(_WORDS)}\n\n{' '.join(rng.choices(_WORDS, k=30))}\n"
        body = f"# {rng.choice(_WORDS)} {number}\n\n{words}.\n{more if number % 5 == 0 else ''}"
        notes[f"notes/{rng.choice('abc')}/n{number}.md"] = f"---\n{head}---\n{body}"
    return notes


def make_empty(make_vault: Make, name: str) -> Path:
    """Return a vault without the notes that each has from the beginning."""
    root = make_vault({}, name)
    for file in root.glob("*.md"):
        file.unlink()
    return root


@pytest.fixture
def split(make_vault: Make, opened: Open) -> tuple[Vault, Vault]:
    """Return a vault of all notes, and the first of four that have them dealt out at random."""
    notes = make_notes(120)
    dealt = random.Random(3).sample(sorted(notes), len(notes))
    one = opened(make_empty(make_vault, "one"))
    write_notes(one.root, notes)
    many = []
    for number in range(4):
        vault = opened(make_empty(make_vault, f"part{number}"))
        write_notes(vault.root, {path: notes[path] for path in dealt[number::4]})
        vault.name = vault.root.name
        many.append(vault)
    many[0].beside = tuple(many[1:])
    return one, many[0]


def describe(hits: list[Any]) -> list[Any]:
    return [
        (
            h.record.path,
            h.section.ordinal,
            round(h.score, 4),
            round(h.coverage, 4),
            h.also,
            h.replaces,
        )
        for h in hits
    ]


@pytest.mark.parametrize(
    "question",
    ["gangway ferry", "weekly key rotation of tokens", "customs", "who is the captain", "harbuor"],
)
def test_several_vaults_answer_as_one_of_all_their_notes(
    split: tuple[Vault, Vault], question: str
) -> None:
    one, many = split
    query = parse_query(question, 12)
    for by_note in (True, False):
        asked, expected = recall_any(one, query, by_note=by_note)
        said, found = recall_any(many, query, by_note=by_note)
        assert describe(found) == describe(expected) != []
        assert said.replaced == asked.replaced


def test_what_is_apart_has_the_neighbours_that_each_vault_has_by_itself(
    split: tuple[Vault, Vault],
) -> None:
    _, many = split

    def count_lifted() -> int:
        return sum(hit.neighbours > 0 for hit in recall(many, parse_query("gangway ferry", 50)))

    crossing = count_lifted()
    many.apart = True
    assert 0 < count_lifted() < crossing
    found = choose_parts(many, NoteFilter())
    assert found is not None
    assert found.eligible.neighbours is not None
    for part in found.parts:
        own = choose_sections(part.vault, part.snapshot, NoteFilter()).neighbours
        rows = found.eligible.neighbours[:, part.first : part.first + part.snapshot.size]
        assert own is not None
        assert (np.where(rows < 0, rows, rows - part.first) == own).all()


def test_a_question_of_common_words_reads_no_more_of_several_vaults(
    split: tuple[Vault, Vault], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, many = split
    monkeypatch.setattr(plain_words, "_SECTIONS", 40)
    read = []
    whole = plain_words.read_section
    monkeypatch.setattr(
        plain_words, "read_section", lambda *given: read.append(given[0].root) or whole(*given)
    )
    recall_any(one, parse_query("who is it"))
    assert len(read) == 40
    recall(many, parse_query("gangway"))  # All are in sync then.
    read.clear()
    recall_any(many, parse_query("who is it"))
    assert Counter(read) == {each.root: 10 for each in many.together}


def test_each_hit_names_its_vault_and_is_read_there(split: tuple[Vault, Vault]) -> None:
    _, many = split
    hits = recall(many, parse_query("gangway", 12))
    assert {hit.vault for hit in hits} == {each.name for each in many.together}
    for hit in hits:
        own = many.together[find_place(hit.record.document)]
        assert hit.vault == own.name
        assert (own.root / hit.record.path).is_file()
        assert hit.address.startswith(f"{own.name}:notes/")
    assert len({hit.record.document for hit in hits}) > 1


def test_what_changes_in_one_of_them_is_found_by_the_next_question(
    split: tuple[Vault, Vault],
) -> None:
    _, many = split
    last = many.beside[-1]
    assert not recall(many, parse_query("stowaway"))
    write_notes(last.root, {"notes/new.md": "A stowaway came aboard.\n"})
    last.state.kept.pop("in_sync", None)
    assert [hit.vault for hit in recall(many, parse_query("stowaway"))] == [last.name]


def test_a_recall_is_counted_where_something_is_shown_and_in_the_first(
    split: tuple[Vault, Vault],
) -> None:
    from vaultmem.storage.signals import SignalStore

    _, many = split
    answer = run_query(many, Ask("gangway", 2))
    shown = {hit.vault for hit in answer.hits}
    assert shown < {each.name for each in many.together}
    for each in many.together:
        own = {hit.record.path for hit in answer.hits if hit.vault == each.name}
        store = SignalStore(each.state, each.state_folder)
        store.fold(0, 0.0)
        counted = each.state.query("SELECT DISTINCT path FROM signals")
        assert {path for (path,) in counted} == own
        calls = sum(count for (count,) in each.state.query("SELECT count(*) FROM calls"))
        assert calls == (each.name in shown or each is many)


@pytest.mark.parametrize(
    ("many", "named"), [(2, "v0, v1"), (12, "v10, v11"), (1012, "v10, v11 and 1,000 more")]
)
def test_of_many_vaults_a_pack_names_the_first(many: int, named: str) -> None:
    assert name_vaults([f"v{number}" for number in range(many)]).endswith(named)


def test_figures_of_vaults_add_up() -> None:
    one = Statistics(3, (4, 2, 19), 5.0, {"a": 1})
    parts = [one, Statistics(1, (1, 6, 39), 9.0, {"a": 1, "b": 1})]
    assert add_statistics(parts) == Statistics(4, (5, 8, 58), 9.0, {"a": 2, "b": 1})
    assert add_statistics(parts).mean(WEIGHTS) == (2 * 5 + 1.5 * 8 + 58) / 4


@pytest.mark.parametrize(
    ("needs", "room", "shares"),
    [([10, 10], 100, [10, 10]), ([80, 80], 100, [50, 50]), ([10, 500, 200], 100, [10, 45, 45])],
)
def test_room_is_shared_by_need(needs: list[int], room: int, shares: list[int]) -> None:
    assert share_room(needs, room) == shares


@pytest.fixture
def pair(make_vault: Make, opened: Open) -> Vault:
    """Return a project's vault with a personal one beside it; both have pinned notes and rules."""
    rule = "---\nkind: policy\npinned: true\n---\n# {0} rule\n\nAlways {1}.\n"
    project = make_vault(
        {
            "notes/deploys.md": "# Deploys\n\nWe deploy the ferry on Tuesdays.\n",
            "notes/rule.md": rule.format("Project", "rebase before a deploy"),
            "notes/pins.md": "---\npinned: true\n---\n" + "The project's long pinned text. " * 90,
        },
        "project",
    )
    memory = make_vault(
        {
            "notes/ferry.md": "# Ferry\n\nI never deploy the ferry on a Friday.\n",
            "notes/rule.md": rule.format("My", "answer in French"),
        },
        "memory",
    )
    first, second = opened(project, agent="claude"), opened(memory, agent="claude")
    for each in (project, memory):
        trust_vault(opened(each))
    second.name = "memory"
    first.beside = (second,)
    return first


def test_a_pack_shares_its_budget_and_names_the_other_vault(pair: Vault) -> None:
    answer = ask_pack(pair, AskPack("deploy the ferry", 700))
    text = answer.pack.text
    assert "Tuesdays" in text
    assert "Friday" in text
    assert "Also of memory" in text
    assert "[memory:" in text
    assert "answer in French" in text, "the other vault's pin has a share of its own"
    assert "rebase before a deploy" in text
    assert answer.pack.account.sent <= 700
    assert {item.hit.vault for item in answer.pack.items} == {"", "memory"}


def test_receipts_keep_apart_what_is_of_which_vault(pair: Vault) -> None:
    answer = ask_pack(pair, AskPack("deploy the ferry", 700))
    memory = pair.beside[0]
    ours, theirs = replay_receipt(pair, answer.receipt), replay_receipt(memory, answer.receipt)
    assert "Tuesdays" in ours.text
    assert "Friday" not in ours.text
    assert "Friday" in theirs.text
    assert "Tuesdays" not in theirs.text
    assert "what a pack over 2 vaults showed of this one" in ours.text
    stored = pair.receipts.read(answer.receipt)
    assert "French" not in stored
    assert "memory" not in stored
