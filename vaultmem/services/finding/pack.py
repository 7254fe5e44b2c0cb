"""Render the context pack: what is pinned, and what is relevant, with what has to be said of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from vaultmem.config import Config
from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import parse_query
from vaultmem.core.finding.reranking import Reranker
from vaultmem.core.finding.sureness import Sureness, judge_hits
from vaultmem.core.notes.record import NoteRecord, divide_numbers, find_place, place_number
from vaultmem.core.packs.caution import written_at
from vaultmem.core.packs.conflicts import Remarks
from vaultmem.core.packs.division import MANY, name_vaults
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
from vaultmem.services.finding.any_question import find_any
from vaultmem.services.finding.beside import add_next
from vaultmem.services.finding.caution import add_cautions
from vaultmem.services.finding.elsewhere import tell_doubts
from vaultmem.services.finding.hits import list_sections
from vaultmem.services.finding.own_part import CANDIDATES, VaultPart, list_own, look_over
from vaultmem.services.finding.parts import How, Scorer
from vaultmem.services.finding.preferences import find_wishes
from vaultmem.services.finding.reach import Reach, Together
from vaultmem.services.finding.remarks import add_remarks
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
    trusted: frozenset[int]
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
    found = gather(Together(vault), plan)
    return found.fit(vault.config.budget if budget is None else budget)


def gather(reach: Reach, plan: PackPlan) -> PackMaterial:
    """Return what a pack over some vaults is made of.

    Raises:
        RefusedError: the question is too long.
    """
    query = parse_query(plan.text, limit=CANDIDATES)
    is_asked = bool(plan.text.strip())
    look = partial(look_over, is_asked=is_asked, has_sessions=plan.has_sessions)
    own = reach.run(look, {place: (place == 0,) for place in range(len(reach.names))})
    if is_asked:
        query, relevant = find_any(reach, query, How(plan.dense, reranker=plan.reranker))
    else:
        relevant = _choose_recent(reach, own)
    if plan.expand_links:
        from vaultmem.services.finding.links import expand_hits

        relevant = reach.change(relevant, partial(expand_hits, query=query))
    sureness = judge_hits(relevant) if is_asked else None
    told = (*_tell_beside(reach), *plan.told)
    if sureness is not None:
        told += tell_doubts(reach, query, relevant, sureness, plan.looks_elsewhere)
    if sureness is Sureness.NONE:
        relevant = relevant[:_NEAREST]
    relevant = order_by_worth(reach.change(relevant, partial(add_next, note_filter=query.filter)))
    pinned, trusted = _list_pinned(reach, relevant)
    source = _date(own[0].source, [*pinned, *relevant])
    relevant, remarks = add_remarks(reach, pinned, relevant, trusted)
    moment = source.at or max((hit.record.changed for hit in [*pinned, *relevant]), default=0)
    said = _say_of_each(reach, plan.text, pinned, relevant, trusted, moment)
    return PackMaterial(
        plan,
        reach.config,
        said.pinned,
        said.relevant,
        trusted,
        source,
        remarks._replace(handles=said.handles, told=told),
        Wishes(said.wishes, reach.config.preference_share) if said.wishes else Wishes(),
        query.replaced,
        sureness,
        sum(each.tokens for each in own.values()),
    )


def _list_pinned(reach: Reach, relevant: Sequence[Hit]) -> tuple[list[Hit], frozenset[int]]:
    """Return what is pinned, and the documents on record that count for a pack.

    Of many vaults it is what the first has pinned, and those that answer best: in all they would
    leave no room for an answer.
    """
    found = dict.fromkeys([0, *(find_place(hit.record.document) for hit in relevant)])
    if len(reach.names) > MANY:
        given = {place: (nth < MANY,) for nth, place in enumerate(found)}
    else:
        given = dict.fromkeys(range(len(reach.names)), (True,))
    pinned: list[Hit] = []
    trusted: set[int] = set()
    for place, (on_record, hits) in reach.run(list_own, given).items():
        pinned += reach.number(hits, place)
        trusted |= {place_number(document, place) for document in on_record}
    return pinned, frozenset(trusted)


class _Said(NamedTuple):
    """Sections with what is to be said of each, the owner's wishes, and handles by document."""

    pinned: Sequence[Hit]
    relevant: Sequence[Hit]
    wishes: Sequence[Hit]
    handles: dict[int, str]


def _say_of_each(
    reach: Reach,
    text: str,
    pinned: Sequence[Hit],
    relevant: Sequence[Hit],
    trusted: frozenset[int],
    moment: float,
) -> _Said:
    """Return what each vault says of its sections, and its owner's wishes that concern a text."""
    of_pinned, of_relevant = reach.divide(pinned), reach.divide(relevant)
    on_record = divide_numbers(trusted)
    given = {
        place: (of_pinned.get(place, []), of_relevant.get(place, []), on_record.get(place, ()))
        for place in sorted({*of_pinned, *of_relevant, *on_record})
    }
    said = reach.run(partial(_say_of_own, text=text, moment=moment), given)
    wishes = [hit for place, each in said.items() for hit in reach.number(each.wishes, place)]
    handles = {
        place_number(document, place): handle
        for place, each in said.items()
        for document, handle in each.handles.items()
    }
    return _Said(
        _put_back(reach, pinned, {place: each.pinned for place, each in said.items()}),
        _put_back(reach, relevant, {place: each.relevant for place, each in said.items()}),
        wishes,
        handles,
    )


def _put_back(reach: Reach, hits: Sequence[Hit], changed: Mapping[int, Sequence[Hit]]) -> list[Hit]:
    """Return what became of each hit, in their order."""
    left = {place: iter(reach.number(own, place)) for place, own in changed.items()}
    return [next(left[find_place(hit.record.document)]) for hit in hits]


def _say_of_own(
    vault: Vault,
    pinned: Sequence[Hit],
    relevant: Sequence[Hit],
    trusted: Collection[int],
    text: str,
    moment: float,
) -> _Said:
    pinned, relevant = (add_cautions(vault, hits, moment) for hits in (pinned, relevant))
    wishes = find_wishes(vault, text, relevant, trusted)
    return _Said(pinned, relevant, wishes, name_notes(vault, [*pinned, *relevant, *wishes]))


def _tell_beside(reach: Reach) -> tuple[str, ...]:
    """Return the line that names the other vaults of a pack, if there are any."""
    names = name_vaults(reach.names[1:])
    return (f"Also of {names}: what is theirs has its vault's name before it.",) if names else ()


def _date(source: PackSource, hits: Sequence[Hit]) -> PackSource:
    """Return the source with the time of the newest note where there is no commit."""
    if source.commit:
        return source
    return source._replace(at=int(max(map(written_at, hits), default=0)))


def _choose_recent(reach: Reach, own: Mapping[int, VaultPart]) -> list[Hit]:
    """Return the most recent sections of all vaults; each note has one at least."""
    notes = [(place, record) for place, each in own.items() for record in each.recent]
    if len(own) > 1:
        notes.sort(key=lambda each: (_written(each[1]), each[1].changed), reverse=True)
    given: dict[int, list[NoteRecord]] = {}
    for place, record in notes[:CANDIDATES]:
        given.setdefault(place, []).append(record)
    told = reach.run(list_sections, {place: (records,) for place, records in given.items()})
    sections: dict[int, list[Hit]] = {}
    for place, found in told.items():
        for hit in reach.number(found, place):
            sections.setdefault(hit.record.document, []).append(hit)
    numbers = [place_number(record.document, place) for place, record in notes[:CANDIDATES]]
    return [hit for number in numbers for hit in sections.get(number, ())][:CANDIDATES]


def _written(record: NoteRecord) -> str:
    return max(record.updated, record.created)
