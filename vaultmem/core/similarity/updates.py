"""Find new values of older statements, such as a person's new home or a system's new version.

Two facts are compared. The new one names the ended value; or both have one subject and relation
with two values; or they are equal except for one value.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from vaultmem.core.similarity.facts import (
    Fact,
    Word,
    Words,
    list_keys,
    list_sort,
    list_verbs,
    read_facts,
    read_key,
)
from vaultmem.core.similarity.statement import is_past
from vaultmem.core.similarity.subjects import find_subjects

#: Values of these classes are names: a person works at Acme, not at the chess club.
_PROPER = frozenset({"city", "employer"})

#: Most words in the only difference of two sentences, and in each sentence.
_MAX_SLOT, _MAX_WORDS = 3, 10


class ValueUpdate(NamedTuple):
    """Two sentences, the second with a new value: the kind, the old value, the new value."""

    old: str
    new: str
    kind: str
    before: str
    after: str


def find_update(olds: Collection[Fact], news: Collection[Fact]) -> ValueUpdate | None:
    """Return the first new value in the facts of a text, compared with an older text's."""
    pairs = ((old, new) for new in news for old in olds)
    return next((update for old, new in pairs if (update := compare_facts(old, new))), None)


def compare_facts(old: Fact, new: Fact) -> ValueUpdate | None:
    """Return how one fact updates an older one, None if it does not."""
    update = None if old.keys.isdisjoint(new.keys) else _find_update(old, new)
    return None if update and find_subjects(old.text, new.text) else update


def _find_update(old: Fact, new: Fact) -> ValueUpdate | None:
    if (update := _find_reversal(old, new)) is not None:
        return update
    if "more" in new.marks or (new.is_over and not new.is_new):
        return None  # Additional or past facts replace nothing.
    update = _find_gone(old, new) or _find_value(old, new) or _find_slot(old, new)
    return None if update is None or _is_exchange(old, update.after) else update


def _find_reversal(old: Fact, new: Fact) -> ValueUpdate | None:
    """Find a fact that has ended, or holds again."""
    if old.is_negative == new.is_negative or not (old.marks | new.marks) - {"more", "since"}:
        return None
    new_keys, old_keys = (each.predicate - list_keys(each.subject) for each in (new, old))
    if not _is_same_subject(old, new):
        new_keys, old_keys = (each.content - list_sort("agent") for each in (new, old))
        if new_keys != old_keys:
            return None
    is_all = "ended" in new.marks and bool(new_keys) and new_keys <= old_keys
    if not is_all and 2 * len(new_keys & old_keys) < max(len(new_keys), len(old_keys), 1):
        return None
    return _make("no longer" if new.is_negative else "again", old, old.words, new, new.words)


def _find_gone(old: Fact, new: Fact) -> ValueUpdate | None:
    """Find the old value that the new fact names itself: switched from it, left it, sold it."""
    gone_keys = list_keys(new.value) if new.kind == "ends" else new.replaced_words
    old_keys = list_keys(old.value) if old.kind else old.predicate
    is_long = not old.kind and len(old.words) > _MAX_WORDS
    if not gone_keys or not gone_keys <= old_keys or old.is_negative or is_long:
        return None
    topic = old.predicate & new.predicate - gone_keys
    is_of_us = bool(list_keys(new.words[:1]) & {"we", "i", "wir", "ich", "team"})
    if not (_is_same_subject(old, new) or topic or is_of_us or not new.subject):
        return None
    kind = min(old.classes & new.classes, default="value")
    return _make(kind, old, old.value or old.words, new, () if new.kind == "ends" else new.value)


def _find_value(old: Fact, new: Fact) -> ValueUpdate | None:
    """Find another value of the same relation to the same subject."""
    classes = old.classes & new.classes - {"choice"}
    if not classes or old.is_negative or new.is_negative or "ends" in {old.kind, new.kind}:
        return None
    before, after = list_keys(old.value), list_keys(new.value)
    if not (before - after and after - before) or not _is_same_subject(old, new):
        return None
    is_definite = new.is_new and old.value[0].article in list_sort("article")
    if not (is_definite or _is_alike(old.value, new.value)) or not _is_single(old, new, classes):
        return None
    articles = [each.value[0].article for each in (old, new)]
    if not new.is_new and articles[1] in list_sort("indefinite"):
        return None
    if not any(word.is_proper for word in new.value):
        is_vague = bool(list_sort("indefinite") & {*articles}) or new.value[0].raw.endswith("ly")
        is_other = len({article in list_sort("article") for article in articles}) > 1
        if classes <= _PROPER or is_vague or is_other or new.is_doing:
            return None
    return _make(min(classes), old, old.value, new, new.value)


def _is_single(old: Fact, new: Fact, classes: frozenset[str]) -> bool:
    """Return whether a relation has one value at a time, with one meaning in both facts."""
    if (old.kind, old.verb) == (new.kind, new.verb) and old.tie != new.tie:
        return False
    if new.is_new:
        return True
    rests = [list_keys(e.words) - list_keys((*e.subject, *e.value)) for e in (old, new)]
    before, after = (rest - {old.verb, old.tie, new.verb, new.tie, "be"} for rest in rests)
    if before and after and before != after:
        return False  # A cook at one place can be a guest at another.
    if "be" in {old.verb, new.verb} and _may_be_any((*old.value, *new.value)):
        return False
    return not classes <= {"doer", "tool"} and (
        old.verb == new.verb or "be" not in {old.verb, new.verb}
    )


def _is_same_subject(old: Fact, new: Fact) -> bool:
    """Return whether two facts have the same subject, with a full or a short name."""
    new_topic, old_topic = new.topic, old.topic
    if old.subject and new.subject:
        return new_topic == old_topic
    return bool(new_topic & old_topic) and new_topic <= old.keys and old_topic <= new.keys


class _Slot(NamedTuple):
    """The words before a difference, its words on both sides, and the number of words after it."""

    ahead: Words
    before: Words
    after: Words
    behind: int


def _find_slot(old: Fact, new: Fact) -> ValueUpdate | None:
    """Find the only difference of two sentences, if it is a value."""
    if old.is_negative != new.is_negative or old.replaced_words or new.replaced_words:
        return None
    if max(len(old.words), len(new.words)) > _MAX_WORDS or old.is_event or new.is_event:
        return None
    old_words, new_words = _put_value_last(old.words), _put_value_last(new.words)
    keys = [word.key for word in old_words], [word.key for word in new_words]
    head = _count_common(*keys)
    tail = _count_common(keys[0][head:][::-1], keys[1][head:][::-1])
    before, after = (w[head : len(w) - tail] for w in (old_words, new_words))
    if after and not new.marks and after[0].article in list_sort("indefinite"):
        return None
    if set(keys[0]) & list_keys(after) or not _is_alike(before, after):
        return None
    slot = _Slot(old_words[:head], before, after, tail)
    if not (_may_be_value(before) and _may_be_value(after) and _is_filled(slot, old, new)):
        return None
    return _make("value", old, before, new, after)


def _is_filled(slot: _Slot, old: Fact, new: Fact) -> bool:
    """Return whether a slot has one value at a time."""
    if slot.ahead[:1] and slot.ahead[0].key == "be":
        return False  # The sentence has no subject.
    if not any(map(_may_be_verb, slot.ahead)):
        return False
    last = slot.ahead[-1]
    is_tied = last.is_tie or last.key == "be"
    is_in = last.is_tie and list_keys(slot.ahead[-2:-1]) == {"be"}
    if is_in and not new.marks and _may_be_any((*slot.before, *slot.after)):
        return False
    if any(word.is_proper for word in slot.before):
        words_after = old.words[len(old.words) - slot.behind :]
        is_known = old.kind or old.subject or any(word.is_tie for word in words_after)
        is_version = last.is_proper and slot.before[0].is_figure
        return is_tied or bool(new.marks) or bool(is_known and (is_version or slot.behind))
    if is_tied:
        is_single = any(word.raw.lower() in list_sort("single") for word in slot.ahead)
        return last.key == "be" and (is_single or bool(new.marks) or _is_attribute(slot))
    is_followed = slot.behind and old.words[-slot.behind].is_tie
    is_single = is_followed or bool(new.marks) or "choice" in old.classes
    return len(slot.before) == len(slot.after) == 1 and is_single


def _is_attribute(slot: _Slot) -> bool:
    """Return whether a sentence names an attribute, its owner, and one word as its value."""
    if len(slot.ahead) < 4 or slot.behind or len(slot.before) != 1 or len(slot.after) != 1:
        return False
    name, tie = slot.ahead[:2]
    return name.raw.lower() in list_sort("attribute") and tie.raw.lower() in list_sort("part")


def _put_value_last(words: Words) -> Words:
    """Return "the lead is Anna" for "Anna is the lead"."""
    at = next((n for n, word in enumerate(words) if word.key == "be"), 0)
    first, second = words[:at], words[at + 1 :]
    if not (first and second) or second[0].article not in list_sort("article"):
        return words
    is_name = all(word.is_proper and not word.article for word in first)
    return (*second, words[at], *first) if is_name else words


def _may_be_value(words: Words) -> bool:
    if not 0 < len(words) <= _MAX_SLOT:
        return False
    return not any(word.is_tie or word.key == "be" or "'s" in word.raw for word in words)


def _may_be_verb(word: Word) -> bool:
    is_inflected = re.fullmatch(r"[a-z]+[a-rt-z]s", word.raw) is not None and not word.article
    return is_inflected or word.key in list_verbs() or word.key == "be"


def _count_common(keys: list[str], other_keys: list[str]) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(keys, other_keys, strict=False)) if a != b),
        min(len(keys), len(other_keys)),
    )


def _is_alike(before: Words, after: Words) -> bool:
    """Return whether two values are of one sort: names or figures, plain words, or participles."""
    is_named = [any(word.is_proper for word in each) for each in (before, after)]
    is_done = [any(is_past(word.raw) for word in each) for each in (before, after)]
    return len({*is_named}) == len({*is_done}) == 1


def _may_be_any(words: Words) -> bool:
    """Return whether a value after "in" can be of any sort: "in UTC", "in JSON"."""
    return any(word.raw.isupper() or "/" in word.raw for word in words)


def _is_exchange(old: Fact, after: str) -> bool:
    """Return whether the older sentence has the new value too, at another place."""
    keys = frozenset(map(read_key, after.split()))
    old_keys = frozenset().union(*(list_keys(each.words) for each in read_facts(old.text)))
    return bool(keys) and keys <= old_keys


def _make(kind: str, old: Fact, before: Words, new: Fact, after: Words) -> ValueUpdate:
    values = (" ".join(word.raw for word in each) for each in (before, after))
    return ValueUpdate(old.text, new.text, kind, *values)
