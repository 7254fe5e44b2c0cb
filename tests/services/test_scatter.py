"""Vaults in several shards answer as they do in one: to the last bit, whatever the division."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from shards import DIED, FORGOT, GONE, NAMES, WORDS, Folders, Make, Open, Shards, World, make_world

from vaultmem.core.finding.query import NoteFilter
from vaultmem.errors import NoteNotFoundError, VaultError
from vaultmem.services.finding.ask import Answer, Ask, ask
from vaultmem.services.pools.engine import LATE
from vaultmem.services.pools.scatter import (
    Scattered,
    ask_scattered,
    recall_scattered,
)


@pytest.fixture
def world(make_vault: Make, opened: Open) -> World:
    return make_world(make_vault, opened)


def ask_one(world: World, names: Sequence[str], asked: Ask) -> Answer:
    """Return the answer of vaults in one process, which are apart."""
    group = Folders(world).group(names, {}, {})
    return ask(group, asked)


def ask_over(
    shards: Shards, asked: Ask, names: Sequence[str] = ()
) -> tuple[Answer, Mapping[str, str]]:
    def answer(reach: Scattered) -> Answer:
        return recall_scattered(reach, asked, {})

    return ask_scattered(shards, names or shards.names, answer, {}, 0.01, asked.at, asked.refs)


_QUESTIONS = [
    *("gangway ferry", "weekly key rotation of tokens", "harbuor pilott", "the winch", "captan"),
    *("who was the captain in January 2026", "Maren customs customs berth", "who is it", "same"),
]
_ASKED = [
    *(Ask(question, counts=False) for question in _QUESTIONS),
    Ask("gangway ferry", 40, counts=False),
    Ask("the winch", 3, by_section=True, counts=False),
    Ask("ferry token", 4, 5, expand_links=True, suggests=True, counts=False),
    Ask("crane", filter=NoteFilter(tags=("port",), session="s1"), counts=False),
    Ask("captain", filter=NoteFilter(any_state=True), counts=False),
    Ask(" ".join(f"{a} {b}x" for a in WORDS for b in WORDS[:6]), counts=False),
    Ask("nothing of that", counts=False),
]


@pytest.mark.campaign
def test_several_shards_answer_as_one(world: World) -> None:
    answers = {asked: ask_one(world, NAMES, asked) for asked in _ASKED}
    for division in ([0, 1, 0, 1], [2, 0, 1, 0]):
        shards = Shards(world, division)
        for asked, expected in answers.items():
            assert ask_over(shards, asked) == (expected, {})
        assert 20_000 < max(shards.sent) < 150_000
    hits = [hit for answer in answers.values() for hit in answer.hits]
    for part in ("closeness", "passage", "neighbours", "recency", "named", "also", "replaces"):
        assert any(getattr(hit, part) for hit in hits), part
    assert {hit.record.state for hit in hits} >= {"active", "archived", "deprecated"}
    assert {hit.vault for hit in hits} == {*NAMES}
    assert sum(bool(answer.replaced) for answer in answers.values()) == 2


@pytest.mark.campaign
def test_who_does_not_answer_counts_nowhere_and_is_named(world: World) -> None:
    asked = Ask("gangway ferry", counts=False)
    expected = ask_one(world, ["amber", "cedar", "dune"], asked)
    for call, why in product(range(4), [LATE, DIED]):
        shards = Shards(world, [0, 1, 0, 2])
        shards.fails[1] = call, why
        assert ask_over(shards, asked) == (expected, {"birch": why})
    shutil.rmtree(world("birch").root)
    assert ask_over(Shards(world, [0, 1, 0, 1]), asked) == (expected, {"birch": GONE})
    with pytest.raises(VaultError, match=rf"birch \({GONE}\)"):
        ask_over(Shards(world, [0, 1, 0, 1]), asked, ["birch"])
    with pytest.raises(NoteNotFoundError, match="nowhere"):
        ask_over(Shards(world, [0, 1, 0, 1]), asked._replace(at="nowhere"))


def test_a_shard_that_was_begun_anew_is_asked_again_from_the_beginning(world: World) -> None:
    shards = Shards(world, [0, 1, 0, 1])
    shards.fails[1] = 2, FORGOT
    asked = Ask("gangway ferry", counts=False)
    assert ask_over(shards, asked) == (ask_one(world, NAMES, asked), {})
    shards.forgets = True
    answer, missing = ask_over(shards, asked)
    assert {*missing} == {"birch", "dune"}
    assert answer == ask_one(world, ["amber", "cedar"], asked)
