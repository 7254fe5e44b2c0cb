"""Vaults in several shards answer as they do in one: to the last bit, whatever the division."""

from __future__ import annotations

import pickle
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support import git, write_notes

from vaultmem.core.blob import blob_id
from vaultmem.core.finding.query import NoteFilter
from vaultmem.errors import FaultError, NoteNotFoundError, VaultError
from vaultmem.services.finding.ask import Answer, Ask, ask
from vaultmem.services.finding.ask_pack import AskPack, PackAnswer, ask_pack
from vaultmem.services.pools.engine import LATE
from vaultmem.services.pools.scatter import (
    Scattered,
    ask_scattered,
    pack_scattered,
    recall_scattered,
)
from vaultmem.vault import Vault, VaultSettings

Make = Callable[..., Path]
Open = Callable[..., Vault]

#: Opens a vault of the world by its name.
World = Callable[[str], Vault]

_WORDS = [
    *("harbour", "gangway", "ferry", "token", "rotation", "invoice", "ledger", "tide", "cargo"),
    *("crane", "berth", "pilot", "weekly", "key", "signal", "mooring", "captain", "customs"),
]
_NAMES = ["amber", "birch", "cedar", "dune"]
_NOW = 1_785_000_000.0
_DIED, _FORGOT, _GONE = "its process ended", "it was begun anew", "not here"


def make_notes(number: int) -> dict[str, str]:
    """Return notes of a vault: some as in another, of one session or tag, replaced, said, long."""
    rng = random.Random(number)
    begins = "supersedes: ['[[old]]']\nvalid_from: 2026-02-01"
    notes = {
        "notes/same.md": "---\ncreated: 2026-03-01\n---\n# Same\n\nThe pilot of every harbour.\n",
        "notes/links.md": "# Links\n\n- [[Ferry]]\n- [[Crane signal]]\n",
        "notes/old.md": "---\nstate: deprecated\nvalid_until: 2026-02-01\n---\nThe captain: Ada.\n",
        "notes/new.md": f"---\n{begins}\n---\nThe captain: Bo.\n",
    }
    for each in range(14):
        words = " ".join(rng.choices(_WORDS, k=rng.choice([5, 30, 200])))
        kept = "kind: semantic_fact\nstate: archived\n" if each % 6 == 5 else ""
        day, tag = rng.randint(1, 28), rng.choice(["port", "money"])
        head = f"{kept}created: 2026-03-{day:02}\ntags: [{tag}]\nsession: s{each % 4}\n"
        more = f"\n## {rng.choice(_WORDS)}\n\n{' '.join(rng.choices(_WORDS, k=30))}\n" * 2
        said = "Maren: " if each % 5 == 1 else f"# {rng.choice(_WORDS)} {each}\n\n"
        rest = more if each % 4 == 0 else ""
        notes[f"notes/{rng.choice('ab')}/n{each}.md"] = f"---\n{head}---\n{said}{words}.\n{rest}"
    return notes


def shorten(root: Path) -> None:
    """Leave a note of which many sections were made one, with where its full text is."""
    full = "# A day\n\nThe winch.\n\n## Ferry\n\nThe winch broke.\n\n## Crane\n\nThe winch again.\n"
    write_notes(root, {"notes/day.md": full})
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "a day")
    there = f"{blob_id(full.encode())[:12]}@{git(root, 'rev-parse', '--short=7', 'HEAD')}"
    write_notes(root, {"notes/day.md": f"---\nfull_text: {there}\n---\n# A day\n\nThe winch.\n"})


class Shards:
    """An engine whose shards are folders of this process; all that goes there and back pickles.

    `fails` says by shard at which of its calls what happens to it.
    """

    def __init__(self, open_one: World, division: Sequence[int]) -> None:
        self.names = _NAMES[: len(division)]
        self.division = dict(zip(self.names, division, strict=True))
        self.shards = len(set(division))
        self.sent: list[int] = []
        self.fails: dict[int, tuple[int, str]] = {}
        self._made = [Folders(open_one) for _ in range(self.shards)]

    def place(self, names: Sequence[str]) -> list[tuple[int, list[str]]]:
        found: dict[int, list[str]] = {}
        for name in names:
            found.setdefault(self.division[name], []).append(name)
        return sorted(found.items())

    def submit(self, shard: int, work: Callable[..., Any], *args: Any) -> Future[Any]:
        done: Future[Any] = Future()
        left, how = self.fails.get(shard, (99, ""))
        self.fails[shard] = left - 1, how
        if left < 1 and how == LATE:
            return done
        if left < 1 and how == _DIED:
            done.set_exception(FaultError(how))
            return done
        if left == 0 and how == _FORGOT:
            self._made[shard].questions.clear()
        there, *given = pickle.loads(pickle.dumps((work, *args)))
        try:
            told = pickle.dumps(there(self._made[shard], *given))
        except VaultError as error:
            done.set_exception(error)
            return done
        self.sent.append(len(told))
        done.set_result(pickle.loads(told))
        return done

    submit_write = submit

    def close(self) -> None:
        """Nothing is open."""


class Folders:
    """What a question uses of a shard."""

    def __init__(self, open_one: World) -> None:
        self.questions: dict[str, Any] = {}
        self._open = open_one

    def group(self, names: Sequence[str], _: VaultSettings, missing: dict[str, str]) -> Vault:
        opened: list[Vault] = []
        for name in names:
            try:
                opened.append(self._open(name))
            except FaultError as error:
                missing[name] = str(error)
        if not opened:
            raise VaultError("none")
        opened[0].beside, opened[0].apart = tuple(opened[1:]), True
        return opened[0]


@pytest.fixture
def world(make_vault: Make, opened: Open) -> World:
    """Return what opens a vault of many by its name; one is none."""
    roots = {name: make_vault(make_notes(n), name) for n, name in enumerate(_NAMES)}
    shorten(roots["cedar"])
    known: dict[str, Vault] = {}

    def open_one(name: str) -> Vault:
        if name not in roots or not roots[name].is_dir():
            raise FaultError(_GONE)
        vault = opened(roots[name], now=lambda: _NOW)
        if name in known:
            vault.share_storage(known[name])
        known.setdefault(name, vault).name = vault.name = name
        return vault

    return open_one


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
    Ask(" ".join(f"{a} {b}x" for a in _WORDS for b in _WORDS[:6]), counts=False),
    Ask("nothing of that", counts=False),
]


def test_several_shards_answer_as_one(world: World) -> None:
    answers = {asked: ask_one(world, _NAMES, asked) for asked in _ASKED}
    for division in ([0, 1, 0, 1], [2, 0, 1, 0]):
        shards = Shards(world, division)
        for asked, expected in answers.items():
            assert ask_over(shards, asked) == (expected, {})
        assert 20_000 < max(shards.sent) < 150_000
    hits = [hit for answer in answers.values() for hit in answer.hits]
    for part in ("closeness", "passage", "neighbours", "recency", "named", "also", "replaces"):
        assert any(getattr(hit, part) for hit in hits), part
    assert {hit.record.state for hit in hits} >= {"active", "archived", "deprecated"}
    assert {hit.vault for hit in hits} == {*_NAMES}
    assert sum(bool(answer.replaced) for answer in answers.values()) == 2


def test_a_pack_over_several_shards_is_that_of_one(world: World) -> None:
    asked = AskPack("weekly key rotation of a ferry", 900, receipt=False, counts=False)
    expected = ask_pack(Folders(world).group(_NAMES, {}, {}), asked)

    def answer(reach: Scattered) -> PackAnswer:
        return pack_scattered(reach, asked, {})

    assert ask_scattered(Shards(world, [0, 1, 2, 1]), _NAMES, answer, {}) == (expected, {})


def test_who_does_not_answer_counts_nowhere_and_is_named(world: World) -> None:
    asked = Ask("gangway ferry", counts=False)
    expected = ask_one(world, ["amber", "cedar", "dune"], asked)
    for call, why in product(range(4), [LATE, _DIED]):
        shards = Shards(world, [0, 1, 0, 2])
        shards.fails[1] = call, why
        assert ask_over(shards, asked) == (expected, {"birch": why})
    shutil.rmtree(world("birch").root)
    assert ask_over(Shards(world, [0, 1, 0, 1]), asked) == (expected, {"birch": _GONE})
    with pytest.raises(VaultError, match=f"birch: {_GONE}"):
        ask_over(Shards(world, [0, 1, 0, 1]), asked, ["birch"])
    with pytest.raises(NoteNotFoundError, match="nowhere"):
        ask_over(Shards(world, [0, 1, 0, 1]), asked._replace(at="nowhere"))


def test_a_shard_that_was_begun_anew_is_asked_again_from_the_beginning(world: World) -> None:
    shards = Shards(world, [0, 1, 0, 1])
    shards.fails[1] = 2, _FORGOT
    asked = Ask("gangway ferry", counts=False)
    assert ask_over(shards, asked) == (ask_one(world, _NAMES, asked), {})
