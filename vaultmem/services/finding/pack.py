"""Render the context pack: what is pinned, and what is relevant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import NoteFilter, parse_query
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.packs.pack import Pack, build_pack
from vaultmem.core.packs.pack_text import PackSource, PackStyle
from vaultmem.core.paths import PINNED_FILES
from vaultmem.services.finding.recall import name_refs, recall
from vaultmem.services.finding.remarks import add_remarks
from vaultmem.services.finding.texts import read_sections
from vaultmem.services.notes.trust import trusted_documents
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.services.finding.recall import DenseScorer

#: How many sections are considered for a pack.
_CANDIDATES = 50


def make_pack(
    vault: Vault,
    text: str = "",
    budget: int | None = None,
    *,
    style: PackStyle = PackStyle.MARKDOWN,
    expand_links: bool = False,
    dense: DenseScorer | None = None,
) -> Pack:
    """Return the pack for a question; for an empty one, pinned and most recent notes.

    With `expand_links`, what the best sections link to is found as well; with `dense`, what means
    the same. The vault must be in sync. The same notes, commit, question and budget give the same
    bytes.

    Raises:
        RefusedError: the budget is under 100 tokens, or the question too long.
    """
    trusted = trusted_documents(vault)
    pinned = pinned_sections(vault, trusted)
    query = parse_query(text, limit=_CANDIDATES)
    relevant = recall(vault, query, dense) if text.strip() else _recent_sections(vault)
    if expand_links:
        from vaultmem.services.links.expand import expand_hits

        relevant = expand_hits(vault, query, relevant)
    source = pack_source(vault)
    relevant, remarks = add_remarks(vault, pinned, relevant, trusted, source.at)
    _, flat_tokens = vault.view.totals()
    return build_pack(
        pinned,
        relevant,
        trusted,
        source,
        budget if budget is not None else vault.config.budget,
        vault.config.pinned_share,
        flat_tokens,
        remarks,
        style,
    )


def pack_source(vault: Vault) -> PackSource:
    """Return branch, commit and commit time that a pack names."""
    if vault.view.sources:
        source = vault.view.sources[0]
        names = ", ".join(each.name for each in vault.view.sources)
        several = len(vault.view.sources) > 1
        return PackSource(names if several else source.branch, source.commit, source.at)
    head = vault.head()
    if head is None:
        return PackSource("", "", 0)
    at = vault.state.get("head_time") if vault.state.get("head") == head.commit else "0"
    return PackSource(head.branch, head.commit, int(at or 0))


def pinned_sections(vault: Vault, trusted: frozenset[int]) -> list[Hit]:
    """Return all pinned sections: policies that may instruct first, then by name."""
    visible = NoteFilter()
    records = [
        record
        for record in vault.view.pinned()
        if visible.admits(record.kind, record.state, record.tags, record.context, True)
    ]
    records.sort(
        key=lambda record: (record.document not in trusted, _pin_rank(record.path), record.path)
    )
    return _all_sections(vault, records)


def _pin_rank(path: str) -> int:
    return PINNED_FILES.index(path) if path in PINNED_FILES else len(PINNED_FILES)


def _recent_sections(vault: Vault) -> list[Hit]:
    visible = NoteFilter()
    records = [
        record
        for record in vault.view.recent(_CANDIDATES * 4)
        if visible.admits(record.kind, record.state, record.tags, record.context, False)
    ]
    return _all_sections(vault, records[:_CANDIDATES])[:_CANDIDATES]


def _all_sections(vault: Vault, records: list[NoteRecord]) -> list[Hit]:
    sections = vault.view.sections_of({record.document for record in records})
    ordered: dict[int, list[int]] = {}
    for document, ordinal in sorted(sections):
        ordered.setdefault(document, []).append(ordinal)
    places = [
        (record, sections[record.document, ordinal])
        for record in records
        for ordinal in ordered.get(record.document, [])
    ]
    return [
        Hit(record, section, text, 0.0, (), 0.0, 1.0, name_refs(vault, record))
        for record, section, text in read_sections(vault, places)
    ]
