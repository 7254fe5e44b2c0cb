"""The room that a budget leaves: what is taken into a pack while it fits, and what is left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from vaultmem.core.finding.hit import Hit, NoteKey
from vaultmem.core.packs.alike import Shown, show_hit
from vaultmem.core.packs.caution import shorten_caution, written_at
from vaultmem.core.packs.conflicts import (
    Mark,
    Remarks,
    arrange_items,
    list_marks,
    list_opponents,
    rank_authority,
)
from vaultmem.core.packs.labels import count_group, gather_items, group_of, name_note
from vaultmem.core.packs.order import put_answers_behind
from vaultmem.core.packs.pack_item import LeftOut, LeftWhy, PackForm, PackItem, PackLabels
from vaultmem.core.packs.pack_text import render_link
from vaultmem.core.packs.passages import choose_passages, render_passages, widen_item
from vaultmem.core.packs.units import Span
from vaultmem.core.token_count import count_tokens

#: Tokens of the text at least for which a section is shortened.
_MIN_SHORTENED = 40

#: Tokens at least for which another section is looked at.
_MIN_LEFT = 30


class Room:
    """The tokens that are left, what was taken so far, and what was left out."""

    def __init__(
        self,
        left: int,
        trusted: frozenset[NoteKey],
        remarks: Remarks,
        form: PackForm,
        known: dict[NoteKey, Hit],
        for_marks: int,
    ) -> None:
        self.left = left
        self.trusted = trusted
        self.remarks = remarks
        self.form = form
        self.items: list[PackItem] = []
        self._left_out: list[LeftOut] = []
        self.pinned_tokens = 0
        self._known = known
        self._for_marks = for_marks
        self._name = partial(name_note, self.remarks.handles, form.labels)
        self._opposed = {n for each in self.remarks.relations for n in (each.first, each.second)}
        self._seen: list[Shown] = []

    def take_pinned(self, hits: Iterable[Hit]) -> tuple[list[Hit], int]:
        """Take pinned sections while they fit.

        Return those whose links were paid for instead, and the number of the rest.
        """
        unshown: list[Hit] = []
        waiting: list[Hit] = []
        for hit in hits:
            if not hit.text or self._is_repeated(hit):
                continue
            self._known.setdefault(hit.note, hit)
            if not self._take(hit, pinned=True):
                waiting.append(hit)
                self.leave_out(hit, LeftWhy.SHARE, pinned=True)
        for hit in waiting:
            cost = count_tokens(render_link(hit)) + 1
            if cost > self.left:
                break
            self.left -= cost
            unshown.append(hit)
        return unshown, len(waiting) - len(unshown)

    def take_wishes(self, hits: Iterable[Hit], most: int) -> None:
        """Take what the owner prefers, whole, while it fits into `most` tokens."""
        kept = max(self.left - most, 0)
        self.left -= kept
        for hit in hits:
            if not self._is_repeated(hit) and not self._take(hit, pinned=False):
                self.leave_out(hit, LeftWhy.SHARE)
        self.left += kept

    def take_relevant(self, hits: Iterable[Hit], most: int) -> None:
        """Take what is relevant in the order of rank; what is shortened costs at most `most`."""
        shown = {item.hit.key for item in self.items}
        for hit in hits:
            if hit.key in shown or not hit.text.strip():
                continue
            is_taken = self.left >= _MIN_LEFT and (
                self._take(hit, pinned=False) or self._take_shortened(hit, most)
            )
            if not is_taken:
                self.leave_out(hit, LeftWhy.ROOM)
        self._widen_shortened()

    def leave_out(self, hit: Hit, why: LeftWhy, pinned: bool = False) -> None:
        """Keep in mind that a section is not shown."""
        self._left_out.append(LeftOut(hit, why, pinned))

    def list_left_out(self, items: Iterable[PackItem]) -> tuple[LeftOut, ...]:
        """Return what is not among the items of the pack, each section once."""
        shown = {item.hit.key for item in items}
        distinct = {each.hit.key: each for each in reversed(self._left_out)}
        return tuple(each for key, each in reversed(distinct.items()) if key not in shown)

    def _make_item(self, hit: Hit, pinned: bool, parts: tuple[Span, ...] | None) -> PackItem:
        """Return a section as it would be shown, with what is to be said of it."""
        trusted = hit.note in self.trusted
        shown = hit.text if parts is None else render_passages(hit.text, parts)
        handle = self.remarks.handles.get(hit.note, "")
        cut, caution = parts is not None, shorten_caution(hit)
        item = PackItem(hit, shown, pinned, trusted, cut, caution, "", handle, parts or ())
        return item._replace(otherwise=hit.otherwise)

    def arrange(self, items: Sequence[PackItem]) -> list[PackItem]:
        """Return sections in the order of the pack: what belongs together stands side by side."""
        items = put_answers_behind(items)
        arranged = arrange_items(items, self._list_marks(items))
        if self.form.labels is PackLabels.FULL:
            return arranged
        return gather_items(arranged, self._opposed)

    def _price(self, item: PackItem) -> int:
        """Return what the pack costs more with a section: it may share a label or a heading."""
        group = self._group_with(item)
        marks = self._count_marks([*self.items, item]) - self._count_marks(self.items)
        return count_group([*group, item], self.form) - count_group(group, self.form) + marks

    def _list_marks(self, items: Sequence[PackItem]) -> list[Mark]:
        return list_marks(items, self.remarks, self.trusted, self._name, self._known)

    def _count_marks(self, items: Sequence[PackItem]) -> int:
        """Return the tokens of all marks, with the blank line behind each."""
        if not any(item.hit.note in self._opposed for item in items):
            return 0
        return sum(count_tokens(f"{mark.text}\n\n") for mark in self._list_marks(items))

    def _group_with(self, item: PackItem) -> list[PackItem]:
        """Return the sections taken that share a label or a heading with one."""
        key = group_of(item, self._opposed)
        return [each for each in self.items if group_of(each, self._opposed) == key]

    def _take(self, hit: Hit, pinned: bool, parts: tuple[Span, ...] | None = None) -> bool:
        """Take a section, unless another one says the same; tell whether it would fit."""
        item = self._make_item(hit, pinned, parts)
        cost = self._price(item)
        if item.otherwise and cost > self.left:
            item = item._replace(otherwise=())  # That there is more, the caution says.
            cost = self._price(item)
        self.pinned_tokens += cost if pinned else 0
        if cost > self.left or self._count_marks([*self.items, item]) > self._for_marks:
            return False
        if not pinned and (place := self._find_alike(hit)) is not None:  # Last: it takes longest.
            self._show_better(place, item)
            return True
        self.left -= cost
        self.items.append(item)
        self._seen.append(show_hit(hit))
        return True

    def _take_shortened(self, hit: Hit, most: int) -> bool:
        """Take the passages that answer best, if they are worth their label; tell whether."""
        room = min(self.left, most) - self._price(self._make_item(hit, False, ()))
        for _ in range(3):  # The label and the text may cost more together.
            if room < _MIN_SHORTENED:
                break
            parts = choose_passages(hit.text, hit.matches, room)
            if not parts:
                break
            if self._take(hit, pinned=False, parts=parts):
                return True
            room -= room // 8
        return False

    def _widen_shortened(self) -> None:
        """Show more of what was shortened where something is left."""
        for place, item in enumerate(self.items):
            if item.shortened and self.left >= _MIN_SHORTENED:
                self.items[place], cost = widen_item(item, self.left)
                self.left -= cost

    def _show_better(self, place: int, item: PackItem) -> None:
        """Count a section that says what one taken says; show it instead if it counts more."""
        taken = self.items[place]
        taken = taken._replace(alike=taken.alike + 1)
        item = item._replace(alike=taken.alike)
        costs = self._price(item) - self._price(taken)
        shown, other = taken, item
        is_marked = taken.hit.note in self._opposed
        is_better = self._worth(item) < self._worth(taken) and not (taken.pinned or is_marked)
        if is_better and costs <= self.left:
            self.left -= costs
            self._seen[place] = show_hit(item.hit)
            shown, other = item, taken
        self.items[place] = shown
        self._left_out.append(LeftOut(other.hit, LeftWhy.ALIKE, instead=shown.hit))

    def _worth(self, item: PackItem) -> tuple[bool, int, float]:
        """Return what sorts sections that say one thing: whole, by authority, the newest first."""
        return item.shortened, rank_authority(item.hit, item.trusted), -written_at(item.hit)

    def _is_repeated(self, hit: Hit) -> bool:
        place = self._find_alike(hit)
        if place is None:
            return False
        shown = self.items[place].hit
        if (shown.record, shown.section) != (hit.record, hit.section):
            self._left_out.append(LeftOut(hit, LeftWhy.ALIKE, instead=shown))
        return True

    def _find_alike(self, hit: Hit) -> int | None:
        """Return the place of a section taken that says the same, and is no opponent."""
        shown = show_hit(hit)
        opposed = list_opponents(self.remarks.relations, shown.note)
        return next(
            (
                place
                for place, seen in enumerate(self._seen)
                if seen.note not in opposed and shown.says(seen)
            ),
            None,
        )
