"""Render the context pack: what is pinned, and what is relevant, with what has to be said of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from vaultmem.config import Config
from vaultmem.core.finding.hit import Hit, NoteKey
from vaultmem.core.finding.query import parse_query
from vaultmem.core.finding.reranking import Reranker
from vaultmem.core.finding.sureness import Sureness, judge_hits
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.packs.caution import written_at
from vaultmem.core.packs.conflicts import Remarks
from vaultmem.core.packs.division import MANY, group_by_vault, name_vaults
from vaultmem.core.packs.order import order_by_worth
from vaultmem.core.packs.pack import build_pack
from vaultmem.core.packs.pack_item import (
    PackLabels,
    PackSource,
    PackStyle,
    parse_labels,
)
from vaultmem.core.packs.pack_text import Pack
from vaultmem.core.preferences.concern import Wishes
from vaultmem.services.finding.beside import add_next
from vaultmem.services.finding.caution import add_cautions
from vaultmem.services.finding.elsewhere import tell_doubts
from vaultmem.services.finding.hits import list_sections
from vaultmem.services.finding.own_part import CANDIDATES, VaultPart, list_own, look_over
from vaultmem.services.finding.preferences import find_wishes
from vaultmem.services.finding.recall import find_hits
from vaultmem.services.finding.remarks import add_remarks
from vaultmem.services.finding.score import Scorer
from vaultmem.services.finding.vault_set import VaultSet, name_vault
from vaultmem.services.reading.handles import name_notes
from vaultmem.services.reading.heal import heals
from vaultmem.vault import Vault

#: How many sections are shown where probably nothing answers.
_NEAREST = 5


class PackPlan(NamedTuple):
    """What a pack is for, and how it is made: as `make_pack` has it; `told` as in `AskPack`."""

    text: str = ""
    style: PackStyle = PackStyle.MARKDOWN
    labels: PackLabels | None = None
    expand_links: bool = False
    dense: Scorer | None = None
    reranker: Reranker | None = None
    looks_elsewhere: bool = False
    has_sessions: bool = True
    told: tuple[str, ...] = ()


class PackMaterial(NamedTuple):
    """What a pack is made of, whatever its budget; `flat_tokens` are those of all notes."""

    plan: PackPlan
    config: Config
    pinned: Sequence[Hit]
    relevant: Sequence[Hit]
    trusted: frozenset[NoteKey]
    source: PackSource
    remarks: Remarks
    wishes: Wishes
    replaced: tuple[tuple[str, str], ...]
    sureness: Sureness | None
    flat_tokens: int

    def fit(self, budget: int) -> Pack:
        """Return the pack of so many tokens.

        Raises:
            RefusedError: the budget is under 100 tokens.
        """
        return build_pack(
            self.pinned,
            self.relevant,
            self.trusted,
            self.source,
            budget,
            self.config.pinned_share,
            self.flat_tokens,
            self.remarks,
            self.plan.style,
            self.wishes,
            self.plan.labels or parse_labels(self.config.labels),
        )._replace(replaced=self.replaced, sureness=self.sureness)


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
    plan = PackPlan(
        text, style, labels, expand_links, dense, reranker, looks_elsewhere, has_sessions
    )
    found = gather(VaultSet([vault]), plan)
    return found.fit(vault.config.budget if budget is None else budget)


def gather(vaults: VaultSet, plan: PackPlan) -> PackMaterial:
    """Return what a pack over some vaults is made of.

    Raises:
        RefusedError: the question is too long.
    """
    query = parse_query(plan.text, limit=CANDIDATES)
    is_asked = bool(plan.text.strip())
    given = {name: (nth == 0, is_asked, plan.has_sessions) for nth, name in enumerate(vaults.names)}
    own = vaults.run(look_over, given)
    if is_asked:
        query, relevant = find_hits(
            vaults, query, query.limit, dense=plan.dense, reranker=plan.reranker
        )
    else:
        relevant = _choose_recent(vaults, own)
    if plan.expand_links:
        from vaultmem.services.finding.links import expand_hits

        relevant = vaults.change(relevant, expand_hits, query)
    sureness = judge_hits(relevant) if is_asked else None
    told = (*_tell_others(vaults), *plan.told)
    if sureness is not None:
        told += tell_doubts(vaults, query, relevant, sureness, plan.looks_elsewhere)
    if sureness is Sureness.NONE:
        relevant = relevant[:_NEAREST]
    relevant = order_by_worth(vaults.change(relevant, add_next, query.filter))
    pinned, trusted = _list_pinned(vaults, relevant)
    keys = frozenset((name, r.path, r.blob) for name, own in trusted.items() for r in own)
    source = _date(own[vaults.names[0]].source, [*pinned, *relevant])
    relevant, remarks = add_remarks(vaults, pinned, relevant, keys)
    moment = source.at or max((hit.record.changed for hit in [*pinned, *relevant]), default=0)
    said = _say_of_each(vaults, plan.text, pinned, relevant, trusted, moment)
    return PackMaterial(
        plan,
        vaults.config,
        said.pinned,
        said.relevant,
        keys,
        source,
        remarks._replace(handles=said.handles, told=told),
        Wishes(said.wishes, vaults.config.preference_share) if said.wishes else Wishes(),
        query.replaced,
        sureness,
        sum(each.tokens for each in own.values()),
    )


def _list_pinned(
    vaults: VaultSet, relevant: Sequence[Hit]
) -> tuple[list[Hit], dict[str, list[NoteRecord]]]:
    """Return the pinned sections, and the trusted notes that count for a pack by vault.

    Of many vaults they are those of the first, and of the vaults that answer best: in all they
    would leave no room for an answer.
    """
    names = [*dict.fromkeys([vaults.names[0], *(hit.vault for hit in relevant)])]
    if len(vaults.names) > MANY:
        given = {name: (nth < MANY,) for nth, name in enumerate(names)}
    else:
        given = dict.fromkeys(vaults.names, (True,))
    own = vaults.run(list_own, given)
    pinned = [hit for name, (_, hits) in own.items() for hit in name_vault(name, hits)]
    return pinned, {name: records for name, (records, _) in own.items()}


class _Said(NamedTuple):
    """Sections with what is to be said of each, the owner's wishes, and handles by note."""

    pinned: Sequence[Hit]
    relevant: Sequence[Hit]
    wishes: Sequence[Hit]
    handles: dict[NoteKey, str]


def _say_of_each(
    vaults: VaultSet,
    text: str,
    pinned: Sequence[Hit],
    relevant: Sequence[Hit],
    trusted: Mapping[str, Sequence[NoteRecord]],
    moment: float,
) -> _Said:
    """Return what each vault says of its sections, and its owner's wishes that concern a text."""
    of_pinned, of_relevant = group_by_vault(pinned), group_by_vault(relevant)
    given = {
        name: (
            name,
            of_pinned.get(name, []),
            of_relevant.get(name, []),
            [record.document for record in trusted.get(name, ())],
            text,
            moment,
        )
        for name in vaults.names
        if name in of_pinned or name in of_relevant or trusted.get(name)
    }
    said = vaults.run(_say_of_own, given)
    return _Said(
        _put_back(pinned, {name: each.pinned for name, each in said.items()}),
        _put_back(relevant, {name: each.relevant for name, each in said.items()}),
        [hit for each in said.values() for hit in each.wishes],
        {note: handle for each in said.values() for note, handle in each.handles.items()},
    )


def _put_back(hits: Sequence[Hit], changed: Mapping[str, Sequence[Hit]]) -> list[Hit]:
    """Return what became of each hit, in their order."""
    left = {name: iter(own) for name, own in changed.items()}
    return [next(left[hit.vault]) for hit in hits]


def _say_of_own(
    vault: Vault,
    name: str,
    pinned: Sequence[Hit],
    relevant: Sequence[Hit],
    trusted: Collection[int],
    text: str,
    moment: float,
) -> _Said:
    pinned, relevant = (add_cautions(vault, hits, moment) for hits in (pinned, relevant))
    wishes = name_vault(name, find_wishes(vault, text, relevant, trusted))
    return _Said(pinned, relevant, wishes, name_notes(vault, [*pinned, *relevant, *wishes]))


def _tell_others(vaults: VaultSet) -> tuple[str, ...]:
    """Return the line that names the other vaults of a pack, if there are any."""
    names = name_vaults(vaults.names[1:])
    return (f"Also of {names}: what is theirs has its vault's name before it.",) if names else ()


def _date(source: PackSource, hits: Sequence[Hit]) -> PackSource:
    """Return the source with the time of the newest note where there is no commit."""
    if source.commit:
        return source
    return source._replace(at=int(max(map(written_at, hits), default=0)))


def _choose_recent(vaults: VaultSet, own: Mapping[str, VaultPart]) -> list[Hit]:
    """Return the most recent sections of all vaults; each note has one at least."""
    notes = [(name, record) for name, each in own.items() for record in each.recent]
    if len(own) > 1:
        notes.sort(key=lambda each: (_written(each[1]), each[1].changed), reverse=True)
    notes = notes[:CANDIDATES]
    given: dict[str, list[NoteRecord]] = {}
    for name, record in notes:
        given.setdefault(name, []).append(record)
    found = vaults.run(list_sections, {name: (records,) for name, records in given.items()})
    sections: dict[NoteKey, list[Hit]] = {}
    for name, hits in found.items():
        for hit in name_vault(name, hits):
            sections.setdefault(hit.note, []).append(hit)
    keys = [(name, record.path, record.blob) for name, record in notes]
    return [hit for key in keys for hit in sections.get(key, ())][:CANDIDATES]


def _written(record: NoteRecord) -> str:
    return max(record.updated, record.created)
