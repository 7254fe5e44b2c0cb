"""What an export shows: which notes, sessions and commits there are, the same for all who write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vaultmem.core.lifecycle import State
from vaultmem.core.notes.record import NoteRecord
from vaultmem.services.history.stories import walk_history
from vaultmem.vault import Vault
from vaultmem.web.asking import Frame, frame_vault
from vaultmem.web.export.places import ListName, Places

#: Commits on the page of them.
_COMMITS = 200


class Contents(NamedTuple):
    """What is exported, at a time (seconds since the epoch), from a commit where one is named.

    Quarantined notes are left out. Each list has its notes, the last changed first. The others
    are ids of what has a page, or a place on one.
    """

    frame: Frame
    exported: float
    commit: str
    records: Sequence[NoteRecord]
    lists: dict[ListName, list[int]]
    sessions: frozenset[str]
    commits: frozenset[str]

    def make_places(self) -> Places:
        """Return which pages there are."""
        notes = frozenset(record.path for record in self.records)
        return Places(notes, self.lists.keys(), self.sessions, self.commits)


def gather_contents(vault: Vault) -> Contents:
    """Return what is exported of what the vault shows; it must be in sync."""
    commit = "" if vault.view.is_work_tree else vault.view.sources[0].commit
    records = [each for each in vault.view.records() if each.state != State.QUARANTINED]
    records.sort(key=lambda each: (-each.changed, each.path))
    return Contents(
        frame_vault(vault, commit),
        vault.now(),
        commit,
        records,
        _make_lists(records),
        frozenset(_list_sessions(vault, records)),
        frozenset(_list_commits(vault, commit)),
    )


def _make_lists(records: Sequence[NoteRecord]) -> dict[ListName, list[int]]:
    """Return the notes of each list by their numbers, which go by when they changed."""
    lists: dict[ListName, list[int]] = {("", ""): list(range(len(records)))}
    for number, record in enumerate(records):
        for name in dict.fromkeys(_name_lists(record)):
            lists.setdefault(name, []).append(number)
    return lists


def _name_lists(record: NoteRecord) -> Iterator[ListName]:
    """Yield the lists that a note is in: those of its folders and tags have what is within."""
    yield "state", record.state
    yield "kind", record.kind
    yield from (("context", each) for each in _list_above(record.context))
    yield from (("tag", each) for tag in record.tags for each in _list_above(tag.casefold()))


def _list_above(name: str) -> Iterator[str]:
    parts = name.strip("/").split("/")
    yield from filter(None, ("/".join(parts[: end + 1]) for end in range(len(parts))))


def _list_sessions(vault: Vault, records: Sequence[NoteRecord]) -> Iterator[str]:
    from vaultmem.services.sessions.search import list_sessions

    shown = {record.path for record in records}
    yield from (each.id for each in list_sessions(vault) if each.path in shown)


def _list_commits(vault: Vault, commit: str) -> Iterator[str]:
    if vault.head() is not None:
        walked = zip(range(_COMMITS), walk_history(vault, commit), strict=False)
        yield from (each.commit for _, (each, _) in walked)
