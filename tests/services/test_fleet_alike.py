"""Notes of many vaults compared: as `curate` compares them in one vault that has them all."""

from collections.abc import Callable
from pathlib import Path

import pytest
from remote_vaults import Remotes, Told

from vaultmem.services.fleet.jobs import (
    DifferingStatements,
    FleetComparison,
    JobOptions,
    compare_all,
)
from vaultmem.services.fleet.pool import LocalPool
from vaultmem.services.similarity.pairs import Pair, compare_vault
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.value_store import JobResultCache
from vaultmem.vault import Vault

NOW = 1_790_000_000

#: By name: the vault, the day it was written, and the text.
NOTES = {
    "refund": ("crew", 1, "Refunds over 50 euros need the approval of two people."),
    "refund-again": ("pier", 2, "Refunds over 50 euros need the approval of two people!"),
    "refund-limit": ("pier", 3, "Refunds over 80 euros need the approval of two people."),
    "maria": ("crew", 4, "Maria lives in Boston."),
    "maria-moved": ("tide", 5, "Maria moved to Denver."),
    "backup": ("tide", 6, "The nightly backup of the harbour database starts at half past two."),
    "backup-told": ("crew", 7, "The nightly harbour database backup starts at half past two."),
    "own": ("pier", 8, "Gangway seven is closed while it rains."),
    "own-again": ("pier", 9, "Gangway seven is closed while it rains."),
    "alone": ("tide", 10, "Kestrels nest in the old crane."),
}


def _write(name: str) -> tuple[str, str]:
    vault, day, text = NOTES[name]
    about = f"title: {text!r}\ncreated: 2026-08-{day:02}\nagent: {vault}-bot"
    return f"notes/{name}.md", f"---\n{about}\n---\n{text}\n"


@pytest.fixture
def remotes(tmp_path: Path) -> Remotes:
    """Three vaults with the notes of each."""
    made = Remotes(tmp_path / "remotes")
    for vault in ("crew", "pier", "tide"):
        notes = dict(_write(name) for name, (own, _, _) in NOTES.items() if own == vault)
        made.make(vault, Told(f"{vault}-bot", notes, NOW))
    return made


def _compare(remotes: Remotes, folder: Path) -> FleetComparison:
    pool = LocalPool(remotes.sources, folder, fresh_for=0)
    kept = JobResultCache(folder, NOW)
    found = compare_all(pool, [], JobOptions(kept))
    pool.close()
    return found


def _list_crossing(pairs: tuple[Pair, ...]) -> set[frozenset[str]]:
    """Return the pairs of one vault of all notes whose sides are of several vaults."""
    names = (frozenset(Path(path).stem for path in pair.names) for pair in pairs)
    return {pair for pair in names if len({NOTES[name][0] for name in pair}) > 1}


def _list_pairs(
    found: FleetComparison, pairs: tuple[DifferingStatements, ...]
) -> set[frozenset[str]]:
    """Return the names of both sides of each pair, with all notes that state the same."""
    copies = [{Path(each.path).stem for each in group} for group in found.same]

    def spread(path: str) -> set[str]:
        return next((group for group in copies if Path(path).stem in group), {Path(path).stem})

    sides = ((spread(pair.older.path), spread(pair.newer.path)) for pair in pairs)
    return {frozenset((a, b)) for ours, theirs in sides for a in ours for b in theirs}


@pytest.mark.campaign
def test_vaults_are_compared_as_one_would_be(
    remotes: Remotes,
    make_vault: Callable[..., Path],
    opened: Callable[..., Vault],
    tmp_path: Path,
) -> None:
    whole = opened(make_vault(dict(map(_write, NOTES))))
    sync_vault(whole)
    expected = compare_vault(whole)
    found = _compare(remotes, tmp_path / "pool")
    assert (found.vaults, found.notes, found.run_count, found.missing) == (3, 10, 3, {})
    assert [[(e.vault, e.agent) for e in group] for group in found.same] == [
        [("crew", "crew-bot"), ("pier", "pier-bot")]
    ]
    for mine, theirs in (
        (found.near, expected.similar),
        (found.contradicting, expected.contradictions),
    ):
        crossing = {pair for pair in _list_pairs(found, mine) if _crosses(pair)}
        assert crossing == _list_crossing(theirs) != set()
    update = next(e for e in found.contradicting if e.older.path == "notes/maria.md")
    assert (update.newer.vault, update.differences) == ("tide", (("update", "Boston", "Denver"),))


def _crosses(pair: frozenset[str]) -> bool:
    return len({NOTES[name][0] for name in pair}) > 1


@pytest.mark.campaign
def test_a_second_comparison_asks_the_vaults_that_changed(remotes: Remotes, tmp_path: Path) -> None:
    before = _compare(remotes, tmp_path / "pool")
    assert _compare(remotes, tmp_path / "pool") == before._replace(asked=0)
    text = NOTES["backup"][2].replace("half past two", "three")
    remotes.add("tide", Told("tide-bot", {"notes/backup.md": text}, NOW + 9))
    after = _compare(remotes, tmp_path / "pool")
    assert (after.run_count, after.near) == (1, ())
    assert len(after.contradicting) == len(before.contradicting)
