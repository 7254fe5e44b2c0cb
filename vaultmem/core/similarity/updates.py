"""Whether a text says a new value of what another says: where somebody lives, what a thing runs on.

Two facts are held against each other: of the same subject, by the same relation, or in the same
words but one, each says another value; or the new one says itself what is no longer so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from vaultmem.core.languages import read_lines
from vaultmem.core.similarity import words as traits
from vaultmem.core.similarity.events import is_past
from vaultmem.core.similarity.facts import Fact, read_facts
from vaultmem.core.similarity.relations import (
    Word,
    Words,
    list_keys,
    list_sort,
    list_verbs,
    read_key,
)

#: Words in the one place where two sentences differ, and of such a sentence, at most.
_MAX_SLOT, _MAX_WORDS = 3, 10


#: What has a name: somebody works at Acme, not at the chess club.
_PROPER = frozenset({"city", "employer"})


class Update(NamedTuple):
    """Two sentences of which the second says a new value: of what sort, the old value, the new."""

    old: str
    new: str
    kind: str
    before: str
    after: str


def find_update(old: str, new: str) -> Update | None:
    """Return how a text updates an older one, if it does."""
    return next(list_updates(read_facts(old), read_facts(new)), None)


def list_updates(olds: tuple[Fact, ...], news: tuple[Fact, ...]) -> Iterator[Update]:
    """Yield what facts of a text say otherwise than those of an older one."""
    for new in news:
        for old in olds:
            if (found := compare_facts(old, new)) is not None:
                yield found


def compare_facts(old: Fact, new: Fact) -> Update | None:
    """Return how one fact updates an older one, None if it does not."""
    if not list_keys(old.words) & list_keys(new.words):
        return None
    if (found := _find_reversal(old, new)) is not None:
        return found
    rules = (_find_gone, _find_value, _find_wish, _find_state, _find_slot)
    found = next((each for rule in rules if (each := rule(old, new))), None)
    return None if found is None or _is_exchange(old, new, found.after) else found


def _find_reversal(old: Fact, new: Fact) -> Update | None:
    """Find what was so and is no longer, or was not and is again."""
    if old.is_negative == new.is_negative or not (old.marks | new.marks) - {"since"}:
        return None
    ours, theirs = (each.predicate - list_keys(each.subject) for each in (new, old))
    if not _is_same_subject(old, new):
        ours, theirs = (each.content - list_sort("agent") for each in (new, old))
        if ours != theirs:
            return None
    if 2 * len(ours & theirs) < max(len(ours), len(theirs), 1):
        return None
    kind = "no longer" if new.is_negative else "again"
    return Update(old.text, new.text, kind, _say(old.words), _say(new.words))


def _find_gone(old: Fact, new: Fact) -> Update | None:
    """Find the old value that the new fact names itself: switched from it, left it, sold it."""
    gone = list_keys(new.value) if new.kind == "ends" else new.gone
    said = list_keys(old.value) if old.kind else old.predicate
    is_long = not old.kind and len(old.words) > _MAX_WORDS
    if not gone or not gone <= said or old.is_negative or is_long:
        return None
    topic = old.predicate & new.predicate - gone
    if not (_is_same_subject(old, new) or topic or _is_agent(old.subject, new)):
        return None
    kind = min(old.classes & new.classes, default="value")
    return _tell(kind, old, old.value or old.words, new, () if new.kind == "ends" else new.value)


def _find_value(old: Fact, new: Fact) -> Update | None:
    """Find another value of the same relation to the same subject."""
    classes = old.classes & new.classes - {"choice", "wish"}
    if not classes or old.is_negative or new.is_negative or "ends" in {old.kind, new.kind}:
        return None
    before, after = list_keys(old.value), list_keys(new.value)
    if not (before - after and after - before) or not _is_same_subject(old, new):
        return None
    if not _is_alike(old.value, new.value) or not _is_single(old, new, classes):
        return None
    if not any(word.is_proper for word in new.value):
        articles = {each.value[0].article in list_sort("article") for each in (old, new)}
        is_vague = any(each.value[0].article in list_sort("indefinite") for each in (old, new))
        if classes <= _PROPER or is_vague or len(articles) > 1 or _is_doing(new):
            return None
    return _tell(min(classes), old, old.value, new, new.value)


def _find_wish(old: Fact, new: Fact) -> Update | None:
    """Find what somebody wishes otherwise now, of the same thing."""
    if "wish" not in old.classes & new.classes or not new.marks or not _is_same_subject(old, new):
        return None
    before, after = (each.predicate - {each.verb} for each in (old, new))
    is_other = bool(before - after and after - before)
    is_other = is_other and 2 * len(before & after) >= max(len(before), len(after))
    return _tell("wish", old, old.words, new, new.words) if is_other else None


def _find_state(old: Fact, new: Fact) -> Update | None:
    """Find two states of which a subject is in one at a time."""
    if old.is_negative or new.is_negative or not _is_same_subject(old, new) or _is_doing(new):
        return None
    for group in _groups():
        states = [
            tuple(w for w in each.words[1:] if w.raw.casefold() in group) for each in (old, new)
        ]
        before, after = map(list_keys, states)
        if before and after and not before & after:
            rest = old.predicate - before, new.predicate - after
            if rest[0] <= rest[1] or rest[1] <= rest[0]:
                return _tell("state", old, states[0], new, states[1])
    return None


def _find_slot(old: Fact, new: Fact) -> Update | None:
    """Find the one place in which two sentences of the same words differ, where a value stands."""
    if old.is_negative != new.is_negative or old.gone or new.gone:
        return None
    if max(len(old.words), len(new.words)) > _MAX_WORDS or _is_event(old) or _is_event(new):
        return None
    theirs, ours = _turn(old.words), _turn(new.words)
    keys = [word.key for word in theirs], [word.key for word in ours]
    head = _count_common(*keys)
    tail = _count_common(keys[0][head:][::-1], keys[1][head:][::-1])
    before, after = (w[head : len(w) - tail] for w in (theirs, ours))
    slot = _Slot(theirs[:head], before, after, tail)
    if set(keys[0]) & list_keys(slot.after) or not _is_alike(slot.before, slot.after):
        return None
    is_value = all(map(_may_be_value, (before, after))) and _is_filled(slot, old, new)
    return _tell("value", old, slot.before, new, slot.after) if is_value else None


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
    is_tied = _ties(last) or last.key == "be"
    if any(word.is_proper for word in slot.before):
        is_version = last.is_proper and slot.before[0].is_figure
        return is_tied or is_version or bool(slot.behind or new.marks)
    if is_tied:
        is_single = any(word.raw.lower() in list_sort("single") for word in slot.ahead)
        return last.key == "be" and (is_single or bool(new.marks))
    is_told = slot.behind and _ties(old.words[-slot.behind])
    is_single = is_told or bool(new.marks) or "choice" in old.classes
    return len(slot.before) == len(slot.after) == 1 and is_single


def _turn(words: Words) -> Words:
    """Return "the lead is Anna" for "Anna is the lead"."""
    at = next((n for n, word in enumerate(words) if word.key == "be"), 0)
    first, second = words[:at], words[at + 1 :]
    if not (first and second) or second[0].article not in list_sort("article"):
        return words
    is_name = all(word.is_proper and not word.article for word in first)
    return (*second, words[at], *first) if is_name else words


def _tell(kind: str, old: Fact, before: Words, new: Fact, after: Words) -> Update:
    return Update(old.text, new.text, kind, _say(before), _say(after))


def _is_exchange(old: Fact, new: Fact, after: str) -> bool:
    """Tell whether the older sentence has the new value too, at another place."""
    keys = frozenset(map(read_key, after.split()))
    said = frozenset().union(*(list_keys(each.words) for each in read_facts(old.text)))
    return bool(keys) and keys <= said and "wish" not in old.classes & new.classes


def _may_be_value(words: Words) -> bool:
    if not 0 < len(words) <= _MAX_SLOT or any(map(_ties, words)):
        return False
    return not any("'s" in word.raw or word.key == "be" for word in words)


def _ties(word: Word) -> bool:
    return word.raw.lower() in traits.RELATIONS


def _may_be_verb(word: Word) -> bool:
    is_inflected = re.fullmatch(r"[a-z]+[a-rt-z]s", word.raw) is not None and not word.article
    return is_inflected or word.key in list_verbs() or word.key == "be"


def _count_common(mine: list[str], yours: list[str]) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(mine, yours, strict=False)) if a != b),
        min(len(mine), len(yours)),
    )


def _is_event(fact: Fact) -> bool:
    """Tell whether a clause tells what was done, or is being done: two are two of these."""
    if fact.kind or fact.marks:
        return False
    is_state = any(word.raw.lower() in traits.PRESENT for word in fact.words)
    return _is_doing(fact) or (not is_state and any(is_past(w.raw) for w in fact.words))


def _is_doing(fact: Fact) -> bool:
    """Tell whether a clause says what is being done."""
    pairs = pairwise(fact.words)
    return any(first.key == "be" and then.raw.endswith("ing") for first, then in pairs)


def _is_single(old: Fact, new: Fact, classes: frozenset[str]) -> bool:
    """Tell whether a relation has one value at a time, and both facts mean the same by it."""
    if (old.kind, old.verb) == (new.kind, new.verb) and old.tie != new.tie:
        return False
    if new.is_new:
        return True
    return not classes <= {"doer", "tool"} and (
        old.verb == new.verb or "be" not in {old.verb, new.verb}
    )


def _is_same_subject(old: Fact, new: Fact) -> bool:
    """Tell whether two facts are about the same: a name may be said in full or not."""
    ours, theirs = (list_keys(each.subject or each.words[:1]) for each in (new, old))
    if old.subject and new.subject:
        return ours == theirs
    whole = list_keys(new.words), list_keys(old.words)
    return bool(ours & theirs) and (ours <= whole[1] and theirs <= whole[0])


def _is_agent(subject: Words, new: Fact) -> bool:
    return not new.subject or bool(list_keys(new.words[:1]) & {"we", "i", "wir", "ich", "team"})


def _is_alike(before: Words, after: Words) -> bool:
    """Tell whether two values are of one sort: both names or figures, or both plain words."""
    return any(w.is_proper for w in before) == any(w.is_proper for w in after)


def _say(words: Words) -> str:
    return " ".join(word.raw for word in words)


@cache
def _groups() -> tuple[frozenset[str], ...]:
    return tuple(frozenset(line.split()) for line in read_lines("exclusive"))
