"""Choose the sections of a context pack within a budget: pinned first, then relevant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from math import pow
from operator import itemgetter

from vaultmem.core.packs.conflicts import (
    ConflictMark,
    Remarks,
    arrange_items,
    list_marks,
    list_opponents,
    rank_authority,
)
from vaultmem.core.packs.pack_item import (
    OmissionReason,
    OmittedItem,
    PackForm,
    PackItem,
    PackLabels,
    PackSource,
    PackStyle,
    quote,
)
from vaultmem.core.packs.pack_text import (
    Pack,
    PackUsage,
    choose_form,
    collect_items,
    count_group,
    group_of,
    name_note,
    render_link,
    render_pack,
    render_stable_account,
)
from vaultmem.core.packs.passages import Span, choose_passages, render_passages
from vaultmem.core.packs.vault_parts import group_by_vault
from vaultmem.core.packs.warnings import PackPreferences, shorten_caution, written_at
from vaultmem.core.search.query import Hit, NoteKey
from vaultmem.core.search.terms import count_terms
from vaultmem.core.text.token_count import Shown, TextStep, count_tokens, fit_texts, share_room
from vaultmem.errors import RefusedError

MIN_BUDGET = 100

#: Maximum share of the budget for a shortened section, so that another one fits. Then the tokens up
#: to which a section is first shown whole: the best one, and each other one.
_SHORTENED_SHARE, _MAX_WHOLE_BEST_TOKENS, _MAX_WHOLE_TOKENS = 0.5, 800, 600

#: Maximum share of the budget for sentences about contradictions.
_MARKS_SHARE = 0.15

#: Assumed tokens of a section's label, and the exponent of the tokens that divide a section's
#: score.
_LABEL, _COST = 20, 0.15

#: Factor for the score of a note's second section, applied again for each further one.
_SAME_NOTE_FACTOR = 0.85

#: Minimum tokens of a shortened section's text, and minimum free tokens to consider another
#: section.
_MIN_SHORTENED, _MIN_LEFT = 40, 30

#: Minimum share of common distinct terms of sections that state the same. It is low because in a
#: short section `3` can replace `three`.
_SHARED_TERMS = 0.5


def build_pack(
    pinned: Iterable[Hit],
    relevant: Iterable[Hit],
    trusted: frozenset[NoteKey],
    source: PackSource,
    budget: int,
    pinned_share: float,
    flat_tokens: int,
    remarks: Remarks | None = None,
    style: PackStyle = PackStyle.MARKDOWN,
    wishes: PackPreferences = PackPreferences(),  # noqa: B008 - immutable.
    labels: PackLabels = PackLabels.SHORT,
) -> Pack:
    """Build a pack of at most `budget` tokens.

    Pinned sections use up to `pinned_share` of it; the others are listed as links, then counted. A
    relevant section that does not fit is shown by its best passages, or skipped for a shorter one.
    Contradicting sections are adjacent, the stronger one first. `trusted` are the notes in the
    trust record. `flat_tokens` is the size of the whole vault.

    Raises:
        RefusedError: a budget under 100 tokens.
    """
    if budget < MIN_BUDGET:
        raise RefusedError(f"a pack needs a budget of {MIN_BUDGET} tokens or more, not {budget}")
    form = choose_form(source, style, labels)
    remarks = remarks or Remarks()
    empty = PackUsage(pinned=0, relevant=0, sent=budget, budget=budget, flat=flat_tokens)
    frame = count_tokens(render_pack([], [], 0, source, empty, style, notices=remarks.notices)) + 4
    groups = [*group_by_vault(hit for hit in pinned if hit.text).values()]
    sections = _Sections(groups, wishes.hits, relevant, trusted, remarks, form, budget)

    def render(shown_sections: _ShownSections) -> tuple[Pack, int]:
        items = sections.list_items(shown_sections)
        unshown_hits = [hit for hit in shown_sections.values() if isinstance(hit, Hit)]
        count = sum(item.pinned for item in items)
        pack = Pack(
            text="",
            items=tuple(sections.arrange(items)),
            omitted_pins=tuple(unshown_hits),
            unlisted_pin_count=sections.count_pinned() - count - len(unshown_hits),
            account=PackUsage(count, len(items) - count, 0, budget, flat_tokens),
            source=source,
            style=style,
            pinned_tokens=sections.pinned_tokens,
            labels=labels,
            notices=remarks.notices,
            omitted=tuple(sections.list_left_out(items)),
        )
        text, account = render_stable_account(
            pack.items,
            unshown_hits,
            pack.unlisted_pin_count,
            source,
            pack.account,
            form,
            remarks.notices,
        )
        return pack._replace(text=text, account=account), account.sent

    pinned_budget = min(int(budget * pinned_share), budget - frame)
    needs = [sum(count_tokens(hit.text) + _LABEL for hit in group) for group in groups]
    shares = share_room(needs, pinned_budget)

    def cap(rank: int, left: int) -> int:
        if rank < len(groups):  # The maximum for this vault and those before it.
            return left - (budget - frame - pinned_budget) - sum(shares[rank + 1 :])
        return int(budget * wishes.share) if rank == len(groups) else left

    return fit_texts(sections.list_steps(), budget - frame, render, budget, cap)[0]


def order_by_worth(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits by score relative to tokens; equal hits keep their order.

    To come first, a section of 300 tokens must have 1.4 times the score of one of 20 tokens. Other
    sections could use its tokens. A note's further sections count less than its best one.
    """

    def worth(hit: Hit) -> float:
        return hit.score / pow(float(count_tokens(hit.text) + _LABEL), _COST)

    counts: Counter[NoteKey] = Counter()
    ranked: list[tuple[float, Hit]] = []
    for hit in sorted(hits, key=worth, reverse=True):
        ranked.append((worth(hit) * _SAME_NOTE_FACTOR ** counts[hit.note], hit))
        counts[hit.note] += 1
    return [hit for _, hit in sorted(ranked, key=itemgetter(0), reverse=True)]


#: A section, or its link with True. A pinned section without room can still be shown as relevant.
_Key = tuple[NoteKey, int]
_Place = tuple[_Key, bool]
_ShownSections = Shown[_Place, "PackItem | Hit"]


class _Sections:
    """The sections considered for a pack, with their costs and duplicates."""

    def __init__(
        self,
        pinned: Sequence[Sequence[Hit]],
        wishes: Iterable[Hit],
        relevant: Iterable[Hit],
        trusted: frozenset[NoteKey],
        remarks: Remarks,
        form: PackForm,
        budget: int,
    ) -> None:
        self.pinned_tokens = 0
        self._pinned = pinned
        self._wishes = [*wishes]
        self._relevant = [hit for hit in relevant if hit.text.strip()]
        self._trusted = trusted
        self._remarks = remarks
        self._form = form
        self._budget = budget
        self._name = partial(name_note, remarks.handles, form.labels)
        self._opposed = {note for each in remarks.relations for note in (each.first, each.second)}
        hits = [*self._relevant, *chain.from_iterable(pinned)]
        self._known = {hit.note: hit for hit in reversed(hits)}
        self._said_by: dict[_Key, _Key] = {}
        self._alike: dict[_Key, list[PackItem]] = {}
        self._costs: dict[Hashable, int] = {}

    def list_steps(self) -> Iterator[TextStep[_Place, PackItem | Hit]]:
        """Yield the ways to show each section: whole, else as a link or by passages.

        Each vault's pinned sections have one rank, then preferences, then relevant sections.
        """
        for rank, group in enumerate(self._pinned):
            for turn, hit in enumerate(group):
                yield TextStep(
                    rank, (0, turn), (hit.key, False), partial(self._offer_own, hit, True)
                )
                yield TextStep(rank, (1, turn), (hit.key, True), partial(self._offer_link, hit))
        rank = len(self._pinned)
        for turn, hit in enumerate(self._wishes):
            yield TextStep(rank, (turn,), (hit.key, False), partial(self._offer_own, hit, False))
        for turn, hit in enumerate(self._relevant):
            place, most = (hit.key, False), _MAX_WHOLE_TOKENS if turn else _MAX_WHOLE_BEST_TOKENS
            first = partial(self._offer_relevant, hit, place, most)
            yield TextStep(rank + 1, (0, turn), place, first)
            yield TextStep(rank + 1, (1, turn), place, partial(self._offer_more, hit, place))

    def list_items(self, shown_sections: _ShownSections) -> list[PackItem]:
        """Return the shown items; of duplicates, only the one with the highest authority.

        Pinned and contradicted items are always kept.
        """
        items = []
        for (key, _), item in shown_sections.items():
            if isinstance(item, Hit):
                continue
            if others := self._alike.get(key):
                is_fixed = item.pinned or item.hit.note in self._opposed
                best = item if is_fixed else min([item, *others], key=_worth)
                item = best._replace(duplicate_count=1 + len(others))
            items.append(item)
        return items

    def list_left_out(self, items: Iterable[PackItem]) -> Iterator[OmittedItem]:
        """Yield the sections that are not shown, each once, with the reason."""
        shown_hits = {item.hit.key: item.hit for item in items}
        by_text = {self._said_by.get(key, key): hit for key, hit in shown_hits.items()}
        candidates = [
            OmittedItem(hit, OmissionReason.SHARE, True) for group in self._pinned for hit in group
        ]
        candidates += [OmittedItem(hit, OmissionReason.SHARE) for hit in self._wishes]
        candidates += [OmittedItem(hit, OmissionReason.ROOM) for hit in self._relevant]
        first = {each.hit.key: each for each in reversed(candidates)}
        for key, each in reversed(first.items()):
            substitute = by_text.get(self._said_by.get(key, key))
            if substitute is not None and key not in shown_hits:
                yield OmittedItem(each.hit, OmissionReason.ALIKE, instead=substitute)
            elif key not in shown_hits:
                yield each

    def count_pinned(self) -> int:
        """Return the number of pinned sections without duplicates."""
        return sum(hit.key not in self._said_by for group in self._pinned for hit in group)

    def arrange(self, items: Sequence[PackItem]) -> list[PackItem]:
        """Return the items in the order of the pack, with related items adjacent."""
        items = _put_answers_behind(items)
        arranged = arrange_items(items, self._list_marks(items))
        if self._form.labels is PackLabels.FULL:
            return arranged
        return collect_items(arranged, self._opposed)

    def _offer_own(
        self, hit: Hit, pinned: bool, shown_sections: _ShownSections, room: int
    ) -> tuple[PackItem, int] | None:
        """Return a whole pinned section or preference, and its cost."""
        if (hit.key, False) in shown_sections or self._is_said(hit, shown_sections):
            return None
        return self._offer_item(self._make_item(hit, pinned), shown_sections, room)

    def _offer_link(
        self, hit: Hit, shown_sections: _ShownSections, room: int
    ) -> tuple[Hit, int] | None:
        """Return a pinned section to show as a link, and its cost."""
        is_shown = (hit.key, False) in shown_sections or hit.key in self._said_by
        return None if is_shown else (hit, count_tokens(render_link(hit)) + 1)

    def _offer_relevant(
        self, hit: Hit, place: _Place, most: int, shown_sections: _ShownSections, room: int
    ) -> tuple[PackItem, int] | None:
        """Return a relevant section, whole or by its best passages, and its cost."""
        if room < _MIN_LEFT or place in shown_sections:
            return None
        is_long = count_tokens(hit.text) > most
        offer = (
            None if is_long else self._offer_item(self._make_item(hit, False), shown_sections, room)
        )
        offer = offer or self._offer_passages(hit, most, shown_sections, room)
        # Check for duplicates last, because it takes longest.
        return None if offer is None or self._is_said(hit, shown_sections, offer[0]) else offer

    def _offer_passages(
        self, hit: Hit, most: int, shown_sections: _ShownSections, room: int
    ) -> tuple[PackItem, int] | None:
        """Return the best passages of a section and their cost, if they are worth their label."""
        most = min(most, room, int(self._budget * _SHORTENED_SHARE))
        left = most - self._price(self._make_item(hit, False, ()), shown_sections)
        for _ in range(3):  # The label and the text can cost more together.
            if left < _MIN_SHORTENED:
                break
            parts = choose_passages(hit.text, hit.matches, left)
            if not parts:
                break
            if offer := self._offer_item(self._make_item(hit, False, parts), shown_sections, room):
                return offer
            left -= left // 8
        return None

    def _offer_more(
        self, hit: Hit, place: _Place, shown_sections: _ShownSections, room: int
    ) -> tuple[PackItem, int] | None:
        """Return a shortened section whole or with more passages, and the extra cost."""
        item = shown_sections.get(place)
        if not isinstance(item, PackItem) or not item.shortened or room < _MIN_SHORTENED:
            return None
        before = count_tokens(quote(item.text))
        wider_item = item._replace(text=hit.text, parts=(), shortened=False)
        if count_tokens(quote(wider_item.text)) - before >= room:
            parts = choose_passages(hit.text, hit.matches, before + room)
            wider_item = item._replace(text=render_passages(hit.text, parts), parts=parts)
        cost = count_tokens(quote(wider_item.text)) - before + 1
        return (wider_item, cost) if cost > 1 else None

    def _offer_item(
        self, item: PackItem, shown_sections: _ShownSections, room: int
    ) -> tuple[PackItem, int] | None:
        """Return an item and its cost, if it fits."""
        cost = self._price(item, shown_sections)
        if item.conflicting_texts and cost > room:
            item = item._replace(conflicting_texts=())  # The warning already reports a conflict.
            cost = self._price(item, shown_sections)
        self.pinned_tokens += cost if item.pinned else 0
        if cost > room:
            return None
        marks = self._count_marks([*self.list_items(shown_sections), item])
        return (item, cost) if marks <= int(self._budget * _MARKS_SHARE) else None

    def _make_item(self, hit: Hit, pinned: bool, parts: tuple[Span, ...] | None = None) -> PackItem:
        """Return a section as an item, with its warning."""
        trusted = hit.note in self._trusted
        text = hit.text if parts is None else render_passages(hit.text, parts)
        handle = self._remarks.handles.get(hit.note, "")
        is_shortened, caution = parts is not None, shorten_caution(hit)
        item = PackItem(hit, text, pinned, trusted, is_shortened, caution, "", handle, parts or ())
        return item._replace(conflicting_texts=hit.conflicting_texts)

    def _price(self, item: PackItem, shown_sections: _ShownSections) -> int:
        """Return the extra tokens for an item, which can share a label or heading."""
        items = self.list_items(shown_sections)
        key = group_of(item, self._opposed)
        group = [each for each in items if group_of(each, self._opposed) == key]
        marks = self._count_marks([*items, item]) - self._count_marks(items)
        return self._count_group([*group, item]) - self._count_group(group) + marks

    def _count_group(self, items: Sequence[PackItem]) -> int:
        """Return the tokens of adjacent items, cached because most are counted again."""
        key = tuple((*each.hit.key, *each[1:]) for each in items)
        if key not in self._costs:
            self._costs[key] = count_group(items, self._form)
        return self._costs[key]

    def _list_marks(self, items: Sequence[PackItem]) -> list[ConflictMark]:
        return list_marks(items, self._remarks, self._trusted, self._name, self._known)

    def _count_marks(self, items: Sequence[PackItem]) -> int:
        """Return the tokens of all conflict marks, each with its blank line."""
        if not self._opposed or not any(item.hit.note in self._opposed for item in items):
            return 0
        return sum(count_tokens(f"{mark.text}\n\n") for mark in self._list_marks(items))

    def _is_said(
        self, hit: Hit, shown_sections: _ShownSections, item: PackItem | None = None
    ) -> bool:
        """Return whether a shown section that does not contradict it states the same; record which.

        `item` is the section's item, if it may replace the shown one.
        """
        opponents = list_opponents(self._remarks.relations, hit.note)
        for other in (each.hit for each in shown_sections.values() if isinstance(each, PackItem)):
            if other.note not in opponents and _states_same(hit, other):
                self._said_by[hit.key] = other.key
                if item is not None:
                    self._alike.setdefault(other.key, []).append(item)
                return True
        return False


def _worth(item: PackItem) -> tuple[bool, int, float]:
    """Return a sort key for duplicates: whole ones, then by authority, then newest first."""
    return item.shortened, rank_authority(item.hit, item.trusted), -written_at(item.hit)


def _states_same(hit: Hit, other: Hit) -> bool:
    """Return whether two sections state the same, possibly with a phrase moved to the other end.

    Only such sections are omitted from a pack: one word more or less can be another fact.
    """
    terms, other_terms = _find_terms(hit.text), _find_terms(other.text)
    if not terms or len(terms & other_terms) < _SHARED_TERMS * len(terms | other_terms):
        return False
    from vaultmem.core.similarity.canonical import states_same  # Loading its tables is slow.

    names = (f"{each.record.title} {each.section.heading}" for each in (hit, other))
    return states_same(hit.text, other.text, *names, may_turn=True)


@lru_cache(maxsize=256)
def _find_terms(text: str) -> frozenset[str]:
    return frozenset(count_terms(text))


def _put_answers_behind(items: Sequence[PackItem]) -> list[PackItem]:
    """Return the items, each possible answer directly after the note that it can answer."""
    answers = [item for item in items if item.hit.answered_note]
    ordered = [item for item in items if not item.hit.answered_note]
    for answer in reversed(answers):
        paths = [item.hit.record.path for item in ordered]
        question_path = answer.hit.answered_note
        place = paths.index(question_path) + 1 if question_path in paths else len(ordered)
        ordered.insert(place, answer)
    return ordered
