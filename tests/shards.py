"""Vaults in shards of this process, where all that is asked and told is pickled on its way."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from support import git, write_notes

from vaultmem.core.blob import blob_id
from vaultmem.errors import FaultError, VaultError
from vaultmem.services.pools.engine import LATE, Way
from vaultmem.vault import Vault, VaultSettings

Make = Callable[..., Path]
Open = Callable[..., Vault]

#: Opens a vault of the world by its name.
World = Callable[[str], Vault]

WORDS = [
    *("harbour", "gangway", "ferry", "token", "rotation", "invoice", "ledger", "tide", "cargo"),
    *("crane", "berth", "pilot", "weekly", "key", "signal", "mooring", "captain", "customs"),
]
NAMES = ["amber", "birch", "cedar", "dune"]
NOW = 1_785_000_000.0
DIED, FORGOT, GONE = "its process ended", "it was begun anew", "not here"


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
        words = " ".join(rng.choices(WORDS, k=rng.choice([5, 30, 200])))
        kept = "kind: semantic_fact\nstate: archived\n" if each % 6 == 5 else ""
        day, tag = rng.randint(1, 28), rng.choice(["port", "money"])
        head = f"{kept}created: 2026-03-{day:02}\ntags: [{tag}]\nsession: s{each % 4}\n"
        more = f"\n## {rng.choice(WORDS)}\n\n{' '.join(rng.choices(WORDS, k=30))}\n" * 2
        said = "Maren: " if each % 5 == 1 else f"# {rng.choice(WORDS)} {each}\n\n"
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

    `fails` says by shard at which of its calls what happens to it; one that `forgets` does always.
    """

    def __init__(self, open_one: World, division: Sequence[int]) -> None:
        self.names = NAMES[: len(division)]
        self.division = dict(zip(self.names, division, strict=True))
        self.shards = len(set(division))
        self.sent: list[int] = []
        self.fails: dict[int, tuple[int, str]] = {}
        self.forgets = False
        self._made = [Folders(open_one) for _ in range(self.shards)]

    def place(self, names: Sequence[str]) -> list[tuple[int, list[str]]]:
        found: dict[int, list[str]] = {}
        for name in names:
            found.setdefault(self.division[name], []).append(name)
        return sorted(found.items())

    def submit(self, shard: int, work: Callable[..., Any], *args: Any, **_: Way) -> Future[Any]:
        done: Future[Any] = Future()
        left, how = self.fails.get(shard, (99, ""))
        self.fails[shard] = left - 1, how
        if left < 1 and how == LATE:
            return done
        if left < 1 and how == DIED:
            done.set_exception(FaultError(how))
            return done
        if how == FORGOT and (left == 0 or self.forgets):
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


def make_world(
    make_vault: Make, opened: Open, more: Callable[[int], dict[str, str]] = lambda _: {}
) -> World:
    """Return what opens a vault of many by its name; each has `more` notes by its number."""
    notes = {name: {**make_notes(n), **more(n)} for n, name in enumerate(NAMES)}
    roots = {name: make_vault(notes[name], name) for name in NAMES}
    shorten(roots["cedar"])
    known: dict[str, Vault] = {}

    def open_one(name: str) -> Vault:
        if name not in roots or not roots[name].is_dir():
            raise FaultError(GONE)
        vault = opened(roots[name], now=lambda: NOW)
        if name in known:
            vault.share_storage(known[name])
        known.setdefault(name, vault).name = vault.name = name
        return vault

    return open_one
