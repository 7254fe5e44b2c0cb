"""When each note was last of use on any machine, and whether a person's hand was in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.notes.values import read_timestamp
from vaultmem.services.usage import read_usage
from vaultmem.storage.git.log import walk_changes
from vaultmem.storage.signals import SignalStore
from vaultmem.vault import Vault

#: Events that change a note's state or length: they are no use of it.
_UPKEEP = frozenset({"curate", "compact", "dedup", "state", "supersede", "review"})

#: Events by which a person changes no words of a note: properties, or what others wrote.
_NO_HAND = _UPKEEP | {"promote", "merge", "take"}


class Use(NamedTuple):
    """When a note was last written or recalled, and how often it was recalled; 0 for never.

    Times are in seconds since the epoch. `by_person` tells that a person wrote or edited it.
    """

    written: float
    recalled: float
    times: int
    by_person: bool

    @property
    def last(self) -> float:
        """The last access."""
        return max(self.written, self.recalled)

    def idle_days(self, now: float) -> float:
        """Return the days since the last access."""
        return max(0.0, now - self.last) / 86_400


def read_uses(vault: Vault, records: Iterable[NoteRecord]) -> dict[str, Use]:
    """Return the use of each of these notes by path; the vault must be in sync.

    What an upkeep of vaultmem's own did to a note (curate, compact, ...) does not count.
    """
    SignalStore(vault.state, vault.state_folder).fold(vault.view.totals()[1])
    surfaced = read_usage(vault)
    changed, by_person = _read_history(vault)
    uses = {}
    for record in records:
        path = record.path
        said = read_timestamp(record.updated or record.created)
        known = [at for at in (said, changed.get(path)) if at is not None]
        recall = surfaced.get(path)
        uses[path] = Use(
            max(known) if known else record.changed,
            recall.last if recall else 0.0,
            recall.times if recall else 0,
            not record.agent or path in by_person,
        )
    return uses


def _read_history(vault: Vault) -> tuple[dict[str, float], set[str]]:
    """Return when a commit of use last changed each path, and the paths that a person changed."""
    head = vault.head()
    changed: dict[str, float] = {}
    by_person: set[str] = set()
    if head is None or not head.commit:
        return changed, by_person
    for commit, files in walk_changes(vault.history, head.commit):
        paths = [file.path for file in files]
        if commit.event not in _UPKEEP:
            for path in paths:
                changed[path] = max(commit.at, changed.get(path, 0.0))
        if not commit.agent and commit.event not in _NO_HAND:
            by_person.update(paths)
    return changed, by_person
