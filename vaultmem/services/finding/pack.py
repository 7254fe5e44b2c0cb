"""Render the context pack: what is pinned, and what is relevant, with what has to be said of it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import partial
from typing import TYPE_CHECKING

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import NoteFilter, parse_query
from vaultmem.core.finding.reranking import Reranker
from vaultmem.core.finding.sureness import Sureness, judge_hits
from vaultmem.core.notes.record import NoteRecord, find_place, place_number
from vaultmem.core.packs.caution import written_at
from vaultmem.core.packs.order import order_by_worth
from vaultmem.core.packs.pack import build_pack
from vaultmem.core.packs.pack_item import (
    PackLabels,
    PackSource,
    PackStyle,
    parse_labels,
    plain_label,
)
from vaultmem.core.packs.pack_text import Pack
from vaultmem.core.paths import LEARNED, PINNED_FILES
from vaultmem.core.preferences.concern import Wishes
from vaultmem.core.safe_text import escape_bytes
from vaultmem.core.sessions.session import FOLDER
from vaultmem.services.finding.any_question import recall_any
from vaultmem.services.finding.beside import add_next
from vaultmem.services.finding.caution import add_cautions
from vaultmem.services.finding.elsewhere import tell_doubts
from vaultmem.services.finding.hits import (
    divide_hits,
    in_each,
    list_sections,
    name_hits,
    name_vault,
)
from vaultmem.services.finding.parts import Scorer
from vaultmem.services.finding.preferences import find_wishes
from vaultmem.services.finding.remarks import add_remarks
from vaultmem.services.finding.trust import trusted_documents
from vaultmem.services.reading.behind import sync_once
from vaultmem.services.reading.heal import heals
from vaultmem.vault import Vault

if TYPE_CHECKING:
    pass


#: How many sections are considered for a pack, and shown where probably nothing answers.
_CANDIDATES, _NEAREST = 50, 5


@heals
def make_pack(
    vault: Vault,
    text: str = "",
    budget: int | None = None,
    *,
    style: PackStyle = PackStyle.MARKDOWN,
    labels: PackLabels | None = None,
    expand_links: bool = False,
    dense: Scorer | None = None,
    reranker: Reranker | None = None,
    looks_elsewhere: bool = False,
    has_sessions: bool = True,
) -> Pack:
    """Return the pack for a question; for an empty one, pinned and most recent notes.

    With `expand_links`, what the best sections link to is found as well; with `dense`, what means
    the same; `reranker` puts the best in its order. With `looks_elsewhere`, an answer that is not
    sure names who has one. Without `has_sessions`, sessions are not among the recent notes. What
    is on disk is taken in first, once for each `open_vault`. The same notes, commit, question and
    budget give the same bytes.

    Raises:
        RefusedError: the budget is under 100 tokens, or the question too long.
    """
    for each in vault.together:
        sync_once(each)
    trusted = _list_trusted(vault)
    pinned = pinned_sections(vault, trusted)
    query = parse_query(text, limit=_CANDIDATES)
    is_asked = bool(text.strip())
    if is_asked:
        query, relevant = recall_any(vault, query, dense, reranker=reranker)
    else:
        relevant = _recent_sections(vault, has_sessions)
    if expand_links:
        from vaultmem.services.finding.links import expand_hits

        relevant = in_each(vault, relevant, lambda each, own: expand_hits(each, query, own))
    sureness = None
    told: tuple[str, ...] = ()
    if is_asked:
        sureness = judge_hits(relevant)
        told = tell_doubts(vault, query, relevant, sureness, looks_elsewhere)
    told = (*_tell_beside(vault), *told)
    if sureness is Sureness.NONE:
        relevant = relevant[:_NEAREST]
    relevant = order_by_worth(
        in_each(vault, relevant, lambda each, own: add_next(each, query.filter, own))
    )
    source = _date(pack_source(vault), [*pinned, *relevant])
    relevant, remarks = add_remarks(vault, pinned, relevant, trusted)
    moment = source.at or max((hit.record.changed for hit in [*pinned, *relevant]), default=0)
    pinned, relevant = (
        in_each(vault, hits, lambda each, own: add_cautions(each, own, moment))
        for hits in (pinned, relevant)
    )
    wishes = _find_wishes(vault, text, relevant, trusted)
    handles = name_hits(vault, [*pinned, *relevant, *wishes.hits])
    flat_tokens = sum(each.view.totals()[1] for each in vault.together)
    return build_pack(
        pinned,
        relevant,
        trusted,
        source,
        budget if budget is not None else vault.config.budget,
        vault.config.pinned_share,
        flat_tokens,
        remarks._replace(handles=handles, told=told),
        style,
        wishes,
        labels or parse_labels(vault.config.labels),
    )._replace(replaced=query.replaced, sureness=sureness)


def _tell_beside(vault: Vault) -> list[str]:
    """Return the line that names the other vaults of a pack, if there are any."""
    names = ", ".join(plain_label(each.name) for each in vault.beside)
    return [f"Also of {names}: what is theirs has its vault's name before it."] if names else []


def _list_trusted(vault: Vault) -> frozenset[int]:
    """Return the documents whose promotion is on record, each by the record of its own vault."""
    return frozenset(
        place_number(document, place)
        for place, each in enumerate(vault.together)
        for document in trusted_documents(each)
    )


def _find_wishes(
    vault: Vault, text: str, relevant: Sequence[Hit], trusted: frozenset[int]
) -> Wishes:
    """Return what the owner prefers, by the records of each vault."""
    found = []
    for place, (each, own) in enumerate(divide_hits(vault, relevant)):
        numbers = (n for n in trusted if find_place(n) == place)
        known = frozenset(place_number(n, -place) for n in numbers)
        wishes = find_wishes(each, text, own, known)
        found += [name_vault(hit, each, place) for hit in wishes.hits]
    return Wishes(tuple(found), vault.config.preference_share) if found else Wishes()


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


def _date(source: PackSource, hits: Sequence[Hit]) -> PackSource:
    """Return the source with the time of the newest note where there is no commit."""
    if source.commit:
        return source
    return source._replace(at=int(max(map(written_at, hits), default=0)))


def pinned_sections(vault: Vault, trusted: frozenset[int]) -> list[Hit]:
    """Return all pinned sections: policies that may instruct first, then by name; by vault.

    What agents wrote comes last: what they pin or learn has the room that the owner's leaves.
    """
    visible = NoteFilter()
    found: list[Hit] = []
    for place, each in enumerate(vault.together):
        records = [
            record
            for record in each.view.pinned()
            if visible.admits(record.kind, record.state, record.tags, record.context, True)
        ]
        first = {place_number(n, -place) for n in trusted if find_place(n) == place}
        records.sort(key=lambda r: (r.document not in first, _pin_rank(r.path), r.path))
        hits = list_sections(each, records)
        hits.sort(key=partial(_stands_behind, first))
        found += [name_vault(hit, each, place) for hit in hits]
    return found


def _stands_behind(trusted: Container[int], hit: Hit) -> bool:
    """Tell whether an agent wrote a section that is not trusted: its note, or what was learned."""
    is_learned = hit.record.path == PINNED_FILES[0] and hit.section.heading == LEARNED
    is_agents = is_learned or hit.record.source == "agent"
    return is_agents and hit.record.document not in trusted


def _pin_rank(path: str) -> int:
    return PINNED_FILES.index(path) if path in PINNED_FILES else len(PINNED_FILES)


def _recent_sections(vault: Vault, has_sessions: bool) -> list[Hit]:
    visible = NoteFilter()
    found: list[Hit] = []
    for place, each in enumerate(vault.together):
        records = [
            record
            for record in each.view.recent(_CANDIDATES * 4)
            if visible.admits(record.kind, record.state, record.tags, record.context, False)
            and (has_sessions or record.context != FOLDER)
        ]
        hits = list_sections(each, records[:_CANDIDATES])[:_CANDIDATES]
        found += [name_vault(hit, each, place) for hit in hits]
    if vault.beside:
        found.sort(key=lambda hit: (_written(hit.record), hit.record.changed), reverse=True)
    return found[:_CANDIDATES]


def _written(record: NoteRecord) -> str:
    return max(record.updated, record.created)
