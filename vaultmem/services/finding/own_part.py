"""What a pack has of each vault besides what a question finds: what is pinned, trusted, recent."""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from typing import NamedTuple

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import NoteFilter
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.packs.pack_item import PackSource
from vaultmem.core.paths import LEARNED, PINNED_FILES
from vaultmem.core.safe_text import escape_bytes
from vaultmem.core.sessions.session import FOLDER
from vaultmem.services.finding.hits import list_sections
from vaultmem.services.finding.trust import trusted_documents
from vaultmem.services.reading.behind import sync_once
from vaultmem.vault import Vault

#: How many sections are considered for a pack.
CANDIDATES = 50


class VaultPart(NamedTuple):
    """What a pack has of a vault before anything is found: the tokens of all its notes.

    The `source` is that of the first alone; `recent` is of packs without a question.
    """

    tokens: int
    source: PackSource
    recent: list[NoteRecord]


def look_over(vault: Vault, is_first: bool, is_asked: bool, has_sessions: bool) -> VaultPart:
    """Return what a pack has of a vault before anything is found in it."""
    sync_once(vault)
    return VaultPart(
        vault.view.totals()[1],
        pack_source(vault) if is_first else PackSource("", "", 0),
        [] if is_asked else _list_recent(vault, has_sessions),
    )


def list_own(vault: Vault, pins: bool) -> tuple[list[NoteRecord], list[Hit]]:
    """Return the trusted notes, and if it `pins`, the pinned sections."""
    trusted = trusted_documents(vault)
    records = [*vault.view.records_of(trusted).values()] if trusted else []
    return records, pinned_sections(vault, trusted) if pins else []


def pack_source(vault: Vault) -> PackSource:
    """Return branch, commit and commit time that a pack names."""
    if vault.view.sources:
        source, *others = vault.view.sources
        named = tuple((each.name, each.commit) for each in others)
        name = source.name if others else source.branch
        return PackSource(name, source.commit, source.at, named)
    head = vault.head()
    if head is None:
        return PackSource("", "", 0)
    at = vault.state.get("head_time") if vault.state.get("head") == head.commit else "0"
    return PackSource(escape_bytes(head.branch), head.commit, int(at or 0))


def pinned_sections(vault: Vault, trusted: frozenset[int]) -> list[Hit]:
    """Return all pinned sections: policies that may instruct first, then by name.

    What agents wrote comes last: what they pin or learn has the room that the owner's leaves.
    """
    visible = NoteFilter()
    records = [
        record
        for record in vault.view.pinned()
        if visible.admits(record.kind, record.state, record.tags, record.context, True)
    ]
    records.sort(key=lambda r: (r.document not in trusted, _pin_rank(r.path), r.path))
    return sorted(list_sections(vault, records), key=partial(_stands_behind, trusted))


def _stands_behind(trusted: Container[int], hit: Hit) -> bool:
    """Tell whether an agent wrote a section that is not trusted: its note, or what was learned."""
    is_learned = hit.record.path == PINNED_FILES[0] and hit.section.heading == LEARNED
    is_agents = is_learned or hit.record.source == "agent"
    return is_agents and hit.record.document not in trusted


def _pin_rank(path: str) -> int:
    return PINNED_FILES.index(path) if path in PINNED_FILES else len(PINNED_FILES)


def _list_recent(vault: Vault, has_sessions: bool) -> list[NoteRecord]:
    visible = NoteFilter()
    return [
        record
        for record in vault.view.recent(CANDIDATES * 4)
        if visible.admits(record.kind, record.state, record.tags, record.context, False)
        and (has_sessions or record.context != FOLDER)
    ][:CANDIDATES]
