"""Where two sentences of the same words differ, if another value stands there."""

from __future__ import annotations

import re
from typing import NamedTuple

from vaultmem.core.similarity.events import is_past
from vaultmem.core.similarity.facts import Fact
from vaultmem.core.similarity.marks import list_sort
from vaultmem.core.similarity.relations import Word, Words, list_keys, list_verbs

#: Words in the one place where two sentences differ, and of such a sentence, at most.
_MAX_SLOT, MAX_WORDS = 3, 10

#: What the older sentence has there, and the newer.
Values = tuple[Words, Words]


def find_slot(old: Fact, new: Fact) -> Values | None:
    """Find the one place in which two sentences of the same words differ, where a value stands."""
    if old.is_negative != new.is_negative or old.gone or new.gone:
        return None
    if max(len(old.words), len(new.words)) > MAX_WORDS or old.is_event or new.is_event:
        return None
    theirs, ours = _turn(old.words), _turn(new.words)
    keys = [word.key for word in theirs], [word.key for word in ours]
    head = _count_common(*keys)
    tail = _count_common(keys[0][head:][::-1], keys[1][head:][::-1])
    before, after = (w[head : len(w) - tail] for w in (theirs, ours))
    slot = _Slot(theirs[:head], before, after, tail)
    if after and not new.marks and after[0].article in list_sort("indefinite"):
        return None
    if set(keys[0]) & list_keys(after) or not is_alike(before, after):
        return None
    is_value = all(map(_may_be_value, (before, after))) and _is_filled(slot, old, new)
    return (before, after) if is_value else None


def find_now(old: Fact, new: Fact) -> Values | None:
    """Find what the same subject does otherwise now: "sleeps inside", "sleeps upstairs now"."""
    if not new.marks & {"now", "since"} or old.is_negative or new.is_negative:
        return None
    if max(len(old.words), len(new.words)) > MAX_WORDS or old.is_doing or new.is_doing:
        return None
    head = _count_common([word.key for word in old.words], [word.key for word in new.words])
    before, after = old.words[head:], new.words[head:]
    if max(len(before), len(after)) > _MAX_SLOT or "wish" in old.classes | new.classes:
        return None
    is_ours = old.words[0].raw.lower() in list_sort("agent")
    verb = next((n for n, w in enumerate(old.words) if n and (is_ours or _may_be_verb(w))), head)
    if old.words[verb : verb + 1] and old.words[verb].key == "be":
        verb += 1  # "Is in" and "is on" tell two things.
    if verb >= head or not list_keys(before) - list_keys(after) or _has_pronoun(after):
        return None
    is_counted = any(word.article in list_sort("indefinite") for word in after)
    is_other = is_counted or bool(list_keys(after) - old.keys)
    return (before, after) if is_other else None


class _Slot(NamedTuple):
    """What stands ahead of the words that differ, these, and how many stand behind them."""

    ahead: Words
    before: Words
    after: Words
    behind: int


def _is_filled(slot: _Slot, old: Fact, new: Fact) -> bool:
    """Tell whether what stands in a place has one value at a time."""
    if slot.ahead[:1] and slot.ahead[0].key == "be":
        return False  # Whose clause that is, it does not say.
    if not any(map(_may_be_verb, slot.ahead)):
        return False
    last = slot.ahead[-1]
    is_tied = last.is_tie or last.key == "be"
    is_in = last.is_tie and list_keys(slot.ahead[-2:-1]) == {"be"}
    if is_in and not new.marks and may_be_any((*slot.before, *slot.after)):
        return False
    if any(word.is_proper for word in slot.before):
        behind = old.words[len(old.words) - slot.behind :]
        is_known = old.kind or old.subject or any(word.is_tie for word in behind)
        is_version = last.is_proper and slot.before[0].is_figure
        return is_tied or bool(new.marks) or bool(is_known and (is_version or slot.behind))
    if is_tied:
        is_single = any(word.raw.lower() in list_sort("single") for word in slot.ahead)
        return last.key == "be" and (is_single or bool(new.marks) or _is_attribute(slot))
    is_told = slot.behind and old.words[-slot.behind].is_tie
    is_single = is_told or bool(new.marks) or "choice" in old.classes
    return len(slot.before) == len(slot.after) == 1 and is_single


def _is_attribute(slot: _Slot) -> bool:
    """Tell whether a sentence names an attribute, what has it, and one word as its value."""
    if len(slot.ahead) < 4 or slot.behind or len(slot.before) != 1 or len(slot.after) != 1:
        return False
    name, tie = slot.ahead[:2]
    return name.raw.lower() in list_sort("attribute") and tie.raw.lower() in list_sort("part")


def _turn(words: Words) -> Words:
    """Return "the lead is Anna" for "Anna is the lead"."""
    at = next((n for n, word in enumerate(words) if word.key == "be"), 0)
    first, second = words[:at], words[at + 1 :]
    if not (first and second) or second[0].article not in list_sort("article"):
        return words
    is_name = all(word.is_proper and not word.article for word in first)
    return (*second, words[at], *first) if is_name else words


def _may_be_value(words: Words) -> bool:
    if not 0 < len(words) <= _MAX_SLOT or any(word.is_tie for word in words):
        return False
    return not _has_pronoun(words) and not any(
        "'s" in word.raw or word.key == "be" for word in words
    )


def _has_pronoun(words: Words) -> bool:
    return any(word.raw.lower() in list_sort("pronoun") for word in words)


def _may_be_verb(word: Word) -> bool:
    is_inflected = re.fullmatch(r"[a-z]+[a-rt-z]s", word.raw) is not None and not word.article
    return is_inflected or word.key in list_verbs() or word.key == "be"


def _count_common(mine: list[str], yours: list[str]) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(mine, yours, strict=False)) if a != b),
        min(len(mine), len(yours)),
    )


def is_alike(before: Words, after: Words) -> bool:
    """Tell whether two values are of one sort: names or figures, plain words, or participles."""
    is_named = [any(word.is_proper for word in each) for each in (before, after)]
    is_done = [any(is_past(word.raw) for word in each) for each in (before, after)]
    return len({*is_named}) == len({*is_done}) == 1


def may_be_any(words: Words) -> bool:
    """Tell whether what something is in may be of any sort: "in UTC", "in JSON"."""
    return any(word.raw.isupper() or "/" in word.raw for word in words)
