"""Several vaults asked as one: the same hits with the same scores, each with its vault."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import Make, Open
from support import write_notes

from vaultmem.core.packs.vault_parts import label_vaults
from vaultmem.core.search.query import Hit, Statistics, add_statistics, parse_query
from vaultmem.core.text.token_count import share_room
from vaultmem.services.packs.build import AskPack, ask_pack
from vaultmem.services.packs.receipts import replay_receipt
from vaultmem.services.search import search as search_module
from vaultmem.services.search.recall import find_hits
from vaultmem.services.search.run_query import Query, run_query
from vaultmem.services.search.trusted import trust_vault
from vaultmem.services.search.vault_set import VaultSet
from vaultmem.vault import Vault

_WORDS = [
    *("harbour", "gangway", "ferry", "token", "rotation", "invoice", "ledger", "tide", "cargo"),
    *("crane", "berth", "pilot", "weekly", "key", "signal", "mooring", "captain", "customs"),
]


def make_notes(count: int, *, linked: bool = False) -> dict[str, str]:
    """Return notes of random words, some with headings; `linked` ones have dates and sessions."""
    rng = random.Random(7)
    notes = {}
    for number in range(count):
        words = " ".join(rng.choices(_WORDS, k=rng.randint(4, 60)))
        tag, day = rng.choice(["port", "money", "crew"]), rng.randint(1, 28)
        head = f"created: 2026-03-{day:02}\ntags: [{tag}]\nsession: s{number % 9}\n"
        more = f"\n## {rng.choice(_WORDS)}\n\n{' '.join(rng.choices(_WORDS, k=30))}\n"
        body = f"# {rng.choice(_WORDS)} {number}\n\n{words}.\n{more if number % 5 == 0 else ''}"
        front = f"---\n{head}---\n" if linked else ""
        notes[f"notes/{rng.choice('abc')}/n{number}.md"] = f"{front}{body}"
    return notes


def make_empty(make_vault: Make, name: str) -> Path:
    """Return a vault without the notes that each has from the beginning."""
    root = make_vault({}, name)
    for file in root.glob("*.md"):
        file.unlink()
    return root


class Split(NamedTuple):
    """A vault of all notes, and four that have them dealt out at random."""

    one: VaultSet
    many: VaultSet


def deal(make_vault: Make, opened: Open, notes: dict[str, str]) -> Split:
    """Return notes in one vault and in four, without weight for new notes."""
    dealt = random.Random(3).sample(sorted(notes), len(notes))
    made = []
    for name, paths in [("one", dealt), *((f"part{n}", dealt[n::4]) for n in range(4))]:
        vault = opened(make_empty(make_vault, name))
        vault = replace(vault, name=name, config=vault.config._replace(recency_weight=0.0))
        write_notes(vault.root, {path: notes[path] for path in paths})
        made.append(vault)
    return Split(VaultSet(made[:1]), VaultSet(made[1:]))


@pytest.fixture
def split(make_vault: Make, opened: Open) -> Split:
    return deal(make_vault, opened, make_notes(24))


def describe(hits: list[Any]) -> list[Any]:
    return [
        (
            h.record.path,
            h.section.ordinal,
            round(h.score, 4),
            round(h.coverage, 4),
            h.related_sections,
            h.replaces,
        )
        for h in hits
    ]


@pytest.mark.parametrize(
    "question",
    ["gangway ferry", "weekly key rotation of tokens", "customs", "who is the captain", "harbuor"],
)
def test_several_vaults_answer_as_one_of_all_their_notes(split: Split, question: str) -> None:
    query = parse_query(question, 12)
    for by_note in (True, False):
        asked, expected = find_hits(split.one, query, 12, by_note)
        searched, found = find_hits(split.many, query, 12, by_note)
        assert describe(found) == describe(expected) != []
        assert searched.replaced == asked.replaced


def test_neighbours_count_inside_each_vault(make_vault: Make, opened: Open) -> None:
    query = parse_query("gangway ferry", 50)
    lifted = [
        sum(hit.neighbours > 0 for hit in find_hits(vaults, query, 50)[1])
        for vaults in deal(make_vault, opened, make_notes(120, linked=True))
    ]
    assert lifted[0] > lifted[1] > 0


def test_as_many_sections_are_compared_as_of_one_vault(make_vault: Make, opened: Open) -> None:
    one, many = deal(make_vault, opened, make_notes(240))
    for question in ("gangway ferry", "harbour token rotation", "tide of cargo", "weekly"):
        query = parse_query(question)
        for by_note in (True, False):
            expected = find_hits(one, query, 10, by_note)[1]
            assert describe(find_hits(many, query, 10, by_note)[1]) == describe(expected) != []


def test_hits_below_those_of_other_vaults_are_not_read(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = parse_query("gangway ferry", 5)
    _, expected = find_hits(split.many, query, 5)
    read = []
    whole = search_module.read_section
    monkeypatch.setattr(
        search_module, "read_section", lambda *given: read.append(given[0].root) or whole(*given)
    )
    _, found = find_hits(split.many, query, 5)
    assert found == expected
    assert len(read) < 4 * 5


def test_a_question_of_stop_words_reads_only_what_it_returns(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = {"notes/who.md": "# Who is it?\n\nA pilot.\n", "notes/of.md": "He is one of us.\n"}
    vault = split.one.first
    write_notes(vault.root, notes)
    read = []
    whole = search_module.read_section
    monkeypatch.setattr(
        search_module, "read_section", lambda *given: read.append(given[2].start) or whole(*given)
    )
    query, hits = find_hits(split.one, parse_query("Who is it?", 5), 5, by_note=True)
    assert [hit.record.path for hit in hits[:2]] == ["notes/who.md", "notes/of.md"]
    assert [match.shown for match in hits[0].matches] == ["Who", "is", "it"]
    assert len(read) == len(hits) == 2
    assert query.terms == ()


def test_each_hit_names_its_vault_and_is_read_there(split: Split) -> None:
    _, hits = find_hits(split.many, parse_query("gangway", 30), 30)
    assert {hit.vault for hit in hits} == {*split.many.names}
    for hit in hits:
        assert (split.many.vaults[hit.vault].root / hit.record.path).is_file()
        assert hit.address.startswith(f"{hit.vault}:notes/")
    assert len({hit.key for hit in hits}) == len(hits)


def test_what_changes_in_one_of_them_is_found_by_the_next_question(split: Split) -> None:
    def find() -> list[Hit]:
        query = parse_query("stowaway")
        return find_hits(split.many, query, 10)[1]

    last = split.many.vaults["part3"]
    assert not find()
    write_notes(last.root, {"notes/new.md": "A stowaway came aboard.\n"})
    last.state.kept.pop("in_sync", None)
    assert [hit.vault for hit in find()] == [last.name]


def test_a_recall_is_counted_where_something_is_shown_and_in_the_first(
    split: Split,
) -> None:
    from vaultmem.storage.query_log import SignalStore

    many = split.many
    answer = run_query(many, Query("gangway", 2))
    shown = {hit.vault for hit in answer.hits}
    assert shown < {*many.names}
    for each in many.vaults.values():
        own = {hit.record.path for hit in answer.hits if hit.vault == each.name}
        store = SignalStore(each.state, each.state_folder)
        store.fold(0, 0.0)
        counted = each.state.query("SELECT DISTINCT path FROM signals")
        assert {path for (path,) in counted} == own
        calls = sum(count for (count,) in each.state.query("SELECT count(*) FROM calls"))
        assert calls == (each.name in shown or each is many.first)


@pytest.mark.parametrize(
    ("many", "named"), [(2, "v0, v1"), (12, "v10, v11"), (1012, "v10, v11 and 1,000 more")]
)
def test_of_many_vaults_a_pack_names_the_first(many: int, named: str) -> None:
    assert label_vaults([f"v{number}" for number in range(many)]).endswith(named)


def test_figures_of_vaults_add_up() -> None:
    one = Statistics(3, (4, 2, 19), 5.0, {"a": 1})
    parts = [one, Statistics(1, (1, 6, 39), 9.0, {"a": 1, "b": 1})]
    assert add_statistics(parts) == Statistics(4, (5, 8, 58), 9.0, {"a": 2, "b": 1})
    assert add_statistics(parts).mean() == (2 * 5 + 1.5 * 8 + 58) / 4


@pytest.mark.parametrize(
    ("needs", "room", "shares"),
    [([10, 10], 100, [10, 10]), ([80, 80], 100, [50, 50]), ([10, 500, 200], 100, [10, 45, 45])],
)
def test_room_is_shared_by_need(needs: list[int], room: int, shares: list[int]) -> None:
    assert share_room(needs, room) == shares


@pytest.fixture
def pair(make_vault: Make, opened: Open) -> list[Vault]:
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
    return [first, replace(second, name="memory")]


def test_a_pack_shares_its_budget_and_names_the_other_vault(pair: list[Vault]) -> None:
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


@pytest.mark.campaign
def test_receipts_keep_apart_what_is_of_which_vault(pair: list[Vault]) -> None:
    answer = ask_pack(pair, AskPack("deploy the ferry", 700))
    project, memory = pair
    ours, theirs = replay_receipt(project, answer.receipt), replay_receipt(memory, answer.receipt)
    assert "Tuesdays" in ours.text
    assert "Friday" not in ours.text
    assert "Friday" in theirs.text
    assert "Tuesdays" not in theirs.text
    assert "what a pack over 2 vaults showed of this one" in ours.text
    stored = project.store.receipts.read(answer.receipt)
    assert "French" not in stored
    assert "memory" not in stored
