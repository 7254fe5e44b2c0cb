"""Choose what goes into a context pack: pinned first, then what is relevant, within a budget."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.terms import count_terms
from vaultmem.core.packs.pack_text import (
    Account,
    PackItem,
    PackSource,
    render_item,
    render_link,
    render_pack,
)
from vaultmem.core.packs.tokens import count_tokens
from vaultmem.errors import RefusedError

MIN_BUDGET = 100

#: Sections that share more than this of their distinct terms are told once.
_SAME = 0.9
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack as text, with what it shows and what it cost in tokens.

    `unshown` are the pinned sections named by link; `unnamed` counts those that are not even that.
    """

    text: str
    items: tuple[PackItem, ...]
    unshown: tuple[Hit, ...]
    unnamed: int
    account: Account


def build_pack(
    pinned: Iterable[Hit],
    relevant: Iterable[Hit],
    trusted: frozenset[int],
    source: PackSource,
    budget: int,
    pinned_share: float,
    flat_tokens: int,
) -> Pack:
    """Build a pack of at most `budget` tokens.

    Pinned sections may take `pinned_share` of it; those that do not fit are named by link, and
    counted where the links do not fit either. A relevant section that does not fit is shortened
    at a sentence, or left for a shorter one. `trusted` are the documents whose promotion is on
    record; `flat_tokens` is the whole vault.

    Raises:
        RefusedError: a budget under 100 tokens.
    """
    if budget < MIN_BUDGET:
        raise RefusedError(f"a pack needs a budget of {MIN_BUDGET} tokens or more, not {budget}")
    empty = Account(0, 0, budget, budget, flat_tokens)
    frame = count_tokens(render_pack([], [], 0, source, empty)) + 12
    room = _Room(min(int(budget * pinned_share), budget - frame), trusted)
    unshown, unnamed = room.take_pinned(pinned)
    room.left += budget - frame - min(int(budget * pinned_share), budget - frame)
    room.take_relevant(relevant)
    items = room.items
    while True:
        count = sum(item.hit.record.document >= 0 and item.pinned for item in items)
        account = Account(count, len(items) - count, 0, budget, flat_tokens)
        text, account = _settle(items, unshown, unnamed, source, account)
        if account.sent <= budget or not (items or unshown):
            return Pack(text, tuple(items), tuple(unshown), unnamed, account)
        if items and not items[-1].pinned:
            items = items[:-1]
            continue
        unnamed += 1
        if unshown:
            unshown = unshown[:-1]
        else:
            items = items[:-1]


class _Room:
    """The tokens that are left, and what was taken so far."""

    def __init__(self, left: int, trusted: frozenset[int]) -> None:
        self.left = left
        self.trusted = trusted
        self.items: list[PackItem] = []
        self._seen: list[frozenset[str]] = []

    def take_pinned(self, hits: Iterable[Hit]) -> tuple[list[Hit], int]:
        """Take pinned sections while they fit.

        Return those whose links were paid for instead, and the number of the rest.
        """
        unshown: list[Hit] = []
        waiting: list[Hit] = []
        for hit in hits:
            if not _COMMENT.sub("", hit.text).strip() or self._is_repeated(hit):
                continue
            if not self._take(hit, pinned=True):
                waiting.append(hit)
        for hit in waiting:
            cost = count_tokens(render_link(hit)) + 1
            if cost > self.left:
                break
            self.left -= cost
            unshown.append(hit)
        return unshown, len(waiting) - len(unshown)

    def take_relevant(self, hits: Iterable[Hit]) -> None:
        """Take what is relevant in the order of rank."""
        shown = {(i.hit.record.document, i.hit.section.ordinal) for i in self.items}
        for hit in hits:
            if self.left < 30:
                break
            key = (hit.record.document, hit.section.ordinal)
            if key in shown or not hit.text.strip() or self._is_repeated(hit):
                continue
            if not self._take(hit, pinned=False):
                self._take_shortened(hit)

    def _take(self, hit: Hit, pinned: bool, text: str | None = None) -> bool:
        trusted = hit.record.document in self.trusted
        item = PackItem(hit, hit.text if text is None else text, pinned, trusted, text is not None)
        cost = count_tokens(render_item(item)) + 2
        if cost > self.left:
            return False
        self.left -= cost
        self.items.append(item)
        self._seen.append(frozenset(count_terms(hit.text)))
        return True

    def _take_shortened(self, hit: Hit) -> None:
        """Take the sentences that fit, if they are worth their label."""
        bare = count_tokens(render_item(PackItem(hit, "", False, False, True))) + 2
        room = self.left - bare
        if room < 40:
            return
        kept = ""
        for match in [*_SENTENCE.finditer(hit.text)]:
            head = hit.text[: match.start()]
            if count_tokens(head) + 2 * head.count("\n") > room:
                break
            kept = head
        if count_tokens(kept) >= 20:
            self._take(hit, pinned=False, text=kept)

    def _is_repeated(self, hit: Hit) -> bool:
        terms = frozenset(count_terms(hit.text))
        return any(terms and len(terms & seen) > _SAME * len(terms | seen) for seen in self._seen)


def _settle(
    items: Sequence[PackItem],
    unshown: Sequence[Hit],
    unnamed: int,
    source: PackSource,
    account: Account,
) -> tuple[str, Account]:
    """Render until the account in the text is the text's own."""
    for _ in range(8):
        text = render_pack(items, unshown, unnamed, source, account)
        sent = count_tokens(text)
        if sent == account.sent:
            break
        account = Account(account.pinned, account.relevant, sent, account.budget, account.flat)
    return text, account
